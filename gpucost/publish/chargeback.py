"""The month's bundle for finance and teams: reports, index, ledger and FOCUS file; see docs/chargeback.md."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import file_digest, sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpucost import disk, price
from gpucost.errors import GpucostError, IncompleteError, StoreError
from gpucost.periods import Period
from gpucost.pipeline import ALGORITHM, read_attributed
from gpucost.publish import focus, seal
from gpucost.publish.focus import FocusFile
from gpucost.publish.seal import Seal
from gpucost.questions.reconcile.statement import (
    CENT,
    Reconciliation,
    Statement,
    class_words,
    in_cents,
    reconcile,
)
from gpucost.questions.report.build import build as build_report, build_each, workload_tables
from gpucost.questions.report.query import LABEL, Query
from gpucost.questions.report.rows import NO_MEASURES, ZERO
from gpucost.questions.units.query import UnitQuery, UnitView
from gpucost.questions.units.reading import unit_views
from gpucost.questions.waste.anatomy import Waste, build as dissect
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.data import csv_lines
from gpucost.render.formatting import coverage_lines, figure_text, missing_text, percent
from gpucost.render.html import Block, environment, frame, part, render as html
from gpucost.render.markdown import environment as markdown_environment
from gpucost.render.schema import json_text, to_dict, to_json
from gpucost.render.view import ApiCost, Coverage, CoverageAnswer, ReportView, Row, Standing, Table
from gpucost.resources import reports_dir
from gpucost.shapes import Shape
from gpucost.whatif.flags import total

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.store.connection import Store

ShowProgress = Callable[[str], None]
Manifest = dict[str, Any]
_NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure", "focus": "FOCUS"}


class State(NamedTuple):
    """The state of a month.

    `reasons`: why the figures are an estimate; empty if they are final. `missing`: the missing data of a closed
    month.
    """

    name: Standing
    reasons: tuple[str, ...]
    missing: tuple[str, ...]


def state_of(
    is_over: bool, coverage: Coverage, account: Reconciliation | None, expected: Iterable[str]
) -> State:
    """The state of a month; `expected` are the expected bills that are missing."""
    lacking = [f"the bill of {_NAMES.get(name, name)} is missing" for name in expected]
    if gaps := missing_text(coverage.gaps):
        lacking.insert(0, gaps)
    reasons = [*lacking] if is_over else ["the month is not over", *lacking]
    if account is None:
        if coverage.estimated_cost or not coverage.final_cost:
            reasons.append("no bill was collected: prices are from the price book, spot history and list")
    else:
        if not account.is_final:
            reasons.append("the bill is not final yet")
        if coverage.estimated_cost:
            reasons.append("a part of the cost is on no bill")
        reasons += account.problems
    if coverage.unpriced_gpu_hours:
        reasons.append(f"{coverage.unpriced_gpu_hours:,.1f} GPU-hours have no price")
    reasons += [notice.message for notice in coverage.warnings if notice.code == "api_not_known"]
    return State("estimate" if reasons else "final", tuple(reasons), tuple(lacking if is_over else ()))


def missing_bills(con: DuckDBPyConnection, config: Config, month: str) -> list[str]:
    """Missing bills of the billing period `month`.

    A bill is expected if it is configured, or if the previous month had one.
    """
    before = f"{date.fromisoformat(f'{month}-01') - timedelta(days=1):%Y-%m}"
    rows = con.execute(
        "SELECT DISTINCT provider, format LIKE '%focus%', billing_period FROM bills WHERE billing_period IN ($1, $2)",
        [month, before],
    ).fetchall()
    there, wanted = ({provider for provider, _, period in rows if period == name} for name in (month, before))
    if any(is_focus for _, is_focus, period in rows if period == month):
        there.add("focus")
    return sorted((wanted | set(config.bill_sections)) - there)


_COLLECT = "--collect collects the missing data of the month; gpucost store info lists the existing data"
# The cost of pods at final prices of the price book.
_FINAL = """SELECT coalesce(sum(cost - estimated_cost), 0) FROM hourly_costs($from_ms, $to_ms)
WHERE kind = 'allocated' AND node_id NOT IN (SELECT node_id FROM billed_nodes)"""
LEDGER_BY = ("team", "cluster", "namespace", "workload", "day", "gpu_model", "capacity_type")


class ChargebackQuery(NamedTuple):
    """A month (`2026-10`), as a local period and by name; `now` is the time up to which data can be expected.

    A month that is over is always computed as of its end: the same input gives the same bytes.
    """

    month: str
    period: Period
    period_name: str
    now: datetime
    share_unallocated: Literal["proportional", "even"] | None = None
    focus_version: str = focus.DEFAULT_VERSION

    @property
    def is_over(self) -> bool:
        return self.now >= self.period.end


class Ledger(NamedTuple):
    """The charges by LEDGER_BY and `[labels] ledger` as lines of CSV, with a header; `teams` has the team of each other line."""

    lines: list[str]
    teams: list[str | None]


class Bundle(NamedTuple):
    """The content of a month's files. `overview` is by team, `teams` are by namespace, `parents` are each team with
    the teams below it, by team.

    `workloads` are all workloads by team, with the whole fleet under None; `waste` is for the whole fleet, also by
    team; `units` are unit costs, if progress was collected.
    """

    query: ChargebackQuery
    overview: ReportView
    teams: dict[str, ReportView]
    ledger: Ledger
    workloads: dict[str | None, Table]
    waste: Waste
    units: tuple[UnitView, ...]
    account: Reconciliation | None
    final_cost: Decimal
    focus: FocusFile
    state: State
    inputs: tuple[seal.SealedInput, ...]
    parents: dict[str, ReportView]


def read_bundle(
    config: Config,
    store: Store,
    query: ChargebackQuery,
    folder: Path,
    show_progress: ShowProgress = lambda _: None,
) -> Bundle:
    """The bundle of a month; its FOCUS files are written to `folder`.

    Raises IncompleteError for a past month without data, GpucostError for any other.
    """
    return read_attributed(
        config, store, lambda con: _build(con, config, query, folder, show_progress), query.period, folder
    )


def _build(
    con: DuckDBPyConnection, config: Config, query: ChargebackQuery, folder: Path, show_progress: ShowProgress
) -> Bundle:
    price.load_fx_rates(con, config)
    report_query = Query(
        period=query.period,
        period_name=query.period_name,
        now=min(query.now, query.period.end),
        with_series=True,
        share_unallocated=query.share_unallocated,
    )
    try:
        overview = build_report(con, config, report_query)
    except StoreError:
        raise
    except GpucostError as error:
        raise (IncompleteError if query.is_over else GpucostError)(error.message, _COLLECT) from None
    names = sorted({team for row in overview.rows if (team := row.keys["team"]) is not None})
    show_progress(f"{len(names)} teams")
    teams = build_each(con, config, replace(report_query, teams=tuple(names)))
    parents: dict[str, ReportView] = {}
    for name in sorted({*config.top_teams, *config.top_teams.values()}):
        children = config.children(name)
        members = [team for team in names if team == name or team in children]
        if children and members:
            of_all = replace(report_query, by=("team",), teams=tuple(members))
            parents[name] = build_report(con, config, of_all)
    show_progress("the ledger")
    ledger_by = (*LEDGER_BY, *(f"{LABEL}{name}" for name in config.labels.ledger))
    ledger = _ledger(
        build_report(
            con, config, replace(report_query, by=ledger_by, with_sections=False, with_series=False)
        ),
        folder,
    )
    show_progress("workloads, waste and unit costs")
    workloads = workload_tables(con, config, report_query, teams)
    waste = dissect(con, config, report_query, ("team",), top=0)
    units = unit_views(con, UnitQuery(config, query.period, query.period_name))
    show_progress("the FOCUS file")
    file = focus.prepare(con, config, query.month, query.focus_version)
    for kind in ("csv", "parquet"):
        focus.save(con, query.focus_version, kind, folder / f"focus.{kind}")
    ((final,),) = con.execute(_FINAL, query.period.bounds).fetchall()
    account = None
    with suppress(IncompleteError):
        account = reconcile(con, query.month, config.currency)
    state = state_of(query.is_over, overview.coverage, account, missing_bills(con, config, query.month))
    inputs = seal.inputs_of(con, query.month, query.period) if query.is_over else ()
    return Bundle(
        query, overview, teams, ledger, workloads, waste, units, account, final, file, state, inputs, parents
    )


def _ledger(view: ReportView, folder: Path) -> Ledger:
    """The lines of the ledger; its files are written to `folder`."""
    view.save_parquet(folder / "ledger.parquet")
    lines = list(csv_lines(view))
    _write_lines(folder / "ledger.csv", lines)
    return Ledger(lines, [row.keys["team"] for row in view.rows])


def charge(row: Row) -> Decimal:
    """The charge of a row: its cost and its shares of unallocated and shared costs, or bought tokens."""
    if row.shared is None:
        return row.api.api_cost if row.api else row.measures.cost
    return row.measures.cost + (row.shared.unallocated_cost or ZERO) + row.shared.shared_cost


# The totals with an adjustment.
_ADJUSTED = {
    "charge": "charged to teams",
    "unallocated_cost": "unallocated",
    "not_collected_cost": "not collected",
    "node_cost": "all nodes",
}
# The lines between the charge and the invoice, in addition to the classes of the bill's rows.
_LINES = {
    "charged": "charged to teams",
    "estimated": "estimates, which are on no bill",
    "final": "at final prices of the price book, which are on no bill",
    "shared": "shares of unallocated and shared costs",
    "api": "bought tokens, a class of their own",
    "other_bills": "hours on other bills and in other time zones",
    "billed_less_effective": "billed minus effective cost: commitment fees, covered usage, amortized amounts",
}


def to_markdown(manifest: Manifest, coverage: Coverage) -> str:
    """The index as Markdown; names cannot break out of their cells."""
    return (
        markdown_environment(reports_dir() / "chargeback")
        .get_template("index.md.j2")
        .render(_context(manifest, coverage))
    )


def to_html(manifest: Manifest, coverage: Coverage, blocks: Sequence[Block]) -> str:
    """The index as one self-contained page, with `blocks` after its teams; names are escaped."""
    parts = [part(block, manifest["currency"]) for block in blocks]
    return (
        environment()
        .get_template("index.html.j2")
        .render(_context(manifest, coverage) | {"blocks": parts} | frame())
    )


def _context(manifest: Manifest, coverage: Coverage) -> dict[str, Any]:
    """The templates' input in addition to the manifest: the format of money, and tables by column."""
    currency = manifest["currency"]
    totals = manifest["totals"]
    replaces = manifest["replaces"]
    adjusted = {change["team"]: change["adjustment"] for change in replaces["teams"]} if replaces else {}

    def money(value: float | None, *, signed: bool = False) -> str:
        text = figure_text(value, "money", currency, 2)
        return f"+{text}" if signed and value and value > 0 and text.strip("0.,-").strip() else text

    def cells(row: dict[str, Any], adjustment: float) -> dict[str, str]:
        whole = totals["charge"]
        return {
            "GPU-hours": figure_text(row["allocated_gpu_hours"], "hours", "", 1),
            "Charged": money(row["charge"]),
            **({"Cost": money(row["cost"])} if totals["shared_cost"] or totals.get("api_cost") else {}),
            **({"Shared": money(row["shared_cost"])} if totals["shared_cost"] else {}),
            **({"Bought tokens": money(row.get("api_cost", 0.0))} if totals.get("api_cost") else {}),
            "Share": percent(float(_exact(row["charge"]) / _exact(whole)) if whole else None),
            "Estimate": money(row["estimated_cost"]),
            "Idle cost": money(row["idle_cost"]),
            "Efficiency": percent(row["efficiency"]),
            "Spot": percent(row["spot_ratio"]),
            **({"Adjustment": money(adjustment, signed=True)} if replaces else {}),
        }

    # for the teams' charges; the total next to it is for all nodes
    estimated = float(sum((_exact(team["estimated_cost"]) for team in manifest["teams"]), ZERO))
    total = cells(
        totals | {"estimated_cost": estimated},
        replaces["totals"]["charge"]["adjustment"] if replaces else 0.0,
    )
    rows = [(team, cells(team, adjusted.get(team["team"], 0.0)).values()) for team in manifest["teams"]]
    for parent in manifest.get("parents", ()):
        name = f"{parent['team']} with the teams below"
        rows.append((parent | {"team": name}, cells(parent, 0.0).values()))
    return manifest | {
        "money": money,
        "period": f"{manifest['from']} to {manifest['to']}, {manifest['timezone']}",
        "titles": list(total),
        "rows": rows,
        "total": total.values(),
        "invoice_lines": _invoice_lines(manifest["invoice"]),
        "adjusted": _ADJUSTED,
        "coverage_lines": [line for line in coverage_lines(coverage, currency) if line[0] != "Reconciled"],
    }


