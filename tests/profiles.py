"""Sums of the tables that SQL stages write: a stage with another result for these fleets changes a line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from gpucost import engine

#: The table that a stage writes, from its header.
_WRITES = re.compile(r"^-- writes: (\w+)", re.MULTILINE)
_WHOLE = re.compile("BOOLEAN|TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|UBIGINT|UINTEGER|DECIMAL")
#: Counted only: ids that link tables, moments of the test, and texts, which have their own tests.
_COUNTED = re.compile(r"(_id|_ids|_at|_at_ms|_file|fingerprint|^message|^fix)$")
#: Stages that write current prices.
_CATALOG = "gpucost/catalog.sql"


@contextmanager
def profiled_stages() -> Iterator[dict[str, list[str]]]:
    """Yield the results of stages during the block, by stage and table, a line per run."""
    own, found = engine._measured, defaultdict[str, list[str]](list)

    def measured(con: Any, statements: str, params: Any, cost: engine.StageCost, filled: Any) -> Any:
        result = own(con, statements, params, cost, filled)
        written = _WRITES.search(statements)
        stage = next(name for name, one in (engine._costs or {}).items() if one is cost)
        if (
            written
            and stage != _CATALOG
            and con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [written[1]]).fetchone()
        ):
            found[f"{stage} {written[1]}"].append(profile(con, written[1]))
        return result

    with pytest.MonkeyPatch.context() as patch, engine.profiled():
        patch.setattr(engine, "_measured", measured)
        yield found


def profile(con: Any, table: str) -> str:
    """Return the row count of a table and the sum of each column: of numbers, or of digests of other values."""
    sums = {}
    for name, kind, *_ in con.execute(f"DESCRIBE {table}").fetchall():
        if _COUNTED.search(name):
            sums[name] = f'count("{name}")'
        elif _WHOLE.match(kind):
            sums[name] = f'sum("{name}"::DECIMAL(38, 9))'
        elif kind in ("DOUBLE", "FLOAT"):
            sums[name] = f'sum(round("{name}", 6)::DECIMAL(38, 6))'
        else:
            sums[name] = f'sum(md5_number_lower("{name}"::VARCHAR) % 1000)'
    ((rows, *values),) = con.execute(
        f"SELECT count(*), {', '.join(sums.values()) or 'NULL'} FROM {table}"  # noqa: S608
    ).fetchall()
    return " ".join(
        [f"rows={rows}", *(f"{name}={_short(value)}" for name, value in zip(sums, values, strict=False))]
    )


def _short(value: Any) -> str:
    if isinstance(value, Decimal):
        value = value.normalize() + 0
        return f"{value:f}"
    return "-" if value is None else str(value)


def listed(found: dict[str, list[str]]) -> str:
    """Return the profiles in the format of goldens."""
    return "".join(f"{name}\n    {line}\n" for name, lines in found.items() for line in lines)
