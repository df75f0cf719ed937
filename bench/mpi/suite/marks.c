/* ranks_begin and ranks_end for Fortran. */
#include "ranks.h"

void ranks_region_begins(int this_rank) {
    rank = this_rank;
    ranks_begin();
}

void ranks_region_ends(void) { ranks_end(); }
