// Loads memkind as OpenMP's libraries do, looks up what they look up, and calls it as they do: GNU's (GCC 13 and later) asks for libmemkind.so.0 and needs
// all five functions, LLVM's for libmemkind.so. A kind is what the variable of its name points to; one that is not available is as if it were not
// there. Tells which there are.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *kinds[] = {"HBW_INTERLEAVE", "HBW_PREFERRED", "DAX_KMEM_ALL", "DAX_KMEM", "INTERLEAVE", "DEFAULT",
                              "HBW", "HUGETLB", "HBW_HUGETLB", "HBW_PREFERRED_HUGETLB", "DAX_KMEM_PREFERRED"};

static int load(const char *library) {
  void *handle = dlopen(library, RTLD_LAZY);
  if (!handle) return printf("%s\n", dlerror()), 1;
  void *(*allocate)(void *, size_t) = (void *(*)(void *, size_t))dlsym(handle, "memkind_malloc");
  void *(*zeroes)(void *, size_t, size_t) = (void *(*)(void *, size_t, size_t))dlsym(handle, "memkind_calloc");
  void *(*resize)(void *, void *, size_t) = (void *(*)(void *, void *, size_t))dlsym(handle, "memkind_realloc");
  void (*release)(void *, void *) = (void (*)(void *, void *))dlsym(handle, "memkind_free");
  int (*check)(void *) = (int (*)(void *))dlsym(handle, "memkind_check_available");
  if (!allocate || !zeroes || !resize || !release || !check) return printf("%s lacks functions\n", library), 1;
  char *kept = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char name[64];
    snprintf(name, sizeof name, "MEMKIND_%s", kinds[i]);
    void **kind = (void **)dlsym(handle, name);
    if (!kind) return printf("%s lacks %s\n", library, name), 1;
    if (check(*kind)) continue;
    char *p = allocate(*kind, 300000), *q = zeroes(*kind, 1000, 100);
    if (!p || !q || q[99999]) return printf("%s: no memory\n", name), 1;
    memset(p, 5, 300000);
    p = resize(*kind, p, 900000);
    if (!p || p[299999] != 5) return printf("%s: lost\n", name), 1;
    release(*kind, q);
    printf("%s: %s\n", library, kinds[i]);
    if (kept) release(*kind, kept);
    kept = p;
  }
  // LLVM's closes it before the program has ended, which may still use its memory.
  dlclose(handle);
  return kept[299999] - 5;
}

int main(void) { return load("libmemkind.so.0") || load("libmemkind.so"); }