def _invoice_lines(invoice: dict[str, Any] | None) -> list[tuple[str, int | None, Decimal]]:
    """The lines from the charge to the invoice, in cents that add up."""
    if invoice is None:
        return []
    printed = []
    for line in invoice["lines"]:
        name = line["line"]
        rows = line["rows"]
        cost = _exact(line["cost"])
        if name != "rounding" and (rows or abs(cost) >= CENT):
            printed.append((_LINES.get(name) or class_words(name, "effective"), rows, cost))
    if difference := _exact(invoice["difference"]):
        printed.append(("unexplained", None, difference))
    return in_cents(printed, _exact(invoice["billed_cost"]))


_LONGEST = 60


def file_names(teams: Iterable[str]) -> dict[str, str]:
    """A file name for each team, without suffix: `a-z`, `0-9`, `-` and `_`, at most 80 long, unique in any case.

    A team with a valid name keeps it. Others get the valid part of their name and a digest of all of it, so that a
    team's file name does not depend on other teams.
    """
    names: dict[str, str] = {}
    for team in sorted(set(teams), key=lambda team: (not _is_safe(team), team)):
        name = team
        if not _is_safe(team):
            digest = sha256(team.encode("utf-8", "surrogatepass")).hexdigest()
            rest = re.sub(r"[^a-z0-9_]+", "-", team.lower()).strip("-")[:_LONGEST].strip("-") or "team"
            name = next(
                name for size in (8, 16, 64) if (name := f"{rest}-{digest[:size]}") not in names.values()
            )
        names[team] = name
    return names


