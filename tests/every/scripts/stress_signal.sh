#!/usr/bin/env bash
# Signals caught, queued, and taken on other stacks; faults among them.
for kind in signal sigfpe sigsegv sigrt sigpending sigsuspend sigq sigabrt sigchld sigtrap; do
  stress-ng --$kind 1 --$kind-ops 300 --verify
  echo "$kind $?"
done
