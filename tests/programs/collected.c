/* A program whose garbage collector (Boehm's, incremental) takes write access away from its pages and finds out by faults
 * which of them were written, beside a large busy object of malloc. Built by the test that runs it: it needs libgc. */
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    unsigned long v[14];
};
enum { HEAP = 24 << 20, TABLE = 4096 };

int main(void) {
    GC_INIT();
    GC_enable_incremental();
    unsigned char *heap = malloc(HEAP);
    if (!heap) return 1;
    memset(heap, 1, HEAP);
    struct node **table = GC_MALLOC(TABLE * sizeof *table);
    unsigned long sum = 0;
    for (unsigned long i = 0; i < 1500000; i++) {
        struct node *n = GC_MALLOC(sizeof *n);
        n->v[0] = i, n->next = i % 64 ? table[i % TABLE] : NULL;
        table[i * 2654435761u % TABLE] = n;
        heap[i * 40503u % HEAP]++;
        if (i % 1000 == 0)
            for (struct node *m = table[i % TABLE]; m; m = m->next) sum += m->v[0];
    }
    printf("%lu\n", sum);
    free(heap);
    return 0;
}
