"""Costs that nobody holds, shared among teams: unallocated GPUs, and what [[shared_costs]] names; see docs/shared-costs.md.

All of it is computed over the whole fleet, whatever the report is narrowed to, in the numbered .sql files: what is to be shared
(1x to 4x), who takes part (5x), and the cuts, exact to the last decimal, by team, then pod, then time (6x to 8x).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.engine import answer_rows, run_stage
from gpucost.errors import PriceError
from gpucost.periods import from_ms
from gpucost.render.view import Notice, Row, Shared
from gpucost.report.query import Query
from gpucost.report.rows import NO_MEASURES, ZERO, filters
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_STAGES = ("50_claims", "60_team_shares", "70_allocation_shares", "80_slot_shares")
_NOTHING = {
    "storage": "no storage of GPU nodes is billed",
    "network": "no network cost of GPU nodes is billed",
    "commitment_waste": "no unused commitment or reservation is billed",
    "support": "no support is billed",
    "namespaces": "no pods of these namespaces cost anything",
}


def is_asked(config: Config, query: Query) -> bool:
    """Whether the report shares anything: an option of the query, or rules of the configuration."""
    return query.share_unallocated is not None or bool(config.shared_costs)


def share(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Make the temporary table report_shared_facts, after those of `report.rows.prepare`.

    Reads fx_rates, a temporary table that pricing makes (`price.load_fx_rates`). Raises PriceError for a bill in a
    currency without a rate.
    """
    rules = config.shared_costs
    run_stage(
        con,
        __name__,
        "10_rules",
        {
            "rule": list(range(1, len(rules) + 1)),
            "of": [rule.of for rule in rules],
            "split": [rule.split for rule in rules],
            "owner": [rule.owner for rule in rules],
            "provider": [rule.provider for rule in rules],
            "patterns": [rule.namespaces for rule in rules],
        },
    )
    run_stage(con, __name__, "20_uses")
    sqlfiles.run(con, "machine_charges")
    run_stage(con, __name__, "30_billed_amounts", {"from_ms": query.period.start_ms, "to_ms": query.period.end_ms})
    _refuse_unconverted(con, config)
    run_stage(con, __name__, "40_pots", {"split_unallocated": query.share_unallocated})
    for name in _STAGES:
        run_stage(con, __name__, name)
    run_stage(con, __name__, "90_shared_facts", filters(query))


def with_shares(con: DuckDBPyConnection, config: Config, query: Query, by: tuple[str, ...], rows: Iterable[Row]) -> list[Row]:
    """`rows`, which are by the dimensions `by`, with what was shared to each; after them those of kind 'shared'."""
    amounts = _amounts(con, by)
    whole = [
        replace(row, shared=_shared(config, query, row.kind, amounts.pop((row.kind, *row.keys.values()), {}))) for row in rows
    ]
    rest = sorted(amounts.items(), key=lambda item: [(part is None, part or "") for part in item[0]])
    return whole + [
        Row("shared", dict(zip(by, keys, strict=True)), NO_MEASURES, shared=_shared(config, query, kind, sums))
        for (kind, *keys), sums in rest
    ]


def total_shared(con: DuckDBPyConnection, config: Config, query: Query) -> Shared:
    """What was shared to everything that passes the filters."""
    by_kind = {kind: _shared(config, query, kind, sums) for (kind, *_), sums in _amounts(con, ()).items()}
    parts = list(by_kind.values())
    free = by_kind.get("unallocated")
    asked = query.share_unallocated is not None
    stays = free.remaining_unallocated_cost if free else ZERO
    return Shared(
        unallocated_cost=sum((part.unallocated_cost or ZERO for part in parts), ZERO) if asked else None,
        remaining_unallocated_cost=stays if asked and not query.is_narrowed else None,
        costs={rule.name: sum((part.costs[rule.name] for part in parts), ZERO) for rule in config.shared_costs},
    )


def shared_teams(con: DuckDBPyConnection) -> set[str]:
    """Teams that something was shared to, whatever the report is narrowed to."""
    rows = con.execute("SELECT team FROM report_team_shares UNION SELECT owner FROM report_pots").fetchall()
    return {str(row[0]) for row in rows if row[0] is not None}


def notices(con: DuckDBPyConnection, config: Config) -> list[Notice]:
    """The rules that share nothing: the bill of the period is not there yet, or a name fits nothing."""
    used = {row[0] for row in con.execute("SELECT DISTINCT rule FROM report_pots").fetchall()}
    return [
        Notice("shared_cost_empty", f"shared cost {rule.name} came to nothing: {_NOTHING[rule.of]} in this period", None)
        for number, rule in enumerate(config.shared_costs, 1)
        if number not in used
    ]


def _amounts(con: DuckDBPyConnection, by: Iterable[str]) -> dict[tuple[Any, ...], dict[int | None, Decimal]]:
    """By kind and keys, the amounts by the number of their rule."""
    names = list(by)
    found: dict[tuple[Any, ...], dict[int | None, Decimal]] = {}
    for sums in answer_rows(con, __name__, "95_shared_rows", {"by": names}):
        found.setdefault((sums["kind"], *(sums[name] for name in names)), {})[sums["rule"]] = sums["amount"]
    return found


def _shared(config: Config, query: Query, kind: str, sums: Mapping[int | None, Decimal]) -> Shared:
    of_unallocated = sums.get(None, ZERO)
    asked, is_free = query.share_unallocated is not None, kind == "unallocated"
    return Shared(
        unallocated_cost=(ZERO if is_free else of_unallocated) if asked else None,
        remaining_unallocated_cost=of_unallocated if asked and is_free else None,
        costs={rule.name: sums.get(number, ZERO) for number, rule in enumerate(config.shared_costs, 1)},
    )


def _refuse_unconverted(con: DuckDBPyConnection, config: Config) -> None:
    found = con.execute(
        "SELECT rule, currency, without_rate_ms FROM report_billed_amounts WHERE amount IS NULL ORDER BY ALL LIMIT 1"
    ).fetchone()
    if found is not None:
        number, currency, at_ms = found
        name, day = config.shared_costs[number - 1].name, from_ms(at_ms).astimezone(config.tz).date()
        raise PriceError(
            f"shared cost {name} is billed in {currency}: there is no rate from {currency} to {config.currency} on {day}",
            f"set [prices] fx = {{ {currency} = … }}, what 1 {currency} is worth in {config.currency}, or add it to the file "
            "that [prices] fx_rates names",
        )
