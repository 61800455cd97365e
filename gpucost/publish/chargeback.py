"""The month's bundle for finance and teams: reports, index, ledger and FOCUS file; see docs/chargeback.md."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal

from gpucost.errors import GpucostError, IncompleteError, StoreError
from gpucost.periods import Period, slots
from gpucost.publish import focus
from gpucost.render.data import to_csv, to_parquet
from gpucost.render.data import to_json as report_json
from gpucost.render.formatting import coverage_lines, figure_text, missing_text
from gpucost.render.html import Block, environment, frame, part
from gpucost.render.html import render as html
from gpucost.render.markdown import environment as markdown_environment
from gpucost.render.markdown import render as markdown
from gpucost.render.schema import Shape, json_text, to_dict, to_json
from gpucost.render.view import Coverage, ReportView, Row
from gpucost.report import Query
from gpucost.report import build as build_report
from gpucost.report.reconcile import CENT, Statement, class_words, in_cents, reconcile
from gpucost.report.units import known
from gpucost.report.units.query import UnitAsk
from gpucost.report.waste import build as dissect
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.publish.focus import FocusTotals
    from gpucost.report.reconcile import Reconciliation
    from gpucost.report.units.query import UnitView
    from gpucost.report.waste import Waste

_NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure", "focus": "FOCUS"}


@dataclass(frozen=True, slots=True)
class State:
    """`reasons` say why the figures are an estimate; `missing` is what a closed month lacks: data, or a bill."""

    is_over: bool
    reasons: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_final(self) -> bool:
        """Nothing will change them any more."""
        return not self.reasons

    @property
    def name(self) -> Literal["final", "estimate"]:
        return "final" if self.is_final else "estimate"


def state_of(is_over: bool, coverage: Coverage, account: Reconciliation | None, expected: Iterable[str]) -> State:
    """The state of a month; `expected` are the bills that should be there and are not."""
    gaps = missing_text(coverage.gaps)
    bills = [f"the bill of {_NAMES.get(name, name)} is missing" for name in expected]
    reasons = [
        *([] if is_over else ["the month is not over"]),
        *([gaps] if gaps else []),
        *bills,
        *(["no bill was collected: prices are those of the price book, spot history and list"] if account is None else []),
        *(["the bill is not final yet"] if account and not account.is_final else []),
        *(["a part of the cost is on no bill"] if account and coverage.estimated_cost else []),
        *(account.problems if account else ()),
    ]
    missing = [*([gaps] if gaps else []), *bills] if is_over else []
    return State(is_over, tuple(reasons), tuple(missing))


def missing_bills(con: DuckDBPyConnection, config: Config, month: str) -> list[str]:
    """Bills of the billing period `month` that are configured, or that the month before had, and that are not there."""
    year, number = int(month[:4]), int(month[5:])
    before = f"{year - (number == 1)}-{(number + 10) % 12 + 1:02}"
    rows = con.execute(
        "SELECT DISTINCT provider, format LIKE '%focus%', billing_period FROM bills WHERE billing_period IN ($month, $before)",
        {"month": month, "before": before},
    ).fetchall()
    there = {provider for provider, _, period in rows if period == month}
    wanted = {provider for provider, _, period in rows if period == before}
    sources = {
        "aws": config.aws.exports,
        "gcp": config.gcp.exports or config.gcp.billing_table,
        "azure": config.azure.exports or config.azure.cost_scope,
    }
    wanted |= {name for name, configured in sources.items() if configured}
    if config.focus.exports and not any(is_focus for _, is_focus, period in rows if period == month):
        wanted.add("focus")
    return sorted(wanted - there)


_COLLECT = "--collect collects what the store lacks of the month; gpucost store info says what is there"
LEDGER_BY = ("team", "cluster", "namespace", "workload", "day", "gpu_model", "capacity_type")


@dataclass(frozen=True, slots=True)
class Ask:
    """A month (`2026-10`), as a local period and by name; `now` is the moment up to which data can be expected.

    A month that is over is told as of its end, whenever that is asked: the same input gives the same bytes.
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


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a month's files say. `overview` is by team, `teams` are by namespace, `ledger` by LEDGER_BY.

    `waste` is the whole fleet's, also by team; `units` what units of work cost, where progress was collected.
    """

    ask: Ask
    timezone: str
    overview: ReportView
    teams: dict[str, ReportView]
    ledger: ReportView
    waste: Waste
    units: tuple[UnitView, ...]
    account: Reconciliation | None
    focus: FocusTotals
    state: State


def build(
    con: DuckDBPyConnection, config: Config, ask: Ask, folder: Path, tell: Callable[[str], None] = lambda _: None
) -> Bundle:
    """The bundle of a month, from an attribution that is up to date; its FOCUS files are written to `folder`.

    Works on a read-only connection. Where the month holds no data, raises IncompleteError if it is over, else GpucostError.
    """

    def view(*teams: str, by: tuple[str, ...] = (), people: bool = True) -> ReportView:
        query = Query(
            period=ask.period,
            period_name=ask.period_name,
            by=by,
            teams=teams,
            now=min(ask.now, ask.period.end),
            with_sections=people,
            with_series=people,
            share_unallocated=ask.share_unallocated,
        )
        return build_report(con, config, query)

    try:
        overview = view()
    except StoreError:
        raise
    except GpucostError as error:
        raise (IncompleteError if ask.is_over else GpucostError)(error.message, _COLLECT) from None
    names = sorted({team for row in overview.rows if (team := row.keys["team"]) is not None})
    teams = {}
    for place, team in enumerate(names, 1):
        tell(f"{team[:40]} ({place} of {len(names)})")
        teams[team] = view(team)
    ledger = view(by=LEDGER_BY, people=False)
    tell("waste and unit costs")
    waste = dissect(con, config, ask.period, slots(ask.period, config.tz, ()), ("team",), top=0)
    units = known(con, UnitAsk(ask.period, ask.period_name, config.tz, config.currency))
    tell("the FOCUS file")
    totals = focus.prepare(con, ask.month, config.currency)
    for kind in ("csv", "parquet"):
        focus.save(con, ask.focus_version, kind, folder / f"focus.{kind}")
    account = _account(con, ask.month, config.currency)
    expected = missing_bills(con, config, ask.month)
    return Bundle(
        ask=ask,
        timezone=config.timezone,
        overview=overview,
        teams=teams,
        ledger=ledger,
        waste=waste,
        units=units,
        account=account,
        focus=totals,
        state=state_of(ask.is_over, overview.coverage, account, expected),
    )


def charge(row: Row) -> Decimal:
    """What a row is charged: its cost, and its share of unallocated and shared costs where those are shared."""
    if row.shared is None:
        return row.measures.cost
    return row.measures.cost + (row.shared.unallocated_cost or Decimal(0)) + row.shared.shared_cost


def _account(con: DuckDBPyConnection, month: str, currency: str) -> Reconciliation | None:
    try:
        return reconcile(con, month, currency)
    except IncompleteError:
        return None


# What stands between the charge and the invoice, besides the classes of the bill's rows.
_LINES = {
    "charged": "charged to teams",
    "estimated": "of it, estimates: on no bill",
    "shared": "of it, shares of unallocated and shared costs",
    "other_bills": "of it, hours of other bills and time zones",
    "billed_less_effective": "billed less effective cost: fees of commitments, covered usage, amortized amounts",
}


def to_markdown(manifest: dict[str, Any], coverage: Coverage) -> str:
    """The index for people who read text; names cannot break out of their cells."""
    return markdown_environment(reports_dir() / "chargeback").get_template("index.md.j2").render(_told(manifest, coverage))


def to_html(manifest: dict[str, Any], coverage: Coverage, blocks: Sequence[Block]) -> str:
    """The index as one page that needs nothing else, with `blocks` after its teams; names are escaped."""
    parts = [part(block, manifest["currency"]) for block in blocks]
    return environment().get_template("index.html.j2").render(_told(manifest, coverage) | {"blocks": parts} | frame())


def _told(manifest: dict[str, Any], coverage: Coverage) -> dict[str, Any]:
    """What the templates print: every figure in words."""
    currency, totals = manifest["currency"], manifest["totals"]
    replaces = manifest["replaces"] or {"state": "", "teams": [], "totals": {}}
    adjusted = {one["team"]: one["adjustment"] for one in replaces["teams"]}
    gone = [one for one in replaces["teams"] if one["team"] not in {team["team"] for team in manifest["teams"]}]

    def money(value: float | None, *, signed: bool = False) -> str:
        text = figure_text(value, "money", currency, 2)
        return f"+{text}" if signed and value and value > 0 and text.strip("0.,-").strip() else text

    def line(one: dict[str, Any], adjustment: float | None) -> list[str]:
        return [
            figure_text(one["allocated_gpu_hours"], "hours", "", 1),
            money(one["charge"]),
            *([money(one["cost"]), money(one["shared_cost"])] if totals["shared_cost"] else []),
            figure_text(_ratio(one["charge"], totals["charge"]), "ratio", "", 1),
            money(one["estimated_cost"]),
            money(one["idle_cost"]),
            figure_text(one["efficiency"], "ratio", "", 1),
            figure_text(one["spot_ratio"], "ratio", "", 1),
            *([money(adjustment or 0.0, signed=True)] if manifest["replaces"] else []),
        ]

    whole = replaces["totals"]
    return {
        "month": manifest["month"],
        "period": f"{manifest['from']} to {manifest['to']}, {manifest['timezone']}",
        "currency": currency,
        "state": manifest["state"],
        "reasons": manifest["reasons"],
        "missing": manifest["missing"],
        "titles": [
            "GPU-hours",
            "Charged",
            *(["Cost", "Shared"] if totals["shared_cost"] else []),
            "Share",
            "Estimate",
            "Idle cost",
            "Efficiency",
            "Spot",
            *(["Adjustment"] if manifest["replaces"] else []),
        ],
        "teams": [
            {"name": team["team"], "file": team["file"], "cells": line(team, adjusted.get(team["team"]))}
            for team in manifest["teams"]
        ],
        "gone": [{"name": one["team"], "adjustment": money(one["adjustment"], signed=True)} for one in gone],
        # of what teams are charged; the total beside it is of all nodes
        "total": line(
            totals | {"estimated_cost": _sum(manifest["teams"], "estimated_cost")},
            whole["charge"]["adjustment"] if whole else None,
        ),
        "unallocated": money(totals["unallocated_cost"]),
        "unseen": money(totals["not_collected_cost"]) if totals["not_collected_cost"] else None,
        "node_cost": money(totals["node_cost"]),
        "estimated": money(totals["estimated_cost"]),
        "invoice": [
            {"what": what, "rows": "" if rows is None else f"{rows:,}", "cost": money(float(cost))}
            for what, rows, cost in _invoice_lines(manifest["invoice"])
        ],
        "invoice_total": manifest["invoice"]
        and {
            "rows": f"{manifest['invoice']['rows']:,}",
            "cost": money(manifest["invoice"]["billed_cost"]),
        },
        "replaced_state": replaces["state"],
        "adjustments": [
            {
                "what": what,
                "before": money(one["before"]),
                "after": money(one["after"]),
                "adjustment": money(one["adjustment"], signed=True),
            }
            for what, one in (
                ("charged to teams", whole.get("charge")),
                ("unallocated", whole.get("unallocated_cost")),
                ("not collected", whole.get("not_collected_cost")),
                ("all nodes", whole.get("node_cost")),
            )
            if one
        ],
        "coverage": [line for line in coverage_lines(coverage, currency) if line[0] != "Reconciled"],
        "reconciliation": (manifest["reconciliation"] or {}).get("sentence"),
        "warnings": manifest["coverage"]["warnings"],
        "focus": manifest["focus"],
    }


def _invoice_lines(invoice: dict[str, Any] | None) -> list[tuple[str, int | None, Decimal]]:
    """From the charge to the invoice, in cents that add up."""
    if invoice is None:
        return []
    lines = [(one["line"], one["rows"], Decimal(str(one["cost"]))) for one in invoice["lines"]]
    shown = [
        (_LINES.get(name) or class_words(name, "effective"), rows, cost)
        for name, rows, cost in lines
        if name != "rounding" and (rows or abs(cost) >= CENT)
    ]
    difference = Decimal(str(invoice["difference"]))
    shown += [("not explained", None, difference)] if difference else []
    return in_cents(shown, Decimal(str(invoice["billed_cost"])))


def _sum(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum((Decimal(str(row[name])) for row in rows), Decimal(0)))


def _ratio(part: float, whole: float) -> float | None:
    return float(Decimal(str(part)) / Decimal(str(whole))) if whole else None


_LONGEST = 60


def file_names(teams: Iterable[str]) -> dict[str, str]:
    """A name of a file, without its suffix, for each team: of `a-z`, `0-9`, `-` and `_`, at most 80 long, unique in any case.

    A team that is called so keeps its name; others get what is left of theirs, and a digest of the whole of it, so that a
    team's file is called the same whichever other teams there are.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for team in sorted(set(teams), key=lambda team: (not _is_safe(team), team)):
        name = team
        if not _is_safe(team):
            digest = sha256(team.encode("utf-8", "surrogatepass")).hexdigest()
            rest = re.sub(r"[^a-z0-9_]+", "-", team.lower()).strip("-")[:_LONGEST].strip("-") or "team"
            name = next(made for size in (8, 16, 64) if (made := f"{rest}-{digest[:size]}") not in taken)
        names[team] = name
        taken.add(name)
    return names


