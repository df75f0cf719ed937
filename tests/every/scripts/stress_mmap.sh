#!/usr/bin/env bash
# Mappings made, protected, synchronised and removed.
stress-ng --mmap 2 --mmap-ops 30 --mmap-bytes 32m --mmap-mprotect --verify
echo "mmap $?"
stress-ng --mremap 1 --mremap-ops 10 --mremap-bytes 8m --verify
echo "mremap $?"
