/* Allocates by a pointer to malloc. Built without position independence, as some distributions build their interpreters: the
 * address of malloc is then a number in the code, which the linker makes that of the program's own jump to malloc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  void *(*volatile get)(size_t) = malloc;
  long sum = 0;
  for (int i = 0; i < 100; i++) {
    char *p = get(100000);
    memset(p, i, 100000);
    sum += p[99999];
    free(p);
  }
  printf("%ld\n", sum);
  return 0;
}
