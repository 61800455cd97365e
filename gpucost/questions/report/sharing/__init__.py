"""Shared costs: unallocated GPUs and the [[shared_costs]] rules; see docs/shared-costs.md.

The numbered .sql files compute all shares over the whole fleet, regardless of the report's selection: first the
amounts to share (2x to 4x), then the cuts, exact to the last decimal, by team, then pod, then time (60).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.engine import dicts, run_stage
from gpucost.periods import from_ms
from gpucost.price.fx import no_rate
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import NO_MEASURES, ZERO, Part, keys_of
from gpucost.render.view import Notice, Row, Shared
from gpucost.store import sqlfiles
from gpucost.store.charges import find_tokens

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_NOTHING = {
    "storage": "storage of GPU nodes is not billed",
    "network": "network cost of GPU nodes is not billed",
    "commitment_waste": "unused commitments or reservations are not billed",
    "support": "support is not billed",
    "namespaces": "the pods of these namespaces have no cost",
}


def is_requested(config: Config, query: Query) -> bool:
    """Whether the report shares costs: by an option of the query or rules of the configuration."""
    return query.share_unallocated is not None or bool(config.shared_costs)


# The [[shared_costs]] rules, numbered from 1 in their order; patterns is empty for rules on billed amounts.
_RULES = """
CREATE OR REPLACE TEMP TABLE report_rules AS
SELECT unnest($rule::INTEGER[]) AS rule, unnest($of::VARCHAR[]) AS of, unnest($split::VARCHAR[]) AS split,
    unnest($owner::VARCHAR[]) AS owner, unnest($provider::VARCHAR[]) AS provider,
    unnest($namespaces::VARCHAR[][], max_depth := 1) AS patterns"""
# One row per pool and use that takes a part of it. Unallocated cost goes to pods that held GPUs of its kind; shared
# namespaces take no part of amounts shared by rules.
_CLAIMS = """
CREATE OR REPLACE TEMP TABLE report_claims AS
SELECT p.pool, p.split, p.amount, u.team, u.node_id, u.allocation_id, u.time_bucket, u.cost, u.gpu_ms
FROM shared_cost_pools AS p JOIN pool_consumers AS u ON u.kind = 'allocated' AND p.rule IS NULL
    AND (u.cluster, u.gpu_model, u.capacity_type) IS NOT DISTINCT FROM (p.cluster, p.gpu_model, p.capacity_type)
UNION ALL
SELECT p.pool, p.split, p.amount, u.team, u.node_id, u.allocation_id, u.time_bucket, u.cost, u.gpu_ms
FROM shared_cost_pools AS p JOIN pool_consumers AS u ON u.kind = 'allocated' AND p.rule IS NOT NULL
    AND u.source IS NULL AND coalesce(u.team = p.owner, p.owner IS NULL)"""

# The first amount in a currency without a rate.
_UNCONVERTED = """
SELECT rule, currency, without_rate_ms FROM report_billed_amounts WHERE amount IS NULL ORDER BY ALL LIMIT 1"""


def share(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Make the temporary table shared_rows. Run `report.rows.prepare` first.

    Reads fx_rates, a temporary table from `price.load_fx_rates`. Raises PriceError for a bill in a currency without a
    rate.
    """
    rules = config.shared_costs
    names = ("of", "split", "owner", "provider", "namespaces")
    columns = {name: [getattr(rule, name) for rule in rules] for name in names}
    con.execute(_RULES, columns | {"rule": list(range(1, len(rules) + 1))})
    run_stage(con, __name__, "20_pool_consumers")
    sqlfiles.run(con, "machine_charges")
    find_tokens(con)
    run_stage(con, __name__, "30_billed_amounts", query.period.bounds)
    unconverted = con.execute(_UNCONVERTED).fetchone()
    if unconverted is not None:
        number, currency, at_ms = unconverted
        name = config.shared_costs[number - 1].name
        day = from_ms(at_ms).astimezone(config.tz).date()
        raise no_rate(f"shared cost {name} is billed in {currency}", currency, config.currency, f" on {day}")
    run_stage(con, __name__, "40_cost_pools", {"split_unallocated": query.share_unallocated})
    con.execute(_CLAIMS)
    run_stage(con, __name__, "60_pool_shares")
    run_stage(con, __name__, "90_shared_rows")


