/* Not annotated: whether the call path was said that leads here. */
#include <stdio.h>
#include <stdlib.h>

extern __thread unsigned __hearth_path[4] __attribute__((tls_model("initial-exec")));

void *heard(const char *how, unsigned long bytes) {
  printf("%s: %s\n", how, __hearth_path[0] ? "said" : "nothing");
  return malloc(bytes);
}

/* Nobody says a path for it, and none that was said before is meant. */
int from_elsewhere(void) { return !heard("elsewhere", 4096); }
