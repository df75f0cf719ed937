// An array that is worth fast memory and one that is not, by OpenMP's own allocators (OpenMP 5.0, section 2.11). Where the runtime finds memkind they
// lie in the memories that their names say; LLVM's gives none without it. Prints, as `placed` does, the pages of each on node 0 and on node 1.
#define _GNU_SOURCE
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 8 << 20 };

static void tell(const char *name, char *memory) {
  size_t on[2] = {0, 0};
  for (uintptr_t at = ((uintptr_t)memory + 4095) & ~4095ul; at + 4096 <= (uintptr_t)memory + BYTES; at += 4096) {
    void *page = (void *)at;
    int node = -1;
    syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0);
    if (node == 0 || node == 1) on[node]++;
  }
  printf("%s %zu %zu\n", name, on[0], on[1]);
}

int main(void) {
  char *hot = omp_alloc(BYTES, omp_high_bw_mem_alloc);
  char *cold = omp_alloc(BYTES, omp_large_cap_mem_alloc);
  omp_alloctrait_t traits[] = {{omp_atk_alignment, 4096}};
  omp_allocator_handle_t aligned = omp_init_allocator(omp_high_bw_mem_space, 1, traits);
  char *table = aligned == omp_null_allocator ? NULL : omp_alloc(BYTES, aligned);
  if (!hot || !cold) return puts("no memory"), 1;
#pragma omp parallel for
  for (int i = 0; i < BYTES; i++) hot[i] = cold[i] = (char)i;
  tell("hot", hot);
  tell("cold", cold);
  if (table) {
    memset(table, 1, BYTES);
    printf("aligned %d\n", (int)((uintptr_t)table % 4096 == 0));
    tell("table", table);
    omp_free(table, aligned);
    omp_destroy_allocator(aligned);
  }
  omp_free(cold, omp_large_cap_mem_alloc);
  omp_free(hot, omp_high_bw_mem_alloc);
  // Each thread has its own; none is missing.
  long sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000; i++) {
    int *own = omp_alloc(1000 * sizeof *own, omp_high_bw_mem_alloc);
    memset(own, 0, 1000 * sizeof *own);
    own[999] = i;
    sum += own[999];
    omp_free(own, omp_high_bw_mem_alloc);
  }
  printf("sum %ld\n", sum);
  return 0;
}
