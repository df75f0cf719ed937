/* Calls of something that says whether it was told a call path (twice_heard.c): in one of several branches, directly, through a pointer, by a loop, from a function that goes by a
 * table of labels, and from one that takes a list of arguments. */
#include <stdarg.h>
#include <stdlib.h>

void *heard(const char *how, unsigned long bytes);
int from_elsewhere(void);

__attribute__((noinline)) static void *directly(void) { return heard("directly", 4096); }
static void *of_pointer(unsigned long bytes) { return heard("pointer", bytes); }
void *(*volatile pointer)(unsigned long) = of_pointer;

__attribute__((noinline)) static void *deep(int n) { return n > 0 ? deep(n - 1) : heard("deep", 4096); }

__attribute__((noinline)) void *labels(int n) {
  static void *const to[] = {&&first, &&second};
  void *made = 0;
  goto *to[n & 1];
first:
  made = heard("first", 4096);
second:
  if (n < 2) return made;
  made = heard("second", 4096);
  n -= 2;
  goto *to[n & 1];
}

__attribute__((noinline)) void *list(int n, ...) {
  va_list all;
  va_start(all, n);
  void *made = heard("list", va_arg(all, unsigned long));
  va_end(all);
  return made;
}

/* An interpreter's allocator: only one of its branches makes something. */
static void *either(void *old, unsigned long bytes) {
  if (!bytes) {
    free(old);
    return 0;
  }
  return heard("either", bytes);
}
void *(*volatile allocator)(void *, unsigned long) = either;

/* The same, but what comes before the branches may happen only once. */
int asked;
__attribute__((noinline)) void *counted(unsigned long bytes) {
  asked++;
  return bytes ? heard("counted", bytes) : 0;
}

/* Looks for something before it makes it. */
__attribute__((noinline)) void *sought(const unsigned char *all, unsigned char what) {
  for (; *all; all++)
    if (*all == what) return (void *)all;
  return heard("sought", 4096);
}

int main(void) {
  void *old = allocator(0, 4096);
  if (allocator(old, 0) || from_elsewhere()) return 1;
  counted(0);
  counted(4096);
  sought((const unsigned char *)"abc", 'b');
  sought((const unsigned char *)"abc", 'd');
  if (asked != 2) return 2;
  directly();
  pointer(4096);
  deep(3);
  labels(2);
  list(1, 4096ul);
  return 0;
}
