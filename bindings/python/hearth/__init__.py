"""Hearth for Python: say in code where data belongs, see where it is, read profiles and plans.

    import hearth, numpy

    with hearth.traits(space="large-capacity"):
        archive = numpy.zeros((4096, 4096))
    print(hearth.residency(archive))

It needs libhearth_api.so (environment variable HEARTH_API_LIBRARY, beside this package, in the folder `lib` that it is
installed below, or on the loader's search path).
NumPy is needed by `traits` and `empty` only, pandas by `read_profile` and `read_plan`. All sizes are bytes. What the library
refuses is a `HearthError`; a word or number that no trait can have is a `ValueError`.
"""

from ._errors import ErrorCode, HearthError
from ._machine import Tier, tier_of_space, tiers
from ._marks import loop, phase, phase_uses
from ._memory import Residency, migrate, name, residency, update
from ._numpy import empty, traits
from ._plan import read_plan
from ._profile import Profile, read_profile

__all__ = [
    "ErrorCode",
    "HearthError",
    "Profile",
    "Residency",
    "Tier",
    "empty",
    "loop",
    "migrate",
    "name",
    "phase",
    "phase_uses",
    "read_plan",
    "read_profile",
    "residency",
    "tier_of_space",
    "tiers",
    "traits",
    "update",
]
