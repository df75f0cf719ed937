/* suite_begin and suite_end for Fortran. */
#include "suite.h"

void suite_region_begins(void) { suite_begin(); }
void suite_region_ends(void) { suite_end(); }
