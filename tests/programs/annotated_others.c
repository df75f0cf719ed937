/* What is compiled without Hearth's compilers in the test of annotated_paths.c. */
#include <stdlib.h>

char *others(size_t bytes) { return malloc(bytes); }
