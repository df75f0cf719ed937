/* Two allocations whose positions have one number, for tests of how that is told: a number has 31 bits, so among some 50,000 names there are two that will do.
   Nothing that is annotated calls them by name, so nothing else tells their objects apart. */
#include <stdio.h>
#include <stdlib.h>

static char *kept[2];

static void heat_horin(void) {
    kept[0] =
    malloc(300 << 10);
}

static void mesh_kihem(void) {
    kept[1] =
    malloc(500 << 10);
}

int main(void) {
    void (*volatile fill[])(void) = {heat_horin, mesh_kihem};
    for (int i = 0; i < 2; i++) fill[i]();
    if (!kept[0] || !kept[1]) return 1;
    kept[0][9] = 'a', kept[1][9] = 'b';
    printf("%c%c\n", kept[0][9], kept[1][9]);
    return 0;
}
