#!/usr/bin/env bash
# Molecular dynamics with threads asked for, as far as Debian's lammps has them: it is built with OpenMP but without the
# package OPENMP, whose styles (-sf omp) alone would use it in these kernels. So a Fortran program with OpenMP does the same beside it.
export OMP_NUM_THREADS=2
lmp -in "$TESTS/lammps/in.melt" -var size 16 -var steps 40 -log none | grep -E '^ +[0-9]+ |Created|Total # of neighbors|builds'
"$PROGRAMS/threads_f90"
