// Uses memkind's functions as memkind's own examples do, and checks each word of the headers: hello, kinds, policies, detection, sizes, alignment,
// statistics, threads, bad input. With one memory it is enough that all works; with two, node 0 is to be the faster one, which has the CPUs, and
// pages are looked up.
#define _GNU_SOURCE
#include <errno.h>
#include <hbwmalloc.h>
#include <limits.h>
#include <memkind.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define COUNT(a) (sizeof(a) / sizeof *(a))
static int wrong;
static int two;

#define EXPECT(what)                                                 \
  do {                                                               \
    if (!(what)) {                                                   \
      printf("line %d: not true: %s\n", __LINE__, #what);            \
      wrong = 1;                                                     \
    }                                                                \
  } while (0)

// Whether all pages of some memory, which was touched, are on a node.
static int all_on(void *memory, size_t bytes, int node) {
  size_t count = bytes / 4096, on = 0;
  uintptr_t first = (uintptr_t)memory & ~4095ul;
  for (size_t i = 0; i < count; i++) {
    void *page = (void *)(first + i * 4096);
    int status = -1;
    syscall(SYS_move_pages, 0, 1ul, &page, NULL, &status, 0);
    on += status == node;
  }
  return on == count;
}

static size_t bytes_of_node(int node) {
  char name[64], line[128];
  size_t kib = 0;
  snprintf(name, sizeof name, "/sys/devices/system/node/node%d/meminfo", node);
  FILE *file = fopen(name, "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "Node %*d MemTotal: %zu", &kib) == 1) break;
  if (file) fclose(file);
  return kib << 10;
}

// The policy is one for a process, so each is tried in a process of its own.
static void in_a_child(void (*check)(hbw_policy_t), hbw_policy_t policy) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    wrong = 0;
    check(policy);
    fflush(stdout);
    _exit(wrong);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void with_policy(hbw_policy_t policy) {
  EXPECT(hbw_get_policy() == HBW_POLICY_PREFERRED);
  EXPECT(hbw_set_policy((hbw_policy_t)0) == EINVAL && hbw_set_policy((hbw_policy_t)5) == EINVAL);
  EXPECT(hbw_set_policy(policy) == 0 && hbw_get_policy() == policy);
  EXPECT(hbw_set_policy(policy) == EPERM);
  errno = 0;
  char *p = hbw_malloc(MIB);
  if (policy != HBW_POLICY_PREFERRED && hbw_check_available() != 0) {
    EXPECT(!p && errno == ENOMEM);
    return;
  }
  EXPECT(p);
  memset(p, 1, MIB);
  memkind_t kinds[] = {NULL, MEMKIND_HBW, MEMKIND_HBW_PREFERRED, MEMKIND_HBW_INTERLEAVE, MEMKIND_HBW_ALL};
  EXPECT(memkind_detect_kind(p) == kinds[policy]);
  if (two) EXPECT(all_on(p, MIB, 0));
  hbw_free(p);
}

static void policy_too_late(hbw_policy_t policy) {
  hbw_free(hbw_malloc(1));
  EXPECT(hbw_set_policy(policy) == EPERM);
  EXPECT(hbw_get_policy() == HBW_POLICY_PREFERRED);
}

static void hello_hbw(void) {
  EXPECT(hbw_check_available() == (two ? 0 : ENODEV) || getenv("MEMKIND_HBW_NODES"));
  char *hello = hbw_malloc(64);
  EXPECT(hello);
  strcpy(hello, "hello");
  hello = hbw_realloc(hello, 4 * MIB);
  EXPECT(hello && strcmp(hello, "hello") == 0);
  memset(hello, 2, 4 * MIB);
  EXPECT(hbw_malloc_usable_size(hello) >= 4 * MIB);
  EXPECT(hbw_verify_memory_region(hello, 4 * MIB, 0) == (hbw_check_available() ? -1 : 0));
  hbw_free(hello);
  int *zeroes = hbw_calloc(1000, sizeof *zeroes);
  for (int i = 0; i < 1000; i++) EXPECT(zeroes[i] == 0);
  EXPECT(hbw_realloc(zeroes, 0) == NULL);
  void *aligned = NULL;
  EXPECT(hbw_posix_memalign(&aligned, 2 * MIB, 5 * MIB) == 0 && (uintptr_t)aligned % (2 * MIB) == 0);
  // Not touched yet.
  EXPECT(hbw_verify_memory_region(aligned, 5 * MIB, 0) == -1);
  EXPECT(hbw_verify_memory_region(aligned, 5 * MIB, HBW_TOUCH_PAGES) == (hbw_check_available() ? -1 : 0));
  hbw_free(aligned);
  EXPECT(hbw_posix_memalign_psize(&aligned, 64, 100, HBW_PAGESIZE_4KB) == 0 && (uintptr_t)aligned % 64 == 0);
  hbw_free(aligned);
  hbw_pagesize_t others[] = {HBW_PAGESIZE_2MB, HBW_PAGESIZE_1GB, HBW_PAGESIZE_1GB_STRICT, HBW_PAGESIZE_MAX_VALUE};
  for (size_t i = 0; i < COUNT(others); i++) EXPECT(hbw_posix_memalign_psize(&aligned, 64, 100, others[i]) == EINVAL && !aligned);
  hbw_free(NULL);
}

struct row {
  memkind_t kind;
  int node; // With two memories; -1: any.
  int code; // memkind_check_available with one memory.
};

static size_t list(struct row *rows) {
  const int large = two && bytes_of_node(1) > bytes_of_node(0), none = MEMKIND_ERROR_UNAVAILABLE;
  const struct row all[] = {
      {MEMKIND_DEFAULT, -1, 0},
      {MEMKIND_REGULAR, 0, 0},
      {MEMKIND_INTERLEAVE, -1, 0},
      {MEMKIND_HBW, 0, none},
      {MEMKIND_HBW_ALL, 0, none},
      {MEMKIND_HBW_PREFERRED, 0, none},
      {MEMKIND_HBW_INTERLEAVE, 0, none},
      {MEMKIND_HIGHEST_BANDWIDTH_LOCAL, 0, none},
      {MEMKIND_HIGHEST_BANDWIDTH_LOCAL_PREFERRED, 0, none},
      {MEMKIND_DAX_KMEM, 1, none},
      {MEMKIND_DAX_KMEM_ALL, 1, none},
      {MEMKIND_DAX_KMEM_PREFERRED, 1, none},
      {MEMKIND_DAX_KMEM_INTERLEAVE, 1, none},
      {MEMKIND_HIGHEST_CAPACITY, large, 0},
      {MEMKIND_HIGHEST_CAPACITY_PREFERRED, large, 0},
      {MEMKIND_HIGHEST_CAPACITY_LOCAL, large, 0},
      {MEMKIND_HIGHEST_CAPACITY_LOCAL_PREFERRED, large, 0},
      {MEMKIND_LOWEST_LATENCY_LOCAL, 0, 0},
      {MEMKIND_LOWEST_LATENCY_LOCAL_PREFERRED, 0, 0},
  };
  memcpy(rows, all, sizeof all);
  return COUNT(all);
}

static void every_kind(void) {
  struct row rows[32];
  size_t count = list(rows);
  for (size_t i = 0; i < count; i++) {
    memkind_t kind = rows[i].kind;
    int code = memkind_check_available(kind);
    if (!getenv("MEMKIND_HBW_NODES") && code != (two ? 0 : rows[i].code)) printf("kind %zu: available: %d\n", i, code), wrong = 1;
    EXPECT((memkind_get_capacity(kind) > 0) == (code == 0));
    size_t sizes[] = {1, 100, 4095, 4096, 100000, 3 * MIB};
    for (size_t s = 0; s < COUNT(sizes); s++) {
      char *p = memkind_malloc(kind, sizes[s]);
      // What prefers a kind gets other memory.
      int falls_back = kind == MEMKIND_HBW_PREFERRED || kind == MEMKIND_HIGHEST_BANDWIDTH_LOCAL_PREFERRED || kind == MEMKIND_DAX_KMEM_PREFERRED;
      if (!p && code != 0 && !falls_back) continue;
      EXPECT(p && (code == 0 || falls_back));
      memset(p, 7, sizes[s]);
      EXPECT(memkind_detect_kind(p) == kind);
      EXPECT(memkind_malloc_usable_size(kind, p) >= sizes[s] && memkind_malloc_usable_size(NULL, p) >= sizes[s]);
      if (two && rows[i].node >= 0 && !all_on(p, sizes[s], rows[i].node)) printf("kind %zu: %zu bytes are not on node %d\n", i, sizes[s], rows[i].node), wrong = 1;
      p = memkind_realloc(s % 2 ? kind : NULL, p, 2 * sizes[s]);
      EXPECT(p && p[0] == 7 && p[sizes[s] - 1] == 7 && memkind_detect_kind(p) == kind);
      memkind_free(s % 2 ? kind : NULL, p);
      p = memkind_calloc(kind, sizes[s], 3);
      EXPECT(p && p[0] == 0 && p[3 * sizes[s] - 1] == 0 && !memcmp(p, p + 1, 3 * sizes[s] - 1));
      memkind_free(kind, p);
      void *aligned = NULL;
      EXPECT(memkind_posix_memalign(kind, &aligned, 256, sizes[s]) == 0 && (uintptr_t)aligned % 256 == 0);
      memkind_free(kind, aligned);
    }
  }
  memkind_t never[] = {MEMKIND_HUGETLB, MEMKIND_HBW_HUGETLB, MEMKIND_HBW_ALL_HUGETLB, MEMKIND_HBW_PREFERRED_HUGETLB, MEMKIND_GBTLB, MEMKIND_HBW_GBTLB,
                       MEMKIND_HBW_PREFERRED_GBTLB};
  for (size_t i = 0; i < COUNT(never); i++) {
    EXPECT(memkind_check_available(never[i]) == (i < 4 ? MEMKIND_ERROR_HUGETLB : MEMKIND_ERROR_OPERATION_FAILED));
    EXPECT(!memkind_malloc(never[i], 100) && memkind_get_capacity(never[i]) == -1);
  }
  if (two) {
    // Half of it in each.
    char *p = memkind_malloc(MEMKIND_INTERLEAVE, 8 * MIB);
    memset(p, 1, 8 * MIB);
    size_t fast = 0;
    for (size_t i = 0; i < 8 * MIB; i += 4096) fast += all_on(p + i, 4096, 0);
    EXPECT(fast == 1024);
    memkind_free(NULL, p);
    // What must be there and has no room is refused, what prefers it goes on.
    size_t more = bytes_of_node(0) + MIB;
    errno = 0;
    EXPECT(!memkind_malloc(MEMKIND_HBW, more) && errno == ENOMEM);
    void *other = memkind_malloc(MEMKIND_HBW_PREFERRED, more);
    EXPECT(other);
    memkind_free(MEMKIND_HBW_PREFERRED, other);
  }
  // Memory of other kinds in one list, all freed by a function that knows none: memkind's filter example.
  void *mixed[] = {memkind_malloc(MEMKIND_HBW_PREFERRED, 5000), malloc(5000), memkind_malloc(MEMKIND_REGULAR, 50), memkind_malloc(MEMKIND_DEFAULT, 50)};
  memkind_t expected[] = {MEMKIND_HBW_PREFERRED, MEMKIND_DEFAULT, MEMKIND_REGULAR, MEMKIND_DEFAULT};
  for (size_t i = 0; i < COUNT(mixed); i++) EXPECT(memkind_detect_kind(mixed[i]) == expected[i]);
  mixed[1] = memkind_realloc(NULL, mixed[1], 9000);
  EXPECT(memkind_malloc_usable_size(NULL, mixed[1]) >= 9000);
  for (size_t i = 0; i < COUNT(mixed); i++) memkind_free(NULL, mixed[i]);
  hbw_free(malloc(100));
}

static void made_kinds(void) {
  memkind_t kind = NULL, high = NULL;
  EXPECT(memkind_create_kind(MEMKIND_MEMTYPE_DEFAULT, MEMKIND_POLICY_PREFERRED_LOCAL, (memkind_bits_t)0, &kind) == 0);
  char *p = memkind_malloc(kind, 10000);
  EXPECT(p && memkind_detect_kind(p) == kind && memkind_check_available(kind) == 0);
  int made = memkind_create_kind(MEMKIND_MEMTYPE_HIGH_BANDWIDTH, MEMKIND_POLICY_BIND_LOCAL, (memkind_bits_t)0, &high);
  EXPECT(made == (hbw_check_available() ? MEMKIND_ERROR_MEMTYPE_NOT_AVAILABLE : 0));
  if (!made) {
    char *q = memkind_malloc(high, MIB);
    memset(q, 1, MIB);
    EXPECT(memkind_detect_kind(q) == high && (!two || all_on(q, MIB, 0)));
    memkind_free(high, q);
    EXPECT(memkind_destroy_kind(high) == 0);
  }
  EXPECT(memkind_destroy_kind(kind) == 0);
  EXPECT(memkind_destroy_kind(kind) == MEMKIND_ERROR_OPERATION_FAILED);
  // Its objects stay.
  p[9999] = 1;
  EXPECT(!memkind_malloc(kind, 1) && memkind_check_available(kind) == MEMKIND_ERROR_INVALID && !memkind_detect_kind(p));
  memkind_free(kind, p);
  EXPECT(memkind_create_kind((memkind_memtype_t)0, MEMKIND_POLICY_BIND_LOCAL, (memkind_bits_t)0, &kind) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_create_kind(MEMKIND_MEMTYPE_DEFAULT, MEMKIND_POLICY_MAX_VALUE, (memkind_bits_t)0, &kind) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_create_kind(MEMKIND_MEMTYPE_DEFAULT, MEMKIND_POLICY_PREFERRED_LOCAL, (memkind_bits_t)7, &kind) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_create_kind(MEMKIND_MEMTYPE_DEFAULT, MEMKIND_POLICY_PREFERRED_LOCAL, (memkind_bits_t)0, NULL) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_create_kind(MEMKIND_MEMTYPE_DEFAULT, MEMKIND_POLICY_PREFERRED_LOCAL, MEMKIND_MASK_PAGE_SIZE_2MB, &kind) ==
         MEMKIND_ERROR_MEMTYPE_NOT_AVAILABLE);
}

static void bad_input(void) {
  char bytes[64];
  memkind_t not_one[] = {NULL, (memkind_t)bytes, (memkind_t)-1, (memkind_t)((char *)MEMKIND_HBW + 100000)};
  for (size_t i = 0; i < COUNT(not_one); i++) {
    void *p = bytes;
    errno = 0;
    EXPECT(!memkind_malloc(not_one[i], 10) && errno == EINVAL);
    EXPECT(!memkind_calloc(not_one[i], 10, 1) && !memkind_realloc(not_one[i], NULL, 10));
    EXPECT(memkind_posix_memalign(not_one[i], &p, 64, 10) == EINVAL && !p);
    EXPECT(memkind_check_available(not_one[i]) == MEMKIND_ERROR_INVALID && memkind_get_capacity(not_one[i]) == -1);
    EXPECT(memkind_destroy_kind(not_one[i]) == MEMKIND_ERROR_OPERATION_FAILED);
  }
  EXPECT(memkind_destroy_kind(MEMKIND_DEFAULT) == MEMKIND_ERROR_OPERATION_FAILED);
  memkind_t kinds[] = {MEMKIND_DEFAULT, MEMKIND_REGULAR, MEMKIND_HBW_PREFERRED};
  for (size_t i = 0; i < COUNT(kinds); i++) {
    void *p = bytes;
    volatile size_t many = SIZE_MAX;
    EXPECT(!memkind_malloc(kinds[i], 0) && !memkind_calloc(kinds[i], 0, 8) && !memkind_calloc(kinds[i], 8, 0));
    errno = 0;
    EXPECT(!memkind_malloc(kinds[i], many) && errno == ENOMEM);
    EXPECT(!memkind_malloc(kinds[i], many / 2 + 1) && !memkind_malloc(kinds[i], many / 4) && !memkind_calloc(kinds[i], many / 2, 3));
    EXPECT(memkind_posix_memalign(kinds[i], &p, 0, 10) == EINVAL && !p);
    EXPECT(memkind_posix_memalign(kinds[i], &p, 4, 10) == EINVAL && memkind_posix_memalign(kinds[i], &p, 24, 10) == EINVAL);
    EXPECT(memkind_posix_memalign(kinds[i], NULL, 64, 10) == EINVAL);
    EXPECT(memkind_posix_memalign(kinds[i], &p, 64, 0) == 0 && !p);
    EXPECT(memkind_posix_memalign(kinds[i], &p, 1ul << 62, 10) == ENOMEM && !p);
    EXPECT(memkind_posix_memalign(kinds[i], &p, 64, many) == ENOMEM && !p);
    void *old = memkind_malloc(kinds[i], 5000);
    EXPECT(!memkind_realloc(kinds[i], old, many) && memkind_malloc_usable_size(kinds[i], old) >= 5000);
    memkind_free(kinds[i], old);
    memkind_free(kinds[i], NULL);
  }
  // Freed once more, and nothing else is there.
  void *p = memkind_malloc(MEMKIND_REGULAR, 10 * MIB);
  memkind_free(MEMKIND_REGULAR, p);
  memkind_free(MEMKIND_REGULAR, p);
  EXPECT(!memkind_detect_kind(p) && memkind_malloc_usable_size(NULL, p) == 0 && !memkind_realloc(NULL, p, 10));
  EXPECT(!memkind_detect_kind(NULL) && memkind_malloc_usable_size(NULL, NULL) == 0 && hbw_malloc_usable_size(NULL) == 0);
  EXPECT(hbw_verify_memory_region(NULL, 1, 0) == EINVAL && hbw_verify_memory_region(bytes, 0, 0) == EINVAL);
  EXPECT(hbw_verify_memory_region(bytes, 1, 2) == EINVAL && hbw_verify_memory_region(bytes, SIZE_MAX, 0) == EFAULT);
  EXPECT(!memkind_defrag_reallocate(MEMKIND_REGULAR, NULL));
  // What is not supported says so.
  memkind_t kind = NULL;
  EXPECT(memkind_create_pmem("/tmp", 0, &kind) == MEMKIND_ERROR_OPERATION_FAILED && !kind);
  EXPECT(memkind_create_fixed(bytes, sizeof bytes, &kind) == MEMKIND_ERROR_OPERATION_FAILED && !kind);
  EXPECT(memkind_check_dax_path("/tmp") == MEMKIND_ERROR_OPERATION_FAILED);
  struct memkind_config *config = memkind_config_new();
  memkind_config_set_path(config, "/tmp");
  memkind_config_set_size(config, 1);
  memkind_config_set_memory_usage_policy(config, MEMKIND_MEM_USAGE_POLICY_CONSERVATIVE);
  EXPECT(!config && memkind_create_pmem_with_config(config, &kind) == MEMKIND_ERROR_OPERATION_FAILED);
  memkind_config_delete(config);
}

static void messages(void) {
  char text[MEMKIND_ERROR_MESSAGE_SIZE], other[MEMKIND_ERROR_MESSAGE_SIZE];
  memkind_error_message(MEMKIND_ERROR_UNAVAILABLE, text, sizeof text);
  memkind_error_message(4711, other, sizeof other);
  EXPECT(strlen(text) > 10 && strlen(other) > 10 && strcmp(text, other));
  memkind_error_message(MEMKIND_ERROR_UNAVAILABLE, other, 6);
  EXPECT(strlen(other) == 5 && !strncmp(other, text, 5));
  memkind_error_message(0, NULL, 10);
  memkind_error_message(0, text, 0);
  EXPECT(memkind_get_version() >= 1014000);
  EXPECT(memkind_set_bg_threads(true) == 0 && memkind_set_bg_threads(false) == 0);
}

static void collect(void *to, const char *text) { strcat(to, text); }

static void statistics(void) {
  size_t before[3], during[3], after[3];
  memkind_stat_type types[] = {MEMKIND_STAT_TYPE_RESIDENT, MEMKIND_STAT_TYPE_ACTIVE, MEMKIND_STAT_TYPE_ALLOCATED};
  for (int i = 0; i < 3; i++) EXPECT(memkind_get_stat(MEMKIND_REGULAR, types[i], &before[i]) == 0);
  char *large = memkind_malloc(MEMKIND_REGULAR, 20 * MIB), *small = memkind_malloc(MEMKIND_REGULAR, 100);
  memset(large, 1, 20 * MIB);
  EXPECT(memkind_update_cached_stats() == 0);
  for (int i = 0; i < 3; i++) EXPECT(memkind_get_stat(MEMKIND_REGULAR, types[i], &during[i]) == 0);
  EXPECT(during[0] >= before[0] + 20 * MIB && during[1] >= before[1] + 20 * MIB && during[2] >= before[2] + 20 * MIB + 100);
  size_t all = 0;
  EXPECT(memkind_get_stat(NULL, MEMKIND_STAT_TYPE_ALLOCATED, &all) == 0 && all >= during[2]);
  char text[4096] = "";
  EXPECT(memkind_stats_print(collect, text, MEMKIND_STAT_PRINT_ALL) == 0 && strstr(text, "MEMKIND_REGULAR: "));
  text[0] = 0;
  EXPECT(memkind_stats_print(collect, text, MEMKIND_STAT_PRINT_JSON_FORMAT) == 0 && strstr(text, "\"MEMKIND_REGULAR\":{\"allocated\":"));
  EXPECT(memkind_stats_print(collect, text, (memkind_stat_print_opt)(1 << 20)) == MEMKIND_ERROR_INVALID);
  memkind_free(NULL, large);
  memkind_free(NULL, small);
  EXPECT(memkind_get_stat(MEMKIND_REGULAR, MEMKIND_STAT_TYPE_ALLOCATED, &after[2]) == 0 && after[2] == before[2]);
  EXPECT(memkind_get_stat(MEMKIND_REGULAR, MEMKIND_STAT_TYPE_MAX_VALUE, &all) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_get_stat(MEMKIND_REGULAR, MEMKIND_STAT_TYPE_ACTIVE, NULL) == MEMKIND_ERROR_INVALID);
  EXPECT(memkind_get_stat(MEMKIND_DEFAULT, MEMKIND_STAT_TYPE_ACTIVE, &all) == MEMKIND_ERROR_OPERATION_FAILED);
}

// Threads allocate, hand over to the next one, and free what they got.
enum { THREADS = 4, ROUNDS = 2000 };
static _Atomic(char *) handed[THREADS];
static _Atomic int broken;

static void *work(void *number) {
  size_t me = (size_t)number;
  memkind_t kinds[] = {MEMKIND_REGULAR, MEMKIND_HBW_PREFERRED, MEMKIND_DEFAULT, MEMKIND_INTERLEAVE};
  for (size_t i = 0; i < ROUNDS; i++) {
    size_t size = 1 + (i * 7919 + me * 104729) % (i % 50 ? 3000 : 200000);
    char *p = memkind_malloc(kinds[(i + me) % 4], size);
    if (!p) broken = 1;
    memset(p, (int)(size % 251), size);
    if (memkind_detect_kind(p) != kinds[(i + me) % 4]) broken = 1;
    p = memkind_realloc(NULL, p, size + 500);
    if (p[0] != (char)(size % 251) || p[size - 1] != p[0]) broken = 1;
    memkind_free(NULL, __atomic_exchange_n((char **)&handed[(me + 1) % THREADS], p, __ATOMIC_SEQ_CST));
  }
  return NULL;
}

static void threads(void) {
  pthread_t all[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, work, (void *)i);
  for (size_t i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
  for (size_t i = 0; i < THREADS; i++) memkind_free(NULL, handed[i]);
  EXPECT(!broken);
}

// Objects of a site that a profile is to know by this function.
static __attribute__((noinline)) void fields(void) {
  char *all[30];
  for (size_t i = 0; i < COUNT(all); i++) memset(all[i] = hbw_malloc(200000), (int)i, 200000);
  for (size_t i = 0; i < COUNT(all); i++) hbw_free(all[i]);
}

// Of malloc's kind, too.
static __attribute__((noinline)) void defaults(void) {
  char *all[30];
  for (size_t i = 0; i < COUNT(all); i++) memset(all[i] = memkind_malloc(MEMKIND_DEFAULT, 200000), (int)i, 200000);
  for (size_t i = 0; i < COUNT(all); i++) memkind_free(MEMKIND_DEFAULT, all[i]);
}

int main(void) {
  two = access("/sys/devices/system/node/node1", F_OK) == 0;
  for (int policy = HBW_POLICY_BIND; policy <= HBW_POLICY_BIND_ALL; policy++) in_a_child(with_policy, (hbw_policy_t)policy);
  in_a_child(policy_too_late, HBW_POLICY_BIND);
  hello_hbw();
  every_kind();
  made_kinds();
  bad_input();
  messages();
  statistics();
  threads();
  fields();
  defaults();
  memkind_t kind = NULL;
  EXPECT(memkind_get_kind_by_partition(MEMKIND_PARTITION_HBW, &kind) == 0 && kind == MEMKIND_HBW);
  EXPECT(memkind_get_kind_by_partition(-1, &kind) == MEMKIND_ERROR_INVALID && memkind_get_kind_by_partition(0, NULL) == MEMKIND_ERROR_INVALID);
  puts(wrong ? "not as expected" : "all as expected");
  return wrong;
}
