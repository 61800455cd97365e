"""Stores and views for HTML pages in tests: the sample fleet, and 200 teams, some with hostile names."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from shlex import quote
from typing import Any
from zoneinfo import ZoneInfo

import duckdb

from gpucost import price
from gpucost.config.model import Config
from gpucost.periods import month_period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.html import Bar, Block, Item
from gpucost.render.view import Column, Line, ReportView, Table
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, OCTOBER_END, Fleet, write_sample

#: A page that executes one of these sets `window.hit` or opens a dialog.
HOSTILE = (
    "<script>window.hit=1</script>",
    "=cmd|' /C calc'!A0",
    "a|b|c",
    "פריק מחקר",
    "قسم الأبحاث",
    "x" * 253,
    "long-" * 50,
    "\u202egnp.exe",
    "</title></style><img src=x onerror=window.hit=2>",
    '"><svg onload=window.hit=3>',
    "' onmouseover='window.hit=4",
    "{{7*7}}{% raw %}",
    "nul\x01\x1b[31m",
    "&lt;b&gt;&amp;",
    "日本語チーム",
    "--><!--",
    "javascript:alert(5)",
    "a\nb\tc",
    "]]></svg>",
)
TEAMS = 200


def sample_store(folder: Path) -> Path:
    """Return October 2026 of the sample fleet."""
    return write_sample(folder / "sample.duckdb")


def hostile_store(folder: Path) -> Path:
    """Return nine days of October 2026 of 200 teams, with hostile names of teams, namespaces, pods, GPUs and in warnings."""
    fleet = Fleet()
    names = [*HOSTILE, *(f"team-{number:03}" for number in range(TEAMS - len(HOSTILE)))]
    fleet.node(1, "n<b>", f"A100{HOSTILE[0]}", 2 * TEAMS, "on_demand", "400")
    fleet.node(2, "n2", "H100", 8, "spot", "40")
    for number, name in enumerate(names):
        fleet.pod(number + 1, 1, name, f"pod-{name}", f"Deployment/{name}")
    for at in range(OCTOBER, OCTOBER + 9 * 24 * HOUR, 24 * HOUR):
        held = [
            (number + 1, name, 1 + (TEAMS - number) / TEAMS, 1.0, number % 10 / 10)
            for number, name in enumerate(names)
        ]
        fleet.cell(at, 1, held, until=at + 24 * HOUR)
        fleet.cell(at, 2, [(1, names[0], 4, 0.5, 0.5)], until=at + 24 * HOUR)
    fleet.rows["collected"].append(("prod", OCTOBER, OCTOBER_END))
    fleet.rows["loads"].append(
        (1, 1, "prometheus", "main", OCTOBER, OCTOBER_END, 1000, 0, NOW.replace(tzinfo=None))
    )
    for number in range(40):
        message = f"no price for {HOSTILE[8]} {number:02}"
        fleet.rows["warnings"].append(
            ("unpriced_node", "prod", f"n{number}", OCTOBER, OCTOBER_END, message, "gpucost `x` <b>")
        )
    fleet.write(folder / "hostile.duckdb")
    return folder / "hostile.duckdb"


def hostile_block() -> Block:
    """Return a block with every part, all with hostile names."""
    lines = tuple(
        Line((name, float(index) if index else None), flag=name) for index, name in enumerate(HOSTILE)
    )
    bars = tuple(
        Bar(name, index - 2, "money", name, ("named", "idle", "unallocated")[index % 3])
        for index, name in enumerate(HOSTILE)
    )
    commands = [f"gpucost whatif --workload {quote(name)}" for name in HOSTILE]
    items = tuple(
        Item(
            name,
            Decimal(index),
            "money",
            "a month",
            name,
            commands[index] if index % 3 else None,
            index % 2 > 0,
        )
        for index, name in enumerate(HOSTILE)
    )
    table = Table("Table", (Column(HOSTILE[0], "text"), Column("Share", "ratio")), lines, note=HOSTILE[5])
    return Block(HOSTILE[8], HOSTILE[9], bars=bars, table=table, items=items, note=HOSTILE[6])


def october(**options: Any) -> Query:
    """Return the query of October 2026."""
    period = month_period(date(2026, 10, 1), ZoneInfo("UTC"))
    return Query(period=period, period_name="October 2026", now=NOW, **options)


def view(store: Path, **options: Any) -> ReportView:
    """Return the report of October 2026, with series."""
    query = october(**({"with_series": True} | options))
    with duckdb.connect(str(store), read_only=True) as con:
        price.load_fx_rates(con, Config())
        return build(con, Config(), query)
