/* memkind.h - memkind's functions over Hearth's tiers.
 *
 *     #include <memkind.h>              cc app.c $(pkg-config --cflags --libs hearth-memkind)
 *
 *     double *table = memkind_malloc(MEMKIND_HBW_PREFERRED, n * sizeof *table);
 *     ...
 *     memkind_free(MEMKIND_HBW_PREFERRED, table);
 *
 * Names and numbers are those of memkind 1.14; a program that was compiled with its header works as well. Which memory a kind is on a
 * machine, and what is not supported, stands in docs/memkind.md.
 *
 * Rules that hold for all functions:
 *   - A size of 0 gives NULL. What cannot be had is NULL with errno ENOMEM; what is no kind, NULL with errno EINVAL.
 *   - Any thread may call any function at any time, but, as with malloc, no signal handler.
 *   - What is freed, resized or looked at need not be of the kind that is said: it may be of any, malloc's, or NULL's.
 *   - Functions that return int return one of the errors below, but memkind_posix_memalign: EINVAL or ENOMEM.
 */
#ifndef MEMKIND_H
#define MEMKIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---------------------------------------------------------------------------------------------------------- */

enum {
  MEMKIND_SUCCESS = 0,
  MEMKIND_ERROR_UNAVAILABLE = -1, /* this machine has no memory of this kind */
  MEMKIND_ERROR_MBIND = -2,
  MEMKIND_ERROR_MMAP = -3,
  MEMKIND_ERROR_MALLOC = -6,
  MEMKIND_ERROR_ENVIRON = -12, /* a variable MEMKIND_* does not name nodes of one memory */
  MEMKIND_ERROR_INVALID = -13, /* no kind, NULL, or a value that does not exist */
  MEMKIND_ERROR_TOOMANY = -15, /* MEMKIND_MAX_KIND */
  MEMKIND_ERROR_BADOPS = -17,
  MEMKIND_ERROR_HUGETLB = -18,               /* reserved huge pages are not supported */
  MEMKIND_ERROR_MEMTYPE_NOT_AVAILABLE = -20, /* this machine has no memory of this type */
  MEMKIND_ERROR_OPERATION_FAILED = -21,      /* it cannot be done, or is not supported */
  MEMKIND_ERROR_ARENAS_CREATE = -22,
  MEMKIND_ERROR_RUNTIME = -255
};

enum memkind_const {
  MEMKIND_MAX_KIND = 512,
  MEMKIND_ERROR_MESSAGE_SIZE = 128, /* room for any message */
  MEMKIND_PMEM_MIN_SIZE = 16 * 1024 * 1024
};

/* What an error is, in one English sentence of at most size - 1 bytes. */
void memkind_error_message(int error, char *message, size_t size);

/* major * 1000000 + minor * 1000 + patch of the memkind whose functions these are. */
int memkind_get_version(void);

/* ---- Kinds ----------------------------------------------------------------------------------------------------------- */

typedef struct memkind *memkind_t;

extern memkind_t MEMKIND_DEFAULT; /* malloc's */
extern memkind_t MEMKIND_REGULAR; /* memory of the nodes with CPUs */
extern memkind_t MEMKIND_INTERLEAVE; /* by turns in two memories */

/* High bandwidth; but for *_PREFERRED there only, or NULL. */
extern memkind_t MEMKIND_HBW;
extern memkind_t MEMKIND_HBW_ALL;
extern memkind_t MEMKIND_HBW_PREFERRED;
extern memkind_t MEMKIND_HBW_INTERLEAVE;
extern memkind_t MEMKIND_HIGHEST_BANDWIDTH_LOCAL;
extern memkind_t MEMKIND_HIGHEST_BANDWIDTH_LOCAL_PREFERRED;

/* Slower memory of nodes without CPUs: CXL, persistent memory. */
extern memkind_t MEMKIND_DAX_KMEM;
extern memkind_t MEMKIND_DAX_KMEM_ALL;
extern memkind_t MEMKIND_DAX_KMEM_PREFERRED;
extern memkind_t MEMKIND_DAX_KMEM_INTERLEAVE;

extern memkind_t MEMKIND_HIGHEST_CAPACITY;
extern memkind_t MEMKIND_HIGHEST_CAPACITY_PREFERRED;
extern memkind_t MEMKIND_HIGHEST_CAPACITY_LOCAL;
extern memkind_t MEMKIND_HIGHEST_CAPACITY_LOCAL_PREFERRED;

extern memkind_t MEMKIND_LOWEST_LATENCY_LOCAL;
extern memkind_t MEMKIND_LOWEST_LATENCY_LOCAL_PREFERRED;

