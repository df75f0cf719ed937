#!/usr/bin/env bash
# Threads started and ended.
# By time: with few operations asked for, pthread and mutex now and then find them done before they have made a thread, and fail
# without a word, also by themselves.
stress-ng --pthread 2 --pthread-max 64 --timeout 2 --verify
echo "pthread $?"
stress-ng --mutex 1 --futex 1 --tlb-shootdown 1 --timeout 2
echo "locks $?"
