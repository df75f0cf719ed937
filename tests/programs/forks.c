/* Two objects, each from a function of its own. A child of a fork writes into both, and must not be seen in the parent;
 * the child also allocates. With an argument, the program then forks no more but keeps the objects for that many ms.
 *
 *   forks [MILLISECONDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 24 << 20 };

__attribute__((noinline)) static char *hot(void) {
    char *p = malloc(BYTES);
    if (p) memset(p, 7, BYTES);
    return p;
}

__attribute__((noinline)) static char *cold(void) {
    char *p = malloc(BYTES);
    if (p) memset(p, 9, BYTES);
    return p;
}

static int all(const char *p, char value) {
    for (size_t i = 0; i < BYTES; i++)
        if (p[i] != value) return 0;
    return 1;
}

int main(int argc, char **argv) {
    char *a = hot(), *b = cold();
    if (!a || !b) return 3;
    if (argc > 1) {
        usleep(1000 * atoi(argv[1]));
        return puts(all(a, 7) && all(b, 9) ? "kept" : "lost") < 0;
    }
    for (int turn = 0; turn < 4; turn++) {
        pid_t child = fork();
        if (child < 0) return 3;
        if (child == 0) {
            if (!all(a, 7) || !all(b, 9)) _exit(1);
            memset(a, 1, BYTES);
            memset(b, 2, BYTES);
            char *own = malloc(1 << 20);
            if (!own) _exit(2);
            memset(own, 3, 1 << 20);
            _exit(all(a, 1) && all(b, 2) && own[12345] == 3 ? 0 : 1);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) return puts("child failed"), 4;
    }
    return puts(all(a, 7) && all(b, 9) ? "kept" : "lost") < 0;
}
