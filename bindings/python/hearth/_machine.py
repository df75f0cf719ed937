"""The tiers of this machine, and the spaces that are mapped to them."""

import ctypes
import functools
import operator
from dataclasses import dataclass
from typing import List, Optional, Union

from . import _library
from ._errors import ErrorCode, HearthError, check
from ._library import MAX_TIERS, TIER_0, library

_SPACES = {"high-bandwidth": 1, "low-latency": 2, "large-capacity": 3}


@dataclass(frozen=True)
class Tier:
    """A kind of memory of this machine. What is not known is None."""

    name: str  #: as `hearth platform` prints it: dram, hbm, cxl, ...
    capacity: Optional[int]  #: bytes
    free: int  #: bytes free when it was asked for, as the kernel says
    latency_ns: Optional[float]  #: idle read latency, nanoseconds
    read_bandwidth: Optional[float]  #: bytes a second, of all its nodes
    write_bandwidth: Optional[float]  #: the same
    nodes: List[int]  #: NUMA nodes


def tiers() -> List[Tier]:
    """The tiers of this machine, fastest first. Errors: HearthError (PLATFORM) if its memories could not be found."""
    found, count = (_library.Tier * MAX_TIERS)(), ctypes.c_size_t()
    check(library.hearth_tiers(found, MAX_TIERS, ctypes.byref(count)))
    return [_tier(tier) for tier in found[: count.value]]


def _tier(tier: _library.Tier) -> Tier:
    mask = tier.nodes[0] | tier.nodes[1] << 64
    return Tier(
        name=tier.name.decode(errors="replace"),
        capacity=tier.capacity or None,
        free=tier.free,
        latency_ns=tier.latency or None,
        read_bandwidth=tier.read_bandwidth or None,
        write_bandwidth=tier.write_bandwidth or None,
        nodes=[node for node in range(128) if mask >> node & 1],
    )


@functools.cache
def tier_names() -> List[str]:
    """Names of the tiers, which stay the same as long as the process lives."""
    return [tier.name for tier in tiers()]


def space_number(space: Union[str, int]) -> int:
    """The library's number of a space. Errors: HearthError (TIER) for what is neither a space nor can be a tier."""
    if isinstance(space, str):
        if space in _SPACES:
            return _SPACES[space]
        if space in tier_names():
            return TIER_0 + tier_names().index(space)
        known = ", ".join([*_SPACES, *tier_names()])
        raise HearthError(ErrorCode.TIER, f"{space!r} is none of {known}")
    index = operator.index(space)
    if not 0 <= index < MAX_TIERS:
        raise HearthError(ErrorCode.TIER, f"index {index}")
    return TIER_0 + index


def tier_of_space(space: Union[str, int]) -> int:
    """Index in `tiers()` of the tier that a space is on this machine.

    space: "high-bandwidth", "low-latency", "large-capacity", or a tier's name or index. Errors: HearthError (TIER, PLATFORM).
    """
    index = library.hearth_tier_of_space(space_number(space))
    check(max(0, -index), f"space {space!r}")
    return index
