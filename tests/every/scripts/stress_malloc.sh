#!/usr/bin/env bash
# Random sizes, reallocations and frees.
stress-ng --malloc 2 --malloc-ops 60000 --malloc-pthreads 2 --verify
echo "malloc $?"
