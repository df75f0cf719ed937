/* Runs a command and prints how it ended, as its parent sees it: `exit N`, or `signal N` with or without a core dump.
 * Core dumps are allowed, so that a wait status tells whether the kernel wanted to make one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc < 2 || getrlimit(RLIMIT_CORE, &limit)) return 2;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 2;
    if (WIFEXITED(status)) printf("exit %d\n", WEXITSTATUS(status));
    else printf("signal %d%s\n", WTERMSIG(status), WCOREDUMP(status) ? " core" : "");
    return 0;
}