def _is_safe(team: str) -> bool:
    return re.fullmatch(rf"[a-z0-9][a-z0-9_-]{{0,{_LONGEST - 1}}}", team) is not None


@frozen_dataclass
class TeamCharge(Shape):
    """The charge of a team: its cost, its shares and its bought tokens. `file` is the name of its files, without
    suffix.
    """

    team: str
    file: str
    charge: Decimal
    cost: Decimal
    shared_cost: Decimal
    estimated_cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    efficiency: float | None
    spot_ratio: float | None
    measured_ratio: float | None
    api_cost: Decimal | None = None


@frozen_dataclass
class ChargeTotals(Shape):
    """The charges of all teams, and the node cost, None if unknown. `api_cost` is None without bought tokens."""

    charge: Decimal
    cost: Decimal
    shared_cost: Decimal
    idle_cost: Decimal
    unallocated_cost: Decimal | None
    not_collected_cost: Decimal | None
    node_cost: Decimal | None
    estimated_cost: Decimal
    allocated_gpu_hours: float
    capacity_gpu_hours: float | None
    efficiency: float | None
    spot_ratio: float | None
    api_cost: Decimal | None = None


@frozen_dataclass
class Account:
    """A summary of the reconciliation."""

    sentence: str
    providers: tuple[str, ...]
    is_final: bool
    is_exact: bool
    problems: tuple[str, ...]
    effective_cost: Decimal
    lines: dict[str, Decimal]
    difference: Decimal
    statements: tuple[Statement, ...]