/* Not supported: never available. */
extern memkind_t MEMKIND_HUGETLB;
extern memkind_t MEMKIND_HBW_HUGETLB;
extern memkind_t MEMKIND_HBW_ALL_HUGETLB;
extern memkind_t MEMKIND_HBW_PREFERRED_HUGETLB;
extern memkind_t MEMKIND_GBTLB;
extern memkind_t MEMKIND_HBW_GBTLB;
extern memkind_t MEMKIND_HBW_PREFERRED_GBTLB;

/* Whether this machine has such memory. */
int memkind_check_available(memkind_t kind);

/* Bytes of it, free or not; -1: there is none, or it is not known. */
ssize_t memkind_get_capacity(memkind_t kind);

/* The kind of what was allocated: MEMKIND_DEFAULT for what is malloc's; NULL for NULL and for what is none of Hearth's any more. */
memkind_t memkind_detect_kind(void *ptr);

/* ---- Allocate -------------------------------------------------------------------------------------------------------- */

void *memkind_malloc(memkind_t kind, size_t size);
void *memkind_calloc(memkind_t kind, size_t num, size_t size);

/* The alignment is a power of two that pointers fit into, up to 1 GiB. *memptr becomes NULL on an error, and for a size of 0. */
int memkind_posix_memalign(memkind_t kind, void **memptr, size_t alignment, size_t size);

/* The object stays of its kind; NULL makes one of `kind`. A size of 0 frees it, and gives NULL. */
void *memkind_realloc(memkind_t kind, void *ptr, size_t size);

void memkind_free(memkind_t kind, void *ptr);

#ifndef MEMKIND_MALLOC_USABLE_SIZE_CONST
#define MEMKIND_MALLOC_USABLE_SIZE_CONST
#endif
size_t memkind_malloc_usable_size(memkind_t kind, MEMKIND_MALLOC_USABLE_SIZE_CONST void *ptr);

/* Always NULL, which means that it was not worth moving. */
void *memkind_defrag_reallocate(memkind_t kind, void *ptr);

/* ---- Kinds of one's own ---------------------------------------------------------------------------------------------- */

typedef enum memkind_memtype_t {
  MEMKIND_MEMTYPE_DEFAULT = 1,
  MEMKIND_MEMTYPE_HIGH_BANDWIDTH = 2
} memkind_memtype_t;

typedef enum memkind_policy_t {
  MEMKIND_POLICY_BIND_LOCAL = 0,
  MEMKIND_POLICY_BIND_ALL = 1,
  MEMKIND_POLICY_PREFERRED_LOCAL = 2,
  MEMKIND_POLICY_INTERLEAVE_LOCAL = 3,
  MEMKIND_POLICY_INTERLEAVE_ALL = 4,
  MEMKIND_POLICY_MAX_VALUE
} memkind_policy_t;

typedef enum memkind_bits_t {
  MEMKIND_MASK_PAGE_SIZE_2MB = 21 /* not supported */
} memkind_bits_t;

/* The default type with PREFERRED_LOCAL; high bandwidth with BIND_LOCAL, BIND_ALL, PREFERRED_LOCAL, INTERLEAVE_ALL; both with
 * INTERLEAVE_ALL. Anything else is MEMKIND_ERROR_INVALID. */
int memkind_create_kind(memkind_memtype_t types, memkind_policy_t policy, memkind_bits_t flags, memkind_t *kind);

/* Ends a kind that was created; its objects stay. Any other is MEMKIND_ERROR_OPERATION_FAILED. */
int memkind_destroy_kind(memkind_t kind);

/* Not supported: kinds on files and on memory of one's own. MEMKIND_ERROR_OPERATION_FAILED, or NULL. */
int memkind_create_fixed(void *addr, size_t size, memkind_t *kind);
int memkind_create_pmem(const char *dir, size_t max_size, memkind_t *kind);
int memkind_check_dax_path(const char *pmem_dir);

typedef enum memkind_mem_usage_policy {
  MEMKIND_MEM_USAGE_POLICY_DEFAULT = 0,
  MEMKIND_MEM_USAGE_POLICY_CONSERVATIVE = 1,
  MEMKIND_MEM_USAGE_POLICY_MAX_VALUE
} memkind_mem_usage_policy;

struct memkind_config;
struct memkind_config *memkind_config_new(void);
void memkind_config_delete(struct memkind_config *cfg);
void memkind_config_set_path(struct memkind_config *cfg, const char *pmem_dir);
void memkind_config_set_size(struct memkind_config *cfg, size_t pmem_size);
void memkind_config_set_memory_usage_policy(struct memkind_config *cfg, memkind_mem_usage_policy policy);
int memkind_create_pmem_with_config(struct memkind_config *cfg, memkind_t *kind);

