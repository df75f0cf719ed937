/* Some thousand objects of one to three pages, of which one after the other ends and another one takes its place; all are read at random.
 *
 *   churn TURNS
 *
 * Each turn ends one object and makes another, which is written, and reads a word of twenty. Prints `right` if all words were. The lab's model is on for the turns.
 */
#include "../../bench/suite/suite.h"

enum { OBJECTS = 8000, READS = 20 };

struct object {
  uint64_t *words;
  uint64_t length;
};

static struct object made(uint64_t seed, uint64_t number) {
  struct object o = {NULL, 512 + suite_below(seed, 1024)};
  o.words = suite_must(malloc(o.length * sizeof *o.words));
  for (uint64_t k = 0; k < o.length; k++) o.words[k] = number + k;
  return o;
}

int main(int argc, char **argv) {
  static struct object all[OBJECTS];
  const long turns = argc == 2 ? (long)suite_number("TURNS", argv[1], 1, 1e9) : 0;
  if (!turns) {
    fputs("usage: churn TURNS\n", stderr);
    return 2;
  }
  for (uint64_t n = 0; n < OBJECTS; n++) all[n] = made(n, n);
  uint64_t wrong = 0;
  suite_begin();
  for (uint64_t turn = 0; turn < (uint64_t)turns; turn++) {
    const uint64_t n = suite_below(turn, OBJECTS);
    free(all[n].words);
    all[n] = made(OBJECTS + turn, n);
    for (uint64_t r = 0; r < READS; r++) {
      const uint64_t which = suite_below(turn * READS + r, OBJECTS), k = suite_below(turn + r, all[which].length);
      wrong += all[which].words[k] != which + k;
    }
  }
  suite_end();
  puts(wrong ? "wrong" : "right");
  return wrong ? 1 : 0;
}