def _is_safe(team: str) -> bool:
    return re.fullmatch(rf"[a-z0-9][a-z0-9_-]{{0,{_LONGEST - 1}}}", team) is not None


@dataclass(frozen=True, slots=True)
class TeamCharge:
    """What a team pays: its cost and its shares. `file` is that of its files, without the suffix."""

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


@dataclass(frozen=True, slots=True)
class ChargeTotals:
    """What all teams pay, and what the nodes cost; None where the latter is not known."""

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


@dataclass(frozen=True, slots=True)
class Account:
    """The reconciliation, in short."""

    sentence: str
    providers: tuple[str, ...]
    is_final: bool
    is_exact: bool
    problems: tuple[str, ...]
    effective_cost: Decimal
    lines: dict[str, Decimal]
    difference: Decimal
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """`charged`, what is not the bill's of that, then classes of the bill's rows; docs/chargeback.md."""

    line: str
    rows: int | None
    cost: Decimal


@dataclass(frozen=True, slots=True)
class InvoiceBridge:
    """How the charge leads to the invoice: `lines` and `difference` add up to `billed_cost`."""

    billed_cost: Decimal
    effective_cost: Decimal
    rows: int
    difference: Decimal
    lines: list[InvoiceLine]


@dataclass(frozen=True, slots=True)
class Focus:
    """What the FOCUS file holds; costs by currency."""

    version: str
    charges: int
    rows: int
    billed_cost: dict[str, Decimal]
    effective_cost: dict[str, Decimal]
    estimated_cost: Decimal


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of the bundle before and of this one."""

    before: float | None
    after: float | None
    adjustment: float


@dataclass(frozen=True, slots=True)
class TeamChange:
    """What a team paid and pays."""

    team: str
    before: float
    after: float
    adjustment: float


@dataclass(frozen=True, slots=True)
class Replaced:
    """What the figures differ from: those of the bundle that stood there before."""

    state: Literal["final", "estimate"]
    teams: list[TeamChange]
    totals: dict[str, Change]


@dataclass(frozen=True, slots=True)
class File:
    """A file of the bundle."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Index(Shape):
    """A bundle's index.json. `reasons` are why the figures are an estimate, `missing` what a month that is over lacks."""

    month: str
    period: Period
    timezone: str
    currency: str
    share_unallocated: Literal["proportional", "even"] | None
    state: Literal["final", "estimate"]
    is_over: bool
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    teams: list[TeamCharge]
    totals: ChargeTotals
    coverage: Coverage
    invoice: InvoiceBridge | None
    reconciliation: Account | None
    focus: Focus
    replaces: Replaced | None
    files: tuple[File, ...]

    FLAT = ("period",)


