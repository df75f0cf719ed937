/* Functions of which a compiler that optimises has the body here as well, and else only where kept_more.c asks for it. */
#include <stdlib.h>

inline void *keep(size_t bytes) { return malloc(bytes); }
inline void *make(size_t bytes) { return malloc(bytes); }
