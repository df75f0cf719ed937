/* Calls functions that may be inlined or another file's (kept.h), by a name that says that something is made and by one that does not. */
#include "kept.h"
#include <string.h>

__attribute__((noinline)) static char *one(size_t bytes) { return keep(bytes); }

int main(int argc, char **argv) {
  (void)argv;
  char *all[] = {one(8192), make(16384), make(32768)};
  for (int i = 0; i < 3; i++) memset(all[i], i, 8192);
  return all[0][argc] + all[1][argc] + all[2][argc] - 3;
}