@frozen_dataclass
class InvoiceLine:
    """A line: `charged`, its parts that are not on the bill, or a class of the bill's rows; docs/chargeback.md."""

    line: str
    rows: int | None
    cost: Decimal


@frozen_dataclass
class InvoiceBridge:
    """The steps from the charge to the invoice: `lines` and `difference` add up to `billed_cost`."""

    billed_cost: Decimal
    effective_cost: Decimal
    rows: int
    difference: Decimal
    lines: list[InvoiceLine]


@frozen_dataclass
class FigureChange:
    """A figure in the previous bundle and in this one."""

    before: float | None
    after: float | None
    adjustment: float


@frozen_dataclass
class TeamChange:
    """The previous and the current charge of a team."""

    team: str
    before: float
    after: float
    adjustment: float


@frozen_dataclass
class Replaced:
    """The differences from the previous bundle; `reasons` are the changed inputs."""

    state: Standing
    reasons: list[str]
    teams: list[TeamChange]
    totals: dict[str, FigureChange]


@frozen_dataclass
class File:
    """A file of the bundle."""

    file: str
    bytes: int
    sha256: str


@frozen_dataclass
class Index(Shape):
    """A bundle's index.json. `reasons`: why the figures are an estimate; `missing`: missing data of a closed month.

    `seal` is present for a month that is over. `parents` are the teams with teams below, with all their sums.
    """

    month: str
    period: Period
    timezone: str
    currency: str
    share_unallocated: Literal["proportional", "even"] | None
    state: Standing
    is_over: bool
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    teams: list[TeamCharge]
    totals: ChargeTotals
    coverage: CoverageAnswer
    invoice: InvoiceBridge | None
    reconciliation: Account | None
    focus: FocusFile
    replaces: Replaced | None
    seal: Seal | None
    files: tuple[File, ...]
    parents: list[TeamCharge] | None = None


