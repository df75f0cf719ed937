"""Arrays and buffers as memory: where they are, what they are called, and where they are to go."""

import contextlib
import ctypes
import sys
from ctypes import POINTER, PYFUNCTYPE, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from dataclasses import dataclass
from typing import Dict, Iterator, Sequence, Tuple

from ._errors import check
from ._library import Where, library
from ._machine import tier_names
from ._text import text
from ._traits import array, pairs


class _Buffer(ctypes.Structure):
    """`Py_buffer`."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


# Shape, strides and format, read-only if need be: any buffer that is one stretch of memory has them.
_RECORDS_RO = 0x1C
_get_buffer = PYFUNCTYPE(c_int, py_object, POINTER(_Buffer), c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = PYFUNCTYPE(None, POINTER(_Buffer))(("PyBuffer_Release", ctypes.pythonapi))


@dataclass(frozen=True)
class Residency:
    """Where memory is: bytes, in whole pages."""

    tiers: Dict[str, int]  #: by the name of each tier of this machine
    elsewhere: int  #: in nodes that are of no tier
    absent: int  #: not touched yet, swapped out, or not mapped


def _is_array(thing: object) -> bool:
    # Who has an array has loaded NumPy.
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.ndarray)


@contextlib.contextmanager
def bounds(thing: object) -> Iterator[Tuple[int, int]]:
    """Address and bytes from the first to the last element; they stay while the block lasts."""
    if _is_array(thing):
        # Not every array can be had as a buffer: dates cannot.
        yield _span(thing.ctypes.data, thing.itemsize, thing.shape, thing.strides)
        return
    buffer = _Buffer()
    _get_buffer(thing, ctypes.byref(buffer), _RECORDS_RO)
    try:
        # Those of ctypes have no strides, as they are one stretch.
        if buffer.ndim and buffer.strides:
            yield _span(buffer.buf, buffer.itemsize, buffer.shape[: buffer.ndim], buffer.strides[: buffer.ndim])
        else:
            yield buffer.buf, buffer.len
    finally:
        _release_buffer(ctypes.byref(buffer))


def _span(start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, int]:
    if 0 in shape:
        return start, 0
    reach = [(length - 1) * stride for length, stride in zip(shape, strides)]
    low = sum(way for way in reach if way < 0)
    high = sum(way for way in reach if way > 0)
    return start + low, high - low + itemsize


@contextlib.contextmanager
def _object(thing: object) -> Iterator[int]:
    """Address of the object of Hearth's that something is, or is a view of."""
    while _is_array(thing) and _is_array(thing.base):
        thing = thing.base
    with bounds(thing) as (start, _):
        yield start


def residency(array_or_buffer: object) -> Residency:
    """Where the pages of a NumPy array, or of anything with the buffer protocol, are now, read back from the kernel.

    Of a view the pages from its first to its last byte are looked up, with what lies between; pages count as a whole. What
    has no bytes is nowhere. Errors: TypeError for what is no buffer, HearthError (KERNEL, PLATFORM).
    """
    where = Where()
    with bounds(array_or_buffer) as (start, size):
        if size:
            check(library.hearth_residency(start, size, ctypes.byref(where)))
    return Residency(dict(zip(tier_names(), where.in_tier)), where.elsewhere, where.absent)


def update(array_or_buffer: object, **traits: object) -> None:
    """Replaces the traits of an array that was made inside `hearth.traits` or by `hearth.empty`.

    A view stands for the array whose memory it shows. It moves with the next `migrate`; its alignment stays. traits: those
    of `hearth.traits`. Errors: as there; HearthError with FOREIGN for memory that is not Hearth's, SMALL for an array under a
    page (4096 bytes), which cannot move.
    """
    new = array(pairs(**traits))
    with _object(array_or_buffer) as start:
        check(library.hearth_update(start, len(new), new))


def migrate() -> int:
    """Moves all that was updated since the last time to where it is wanted now; addresses stay.

    Gives the bytes that the kernel has moved. Errors: HearthError (ROOM, KERNEL) of the first object that could not be moved;
    the others were.
    """
    moved = ctypes.c_size_t()
    code = library.hearth_migrate(ctypes.byref(moved))
    check(code, f"{moved.value} bytes were moved")
    return moved.value


def name(array_or_buffer: object, called: str) -> None:
    """Gives an array that Hearth allocated a name (1 to 200 bytes of UTF-8), by which profiles then know it.

    A view stands for the array whose memory it shows. Errors: HearthError with FOREIGN for memory that is not Hearth's, SMALL
    for an array under a page, ARGUMENT for a name too long or empty; ValueError for a NUL in it.
    """
    encoded = text(called)
    with _object(array_or_buffer) as start:
        check(library.hearth_name(start, encoded))