/* ---- Statistics ------------------------------------------------------------------------------------------------------ */

typedef enum memkind_stat_type {
  MEMKIND_STAT_TYPE_RESIDENT = 0,  /* bytes of the pages that are there */
  MEMKIND_STAT_TYPE_ACTIVE = 1,    /* bytes of all pages with objects in them */
  MEMKIND_STAT_TYPE_ALLOCATED = 2, /* bytes of objects that may be used */
  MEMKIND_STAT_TYPE_MAX_VALUE
} memkind_stat_type;

/* Does nothing: what is counted is counted when it is asked for. */
int memkind_update_cached_stats(void);

/* Of a kind, or of all (NULL). What is malloc's is not counted: MEMKIND_ERROR_OPERATION_FAILED for MEMKIND_DEFAULT. */
int memkind_get_stat(memkind_t kind, memkind_stat_type stat, size_t *value);

typedef enum memkind_stat_print_opt {
  MEMKIND_STAT_PRINT_ALL = 0,
  MEMKIND_STAT_PRINT_JSON_FORMAT = 1 << 0,
  /* These leave out what is not there anyway. */
  MEMKIND_STAT_PRINT_OMIT_GENERAL = 1 << 1,
  MEMKIND_STAT_PRINT_OMIT_MERGED_ARENA = 1 << 2,
  MEMKIND_STAT_PRINT_OMIT_DESTROYED_MERGED_ARENA = 1 << 3,
  MEMKIND_STAT_PRINT_OMIT_PER_ARENA = 1 << 4,
  MEMKIND_STAT_PRINT_OMIT_PER_SIZE_CLASS_BINS = 1 << 5,
  MEMKIND_STAT_PRINT_OMIT_PER_SIZE_CLASS_LARGE = 1 << 6,
  MEMKIND_STAT_PRINT_OMIT_MUTEX = 1 << 7,
  MEMKIND_STAT_PRINT_OMIT_EXTENT = 1 << 8
} memkind_stat_print_opt;

/* One line for each kind that has objects, or JSON; to standard error if write_cb is NULL. */
int memkind_stats_print(void (*write_cb)(void *, const char *), void *cbopaque, memkind_stat_print_opt opts);

/* Does nothing: what is freed goes back to the kernel without threads. */
int memkind_set_bg_threads(bool state);

/* ---- Deprecated by memkind ------------------------------------------------------------------------------------------- */

enum memkind_base_partition {
  MEMKIND_PARTITION_DEFAULT = 0,
  MEMKIND_PARTITION_HBW = 1,
  MEMKIND_PARTITION_HBW_HUGETLB = 2,
  MEMKIND_PARTITION_HBW_PREFERRED = 3,
  MEMKIND_PARTITION_HBW_PREFERRED_HUGETLB = 4,
  MEMKIND_PARTITION_HUGETLB = 5,
  MEMKIND_PARTITION_HBW_GBTLB = 6,
  MEMKIND_PARTITION_HBW_PREFERRED_GBTLB = 7,
  MEMKIND_PARTITION_GBTLB = 8,
  MEMKIND_PARTITION_HBW_INTERLEAVE = 9,
  MEMKIND_PARTITION_INTERLEAVE = 10,
  MEMKIND_PARTITION_REGULAR = 11,
  MEMKIND_PARTITION_HBW_ALL = 12,
  MEMKIND_PARTITION_HBW_ALL_HUGETLB = 13,
  MEMKIND_PARTITION_DAX_KMEM = 14,
  MEMKIND_PARTITION_DAX_KMEM_ALL = 15,
  MEMKIND_PARTITION_DAX_KMEM_PREFERRED = 16,
  MEMKIND_PARTITION_DAX_KMEM_INTERLEAVE = 17,
  MEMKIND_PARTITION_HIGHEST_CAPACITY = 18,
  MEMKIND_PARTITION_HIGHEST_CAPACITY_PREFERRED = 19,
  MEMKIND_PARTITION_HIGHEST_CAPACITY_LOCAL = 20,
  MEMKIND_PARTITION_HIGHEST_CAPACITY_LOCAL_PREFERRED = 21,
  MEMKIND_PARTITION_LOWEST_LATENCY_LOCAL = 22,
  MEMKIND_PARTITION_LOWEST_LATENCY_LOCAL_PREFERRED = 23,
  MEMKIND_PARTITION_HIGHEST_BANDWIDTH_LOCAL = 24,
  MEMKIND_PARTITION_HIGHEST_BANDWIDTH_LOCAL_PREFERRED = 25,
  MEMKIND_NUM_BASE_KIND
};

int memkind_get_kind_by_partition(int partition, memkind_t *kind);

#ifdef __cplusplus
}
#endif

#endif
