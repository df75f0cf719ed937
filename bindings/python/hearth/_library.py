"""libhearth_api.so: where it is, and what its functions take and give (`bindings/c/hearth.h`)."""

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Iterator

SONAME = "libhearth_api.so.0"
MAX_TIERS = 8
TIER_0 = 16


class Trait(ctypes.Structure):
    """`hearth_trait`."""

    _fields_ = [("key", c_int), ("value", c_uint64)]


class Tier(ctypes.Structure):
    """`hearth_tier`."""

    _fields_ = [
        ("name", c_char * 32),
        ("capacity", c_uint64),
        ("free", c_uint64),
        ("latency", c_double),
        ("read_bandwidth", c_double),
        ("write_bandwidth", c_double),
        ("nodes", c_uint64 * 2),
    ]


class Where(ctypes.Structure):
    """`hearth_where`."""

    _fields_ = [("in_tier", c_uint64 * MAX_TIERS), ("elsewhere", c_uint64), ("absent", c_uint64)]


# The handlers are called by NumPy; only their addresses are needed here.
_FUNCTIONS = {
    "hearth_error_text": (c_char_p, [c_int]),
    "hearth_tiers": (c_int, [POINTER(Tier), c_size_t, POINTER(c_size_t)]),
    "hearth_tier_of_space": (c_int, [c_int]),
    "hearth_declare": (c_uint64, [POINTER(c_void_p), c_size_t, POINTER(c_int), c_size_t, POINTER(Trait)]),
    "hearth_withdraw": (c_int, [c_uint64]),
    "hearth_name": (c_int, [c_void_p, c_char_p]),
    "hearth_update": (c_int, [c_void_p, c_size_t, POINTER(Trait)]),
    "hearth_migrate": (c_int, [POINTER(c_size_t)]),
    "hearth_residency": (c_int, [c_void_p, c_size_t, POINTER(Where)]),
    "hearth_phase": (c_int, [c_char_p]),
    "hearth_phase_uses": (c_int, [c_char_p, c_void_p]),
    "hearth_loop_begin": (c_int, [c_char_p]),
    "hearth_loop_end": (c_int, []),
    "hearth_handler_malloc": (c_void_p, [c_void_p, c_size_t]),
    "hearth_handler_calloc": (c_void_p, [c_void_p, c_size_t, c_size_t]),
    "hearth_handler_realloc": (c_void_p, [c_void_p, c_void_p, c_size_t]),
    "hearth_handler_free": (None, [c_void_p, c_void_p, c_size_t]),
}


def _find() -> str:
    named = os.environ.get("HEARTH_API_LIBRARY")
    if named:
        return named
    found = (folder / name for folder in _folders() for name in (SONAME, "libhearth_api.so"))
    return next((str(path) for path in found if path.exists()), SONAME)


def _folders() -> Iterator[Path]:
    package = Path(__file__).resolve().parent
    yield package
    yield package.parent
    # Installed by pip, in PREFIX/lib/python3.11/site-packages, where Hearth may be in PREFIX/lib.
    if package.parent.name in ("site-packages", "dist-packages"):
        yield package.parent.parent.parent


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path, use_errno=True)
    except OSError as error:
        raise ImportError(
            f"hearth cannot load its library ({error}): install Hearth, "
            "or set HEARTH_API_LIBRARY to the path of libhearth_api.so"
        ) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"{path} has no function {name}: it is of another version of Hearth; install the one that this package "
                "came with, or set HEARTH_API_LIBRARY to the path of its libhearth_api.so"
            ) from None
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
