#!/usr/bin/env bash
# A compiler: a generated program, optimised, linked and run.
{
  for i in $(seq 400); do
    echo "double f$i(const double *x, int n) { double s = $i; for (int i = 0; i < n; i++) s += x[i] * $i; return s; }"
  done
  echo '#include <stdio.h>'
  echo 'int main(void) { double x[9] = {1, 2, 3}, s = 0;'
  for i in $(seq 400); do echo "s += f$i(x, $((i % 9)));"; done
  printf '%s\n' 'printf("%.1f\n", s); return 3; }'
} > made.c
gcc -O2 -c made.c -o made.o
echo "gcc $?"
sha256sum made.o
gcc made.o -o made
./made
echo "made $?"
printf 'int main() { return undeclared; }' > wrong.c
gcc -c wrong.c
echo "wrong $?"
