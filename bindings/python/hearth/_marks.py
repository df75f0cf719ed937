"""Marks of what the program is doing, for `hearth record` and for plans with phases."""

import contextlib
from typing import Iterator

from ._errors import check
from ._library import library
from ._text import text


def phase(name: str) -> None:
    """A phase of the program begins. It counts in the program's first thread only, and does nothing without a recorder or plan.

    name: 1 to 200 bytes of UTF-8. Errors: HearthError (ARGUMENT) for another length, ValueError for a NUL in it.
    """
    check(library.hearth_phase(text(name)))


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
