"""Cost of bought tokens by team and model, from bills; see docs/tokens.md.

A vendor's invoice and a cloud's bill can contain the same charge. It counts once, as on the invoice; the bill only
names its owner. The numbered .sql files compute whole months (UTC) and cut them to the period at the end: adjoining
periods add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.engine import answer_rows, run_stage
from gpucost.periods import Period, from_ms, month_period, time_buckets
from gpucost.price import load_fx_rates
from gpucost.price.fx import no_rate
from gpucost.questions.report.rows import NO_MEASURES, Part, cut, in_parts, keys_of
from gpucost.questions.units.query import UnitQuery, UnitView, per, plain
from gpucost.render.schema import to_dict
from gpucost.render.view import ApiCost, ApiModel, Notice, Row
from gpucost.store.charges import find_tokens
from gpucost.store.sqlfiles import column, value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

# A cloud's bill may exceed the invoices that replace its rows by this much without a notice.
_TOLERANCE = Decimal("0.05")
_CENT = Decimal("0.01")
# A vendor's bill is a day or two behind; a seller without data for two months no longer sells anything.
_LATE = timedelta(days=2)
_ACTIVE = timedelta(days=62)
_UTC = ZoneInfo("UTC")
_TOKENS = ("prompt_tokens", "cached_tokens", "generation_tokens")


def prepare(con: DuckDBPyConnection, config: Config, period: Period) -> None:
    """Make the temporary tables api_charges and api_shares for the period's months.

    Run `store.charges.find_tokens` first. Raises PriceError for tokens bought in a currency without a rate.
    """
    load_fx_rates(con, config)
    run_stage(con, __name__, "05_macros")
    _load_teams(con, config)
    # whole months in UTC
    first, last = (month_period(from_ms(ms).date(), _UTC) for ms in (period.start_ms, period.end_ms - 1))
    run_stage(con, __name__, "10_api_charges", {"from_ms": first.start_ms, "to_ms": last.end_ms})
    run_stage(con, __name__, "30_api_shares")
    _refuse_unconverted(con, config)


def select(con: DuckDBPyConnection, teams: Iterable[str]) -> None:
    """Make the temporary table api_rows: purchases in the report's time_buckets, of some teams or all."""
    run_stage(con, __name__, "50_api_rows", {"teams": list(teams)})


# The team settings of the configuration, as charges may spell them.
_TEAM_LABELS = """
CREATE OR REPLACE TEMP TABLE api_team_labels AS
SELECT unnest($labels::VARCHAR[]) AS label, unnest(range(len($labels::VARCHAR[]))) AS ordinal"""
_TEAMS = """
CREATE OR REPLACE TEMP TABLE api_team_values (ordinal INTEGER, team VARCHAR, label VARCHAR, value VARCHAR);
CREATE OR REPLACE TEMP TABLE api_team_categories (ordinal INTEGER, team VARCHAR, category VARCHAR, value VARCHAR);
CREATE OR REPLACE TEMP TABLE api_team_globs (ordinal INTEGER, team VARCHAR, pattern VARCHAR)"""


def _load_teams(con: DuckDBPyConnection, config: Config) -> None:
    labels = [label for label in (config.team_labels.pod, config.team_labels.namespace) if label] or ["team"]
    con.execute(_TEAM_LABELS, {"labels": [_plain(label) for label in labels]})
    con.execute(_TEAMS)
    for ordinal, team in enumerate(config.teams):
        for pair in _pairs(team.labels):
            con.execute("INSERT INTO api_team_values VALUES ($1, $2, $3, $4)", [ordinal, team.name, *pair])
        for pair in _pairs(team.cost_categories):
            con.execute(
                "INSERT INTO api_team_categories VALUES ($1, $2, $3, $4)", [ordinal, team.name, *pair]
            )
        for pattern in team.api:
            con.execute("INSERT INTO api_team_globs VALUES ($1, $2, $3)", [ordinal, team.name, pattern])