SCHEMA = "gpucost.chargeback/1"
FILE = "index.json"
_FIGURES = ("state", "teams", "totals")


def manifest_of(bundle: Bundle, config: Config, previous: Manifest | None) -> Manifest:
    """The manifest of `bundle`, without its list of files. `previous` is the manifest it replaces, if any.

    `replaces` are the differences from the previous manifest of a closed month. If its figures are the same, its own
    `replaces` are kept, so that a repeated run changes nothing.
    """
    view = bundle.overview
    query = bundle.query
    account = bundle.account
    teams = _teams(bundle)
    index = Index(
        month=query.month,
        period=view.period,
        timezone=config.timezone,
        currency=view.currency,
        share_unallocated=query.share_unallocated,
        state=bundle.state.name,
        is_over=query.is_over,
        reasons=bundle.state.reasons,
        missing=bundle.state.missing,
        teams=teams,
        totals=_totals(view, teams),
        coverage=view.coverage,
        invoice=_invoice(account, teams, view.totals_api, bundle.final_cost) if account else None,
        reconciliation=Account(**{each.name: getattr(account, each.name) for each in fields(Account)})
        if account
        else None,
        focus=bundle.focus,
        replaces=None,
        seal=None,
        files=(),
        parents=_parents(bundle) or None,
    )
    manifest: Manifest = json.loads(to_json(index, "chargeback"))
    if query.is_over:
        manifest["seal"] = to_dict(
            seal.make(config, ALGORITHM, bundle.inputs, figures_digest(manifest, bundle.ledger.lines))
        )
    return manifest | {"replaces": _replaces(manifest, previous)}


