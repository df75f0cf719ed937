// Stays until a file is there: holds objects of several kinds, touches them all the time, and says at the end whether they are what they were.
//
//     stays FILE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, ARRAYS = 20 };

static char fixed[4 * MIB];

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  char *arrays[ARRAYS + 1];
  size_t sizes[ARRAYS + 1];
  for (int i = 0; i < ARRAYS; i++) {
    sizes[i] = (size_t)(i + 1) * MIB / 4;
    arrays[i] = malloc(sizes[i]);
  }
  sizes[ARRAYS] = 8 * MIB;
  arrays[ARRAYS] = mmap(NULL, sizes[ARRAYS], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arrays[ARRAYS] == MAP_FAILED) return 1;
  for (int i = 0; i <= ARRAYS; i++) memset(arrays[i], i + 1, sizes[i]);
  memset(fixed, 99, sizeof fixed);
  unsigned long wrong = 0;
  while (access(argv[1], F_OK) != 0) {
    // What comes and goes.
    char *brief = malloc(100000);
    memset(brief, 1, 100000);
    for (int i = 0; i <= ARRAYS; i++) {
      for (size_t at = 0; at < sizes[i]; at += 512) wrong += arrays[i][at] != i + 1;
    }
    for (size_t at = 0; at < sizeof fixed; at += 512) wrong += fixed[at] != 99;
    free(brief);
    usleep(1000);
  }
  printf("%lu bytes wrong\n", wrong);
  return wrong != 0;
}