SCHEMA = "gpucost.chargeback/1"
FILE = "index.json"
_FIGURES = ("state", "teams", "totals")


def manifest_of(bundle: Bundle, previous: dict[str, Any] | None) -> dict[str, Any]:
    """The manifest of `bundle`, without its list of files. `previous` is the manifest that it takes the place of, if any.

    `replaces` is what the figures differ from: those of the previous manifest of a month that was over, or, where they are the
    same, whatever that one differed from, so that running again changes nothing.
    """
    view, ask = bundle.overview, bundle.ask
    made = Index(
        month=ask.month,
        period=view.period,
        timezone=bundle.timezone,
        currency=view.currency,
        share_unallocated=ask.share_unallocated,
        state=bundle.state.name,
        is_over=bundle.state.is_over,
        reasons=bundle.state.reasons,
        missing=bundle.state.missing,
        teams=_teams(bundle),
        totals=_totals(bundle),
        coverage=view.coverage,
        invoice=_invoice(bundle),
        reconciliation=_reconciliation(bundle),
        focus=Focus(
            version=ask.focus_version,
            charges=bundle.focus.charges,
            rows=bundle.focus.billed_rows + bundle.focus.estimated_rows,
            billed_cost=bundle.focus.billed_cost,
            effective_cost=bundle.focus.effective_cost,
            estimated_cost=bundle.focus.estimated_cost,
        ),
        replaces=None,
        files=(),
    )
    plain: dict[str, Any] = json.loads(to_json(made, "chargeback"))
    return plain | {"replaces": _replaces(plain, previous)}