def figures_digest(manifest: Mapping[str, Any], ledger: Iterable[str]) -> str:
    """A digest of a bundle's figures: its state, the teams' charges with their parts, and the lines of the ledger.

    It is of one JSON list, in which the ledger is one text.
    """
    figures, end = json.dumps([*(manifest[key] for key in _FIGURES), ""], sort_keys=True)[:-2], '"]'
    digest = sha256(figures.encode())
    for line in ledger:
        digest.update(json.dumps(line)[1:-1].encode())
    digest.update(end.encode())
    return digest.hexdigest()


def read(folder: Path) -> Manifest | None:
    """The manifest of the bundle in `folder`; None if the directory does not exist.

    Raises GpucostError for a directory that is not a bundle: gpucost must not replace it.
    """
    if not folder.exists():
        return None
    with suppress(OSError, ValueError):
        manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if isinstance(manifest, dict) and manifest.get("schema") == SCHEMA:
            return manifest
    message = f"{folder} exists and was not written by gpucost chargeback"
    raise GpucostError(message, "move it away, or use another --out")


# Fields of a charge that are a report's own figures.
_SAME = (
    "cost",
    "estimated_cost",
    "idle_cost",
    "allocated_gpu_hours",
    "efficiency",
    "spot_ratio",
    "measured_ratio",
)


def _teams(bundle: Bundle) -> list[TeamCharge]:
    names = file_names(bundle.teams)
    rows = grouped((team, row) for row in bundle.overview.rows if (team := row.keys["team"]) is not None)
    teams = []
    for team, of_team in rows.items():
        # a team without GPUs has a row of kind 'shared', or only one of bought tokens
        measures = next((row.measures for row in of_team if not row.api), NO_MEASURES)
        charged = total(map(charge, of_team))
        bought = total(row.own_cost for row in of_team if row.api)
        teams.append(
            TeamCharge(
                team=team,
                file=f"teams/{names[team]}",
                charge=charged,
                shared_cost=charged - measures.cost - bought,
                api_cost=bought if bundle.overview.totals_api else None,
                **{name: getattr(measures, name) for name in _SAME},
            )
        )
    return sorted(teams, key=lambda team: (-team.charge, team.team))


def _parents(bundle: Bundle) -> list[TeamCharge]:
    """The sums of each team with the teams below it."""
    names = file_names(bundle.parents)
    parents = []
    for team, view in bundle.parents.items():
        charged = total(map(charge, view.rows))
        bought = view.totals_api.api_cost if view.totals_api else None
        parents.append(
            TeamCharge(
                team=team,
                file=f"parents/{names[team]}",
                charge=charged,
                shared_cost=charged - view.totals.cost - (bought or ZERO),
                api_cost=bought,
                **{name: getattr(view.totals, name) for name in _SAME},
            )
        )
    return parents


def _totals(view: ReportView, teams: list[TeamCharge]) -> ChargeTotals:
    totals = view.totals
    api_cost = view.totals_api.api_cost if view.totals_api else None
    charged = total(team.charge for team in teams)
    names = ("unallocated_cost", "not_collected_cost", "node_cost", "capacity_gpu_hours")
    of_nodes: dict[str, Any] = {name: getattr(view.node_totals, name, None) for name in names}
    same = ("cost", "idle_cost", "estimated_cost", "allocated_gpu_hours", "efficiency", "spot_ratio")
    return ChargeTotals(
        charge=charged,
        shared_cost=charged - totals.cost - (api_cost or ZERO),
        api_cost=api_cost,
        **of_nodes,
        **{name: getattr(totals, name) for name in same},
    )