def _pairs(named: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    for key, names in named.items():
        for name in names:
            yield _plain(key), name


def _plain(key: str) -> str:
    """Normalize a label's name to compare tags: deliveries differ in case and separators."""
    return re.sub(r"[\W_]+", "", key.lower())


def _refuse_unconverted(con: DuckDBPyConnection, config: Config) -> None:
    found = con.execute(
        "SELECT provider, currency, min(start_ms) FROM api_shares WHERE without_rate > 0 GROUP BY ALL ORDER BY ALL LIMIT 1"
    ).fetchone()
    if found is not None:
        provider, currency, at_ms = found
        day = from_ms(at_ms).astimezone(config.tz).date()
        raise no_rate(
            f"tokens of {provider} are priced in {currency}", currency, config.currency, f" on {day}"
        )


def rows(con: DuckDBPyConnection, by: tuple[str, ...]) -> dict[Part, list[Row]]:
    """Rows of kind 'api' by the dimensions of a report, the most expensive first, by part."""
    found = in_parts(answer_rows(con, __name__, "60_api_sums", {"by": list(by)}))
    return {
        part: [Row("api", keys_of(row, by), NO_MEASURES, api=_cost(row)) for row in several]
        for part, several in found.items()
    }


def models(con: DuckDBPyConnection) -> dict[Part, tuple[ApiModel, ...]]:
    """The purchases of each team by model, seller and source, the most expensive first."""
    found = in_parts(answer_rows(con, __name__, "70_api_models"))
    return {part: tuple(_model(row) for row in several) for part, several in found.items()}


def _model(row: dict[str, Any]) -> ApiModel:
    cost = _cost(row)
    tokens = (cost.prompt_tokens or 0) + (cost.generation_tokens or 0)
    names = ("team", "provider", "model", "source", "prompt_cost", "generation_cost")
    return ApiModel(
        **{name: row[name] for name in names},
        cost=cost,
        cost_per_million_tokens=per(cost.api_cost, tokens, 1_000_000),
        cost_per_million_prompt_tokens=per(row["prompt_cost"], cost.prompt_tokens, 1_000_000),
        cost_per_million_generation_tokens=per(row["generation_cost"], cost.generation_tokens, 1_000_000),
    )


def bought(con: DuckDBPyConnection, config: Config, query: UnitQuery) -> tuple[ApiModel, ...] | None:
    """The teams' purchases in the period; None without tokens on bills or for a part of the fleet."""
    if query.namespaces or query.workloads or query.clusters or not find_tokens(con):
        return None
    prepare(con, config, query.period)
    cut(con, query.period, time_buckets(query.period, query.config.tz, ()), by_day=False)
    select(con, query.teams)
    return models(con).get(None, ())


def add_bought(con: DuckDBPyConnection, config: Config, view: UnitView) -> None:
    """Add the tokens bought in the period to an answer on tokens, by its teams.

    Adds none if the answer covers a part of the fleet.
    """
    query = view.query
    now = datetime.now(UTC)
    found = bought(con, config, query)
    if found is None:
        return
    ends = known_to(con, query.period, now)
    view.notes += [notice.message for notice in notices(con, config, query.period, now, ends)]
    if found:
        view.sections["bought"] = [to_dict(model) for model in found]
        view.displayed_columns["bought"] = (
            "team",
            "model",
            "provider",
            "prompt_tokens",
            "generation_tokens",
            "api_cost",
            "cost_per_million_tokens",
            "cost_per_million_prompt_tokens",
            "cost_per_million_generation_tokens",
            "source",
        )


def _cost(row: dict[str, Any]) -> ApiCost:
    return ApiCost(
        api_cost=row["api_cost"],
        commitment_cost=row["commitment_cost"],
        **{name: None if row[name] is None else plain(row[name]) for name in _TOKENS},
    )


def teams(con: DuckDBPyConnection) -> set[str]:
    """The teams that bought tokens in the months of the period, regardless of the report's selection."""
    return {*column(con, "SELECT DISTINCT team FROM api_shares")}


# Cloud rows that a vendor's invoice replaces, if they amount to more than the invoice.
_REPEATED_MORE = """
WITH repeated AS (
    SELECT provider AS seller, sum(cost) AS cost FROM api_charges WHERE is_repeated GROUP BY ALL
),
invoiced AS (
    SELECT seller, sum(cost) AS cost FROM api_charges WHERE sold_vendor IS NOT NULL GROUP BY ALL
)
SELECT seller, i.cost, r.cost FROM repeated AS r JOIN invoiced AS i USING (seller) ORDER BY seller"""
_UNASSIGNED = "SELECT sum(api_cost) FROM api_rows WHERE team = 'unassigned'"
# Over all purchases ever: a seller whose newest bill is missing has none in the selected months. A commitment is
# charged in advance, so it proves no usage; a bill that is final, or was loaded two days after its month, covers the
# whole month.
_KNOWN_TO = """
WITH bill_ends AS (
    SELECT bill_id, is_final, loaded_at, strptime(billing_period || '-01', '%Y-%m-%d') + INTERVAL 1 MONTH AS month_end FROM bills
)
SELECT t.provider, epoch_ms(greatest(
    coalesce(max(t.charge_period_end) FILTER (t.token_kind <> 'commitment'), max(t.charge_period_end)),
    max(b.month_end) FILTER (b.is_final OR b.loaded_at >= b.month_end + INTERVAL 2 DAY)))
FROM token_charges AS t JOIN bill_ends AS b USING (bill_id) GROUP BY t.provider ORDER BY t.provider"""


def known_to(con: DuckDBPyConnection, period: Period, now: datetime) -> dict[str, datetime]:
    """Until when purchases are known, by seller.

    Only sellers with purchases in the two months before the period's end.
    """
    end = min(period.end, now)
    ends = {seller: from_ms(ms) for seller, ms in con.execute(_KNOWN_TO).fetchall()}
    return {seller: moment for seller, moment in ends.items() if end - moment < _ACTIVE}


def notices(
    con: DuckDBPyConnection, config: Config, period: Period, now: datetime, ends: Mapping[str, datetime]
) -> list[Notice]:
    """Warnings: missing newest bills of sellers, repeated charges that differ, cost without a team.

    `ends` is from `known_to`.
    """
    found = []
    for seller, moment in ends.items():
        if min(period.end, now) - moment > _LATE:
            found.append(
                Notice(
                    "api_not_known",
                    f"purchases of tokens from {seller} are known until "
                    f"{moment.astimezone(config.tz):%Y-%m-%d %H:%M}: no bill contains later ones",
                    f"collect the bill of {seller}",
                )
            )
    for seller, cost, repeated in con.execute(_REPEATED_MORE).fetchall():
        if repeated > cost * (1 + _TOLERANCE) + _CENT:
            found.append(
                Notice(
                    "api_repeated_more",
                    f"vendors' invoices issued by {seller} amount to {cost:,.2f} {config.currency}, and "
                    f"its own bill to {repeated:,.2f} for the same vendors and time: the invoices count",
                    "check that the invoices cover all accounts",
                )
            )
    if unassigned := value(con, _UNASSIGNED):
        found.append(
            Notice(
                "api_unassigned",
                f"{unassigned:,.2f} {config.currency} of bought tokens belong to no team: shown as unassigned",
                "tag them, or list their projects, accounts or keys in [[teams]] api",
            )
        )
    return found
