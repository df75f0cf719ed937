/* What was freed takes no room that an object needs: one of 28 MiB fits into 32 once eight that were used and freed are given back. 24 more are
 * hardly used, so that objects together have more than that, and the memory in use has to be asked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 16, BYTES = 512 << 10 };

__attribute__((noipa)) static char *make(int objects) {
  char *object = malloc((size_t)objects * BYTES);
  if (!object) exit(1);
  object[0] = 1;
  return object;
}

int main(void) {
  char *hardly_used = make(48), *objects[OBJECTS];
  /* Others of its size are not given back as soon as they are freed. */
  free(make(1));
  for (int i = 0; i < OBJECTS; i++) objects[i] = memset(make(1), i, BYTES);
  for (int i = 0; i < OBJECTS; i++) free(objects[i]);
  char *large = make(56);
  memset(large, 1, 28 << 20);
  puts("used");
  free(large);
  free(hardly_used);
  return 0;
}
