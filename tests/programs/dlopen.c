/* Loads and unloads two plug-ins in turns: the second often comes to lie where the first was, so that one address
 * belongs to different functions at different times. Each makes 5 objects a turn.
 *
 *   dlopen [--turns N]   (the plug-ins lie beside the program)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int turns = argc == 3 && !strcmp(argv[1], "--turns") ? atoi(argv[2]) : 40;
    char self[4096], path[8192];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return 1;
    self[n] = 0;
    char *folder = dirname(self);
    unsigned long sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        snprintf(path, sizeof path, "%s/plugin_%c.so", folder, turn % 2 ? 'b' : 'a');
        void *plugin = dlopen(path, turn % 4 < 2 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
        if (!plugin) {
            fprintf(stderr, "dlopen: %s\n", dlerror());
            return 1;
        }
        unsigned (*work)(int);
        *(void **)&work = dlsym(plugin, "work");
        if (!work) return 1;
        sum = sum * 31 + work(5);
        if (dlsym(plugin, "no_such_function") || !dlerror()) return 1;
        if (dlclose(plugin)) return 1;
    }
    if (dlopen("./no-such-plugin.so", RTLD_NOW) || !dlerror()) return 1;
    printf("turns %d sum %lu\n", turns, sum);
    return 0;
}
