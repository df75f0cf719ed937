#!/usr/bin/env bash
# Patterns written to memory and read again.
stress-ng --vm 2 --vm-ops 4000 --vm-bytes 64m --verify
echo "vm $?"