def read(folder: Path) -> dict[str, Any] | None:
    """The manifest of the bundle in `folder`; None where there is no such directory.

    Raises GpucostError for a directory that is no bundle: it is not gpucost's to replace.
    """
    if not folder.exists():
        return None
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise GpucostError(f"{folder} is there and was not written by gpucost chargeback", "move it away, or name another --out")
    return found


def _teams(bundle: Bundle) -> list[TeamCharge]:
    names = file_names(bundle.teams)
    by_team: dict[str, TeamCharge] = {}
    for row in bundle.overview.rows:
        team = row.keys["team"]
        if team is None:
            continue
        # a team without GPUs has a row of kind 'shared'; none has two
        by_team[team] = TeamCharge(
            team=team,
            file=f"teams/{names[team]}",
            charge=charge(row),
            cost=row.measures.cost,
            shared_cost=charge(row) - row.measures.cost,
            estimated_cost=row.measures.estimated_cost,
            idle_cost=row.measures.idle_cost,
            allocated_gpu_hours=row.measures.allocated_gpu_hours,
            efficiency=row.measures.efficiency,
            spot_ratio=row.measures.spot_ratio,
            measured_ratio=row.measures.measured_ratio,
        )
    return sorted(by_team.values(), key=lambda one: (-one.charge, one.team))


