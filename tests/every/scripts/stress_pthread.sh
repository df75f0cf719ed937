#!/usr/bin/env bash
# Threads started and ended.
stress-ng --pthread 2 --pthread-ops 2000 --pthread-max 64 --verify --quiet
echo "pthread $?"
# By time: with few operations asked for, mutex now and then finds them done before it has made a thread, and fails.
stress-ng --mutex 1 --futex 1 --tlb-shootdown 1 --timeout 2 --quiet
echo "locks $?"
