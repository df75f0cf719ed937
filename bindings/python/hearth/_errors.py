"""What the library refuses, as an exception."""

import ctypes
import enum
import os
from typing import Optional

from ._library import library


class ErrorCode(enum.IntEnum):
    """Why the library refused (`hearth_error` in hearth.h)."""

    SIZE = 1
    TRAIT = 2
    CONFLICT = 3
    ROOM = 4
    TIER = 5
    FOREIGN = 6
    HANDLE = 7
    PLATFORM = 8
    KERNEL = 9
    STRATEGY = 10
    SMALL = 11
    ARGUMENT = 12


class HearthError(OSError):
    """The library refused. Its text says what is wrong and how to mend it.

    An `OSError`, as it is about this machine, its kernel or this process's memory. `code` is the number (compare it with
    `ErrorCode`), `detail` what was refused, if that says more; `errno` is set with `ErrorCode.KERNEL` and else None.
    """

    def __init__(self, code: int, detail: str = "", errno: Optional[int] = None):
        super().__init__()
        # All that pickle needs to make it anew, in another process of a pool.
        self.args = (code, detail, errno)
        self.code, self.detail, self.errno = code, detail, errno

    def __str__(self) -> str:
        text = library.hearth_error_text(self.code).decode()
        return f"{text} ({self.detail})" if self.detail else text


def check(code: int, detail: str = "") -> None:
    """Raises HearthError unless the code is 0. To be called right after the library was, while errno is that call's."""
    if code == ErrorCode.KERNEL:
        errno = ctypes.get_errno()
        said = os.strerror(errno)
        raise HearthError(code, f"{detail}: {said}" if detail else said, errno)
    if code:
        raise HearthError(code, detail)