def _totals(bundle: Bundle) -> ChargeTotals:
    view, nodes = bundle.overview, bundle.overview.node_totals
    charged = sum((charge(row) for row in view.rows if row.keys["team"] is not None), Decimal(0))
    return ChargeTotals(
        charge=charged,
        cost=view.totals.cost,
        shared_cost=charged - view.totals.cost,
        idle_cost=view.totals.idle_cost,
        unallocated_cost=nodes.unallocated_cost if nodes else None,
        not_collected_cost=nodes.not_collected_cost if nodes else None,
        node_cost=nodes.node_cost if nodes else None,
        estimated_cost=view.totals.estimated_cost,
        allocated_gpu_hours=view.totals.allocated_gpu_hours,
        capacity_gpu_hours=nodes.capacity_gpu_hours if nodes else None,
        efficiency=view.totals.efficiency,
        spot_ratio=view.totals.spot_ratio,
    )


def _reconciliation(bundle: Bundle) -> Account | None:
    account = bundle.account
    return Account(**{one.name: getattr(account, one.name) for one in fields(Account)}) if account else None


def _invoice(bundle: Bundle) -> InvoiceBridge | None:
    """How the charge leads to the invoice: less what is on no bill, and by class what the bill has besides."""
    if bundle.account is None:
        return None
    whole = {one.basis: one for one in bundle.account.statements if one.currency == bundle.account.currency}
    if not whole:
        return None
    billed, effective = whole["billed"], whole["effective"]
    rows = [row for row in bundle.overview.rows if row.keys["team"] is not None]
    charged = sum((charge(row) for row in rows), Decimal(0))
    estimated = sum((row.measures.estimated_cost for row in rows), Decimal(0))
    shared = sum((charge(row) - row.measures.cost for row in rows), Decimal(0))
    attributed = [row for row in effective.classes if row.name == "attributed"]
    other = sum((row.cost for row in attributed), Decimal(0)) - (charged - estimated - shared)
    lines: list[tuple[str, int | None, Decimal]] = [
        ("charged", sum(row.rows for row in attributed), charged),
        ("estimated", None, -estimated),
        ("shared", None, -shared),
        # the hours of a month are not the same in any time zone, and a bill of another month may price some
        ("other_bills" if abs(other) >= CENT else "rounding", None, other),
        *((row.name, row.rows, row.cost) for row in effective.classes if row.name != "attributed"),
        ("billed_less_effective", None, billed.cost - effective.cost),
    ]
    shown = [InvoiceLine(name, count, cost) for name, count, cost in lines if count or cost]
    return InvoiceBridge(billed.cost, effective.cost, billed.rows, effective.difference, shown)


