"""Profiles, as `hearth record` writes them (docs/profile.md), as pandas DataFrames."""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import List

from ._optional import need

_APPLICATION = 0x48727468
_NEWEST = 11
# SQLite has no unsigned numbers: from 2**63 on these read as negative ones.
_UNSIGNED = ("addr", "ip", "page", "offset")

_FUNCTION = """
    (SELECT {column} FROM frame JOIN symbol ON symbol.module = frame.module AND symbol.offset = frame.offset AND level = 0
     WHERE frame.site = site.id AND position = 0)"""
_LIVES = "SELECT site, 1 AS n, size AS bytes, size AS largest FROM object"
_CHURN = " UNION ALL SELECT site, objects, bytes, largest FROM churn"
_SITES = """
    WITH total AS (SELECT site, sum(n) AS objects, sum(bytes) AS bytes, max(largest) AS largest FROM ({lives}) GROUP BY site)
    SELECT site.*, {function} AS function, {file} AS file, {line} AS line, coalesce(objects, 0) AS objects,
           coalesce(bytes, 0) AS bytes, coalesce(largest, 0) AS largest, load_misses, store_misses, pattern, stride, samples
    FROM site LEFT JOIN total ON total.site = site.id LEFT JOIN estimate ON estimate.site = site.id
    ORDER BY coalesce(load_misses + store_misses, 0) DESC, bytes DESC, site.id"""


def read_profile(path) -> "Profile":
    """Opens the profile at this path. Its tables are read when they are asked for.

    Errors: FileNotFoundError; ValueError for a file that is no profile, or one of a newer Hearth; ImportError without pandas.
    """
    return Profile(path)


class Profile:
    """A profile. Sizes are bytes, times nanoseconds since the start of the run, columns those of docs/profile.md.

    What is not known is missing (NaN, NA or None). Each property and call reads the file anew.
    """

    def __init__(self, path):
        self._pandas = need("pandas", "hearth.read_profile needs", "pip install pandas, or hearth-memory[pandas]")
        self.path = os.fspath(path)
        os.stat(self.path)
        with self._open() as database:
            try:
                (application,) = database.execute("PRAGMA application_id").fetchone()
                (self.version,) = database.execute("PRAGMA user_version").fetchone()
            except sqlite3.DatabaseError as error:
                raise ValueError(f"{self.path} is no profile of Hearth's: {error}") from None
        if application != _APPLICATION:
            raise ValueError(f"{self.path} is no profile of Hearth's: it is another program's database")
        if self.version > _NEWEST:
            raise ValueError(
                f"{self.path} has version {self.version} and this package reads up to {_NEWEST}: install a newer one"
            )

    def __repr__(self) -> str:
        return f"<hearth.Profile {self.path}>"

    @property
    def tables(self) -> List[str]:
        """Names of all tables of the file."""
        with self._open() as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            return sorted(name for (name,) in names)

    def table(self, name: str):
        """A table of the file, as docs/profile.md describes it. Errors: ValueError if this file has none of this name."""
        self._has(name)
        return self._query(f'SELECT * FROM "{name}"')

    @property
    def sites(self):
        """A row for each site, most misses first.

        The table's columns (`id` is the number that other tables have as `site`); function, file and line of the innermost
        frame; number of its objects, sum of their bytes, the largest; and its estimate (without samples: missing).
        """
        lives = _LIVES + (_CHURN if "churn" in self.tables else "")
        columns = {column: _FUNCTION.format(column=column) for column in ("function", "file", "line")}
        return self._query(_SITES.format(lives=lives, **columns), "stack", "line", "stride", "samples")

    @property
    def objects(self):
        """A row for each object that has one: the table's columns, and its site's `site_name`. Others: `table("churn")`."""
        objects = (
            "SELECT object.*, site.name AS site_name FROM object JOIN site ON site.id = object.site ORDER BY object.id"
        )
        return self._query(objects, "free_ns")

    @property
    def frames(self):
        """The call stacks: a row for each site, frame (`position`) and function inlined there (`level`), innermost first.

        Of frames without symbols level, function, file and line are missing.
        """
        return self._query(
            "SELECT site, position, path AS module, frame.offset, level, function, file, line FROM frame "
            "LEFT JOIN module ON module.id = frame.module "
            "LEFT JOIN symbol ON symbol.module = frame.module AND symbol.offset = frame.offset "
            "ORDER BY site, position, level",
            "level",
            "line",
        )

    @property
    def regions(self):
        """Beginnings of parallel regions, and the program's marks (`hearth.phase`, `hearth.loop`), in their order.

        The table's columns, and as `function` the region's function or the mark's name. Errors: ValueError before version 9.
        """
        self._has("region")
        function = _FUNCTION.format(column="function")
        return self._query(
            f"SELECT region.*, {function} AS function FROM region JOIN site ON site.id = region.site ORDER BY start_ns"
        )

    @property
    def residency(self):
        """Readings of where the pages of each site were."""
        return self.table("residency")

    @property
    def heat(self):
        """Misses of each site over time."""
        return self.table("heat")

    @property
    def losses(self):
        """What was not recorded, and why."""
        return self.table("loss")

    @contextlib.contextmanager
    def _open(self):
        # Writable if it may be: what a killed recorder left is put in order by who opens it first.
        uri = Path(self.path).resolve().as_uri() + "?mode=rw"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            yield database

    def _has(self, table: str) -> None:
        if table not in self.tables:
            raise ValueError(
                f"{self.path} (version {self.version}) has no table {table!r}; it has {', '.join(self.tables)}"
            )

    def _query(self, sql: str, *integers: str):
        """The rows of a query; `integers` may be missing in some."""
        with self._open() as database:
            found = self._pandas.read_sql_query(sql, database)
        kinds = {column: "uint64" for column in _UNSIGNED if column in found and found[column].dtype == "int64"}
        kinds.update({column: "Int64" for column in integers if column in found})
        return found.astype(kinds)
