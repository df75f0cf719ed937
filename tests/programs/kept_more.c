/* Where the functions of kept.h are. */
#include "kept.h"

extern inline void *keep(size_t bytes);
extern inline void *make(size_t bytes);
