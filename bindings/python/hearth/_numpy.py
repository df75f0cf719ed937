"""NumPy arrays with traits: NumPy's allocation handler (NEP 49), with the library's native functions behind it.

The handler is set through NumPy's table of C functions, so that no compiler is needed, and no Python runs within an
allocation: arrays are freed without the interpreter's lock, and after its end.
"""

import contextlib
import ctypes
import functools
from ctypes import PYFUNCTYPE, c_char, c_char_p, c_size_t, c_uint, c_uint8, c_void_p, py_object
from typing import ContextManager, Iterator, NamedTuple, Optional, Union

from ._library import Trait, library
from ._optional import need
from ._traits import Pairs, array, pairs

# Places in NumPy's table, which never change; and the first version of it with handlers, that of NumPy 1.22.
_GET_FEATURE_VERSION, _SET_HANDLER = 211, 304
_HANDLERS_SINCE = 0xF
_CAPSULE = b"mem_handler"
_MOST_TRAITS = 12

_capsule_new = PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_capsule_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_keep = PYFUNCTYPE(None, py_object)(("Py_IncRef", ctypes.pythonapi))


class _Context(ctypes.Structure):
    """What the library's handler functions get."""

    _fields_ = [("count", c_size_t), ("traits", ctypes.POINTER(Trait))]


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`, and behind it all that it points to."""

    _fields_ = [
        ("name", c_char * 127),
        ("version", c_uint8),
        ("context", c_void_p),
        ("malloc", c_void_p),
        ("calloc", c_void_p),
        ("realloc", c_void_p),
        ("free", c_void_p),
        ("own_context", _Context),
        ("own_traits", Trait * _MOST_TRAITS),
        ("own_capsule", c_char * (len(_CAPSULE) + 1)),
    ]


class _Numpy(NamedTuple):
    module: object
    set_handler: object


@functools.cache
def _numpy() -> _Numpy:
    remedy = "pip install 'numpy>=1.22'"
    numpy = need("numpy", "hearth.traits and hearth.empty need", remedy)
    core = "numpy.core" if numpy.__version__.startswith("1.") else "numpy._core"
    internals = need(f"{core}._multiarray_umath", "hearth.traits and hearth.empty need", remedy)
    table = ctypes.cast(_capsule_pointer(internals._ARRAY_API, None), ctypes.POINTER(c_void_p))
    if PYFUNCTYPE(c_uint)(table[_GET_FEATURE_VERSION])() < _HANDLERS_SINCE:
        raise ImportError(
            f"hearth.traits and hearth.empty need NumPy 1.22 or newer, and this is {numpy.__version__}: {remedy}"
        )
    return _Numpy(numpy, PYFUNCTYPE(py_object, py_object)(table[_SET_HANDLER]))


@functools.cache
def _handler(encoded: Pairs) -> object:
    """The capsule of the handler for these traits."""

    def address(name: str) -> Optional[int]:
        return ctypes.cast(getattr(library, f"hearth_handler_{name}"), c_void_p).value

    handler = _Handler(name=b"hearth", version=1, own_capsule=_CAPSULE)
    for name in ("malloc", "calloc", "realloc", "free"):
        setattr(handler, name, address(name))
    traits = array(encoded)
    handler.own_traits[: len(traits)] = list(traits)
    start = ctypes.addressof(handler)
    handler.own_context.count = len(traits)
    handler.own_context.traits = ctypes.cast(start + _Handler.own_traits.offset, ctypes.POINTER(Trait))
    handler.context = start + _Handler.own_context.offset
    # Arrays may be freed after this module is gone.
    _keep(handler)
    return _capsule_new(start, start + _Handler.own_capsule.offset, None)


@contextlib.contextmanager
def _governed(handler: object) -> Iterator[None]:
    set_handler = _numpy().set_handler
    before = set_handler(handler)
    try:
        yield
    finally:
        set_handler(before)


def traits(
    *,
    space: Union[str, int, None] = None,
    required: bool = False,
    pattern: Optional[str] = None,
    stride: Optional[int] = None,
    frequency: Optional[float] = None,
    mode: Optional[str] = None,
    origin: Optional[str] = None,
    importance: Optional[int] = None,
    alignment: Optional[int] = None,
    partition: Optional[str] = None,
    weight: Optional[int] = None,
    rest: Union[str, int, None] = None,
) -> ContextManager[None]:
    """The data of NumPy arrays that are made inside the block has these traits.

        with hearth.traits(space="low-latency", pattern="random"):
            table = numpy.zeros(1_000_000)

    Blocks nest: the innermost counts alone. Each call is for one block, or, as a decorator, for all calls of a function. A
    block counts in its own thread (asyncio: task) only, as NumPy's handlers do: a thread that is started inside opens one of
    its own. Arrays may live on after the block; `resize` keeps their traits. What was said with one set of traits is kept as
    long as the process lives (some 400 bytes).

    space: "high-bandwidth", "low-latency", "large-capacity", or a tier's name or index. required: there or nowhere (NumPy then
    raises MemoryError); else it is preferred, and slower tiers are taken first if it is full.
    pattern: "linear", "strided" or "random"; stride: bytes, only with "strided". Without a space, what is "random" goes to low
    latency, all else with a pattern to high bandwidth.
    frequency: accesses a second, for all of an array. mode: "read-only", "write-only", "read-write". origin: "one-thread",
    "many-threads". importance: any unit; what has more is moved earlier by `migrate`.
    alignment: bytes, a power of two up to 1 GiB. partition: "whole", "split" (the first bytes in the space, the others in the
    rest's) or "interleave" (by turns), the last two only with a space; weight: percent in the space, 1 to 99 (50 if not said);
    rest: the space of what is not there ("large-capacity" if not said).

    Errors: HearthError for traits that contradict each other (CONFLICT), values out of range (TRAIT) or a tier that is not
    here (TIER); ValueError for unknown words; ImportError without NumPy 1.22 or newer.
    """
    _numpy()
    return _governed(_handler(pairs(**locals())))


def empty(shape, dtype=float, **traits_of_it):
    """A NumPy array of this shape and dtype, not initialised, with the traits that `hearth.traits` takes.

    Errors: as `hearth.traits`; MemoryError if there is no memory, or a required space has no room.
    """
    with traits(**traits_of_it):
        return _numpy().module.empty(shape, dtype)
