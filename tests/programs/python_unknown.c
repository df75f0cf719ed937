/* Has the symbols of a Python of a version to come, of which nothing may be called or believed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const unsigned long Py_Version = 0x036300f0;
long _PyRuntime[8], PyCode_Type[8], PyUnicode_Type[8];

void *PyGILState_GetThisThreadState(void) { abort(); }
void *PyThreadState_GetUnchecked(void) { abort(); }

int main(void) {
    char *volatile kept = malloc(1 << 20);
    memset(kept, 7, 1 << 20);
    printf("%d\n", kept[1 << 19]);
    free(kept);
    return 0;
}