def sentence(bundle: Bundle) -> str:
    """The reconciliation in one line: where the bill of GPU machines went."""
    if bundle.account is None:
        return f"no bill of {bundle.ask.month} was collected, so nothing is reconciled"
    return bundle.account.sentence


def _replaces(made: dict[str, Any], previous: dict[str, Any] | None) -> dict[str, Any] | None:
    if previous is None or previous.get("currency") != made["currency"]:
        return None
    if all(previous.get(key) == made[key] for key in _FIGURES):
        return previous.get("replaces")
    if not previous.get("is_over"):
        return None  # a month that was still running was no statement
    before = {one["team"]: one["charge"] for one in previous["teams"]}
    after = {one["team"]: one["charge"] for one in made["teams"]}
    differences = [
        TeamChange(team, before.get(team, 0.0), after.get(team, 0.0), _minus(after.get(team), before.get(team)))
        for team in sorted({*before, *after})
    ]
    sums = {
        name: (previous["totals"].get(name), made["totals"][name])
        for name in ("charge", "unallocated_cost", "not_collected_cost", "node_cost")
    }
    totals = {name: Change(*sides, _minus(sides[1], sides[0])) for name, sides in sums.items()}
    return to_dict(Replaced(previous["state"], differences, totals))


def _minus(after: float | None, before: float | None) -> float:
    """Exact to the ninth decimal, which money has."""
    return float(round(Decimal(str(after or 0)) - Decimal(str(before or 0)), 9))


