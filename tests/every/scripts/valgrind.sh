#!/usr/bin/env bash
# A program that runs on valgrind's emulated processor, with valgrind's own malloc.
valgrind --quiet --error-exitcode=9 "$PROGRAMS/phases" --work 20
echo "valgrind $?"