def with_shares(
    con: DuckDBPyConnection,
    config: Config,
    query: Query,
    by: tuple[str, ...],
    rows: Mapping[Part, Iterable[Row]],
    parts: Collection[Part],
) -> dict[Part, list[Row]]:
    """Add shared amounts to `rows`, which are by the dimensions `by`; append rows of kind 'shared'."""
    found = {}
    for part, amounts in _amounts(con, by, parts).items():
        existing = [
            replace(
                row, shared=_shared(config, query, row.kind, amounts.pop((row.kind, *row.keys.values()), {}))
            )
            for row in rows.get(part, ())
        ]
        rest = sorted(amounts.items(), key=lambda item: [(key is None, key or "") for key in item[0]])
        found[part] = existing + [
            Row(
                "shared",
                dict(zip(by, keys, strict=True)),
                NO_MEASURES,
                shared=_shared(config, query, kind, sums),
            )
            for (kind, *keys), sums in rest
        ]
    return found


def total_shared(
    con: DuckDBPyConnection, config: Config, query: Query, parts: Collection[Part]
) -> dict[Part, Shared]:
    """The amounts shared to all rows that pass the filters."""
    found = {}
    for part, of_kinds in _amounts(con, (), parts).items():
        stays: Decimal | None = of_kinds.get(("unallocated",), {}).pop(None, ZERO)
        sums: dict[int | None, Decimal] = defaultdict(Decimal)
        for amounts in of_kinds.values():
            for rule, amount in amounts.items():
                sums[rule] += amount
        if query.share_unallocated is None or query.is_narrowed:
            stays = None
        found[part] = replace(_shared(config, query, "", sums), remaining_unallocated_cost=stays)
    return found


def shared_teams(con: DuckDBPyConnection) -> set[str]:
    """Teams with a shared amount, regardless of the report's selection."""
    teams = sqlfiles.column(con, "SELECT team FROM pool_shares UNION SELECT owner FROM shared_cost_pools")
    return {*teams} - {None}


def notices(con: DuckDBPyConnection, config: Config) -> list[Notice]:
    """Warn about rules without an amount: the bill of the period is missing, or a name matches nothing."""
    used = sqlfiles.column(con, "SELECT DISTINCT rule FROM shared_cost_pools")
    return [
        Notice(
            "shared_cost_empty", f"shared cost {rule.name} is zero: {_NOTHING[rule.of]} in this period", None
        )
        for number, rule in enumerate(config.shared_costs, 1)
        if number not in used
    ]


_AMOUNTS = """
SELECT kind, rule, part, unnest(keys), amount
FROM (
    SELECT kind, rule, part_of(f.team) AS part, dimensions($by, f) AS keys, sum(amount) AS amount
    FROM shared_rows AS f GROUP BY ALL
)
ORDER BY ALL"""


# The amounts by rule number, by kind and keys.
_Amounts = dict[tuple[Any, ...], dict[int | None, Decimal]]


def _amounts(con: DuckDBPyConnection, by: Sequence[str], parts: Collection[Part]) -> dict[Part, _Amounts]:
    amounts: dict[Part, _Amounts] = {part: defaultdict(dict) for part in parts}
    for sums in dicts(con.execute(_AMOUNTS, {"by": by})):
        amounts[sums["part"]][sums["kind"], *keys_of(sums, by).values()][sums["rule"]] = sums["amount"]
    return amounts


def _shared(config: Config, query: Query, kind: str, sums: Mapping[int | None, Decimal]) -> Shared:
    costs = {rule.name: sums.get(number, ZERO) for number, rule in enumerate(config.shared_costs, 1)}
    of_unallocated = sums.get(None, ZERO)
    if query.share_unallocated is None:
        return Shared(None, None, costs)
    return (
        Shared(ZERO, of_unallocated, costs) if kind == "unallocated" else Shared(of_unallocated, None, costs)
    )
