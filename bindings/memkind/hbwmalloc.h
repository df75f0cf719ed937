/* hbwmalloc.h - malloc in memory of high bandwidth, as memkind has it, over Hearth's tiers.
 *
 *     #include <hbwmalloc.h>            cc app.c $(pkg-config --cflags --libs hearth-memkind)
 *
 * What holds for memkind.h holds here. docs/memkind.md tells which memory it is.
 */
#ifndef HBWMALLOC_H
#define HBWMALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happens if there is not so much memory of high bandwidth. */
typedef enum {
  HBW_POLICY_BIND = 1,       /* NULL */
  HBW_POLICY_PREFERRED = 2,  /* other memory; if nothing else is said */
  HBW_POLICY_INTERLEAVE = 3, /* NULL */
  HBW_POLICY_BIND_ALL = 4    /* NULL */
} hbw_policy_t;

typedef enum {
  HBW_PAGESIZE_4KB = 1,
  /* Not supported: EINVAL. */
  HBW_PAGESIZE_2MB = 2,
  HBW_PAGESIZE_1GB_STRICT = 3,
  HBW_PAGESIZE_1GB = 4,
  HBW_PAGESIZE_MAX_VALUE
} hbw_pagesize_t;

enum {
  HBW_TOUCH_PAGES = 1 << 0 /* touch the pages first; they must be writable */
};

/* 0, or ENODEV where no memory has a higher bandwidth than another. */
int hbw_check_available(void);

hbw_policy_t hbw_get_policy(void);

/* Once, and before anything is allocated by these functions: else EPERM. EINVAL for what is no policy. */
int hbw_set_policy(hbw_policy_t mode);

void *hbw_malloc(size_t size);
void *hbw_calloc(size_t num, size_t size);
void *hbw_realloc(void *ptr, size_t size);
void hbw_free(void *ptr);
size_t hbw_malloc_usable_size(void *ptr);

/* 0, EINVAL for an alignment that is no power of two or that no pointer fits into, ENOMEM. */
int hbw_posix_memalign(void **memptr, size_t alignment, size_t size);
int hbw_posix_memalign_psize(void **memptr, size_t alignment, size_t size, hbw_pagesize_t pagesize);

/* 0 if all pages lie in memory of high bandwidth, -1 if any does not or is not there, EINVAL for wrong arguments, EFAULT if the pages cannot
 * be touched or looked up. */
int hbw_verify_memory_region(void *addr, size_t size, int flags);

#ifdef __cplusplus
}
#endif

#endif
