/* Binary trees: hardly anything but small allocations, through a function of its own. trees [DEPTH] */
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *left, *right;
};

static struct node *new_node(struct node *left, struct node *right) {
    struct node *n = malloc(sizeof *n);
    n->left = left;
    n->right = right;
    return n;
}

static struct node *grow(int depth) { return depth ? new_node(grow(depth - 1), grow(depth - 1)) : new_node(0, 0); }

static long fell(struct node *n) {
    long count = n ? 1 + fell(n->left) + fell(n->right) : 0;
    free(n);
    return count;
}

int main(int argc, char **argv) {
    int depth = argc > 1 ? atoi(argv[1]) : 16;
    long nodes = 0;
    for (int turn = 0; turn < 40; turn++) nodes += fell(grow(depth));
    printf("%ld\n", nodes);
    return 0;
}