def write(
    bundle: Bundle, folder: Path, previous: dict[str, Any] | None, blocks: Mapping[str | None, Sequence[Block]]
) -> dict[str, Any]:
    """Write every file of `bundle` into `folder`, where its FOCUS files are already; returns its manifest.

    `previous` is the manifest of the bundle that it takes the place of, if any; `blocks` stand on the pages of teams, and those
    of None on the page of all teams and on the index.
    """
    manifest = manifest_of(bundle, previous)
    (folder / "teams").mkdir()
    lines: dict[str | None, list[Row]] = {}
    for row in bundle.ledger.rows:
        lines.setdefault(row.keys["team"], []).append(row)
    for team in manifest["teams"]:
        own = replace(bundle.ledger, rows=tuple(lines.get(team["team"], ())))
        _report(folder / team["file"], _stated(bundle.teams[team["team"]], bundle), own, blocks[team["team"]])
    _report(folder / "all-teams", _stated(bundle.overview, bundle), bundle.overview, blocks[None])
    _put(folder / "ledger.csv", to_csv(bundle.ledger))
    to_parquet(bundle.ledger, folder / "ledger.parquet")
    _put(folder / "index.md", to_markdown(manifest, bundle.overview.coverage))
    _put(folder / "index.html", to_html(manifest, bundle.overview.coverage, blocks[None]))
    manifest["files"] = [_file(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    _put(folder / FILE, json_text(manifest))
    return manifest


def _stated(view: ReportView, bundle: Bundle) -> ReportView:
    state = bundle.state
    told = replace(view.coverage, state=state.name, reasons=state.reasons, reconciliation=sentence(bundle))
    return replace(view, subtitle=f"{view.subtitle}; {state.name}", coverage=told)


def _report(stem: Path, view: ReportView, lines: ReportView, blocks: Sequence[Block]) -> None:
    _put(stem.with_name(f"{stem.name}.md"), markdown(view))
    _put(stem.with_name(f"{stem.name}.html"), html(view, blocks=blocks))
    _put(stem.with_name(f"{stem.name}.json"), report_json(view))
    _put(stem.with_name(f"{stem.name}.csv"), to_csv(lines))


def _put(path: Path, text: str) -> None:
    # names from a cluster can hold halves of surrogate pairs, which no file can
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _file(path: Path, folder: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return to_dict(File(path.relative_to(folder).as_posix(), len(content), sha256(content).hexdigest()))


_MARK = ".gpucost-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h


@contextmanager
def replacing(target: Path, keeps: Callable[[Path], list[Path]]) -> Iterator[Path]:
    """A new directory beside `target`, that takes its place where the block ends and is gone where it raises.

    `keeps` names what of the old directory goes over to the new one. One run at a time works in the directory above; what a
    killed run left there is removed, and so are directories that were made for nothing. Raises GpucostError where another run is
    at work or the directory cannot be written.
    """
    above = target.parent
    try:
        with _made(above), _alone(above), _ended_in_order():
            for left in above.glob(f".????-??{_MARK}*"):
                shutil.rmtree(left, ignore_errors=True)
            part = Path(mkdtemp(dir=above, prefix=f".{target.name}{_MARK}"))
            try:
                yield part
                part.chmod(0o777 & ~_umask())
                if target.exists():
                    _carry_over(target, part, keeps(target))
                _swap(part, target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise GpucostError(
            f"cannot write {target}: {error.strerror or error}; what was there before is kept", "--out names another directory"
        ) from error


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """`folder` and those above it, made where they are not there, and gone again where the block raises and leaves them empty."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # not empty, or not made
            for one in new:
                one.rmdir()
        raise


@contextmanager
def _alone(above: Path) -> Iterator[None]:
    import fcntl

    descriptor = os.open(above, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GpucostError(f"another run is writing to {above}", "wait until it is done") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """While the block lasts, SIGTERM, which schedulers end a run with, lets it clean up after itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _carry_over(old: Path, new: Path, files: list[Path]) -> None:
    for file in files:
        copy = new / file.relative_to(old)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)


def _swap(new: Path, target: Path) -> None:
    """After it `target` is the new directory; the old one, if any, stands where the new one was, or is gone."""
    if not target.exists():
        new.rename(target)
        return
    if _exchange(new, target):
        return
    aside = new.with_name(f"{new.name}-old")
    target.rename(aside)
    try:
        new.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Linux exchanges two directories in one step, on most file systems."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # another C library
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