def _invoice(
    account: Reconciliation, teams: list[TeamCharge], api: ApiCost | None, final: Decimal
) -> InvoiceBridge | None:
    """The steps from the charge to the invoice: without unbilled amounts, and with the bill's other classes."""
    whole = {
        statement.basis: statement
        for statement in account.statements
        if statement.currency == account.currency
    }
    if not whole:
        return None
    billed = whole["billed"]
    effective = whole["effective"]
    charged = total(team.charge for team in teams)
    estimated = total(team.estimated_cost for team in teams)
    shared = total(team.shared_cost for team in teams)
    attributed = [row for row in effective.classes if row.name == "attributed"]
    bought = api.api_cost if api else ZERO
    other = sum((row.cost for row in attributed), -charged) + estimated + final + shared + bought
    lines = [
        InvoiceLine("charged", sum(row.rows for row in attributed), charged),
        InvoiceLine("estimated", None, -estimated),
        InvoiceLine("final", None, -final),
        InvoiceLine("shared", None, -shared),
        InvoiceLine("api", None, -bought),
        # a month has different hours in another time zone, and another month's bill may price some of them
        InvoiceLine("other_bills" if abs(other) >= CENT else "rounding", None, other),
        *(InvoiceLine(row.name, row.rows, row.cost) for row in effective.classes if row.name != "attributed"),
        InvoiceLine("billed_less_effective", None, billed.cost - effective.cost),
    ]
    printed = [line for line in lines if line.rows or line.cost]
    return InvoiceBridge(billed.cost, effective.cost, billed.rows, effective.difference, printed)


def _replaces(manifest: Manifest, previous: Manifest | None) -> Manifest | None:
    if previous is None or previous.get("currency") != manifest["currency"]:
        return None
    if all(previous.get(key) == manifest[key] for key in _FIGURES):
        return previous.get("replaces")
    if not previous.get("is_over"):
        return None  # a month that was still running was not a statement
    charges = [{team["team"]: team["charge"] for team in side["teams"]} for side in (previous, manifest)]
    teams = []
    for team in sorted(set().union(*charges)):
        before, after = (side.get(team, 0.0) for side in charges)
        teams.append(TeamChange(team, before, after, _minus(after, before)))
    totals = {}
    for name in _ADJUSTED:
        old = previous["totals"].get(name)
        new = manifest["totals"][name]
        totals[name] = FigureChange(old, new, _minus(new, old))
    old_seal = previous.get("seal")
    new_seal = manifest["seal"]
    reasons = seal.changes(old_seal, new_seal) if old_seal and new_seal else []
    return to_dict(Replaced(previous["state"], reasons, teams, totals))


def _exact(amount: float) -> Decimal:
    return Decimal(str(amount))


def _minus(after: float | None, before: float | None) -> float:
    """Exact to the ninth decimal, the precision of money."""
    return float(round(_exact(after or 0) - _exact(before or 0), 9))


def write(
    bundle: Bundle, manifest: Manifest, folder: Path, blocks: Mapping[str | None, Sequence[Block]]
) -> Manifest:
    """Write every file of `bundle` into `folder`, next to its FOCUS files; returns the manifest with their list.

    `blocks` are for the pages of teams; key None is for the page of all teams and the index.
    """
    (folder / "teams").mkdir()
    view = bundle.overview
    head, *lines = bundle.ledger.lines
    of_team = grouped(zip(bundle.ledger.teams, lines, strict=True))
    pages = {}
    for paid in manifest["teams"]:
        team = paid["team"]
        _report(
            folder / paid["file"], _stated(bundle.teams[team], bundle), [head, *of_team[team]], blocks[team]
        )
        pages[team] = f"{paid['file']}.html"
    if parents := manifest.get("parents"):
        (folder / "parents").mkdir()
        for paid in parents:
            parent = bundle.parents[paid["team"]]
            members = sorted({team for row in parent.rows if (team := row.keys["team"])})
            charged = chain.from_iterable(map(of_team.__getitem__, members))
            _report(folder / paid["file"], _stated(parent, bundle), [head, *charged], ())
    _report(folder / "all-teams", _stated(view, bundle), csv_lines(view), blocks[None], pages)
    _write_lines(folder / "index.md", [to_markdown(manifest, view.coverage)])
    shown = [block for block in blocks[None] if not block.is_searched]
    _write_lines(folder / "index.html", [to_html(manifest, view.coverage, shown)])
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as content:  # may be too large to read at once
                digest = file_digest(content, "sha256").hexdigest()
            files.append(to_dict(File(path.relative_to(folder).as_posix(), path.stat().st_size, digest)))
    manifest["files"] = files
    _write_lines(folder / FILE, [json_text(manifest)])
    return manifest


