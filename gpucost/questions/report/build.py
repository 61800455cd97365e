"""Build the view of a report from the attributed tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from gpucost.config.model import Config
from gpucost.errors import GpucostError, NoDataError, StoreError
from gpucost.periods import from_ms, is_month, month_name
from gpucost.questions.report import labels, sharing
from gpucost.questions.report.coverage import UNTRACKED, coverage
from gpucost.questions.report.headline import headline, selected
from gpucost.questions.report.query import Query, is_label, newest_data
from gpucost.questions.report.rows import (
    ALL,
    KINDS,
    Part,
    check_names,
    has_nodes,
    node_totals,
    prepare,
    priced_nodes,
    rows_by,
    total,
    unpriced_gpus,
    unpriced_ms,
    workload_counts,
)
from gpucost.questions.report.sections import bought, consumers, cost_by, gpu_hours, unallocated_gpus, waste
from gpucost.questions.report.series import read_series, trends
from gpucost.render.view import Figures, Line, ReportView, Shared, Table
from gpucost.store.charges import find_tokens
from gpucost.store.sqlfiles import value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection


_WORKLOAD = ("cluster", "namespace", "workload")


def build(con: DuckDBPyConnection, config: Config, query: Query) -> ReportView:
    """Build the report for `query` from the attributed tables.

    Reads the costs of days or hours, nodes, allocations, collected and warnings. Works on a read-only connection;
    makes temporary tables. If costs are shared, it also reads bills and the temporary table fx_rates. Raises
    GpucostError if the period has no data or a filter matches nothing, StoreError if the store has no GPU nodes.
    """
    return _build(con, config, query, {None: query})[None]


def build_each(con: DuckDBPyConnection, config: Config, query: Query) -> dict[str, ReportView]:
    """Build one report per team of the query, each as `build` would, in one pass."""
    alone: dict[Part, Query] = {team: replace(query, teams=(team,)) for team in query.teams}
    return {str(team): view for team, view in _build(con, config, query, alone).items()} if alone else {}


#: The dimensions of the table of every workload.
_EVERY_WORKLOAD = ("workload", "team", "namespace", "cluster", "gpu_model")
MOST_WORKLOADS = 1_000
_COMBINATIONS = """
SELECT part_of(team), count(DISTINCT (cluster, namespace, workload, team, gpu_model, labels))
FROM cost_rows WHERE kind = 'allocated' GROUP BY ALL"""


def workload_tables(
    con: DuckDBPyConnection, config: Config, query: Query, teams: Iterable[str]
) -> dict[Part, Table]:
    """The most expensive workloads and the sum of the others.

    Rows are by team, namespace, cluster and GPU model, and by the labels among the query's dimensions.
    Key None has the workloads of the whole fleet, the other keys the workloads of each of `teams`.
    """
    by = (*_EVERY_WORKLOAD, *filter(is_label, query.by))
    query = replace(query, by=by, most=MOST_WORKLOADS, with_sections=False, with_series=False)
    parts: dict[Part, ReportView] = {None: build(con, config, query)}
    counts = dict(con.execute(_COMBINATIONS).fetchall())
    parts.update(build_each(con, config, replace(query, teams=tuple(teams))))
    counts.update(con.execute(_COMBINATIONS).fetchall())
    return {
        part: _shortened(
            cost_by(list(view.rows), by, view.totals, view.node_totals, view.totals_shared),
            counts.get(part, 0),
        )
        for part, view in parts.items()
    }


def _shortened(table: Table, count: int) -> Table:
    """The table with at most MOST_WORKLOADS of its `count` workloads, and a sum of the others."""
    at = [line.is_sum for line in table.lines].index(True)
    displayed, (whole, *rest) = table.lines[:at][:MOST_WORKLOADS], table.lines[at:]
    left = max(count, at) - len(displayed)
    if left <= 0:
        return table
    cells = [f"{left:,} more"]
    for place, column in enumerate(table.columns[1:], 1):
        total, *parts = (cast(Any, line.cells[place]) for line in (whole, *displayed))
        cells.append(total - sum(parts) if column.unit in ("hours", "money") else "")
    note = f"The {len(displayed):,} most expensive; {left:,} more are added up: gpucost report --by workload lists all."
    return replace(table, lines=(*displayed, Line(tuple(cells), is_sum=True), whole, *rest), note=note)


def _build(
    con: DuckDBPyConnection, config: Config, query: Query, parts: dict[Part, Query]
) -> dict[Part, ReportView]:
    """Build the reports for the parts of `query`: all of it (None), or each team."""
    now = query.now or datetime.now(UTC)
    prepare(con, query, config.tz, each_team=None not in parts)
    is_shared = sharing.is_requested(config, query)
    if is_shared:
        sharing.share(con, config, query)
    # bought tokens have a team and no other dimension
    of_teams = not any(names for name, names in query.filters.items() if name != "teams")
    has_api = of_teams and find_tokens(con)
    if has_api:
        from gpucost.questions.report import api_cost  # most stores have no tokens

        api_cost.prepare(con, config, query.period)
        api_cost.select(con, query.teams)
    if any(query.filters.values()) and not query.may_be_absent:
        others = sharing.shared_teams(con) if is_shared else set()
        check_names(con, query, others | api_cost.teams(con) if has_api else others)
    nodes = priced_nodes(con, query)
    most = ALL if is_shared or query.most is None else query.most
    bys = [((), ALL), (("gpu_model", "capacity_type"), ALL), (query.dimensions, most)]
    if query.with_sections:
        # to split unallocated GPUs by reservation
        bys += [(("gpu_model", "capacity_type", "reservation"), ALL), (_WORKLOAD, query.top)]
    by_nothing, by_gpu, all_rows, *detailed = rows_by(con, bys)
    sums = {part: total(by_nothing[part]) for part in parts}
    shared: dict[Part, Shared] = {}
    if is_shared:
        shared = sharing.total_shared(con, config, query, parts)
        all_rows = sharing.with_shares(con, config, query, query.dimensions, all_rows, parts)
    api_rows = api_cost.rows(con, query.dimensions) if has_api else {}
    bought_in_all = api_cost.rows(con, ()) if has_api else {}
    models = api_cost.models(con) if has_api else {}
    for part, of_part in api_rows.items():
        all_rows[part] = sorted([*all_rows.get(part, []), *of_part], key=lambda row: KINDS.index(row.kind))
    figures = {}
    for part in parts:
        unknown = sum(
            row.measures.allocated_gpu_hours for row in by_gpu[part] if row.keys["capacity_type"] == "unknown"
        )
        figures[part] = sums[part][0], nodes[part], round(unknown, 9)
    trusted = coverage(con, config, query, now, figures)
    for part in parts:
        if not (
            nodes[part]
            or all_rows[part]
            or (query.may_be_absent and has_nodes(con))
            or (query.may_be_idle and trusted[part].collected_to)
            or any(UNTRACKED in gap.families for gap in trusted[part].gaps)
        ):
            raise _no_data(con, query, config.tz)
    series = read_series(con, config, query, parts) if query.with_series else {}
    top: dict[Part, Table] = {}
    unpriced: dict[Part, list[tuple[str | None, str]]] = {}
    if query.with_sections:
        by_workload = detailed[1]
        most_expensive = {
            part: [row for row in by_workload[part] if row.kind == "allocated"] for part in parts
        }
        counts = workload_counts(con)
        top = {part: consumers(rows, counts[part], sums[part][0]) for part, rows in most_expensive.items()}
        for part, lines in (trends(con, most_expensive, series) if series else {}).items():
            drawn = zip(top[part].lines, lines, strict=True)
            top[part] = replace(top[part], lines=tuple(replace(line, trend=trend) for line, trend in drawn))
        if any(unpriced_ms(nodes[part]) for part in parts):
            unpriced = unpriced_gpus(con)
    known_to = api_cost.known_to(con, query.period, now) if has_api else {}
    notices = [
        *labels.notices(con, query),
        *(sharing.notices(con, config) if is_shared else ()),
        *(api_cost.notices(con, config, query.period, now, known_to) if has_api else ()),
    ]
    views = {}
    for part, part_query in parts.items():
        totals, unallocated, unseen = sums[part]
        rows = all_rows[part]
        whole = None if query.is_narrowed else node_totals(nodes[part], unallocated, unseen)
        sections: list[Table | Figures] = []
        if query.with_sections:
            sections = [gpu_hours(by_gpu[part], totals, unpriced.get(part, []))]
            if whole and whole.unallocated_gpu_hours:
                sections.append(unallocated_gpus(detailed[0][part], whole))
            sections += [waste(totals, whole, config), top[part]]
            if models.get(part):
                sections.append(bought(models[part]))
            # a report on one team begins with its usage and waste; otherwise, and with --by, the rows come first
            main = cost_by(rows, query.dimensions, totals, whole, shared.get(part))
            sections.insert(len(sections) if query.is_narrowed and not query.by else 0, main)
        view = ReportView(
            title=_title(part_query, config.tz),
            subtitle=_subtitle(query, config.tz),
            period=query.period,
            currency=config.currency,
            by=query.dimensions,
            rows=tuple(rows),
            totals=totals,
            node_totals=whole,
            coverage=replace(trusted[part], warnings=(*trusted[part].warnings, *notices)),
            sections=tuple(sections),
            totals_shared=shared.get(part),
            totals_api=bought_in_all[part][0].api if api_rows.get(part) else None,
            bought=models.get(part, ()),
            api_known_to=min(known_to.values(), default=None),
            series=series.get(part),
        )
        if query.with_sections:
            view = replace(view, headline=headline(config, part_query, view))
        views[part] = view
    return views


def _title(query: Query, tz: ZoneInfo) -> str:
    kind = "Monthly GPU report" if is_month(query.period, tz) else "GPU report"
    return f"{kind}: {selected(query)}, {query.period_name}"


def _subtitle(query: Query, tz: ZoneInfo) -> str:
    start = query.period.start.astimezone(tz)
    end = query.period.end.astimezone(tz)
    note = f"; {query.period_note}" if query.period_note else ""
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}, {tz.key}{note}"


def _no_data(con: DuckDBPyConnection, query: Query, tz: ZoneInfo) -> GpucostError:
    # A node counts as up for one scrape interval after its last sample; that alone is not data of the next month.
    seen = "SELECT least(max(up_to_ms), (SELECT max(to_ms) FROM collected), $1) FROM nodes"
    newest = value(con, seen, [newest_data(con)])
    if newest is None:
        return StoreError(
            "the store has no GPU nodes",
            "run gpucost doctor to list missing metrics; gpucost collect prometheus loads them",
        )
    day = from_ms(newest - 1).astimezone(tz).date()
    return NoDataError(
        f"no data for {query.period_name}",
        f"the newest month with data is {month_name(day)}: gpucost report --month {day:%Y-%m}",
    )
