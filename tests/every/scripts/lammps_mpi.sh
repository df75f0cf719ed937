#!/usr/bin/env bash
# Molecular dynamics in two processes (or RANKS) that share memory by MPI; only the lines that tell no times.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
mpirun --oversubscribe --bind-to none -np "${RANKS:-2}" \
  lmp -in "$TESTS/lammps/in.melt" -var size 24 -var steps 40 -log none |
  grep -E '^ +[0-9]+ |Created|Total # of neighbors|builds'
