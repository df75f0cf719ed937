/* A library with parallel regions, for programs that load it while they run and do not link OpenMP's runtime themselves. With -DINNER
 * the one that it leans on, which does not name that runtime either. */
#ifdef INNER
double inner(int n) {
  double sum = 0;
#pragma omp parallel for schedule(dynamic, 16) reduction(+ : sum) num_threads(2)
  for (int i = 0; i < n; i++) sum += i;
  return sum;
}
#else
double inner(int n);

double regions(int n) {
  double sum = 0;
#pragma omp parallel reduction(+ : sum) num_threads(3)
  sum += 1;
  return sum + inner(n);
}
#endif
