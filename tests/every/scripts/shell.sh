#!/usr/bin/env bash
# Thousands of short children.
sum=0
for i in $(seq 1500); do
  sum=$((sum + $(printf %s "$i")))
  /bin/true
done
echo "$sum"
for i in $(seq 100); do echo "$i" | sort | cat; done | tail -n 1
seq 1 300 | xargs -n 1 -P 4 /bin/echo | sort -n | sha256sum
