"""Plans, as `hearth plan` writes them (docs/plan.md), as pandas DataFrames."""

import re
import sys
from pathlib import Path
from typing import Optional, Union

from ._optional import need

_NEWEST = 4
_END = "# end of plan"
_COLUMNS = ["id", "label", "kind", "tier", "parts", "rest", "miss_share", "peak", "resident", "why", "frames"]
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_UNITS.update({"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40})
_UNITS.update({"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12})


def _size(size: Union[int, str, None]) -> Optional[int]:
    if not isinstance(size, str):
        return size
    number = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zA-Z]*)\s*", size)
    if not number or number[2].lower() not in _UNITS:
        raise ValueError(f"{size!r} is not a size: write for example 512MiB, 12GiB or 1.5GB")
    return round(float(number[1]) * _UNITS[number[2].lower()])


def read_plan(path):
    """The sites of the plan at this path, in its order: a pandas DataFrame with the columns of docs/plan.md.

    `tier` is where a site's objects go (with `parts` and `rest` only those parts), `kind` is "allocation", "mapping" or
    "static", `peak` and `resident` are bytes (NA if not known), `frames` is the call stack, innermost first. All else that the
    plan says is in the frame's `attrs`, as there: default_tier, tier and phase (lists of dictionaries), policy, ...

    Errors: FileNotFoundError; ValueError for a plan that is damaged, cut off or of a newer Hearth; ImportError without pandas
    or, before Python 3.11, tomli.
    """
    pandas = need("pandas", "hearth.read_plan needs", "pip install pandas, or hearth-memory[pandas]")
    toml = need("tomllib" if sys.version_info >= (3, 11) else "tomli", "hearth.read_plan needs", "pip install tomli")
    content = Path(path).read_text(encoding="utf-8")
    try:
        plan = toml.loads(content)
    except toml.TOMLDecodeError as error:
        raise ValueError(f"{path} is no plan: {error}") from None
    version = plan.get("version")
    if not isinstance(version, int):
        raise ValueError(f"{path} is no plan: it has no version")
    if version > _NEWEST:
        raise ValueError(f"{path} has version {version} and this package reads up to {_NEWEST}: install a newer one")
    if not content.rstrip().endswith(_END):
        raise ValueError(f"{path} is cut off: its last line is not {_END!r}")
    listed = plan.pop("site", [])
    sites = pandas.DataFrame({column: [site.get(column) for site in listed] for column in _COLUMNS}, dtype=object)
    sites["kind"] = [site.get("kind", "allocation") for site in listed]
    sites["miss_share"] = sites["miss_share"].astype(float)
    for column in ("peak", "resident"):
        sites[column] = pandas.array([_size(site.get(column)) for site in listed], dtype="Int64")
    sites.attrs = plan
    return sites
