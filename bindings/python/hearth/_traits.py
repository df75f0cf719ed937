"""Traits: from the words of Python to the pairs of the library, checked by it."""

import ctypes
import functools
import operator
from typing import Dict, Tuple, Union

from ._errors import check
from ._library import Trait, library
from ._machine import space_number

#: (key, value) of each trait, in the order of the keys: the same traits are the same pairs.
Pairs = Tuple[Tuple[int, int], ...]

_WORDS: Dict[str, Dict[str, int]] = {
    "mode": {"read-only": 1, "write-only": 2, "read-write": 3},
    "origin": {"one-thread": 1, "many-threads": 2},
    "pattern": {"linear": 1, "strided": 2, "random": 3},
    "partition": {"whole": 1, "split": 2, "interleave": 3},
}
_REQUIRE, _PREFER = 1, 2
_KEYS = {
    "mode": 3,
    "frequency": 4,
    "origin": 5,
    "pattern": 6,
    "stride": 7,
    "importance": 8,
    "alignment": 9,
    "partition": 10,
    "weight": 11,
    "rest": 12,
}


def pairs(*, space: Union[str, int, None] = None, required: bool = False, **others: object) -> Pairs:
    """The traits of these words (those of `hearth.traits`), None being none. Errors: TypeError, ValueError, HearthError."""
    if required and space is None:
        raise ValueError("required=True says that a space must be had: name it with space=")
    unknown = others.keys() - _KEYS.keys()
    if unknown:
        raise TypeError(
            f"there is no trait {', '.join(sorted(unknown))}; there are space, required, {', '.join(_KEYS)}"
        )
    found = [(_KEYS[trait], _value(trait, value)) for trait, value in others.items() if value is not None]
    if space is not None:
        found.append((_REQUIRE if required else _PREFER, space_number(space)))
    encoded = tuple(sorted(found))
    array(encoded)
    return encoded


def _value(trait: str, value) -> int:
    if trait == "rest":
        return space_number(value)
    if trait in _WORDS:
        if value not in _WORDS[trait]:
            raise ValueError(f"{trait}={value!r}: it is one of {', '.join(_WORDS[trait])}")
        return _WORDS[trait][value]
    number = round(value) if trait == "frequency" else operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{trait}={value!r}: it is a number from 0 to 2**64 - 1")
    return number


@functools.cache
def array(encoded: Pairs) -> ctypes.Array:
    """The pairs as the library takes them. Errors: HearthError (TRAIT, CONFLICT, TIER) for what it would refuse."""
    traits = (Trait * len(encoded))(*encoded)
    # A declaration checks traits as an allocation does, and allocates nothing. In NumPy's malloc all errors are MemoryError.
    where, error = ctypes.c_void_p(), ctypes.c_int()
    declaration = library.hearth_declare(ctypes.byref(where), 1, ctypes.byref(error), len(traits), traits)
    check(error.value)
    check(library.hearth_withdraw(declaration))
    return traits
