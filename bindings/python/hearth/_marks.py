"""Marks of what the program is doing, for `hearth record` and for plans with phases."""

import contextlib
from typing import Iterator

from ._errors import check
from ._library import library
from ._memory import bounds
from ._text import text


def phase(name: str) -> None:
    """A phase of the program begins. It counts in the program's first thread only, and does nothing without a recorder or plan.

    name: 1 to 200 bytes of UTF-8. Errors: HearthError (ARGUMENT) for another length, ValueError for a NUL in it.
    """
    check(library.hearth_phase(text(name)))


def phase_uses(name: str, array_or_buffer: object) -> None:
    """The phase of this name uses an array, which NumPy has allocated itself. To say it once is enough.

    For the name and errors see `phase`; an empty array is of no phase.
    """
    encoded = text(name)
    with bounds(array_or_buffer) as (start, size):
        if size:
            check(library.hearth_phase_uses(encoded, start))


@contextlib.contextmanager
def loop(name: str) -> Iterator[None]:
    """The block is the loop that the run is spent in: `with hearth.loop("time steps"): ...`.

    For its name, its thread and errors see `phase`.
    """
    check(library.hearth_loop_begin(text(name)))
    try:
        yield
    finally:
        check(library.hearth_loop_end())
