"""Made-up nodes for price tests, and their price segments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from gpucost import price
from gpucost.config.model import Config, Prices
from gpucost.periods import MS_PER_HOUR, to_ms
from tests.text_tables import words

HEADER = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start,per,node_selector"
DAY = datetime(2026, 10, 1, tzinfo=UTC)
START = to_ms(DAY)
NODE: dict[str, Any] = {
    **words("""
        cluster=prod node=n1 machine_id=aws:///us-east-1a/i-0abc provider=aws region=us-east-1 zone=us-east-1a
        instance_type=p4d.24xlarge capacity_type=on_demand gpu_model=A100-SXM4-40GB"""),
    "node_id": 1,
    "up_from_ms": START,
    "up_to_ms": START + 24 * MS_PER_HOUR,
    "gpu_count": 8.0,
    "labels": {"label_pool": "train", "label_team": "a"},
}
Segment = tuple[int, float, float, Decimal, str, date | None]


_IDLE: list[duckdb.DuckDBPyConnection] = []


@contextmanager
def empty_store() -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables of a store in memory: migrated once, rolled back after use, discarded after a commit."""
    con = _IDLE.pop() if _IDLE else _migrated()
    con.begin()
    transaction = con.execute("SELECT txid_current()").fetchall()
    yield con
    with suppress(duckdb.Error):
        if con.execute("SELECT txid_current()").fetchall() == transaction:
            con.rollback()
            _IDLE.append(con)


def _migrated() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for migration in sorted((Path(price.__file__).parents[1] / "store" / "migrations").glob("*.sql")):
        con.execute(migration.read_text(encoding="utf-8"))
    return con


def run(
    con: duckdb.DuckDBPyConnection,
    nodes: list[dict[str, Any]],
    lines: list[str],
    prices: dict[str, Any] | None = None,
    **config: Any,
) -> list[Segment]:
    """Segments as (node_id, from, to, price, source, as_of), in hours from START, priced from a book of
    `lines`."""
    con.execute("DELETE FROM nodes")
    for node in nodes:
        names = ", ".join(NODE)
        con.execute(f"INSERT INTO nodes ({names}) VALUES ({', '.join('$' + name for name in NODE)})", node)  # noqa: S608
    with TemporaryDirectory() as directory:
        book = Path(directory) / "prices.csv"
        book.write_text(
            "\n".join([HEADER, *(line + "," * (9 - line.count(",")) for line in lines)]), encoding="utf-8"
        )
        price.stage(con, Config(prices=Prices(book=book, **(prices or {})), **config))
    rows = con.execute(
        "SELECT * EXCLUDE (purchase_option) FROM node_prices ORDER BY node_id, from_ms"
    ).fetchall()
    return [
        (node, (a - START) / MS_PER_HOUR, (b - START) / MS_PER_HOUR, value, source, day)
        for node, a, b, value, source, day in rows
    ]


def steps(segments: list[Segment]) -> list[tuple[float, float, Decimal]]:
    """Segments without their nodes and sources."""
    return [(start, end, value) for _, start, end, value, _, _ in segments]


def told_steps(text: str) -> list[tuple[float, float, Decimal]]:
    """Segments from text: "0 12 8, 12 24 9" are hours and prices.

    A single price is valid for all 24 hours.
    """
    found = []
    for step in filter(str.strip, text.split(",")):
        *span, price = step.split()
        start, end = map(float, span or ("0", "24"))
        found.append((start, end, Decimal(price)))
    return found