def _stated(view: ReportView, bundle: Bundle) -> ReportView:
    state = bundle.state
    account = bundle.account
    sentence = f"no bill of {bundle.query.month} was collected, so the reconciliation is missing"
    if account:
        sentence = account.sentence
    coverage = replace(view.coverage, state=state.name, reasons=state.reasons, reconciliation=sentence)
    return replace(view, subtitle=f"{view.subtitle}; {state.name}", coverage=coverage)


def _report(
    stem: Path,
    view: ReportView,
    lines: Iterable[str],
    blocks: Sequence[Block],
    pages: Mapping[str, str] | None = None,
) -> None:
    # the names of teams' files contain no dot
    _write_lines(stem.with_suffix(".md"), [view.page()])
    _write_lines(stem.with_suffix(".html"), [html(view, blocks=blocks, pages=pages)])
    _write_lines(stem.with_suffix(".json"), [view.json()])
    _write_lines(stem.with_suffix(".csv"), lines)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    # names from a cluster can contain halves of surrogate pairs, which are invalid in a file
    with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(lines)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h


@contextmanager
def replacing(target: Path, keeps: Callable[[Path], list[Path]], mode: int = disk.PRIVATE) -> Iterator[Path]:
    """A new directory that replaces `target` at the end of the block, or is removed if the block raises.

    Its files have this mode. `keeps` names the parts of the old directory to carry over. Only one run at a time can
    work in the parent directory; leftovers of a killed run and unneeded directories are removed. Raises GpucostError
    if another run is at work or the directory cannot be written.
    """
    above = target.parent
    try:
        with disk.private(mode), _made(above), _alone(above), disk.workplace(above) as work:
            part = work / target.name
            part.mkdir()
            yield part
            if target.exists():
                _carry_over(target, part, keeps(target))
            disk.sync_tree(part)
            _swap(part, target)
            disk.sync(above)
    except OSError as error:
        raise GpucostError(
            f"cannot write {target}: {error.strerror or error}; the previous content is kept",
            "use another directory for --out",
        ) from error


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make `folder` and its parents if missing; remove new empty ones if the block raises."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        disk.make_folder(folder)
        yield
    except BaseException:
        with suppress(OSError):  # not empty, or not made
            for path in new:
                path.rmdir()
        raise


@contextmanager
def _alone(above: Path) -> Iterator[None]:
    descriptor = os.open(above, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GpucostError(f"another run is writing to {above}", "wait until it has finished") from None
        yield
    finally:
        os.close(descriptor)


def _carry_over(old: Path, new: Path, files: list[Path]) -> None:
    for file in files:
        copy = new / file.relative_to(old)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)


def _swap(new: Path, target: Path) -> None:
    """Swap the directories: afterward `target` is the new one, and the old one, if any, is at the other path or
    removed.
    """
    if not target.exists():
        new.rename(target)
    elif not _exchange(new, target):
        aside = new.with_name(f"{new.name}-old")
        target.rename(aside)
        try:
            new.rename(target)
        except OSError:
            aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two directories in one step, with Linux on most file systems."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # another C library
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0)
