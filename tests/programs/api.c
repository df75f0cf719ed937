// Says where its data belong by hearth.h, and checks each word of it: errors, sizes, traits, where the pages are. With one tier every space is that
// tier; with two, the fast one is to have at least 40 MiB free and the slow one more.
#include <errno.h>
#include <hearth.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define COUNT(a) (sizeof(a) / sizeof *(a))
static int wrong;
static size_t tiers;

#define EXPECT(what)                                                 \
  do {                                                               \
    if (!(what)) {                                                   \
      printf("line %d: not true: %s\n", __LINE__, #what);            \
      wrong = 1;                                                     \
    }                                                                \
  } while (0)

static uint64_t in_tier(const void *p, size_t size, size_t tier) {
  hearth_where w;
  EXPECT(hearth_residency(p, size, &w) == HEARTH_OK);
  return w.in_tier[tier];
}

static int refused(int key, uint64_t value) {
  hearth_trait t = {key, value};
  int error = 0;
  void *p = hearth_alloc(4096, &error, 1, &t);
  return p ? 0 : error;
}

static void bad_input(void) {
  int error, local = 0;
  EXPECT(!hearth_alloc(0, &error, 0, NULL) && error == HEARTH_E_SIZE);
  EXPECT(!hearth_alloc((size_t)-5, &error, 0, NULL) && error == HEARTH_E_SIZE);
  EXPECT(!hearth_alloc((size_t)1 << 62, NULL, 0, NULL));
  EXPECT(!hearth_alloc(1, &error, 1, NULL) && error == HEARTH_E_ARGUMENT);
  EXPECT(refused(99, 1) == HEARTH_E_TRAIT);
  EXPECT(refused(HEARTH_PREFER_SPACE, 7) == HEARTH_E_TRAIT);
  EXPECT(refused(HEARTH_PREFER_SPACE, HEARTH_TIER_0 + 7) == HEARTH_E_TIER);
  EXPECT(refused(HEARTH_ALIGNMENT, 24) == HEARTH_E_TRAIT);
  EXPECT(refused(HEARTH_ACCESS_STRIDE, 8) == HEARTH_E_CONFLICT);
  EXPECT(hearth_free(NULL) == HEARTH_OK);
  EXPECT(hearth_free(&local) == HEARTH_E_FOREIGN);
  EXPECT(hearth_usable_size(&local) == 0);
  EXPECT(hearth_update(&local, 0, NULL) == HEARTH_E_FOREIGN);
  EXPECT(!hearth_realloc(&local, 10, &error) && error == HEARTH_E_FOREIGN);
  EXPECT(hearth_name(&local, "local") == HEARTH_E_FOREIGN);
  EXPECT(hearth_residency(NULL, 1, NULL) == HEARTH_E_ARGUMENT);
  EXPECT(hearth_phase(NULL) == HEARTH_E_ARGUMENT && hearth_phase("") == HEARTH_E_ARGUMENT);
  EXPECT(hearth_phase_uses(NULL, &local) == HEARTH_E_ARGUMENT && hearth_phase_uses("fill", NULL) == HEARTH_E_ARGUMENT);
  EXPECT(hearth_phase_uses("fill", (void *)-1L) == HEARTH_OK); /* of which nobody knows an object */
  EXPECT(hearth_use(4, NULL, NULL) == HEARTH_E_ARGUMENT);
  EXPECT(hearth_tier_of_space(9) == -HEARTH_E_TRAIT);
  EXPECT(hearth_commit(NULL, 1) == HEARTH_E_ARGUMENT && hearth_commit(NULL, 0) == HEARTH_OK);
  EXPECT(hearth_residency((void *)-4096L, 4095, &(hearth_where){0}) == HEARTH_OK);
  EXPECT(hearth_residency((void *)-4096L, 4097, &(hearth_where){0}) == HEARTH_E_SIZE);
  for (int e = -1; e < 20; e++) EXPECT(strlen(hearth_error_text(e)) > 5);

  void *twice = hearth_alloc(10 * MIB, NULL, 0, NULL), *small = hearth_alloc(100, NULL, 0, NULL);
  EXPECT(hearth_update(small, 0, NULL) == HEARTH_E_SMALL && hearth_name(small, "s") == HEARTH_E_SMALL);
  EXPECT(hearth_free((char *)small + 16) == HEARTH_E_FOREIGN && hearth_free((char *)twice + 4096) == HEARTH_E_FOREIGN);
  EXPECT(hearth_free(small) == 0 && hearth_free(small) == HEARTH_E_FOREIGN);
  EXPECT(hearth_free(twice) == 0 && hearth_free(twice) == HEARTH_E_FOREIGN);
}

static void sizes(void) {
  size_t all[] = {1, 16, 17, 100, 1000, 4000, 4095, 4096, 4097, 70000, 3 * MIB + 1};
  for (size_t i = 0; i < COUNT(all); i++) {
    for (uint64_t align = 16; align <= 4 * MIB; align *= 4) {
      hearth_trait t = {HEARTH_ALIGNMENT, align};
      char *p = hearth_alloc(all[i], NULL, 1, &t);
      EXPECT(p && (uintptr_t)p % align == 0 && hearth_usable_size(p) >= all[i]);
      memset(p, 1, hearth_usable_size(p));
      EXPECT(hearth_free(p) == 0);
    }
  }
  char *p = hearth_alloc(10, NULL, 0, NULL);
  strcpy(p, "it stays");
  size_t grow[] = {20, 3000, 5000, 8000, 2 * MIB, 9 * MIB, 5000, 9};
  for (size_t i = 0; i < COUNT(grow); i++) {
    p = hearth_realloc(p, grow[i], NULL);
    EXPECT(p && strcmp(p, "it stays") == 0 && hearth_usable_size(p) >= grow[i]);
  }
  // What it was made with stays with it, in small and in large.
  hearth_trait wide[] = {{HEARTH_ALIGNMENT, 512}, {HEARTH_PREFER_SPACE, HEARTH_LOW_LATENCY}};
  char *q = hearth_alloc(100, NULL, 2, wide);
  for (size_t size = 100; size < 100000; size += size / 4) {
    q = hearth_realloc(q, size, NULL);
    EXPECT(q && (uintptr_t)q % 512 == 0);
  }
  hearth_free(q);
  // All that may be used is kept.
  q = hearth_alloc(5000, NULL, 0, NULL);
  size_t usable = hearth_usable_size(q);
  memset(q, 7, usable);
  q = hearth_realloc(q, 200000, NULL);
  for (size_t i = 0; i < usable; i++) EXPECT(q[i] == 7);
  hearth_free(q);
  int error;
  EXPECT(!hearth_alloc((size_t)1 << 45, &error, 0, NULL) && error == HEARTH_E_ROOM);
  EXPECT(!hearth_realloc(p, 0, &error) && error == HEARTH_E_SIZE && strcmp(p, "it stays") == 0);
  hearth_free(p);
}

static void *many(void *seed) {
  unsigned r = (unsigned)(uintptr_t)seed;
  char *live[64] = {0};
  size_t size[64];
  for (int i = 0; i < 20000; i++) {
    int k = rand_r(&r) % 64;
    if (live[k]) {
      EXPECT(live[k][0] == (char)k && live[k][size[k] - 1] == (char)k);
      EXPECT(hearth_free(live[k]) == 0);
    }
    size[k] = 1 + rand_r(&r) % (i % 16 ? 3000 : 300000);
    hearth_trait t = {HEARTH_PREFER_SPACE, HEARTH_TIER_0 + k % tiers};
    live[k] = hearth_alloc(size[k], NULL, 1, &t);
    live[k][0] = live[k][size[k] - 1] = (char)k;
  }
  for (int k = 0; k < 64; k++) hearth_free(live[k]);
  return NULL;
}

/* Small objects that another thread has made, which may be no more by then, are ended, and none twice. */
static void *handed_over(void *seed) {
  static uint64_t *_Atomic slots[256];
  unsigned r = (unsigned)(uintptr_t)seed;
  for (int i = 0; i < 40000; i++) {
    size_t words = 1 + rand_r(&r) % 40, k = rand_r(&r) % 256;
    hearth_trait t[] = {{HEARTH_PREFER_SPACE, HEARTH_TIER_0 + i % tiers}, {HEARTH_ACCESS_PATTERN, HEARTH_LINEAR + i % 6 / 2}};
    uint64_t *mine = hearth_alloc(words * 8, NULL, 1 + i % 2, t);
    EXPECT(hearth_usable_size(mine) >= words * 8);
    mine[words - 1] = 0;
    *mine = words;
    uint64_t *other = atomic_exchange(slots + k, mine);
    if (!other) continue;
    EXPECT(*other >= 1 && *other <= 40 && (*other == 1 || other[*other - 1] == 0));
    *other = 0;
    EXPECT(hearth_free(other) == 0);
  }
  return NULL;
}

static void threads_and_forks(void) {
  pthread_t t[8];
  for (size_t i = 0; i < 4; i++) {
    pthread_create(t + i, NULL, many, (void *)(i + 1));
    pthread_create(t + 4 + i, NULL, handed_over, (void *)(i + 1));
  }
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      // A lock that another thread held would hold for ever here.
      void *p = hearth_alloc(100000, NULL, 0, NULL), *small = hearth_alloc(100, NULL, 0, NULL);
      _exit(p && small && hearth_free(p) == 0 && hearth_free(small) == 0 && hearth_free(small) == HEARTH_E_FOREIGN ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
  }
  for (size_t i = 0; i < 8; i++) pthread_join(t[i], NULL);
}

static void placement(void) {
  size_t slow = tiers - 1;
  for (size_t tier = 0; tier < tiers; tier++) {
    hearth_trait must = {HEARTH_REQUIRE_SPACE, HEARTH_TIER_0 + tier};
    int error;
    char *p = hearth_alloc(8 * MIB, &error, 1, &must), *s = hearth_alloc(100, &error, 1, &must);
    EXPECT(p && in_tier(p, 8 * MIB, tier) == 8 * MIB);
    EXPECT(s && in_tier(s, 100, tier) == 4096);
    hearth_free(p);
    hearth_free(s);
    hearth_trait like = {HEARTH_PREFER_SPACE, HEARTH_TIER_0 + tier};
    p = hearth_alloc(8 * MIB, &error, 1, &like);
    memset(p, 1, 8 * MIB);
    EXPECT(in_tier(p, 8 * MIB, tier) == 8 * MIB);
    hearth_free(p);
  }
  hearth_tier t[HEARTH_MAX_TIERS];
  EXPECT(hearth_tiers(t, HEARTH_MAX_TIERS, NULL) == 0);
  hearth_trait must = {HEARTH_REQUIRE_SPACE, HEARTH_TIER_0}, like = {HEARTH_PREFER_SPACE, HEARTH_TIER_0};
  int error;
  EXPECT(!hearth_alloc(t[0].capacity + MIB, &error, 1, &must) && error == HEARTH_E_ROOM);
  if (tiers < 2) return;

  // More than there is: it falls back, as a whole.
  size_t large = t[0].free + MIB;
  char *p = hearth_alloc(large, &error, 1, &like);
  EXPECT(p && !error);
  memset(p, 1, 4 * MIB);
  EXPECT(in_tier(p, 4 * MIB, slow) == 4 * MIB);
  hearth_free(p);

  hearth_trait parts[] = {{HEARTH_REQUIRE_SPACE, HEARTH_TIER_0}, {HEARTH_PARTITION, HEARTH_SPLIT}, {HEARTH_WEIGHT, 25}, {HEARTH_REST_SPACE, HEARTH_TIER_0 + slow}};
  p = hearth_alloc(32 * MIB, &error, 4, parts);
  EXPECT(p && in_tier(p, 8 * MIB, 0) == 8 * MIB && in_tier(p + 8 * MIB, 24 * MIB, slow) == 24 * MIB);
  hearth_free(p);
  // A share of less than a page is none.
  parts[2].value = 10;
  p = hearth_alloc(8192, &error, 4, parts);
  EXPECT(p && in_tier(p, 8192, slow) == 8192);
  hearth_free(p);
  parts[2].value = 25;
  parts[1].value = HEARTH_INTERLEAVE;
  for (int again = 0; again < 2; again++) {
    p = hearth_alloc(32 * MIB, &error, 4, parts);
    EXPECT(p && in_tier(p, 32 * MIB, 0) == 8 * MIB && in_tier(p, 32 * MIB, slow) == 24 * MIB);
    EXPECT(in_tier(p, 65536, 0) == 65536 && in_tier(p + 65536, 65536, slow) == 65536);
    hearth_free(p);
  }
  // What has spilled into the other tier does not stay there when it is freed.
  hearth_tiers(t, HEARTH_MAX_TIERS, NULL);
  char *all = hearth_alloc((t[0].free - 3 * MIB) & ~4095ul, &error, 1, &must), *spilled[8];
  for (int i = 0; i < 8; i++) {
    spilled[i] = hearth_alloc(900 << 10, &error, 1, &like);
    memset(spilled[i], 1, 900 << 10);
  }
  hearth_free(all);
  for (int i = 0; i < 8; i++) hearth_free(spilled[i]);
  for (int i = 0; i < 8; i++) {
    spilled[i] = hearth_alloc(900 << 10, &error, 1, &must);
    EXPECT(spilled[i] && in_tier(spilled[i], 900 << 10, 0) == 900 << 10);
  }
  for (int i = 0; i < 8; i++) hearth_free(spilled[i]);
  // What was freed goes back to its tier.
  p = hearth_alloc(32 * MIB, &error, 1, &(hearth_trait){HEARTH_PREFER_SPACE, HEARTH_TIER_0 + slow});
  memset(p, 1, 32 * MIB);
  EXPECT(in_tier(p, 32 * MIB, slow) == 32 * MIB);

  // And it moves, with all that it holds.
  for (size_t i = 0; i < 32 * MIB; i += 4096) p[i] = (char)(i >> 12);
  size_t moved;
  EXPECT(hearth_migrate(&moved) == 0 && moved == 0);
  EXPECT(hearth_update(p, 1, &must) == 0 && hearth_migrate(&moved) == 0);
  EXPECT(moved == 32 * MIB && in_tier(p, 32 * MIB, 0) == 32 * MIB);
  EXPECT(hearth_update(p, 4, parts) == 0 && hearth_migrate(&moved) == 0);
  EXPECT(moved == 24 * MIB && in_tier(p, 32 * MIB, 0) == 8 * MIB);
  for (size_t i = 0; i < 32 * MIB; i += 4096) EXPECT(p[i] == (char)(i >> 12));
  // Two change places: what leaves goes first.
  hearth_tiers(t, HEARTH_MAX_TIERS, NULL);
  size_t half = (t[0].free / 2 + 2 * MIB) & ~4095ul;
  hearth_trait far = {HEARTH_PREFER_SPACE, HEARTH_TIER_0 + slow};
  char *one = hearth_alloc(half, &error, 1, &must), *two = hearth_alloc(half, &error, 1, &far);
  EXPECT(one && two);
  memset(two, 2, half);
  EXPECT(hearth_update(two, 1, &must) == 0 && hearth_update(one, 1, &far) == 0 && hearth_migrate(&moved) == 0);
  EXPECT(in_tier(two, half, 0) == half && in_tier(one, half, slow) == half && moved == 2 * half);
  EXPECT(hearth_update(one, 1, &must) == 0 && hearth_migrate(&moved) == HEARTH_E_ROOM && moved == 0);
  EXPECT(in_tier(one, half, slow) == half);
  hearth_free(one);
  hearth_free(two);
  hearth_free(p);
  // What an object was promised is not in its own way.
  hearth_tiers(t, HEARTH_MAX_TIERS, NULL);
  size_t most = (t[0].free / 10 * 6) & ~4095ul;
  p = hearth_alloc(most, &error, 1, &like);
  EXPECT(p && hearth_update(p, 1, &must) == 0 && hearth_migrate(&moved) == 0 && moved == 0);
  hearth_free(p);
}

static void declarations(void) {
  void *p[3] = {p, p, p};
  hearth_tier t[HEARTH_MAX_TIERS];
  hearth_tiers(t, HEARTH_MAX_TIERS, NULL);
  size_t slow = tiers - 1, size = tiers < 2 ? MIB : (t[0].free / 2 + 2 * MIB) & ~4095ul;
  hearth_trait like[] = {{HEARTH_PREFER_SPACE, HEARTH_LOW_LATENCY}, {HEARTH_IMPORTANCE, 1}};
  hearth_declaration d[3];
  for (size_t i = 0; i < 2; i++) {
    like[1].value = i;
    int error;
    d[i] = hearth_declare(&p[i], size, &error, 2, like);
    EXPECT(d[i] && !error && !p[i]);
  }
  hearth_declaration same[] = {d[0], d[0]}, none[] = {d[0], 12345};
  EXPECT(hearth_commit(same, 2) == HEARTH_E_HANDLE && hearth_commit(none, 2) == HEARTH_E_HANDLE && !p[0]);
  EXPECT(hearth_commit(d, 2) == HEARTH_OK && p[0] && p[1]);
  EXPECT(hearth_commit(d, 2) == HEARTH_E_HANDLE && hearth_withdraw(d[0]) == HEARTH_E_HANDLE);
  memset(p[0], 1, size);
  memset(p[1], 1, size);
  // The second is the more important one, and both have no room.
  size_t fast = (size_t)hearth_tier_of_space(HEARTH_LOW_LATENCY);
  EXPECT(in_tier(p[1], size, fast) == size && in_tier(p[0], size, slow) == size);
  hearth_free(p[0]);
  hearth_free(p[1]);
  // All or nothing.
  hearth_trait must = {HEARTH_REQUIRE_SPACE, HEARTH_TIER_0};
  d[0] = hearth_declare(&p[0], MIB, NULL, 1, &must);
  d[1] = hearth_declare(&p[1], t[0].capacity + MIB, NULL, 1, &must);
  EXPECT(hearth_commit(d, 2) == HEARTH_E_ROOM && !p[0] && !p[1]);
  EXPECT(hearth_withdraw(d[1]) == 0 && hearth_commit(d, 1) == 0 && p[0]);
  hearth_free(p[0]);
}

static int to_last(void *context, const hearth_request *r, size_t n, hearth_decision *d) {
  ++*(int *)context;
  for (size_t i = 0; i < n; i++) {
    d[i].tier = (int)tiers - 1;
    d[i].partition = HEARTH_WHOLE;
    if (r[i].size == 12345) return 1;
    if (r[i].size == 12346) d[i].tier = 77;
    EXPECT(r[i].traits_count == 1 && r[i].traits[0].key == HEARTH_PREFER_SPACE);
  }
  int error;
  EXPECT(!hearth_alloc(1, &error, 0, NULL) && error == HEARTH_E_STRATEGY);
  return 0;
}

static void strategies(void) {
  hearth_trait like = {HEARTH_PREFER_SPACE, HEARTH_TIER_0};
  int called = 0, error;
  for (int stage = HEARTH_ALLOCATION; stage <= HEARTH_MIGRATION; stage++) EXPECT(hearth_use(stage, to_last, &called) == 0);
  char *p = hearth_alloc(MIB, &error, 1, &like);
  memset(p, 1, MIB);
  EXPECT(called == 1 && in_tier(p, MIB, tiers - 1) == MIB);
  EXPECT(!hearth_alloc(12345, &error, 1, &like) && error == HEARTH_E_STRATEGY);
  EXPECT(!hearth_alloc(12346, &error, 1, &like) && error == HEARTH_E_STRATEGY);
  void *q;
  hearth_declaration d = hearth_declare(&q, MIB, NULL, 1, &like);
  EXPECT(hearth_commit(&d, 1) == 0 && called == 4);
  EXPECT(hearth_update(p, 1, &like) == 0 && hearth_migrate(NULL) == 0 && called == 5);
  for (int stage = HEARTH_ALLOCATION; stage <= HEARTH_MIGRATION; stage++) EXPECT(hearth_use(stage, NULL, NULL) == 0);
  EXPECT(hearth_update(p, 1, &like) == 0 && hearth_migrate(NULL) == 0 && in_tier(p, MIB, 0) == MIB);
  hearth_free(p);
  hearth_free(q);
}

int main(void) {
  hearth_tier t[HEARTH_MAX_TIERS];
  EXPECT(hearth_tiers(t, HEARTH_MAX_TIERS, &tiers) == HEARTH_OK && tiers > 0);
  for (size_t i = 0; i < tiers; i++) printf("tier %zu is %s\n", i, t[i].name);
  bad_input();
  sizes();
  placement();
  declarations();
  strategies();
  threads_and_forks();
  char *named = hearth_alloc(4 * MIB, NULL, 0, NULL);
  EXPECT(hearth_name(named, "grid") == HEARTH_OK);
  hearth_loop_begin("steps");
  for (int i = 0; i < 10; i++) {
    hearth_phase("fill");
    memset(named, i, 4 * MIB);
  }
  hearth_loop_end();
  hearth_free(named);
  printf(wrong ? "something is wrong\n" : "all as expected\n");
  return wrong;
}
