#!/usr/bin/env bash
# A debugger stops at a line, looks at a variable, and goes on to the end.
gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set confirm off' -ex 'break main' -ex run -ex 'info breakpoints' -ex 'delete' -ex continue \
  --args "$PROGRAMS/phases" --work 100 2>&1 | grep -E '^Breakpoint|already hit|exited|received signal|rounds|^[a-z]+ [0-9]+$' | sed 's/0x[0-9a-f]*//g; s/process [0-9]*/process/g'
