"""What a bundle comes to, as its index.json holds it; and how it differs from the one that it replaces."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucost.chargeback.build import Bundle, charge
from gpucost.chargeback.names import file_names
from gpucost.errors import GpucostError
from gpucost.model import iso
from gpucost.reconcile import CENT, statement_dict
from gpucost.report.render_data import coverage_dict, number

SCHEMA = "gpucost.chargeback/1"
FILE = "index.json"
_FIGURES = ("state", "teams", "totals")


def manifest_of(bundle: Bundle, previous: dict[str, Any] | None) -> dict[str, Any]:
    """The manifest of `bundle`, without its list of files. `previous` is the manifest that it takes the place of, if any.

    `replaces` is what the figures differ from: those of the previous manifest of a month that was over, or, where they are the
    same, whatever that one differed from, so that running again changes nothing.
    """
    view, ask = bundle.overview, bundle.ask
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "month": ask.month,
        "from": iso(view.period.start),
        "to": iso(view.period.end),
        "timezone": bundle.timezone,
        "currency": view.currency,
        "share_unallocated": ask.share_unallocated,
        "state": bundle.state.name,
        "is_over": bundle.state.is_over,
        "reasons": list(bundle.state.reasons),
        "missing": list(bundle.state.missing),
        "teams": _teams(bundle),
        "totals": _totals(bundle),
        "coverage": coverage_dict(view.coverage),
        "invoice": _invoice(bundle),
        "reconciliation": _reconciliation(bundle),
        "focus": {
            "version": ask.focus_version,
            "charges": bundle.focus.charges,
            "rows": bundle.focus.billed_rows + bundle.focus.estimated_rows,
            "billed_cost": bundle.focus.billed_cost,
            "effective_cost": bundle.focus.effective_cost,
            "estimated_cost": bundle.focus.estimated_cost,
        },
    }
    plain: dict[str, Any] = json.loads(to_json(made))
    return plain | {"replaces": _replaces(plain, previous)}


def to_json(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False, default=number) + "\n"


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


def _teams(bundle: Bundle) -> list[dict[str, Any]]:
    names = file_names(bundle.teams)
    by_team: dict[str, dict[str, Any]] = {}
    for row in bundle.overview.rows:
        team = row.keys["team"]
        if team is None:
            continue
        # a team without GPUs has a row of kind 'shared'; none has two
        by_team[team] = {
            "team": team,
            "file": f"teams/{names[team]}",
            "charge": charge(row),
            "cost": row.measures.cost,
            "shared_cost": charge(row) - row.measures.cost,
            "estimated_cost": row.measures.estimated_cost,
            "idle_cost": row.measures.idle_cost,
            "allocated_gpu_hours": row.measures.allocated_gpu_hours,
            "efficiency": row.measures.efficiency,
            "spot_ratio": row.measures.spot_ratio,
            "measured_ratio": row.measures.measured_ratio,
        }
    return sorted(by_team.values(), key=lambda one: (-one["charge"], one["team"]))


def _totals(bundle: Bundle) -> dict[str, Any]:
    view, nodes = bundle.overview, bundle.overview.node_totals
    charged = sum((charge(row) for row in view.rows if row.keys["team"] is not None), Decimal(0))
    return {
        "charge": charged,
        "cost": view.totals.cost,
        "shared_cost": charged - view.totals.cost,
        "idle_cost": view.totals.idle_cost,
        "unallocated_cost": nodes.unallocated_cost if nodes else None,
        "not_collected_cost": nodes.not_collected_cost if nodes else None,
        "node_cost": nodes.node_cost if nodes else None,
        "estimated_cost": view.totals.estimated_cost,
        "allocated_gpu_hours": view.totals.allocated_gpu_hours,
        "capacity_gpu_hours": nodes.capacity_gpu_hours if nodes else None,
        "efficiency": view.totals.efficiency,
        "spot_ratio": view.totals.spot_ratio,
    }


def _reconciliation(bundle: Bundle) -> dict[str, Any] | None:
    account = bundle.account
    if account is None:
        return None
    return {
        "sentence": account.sentence,
        "providers": list(account.providers),
        "is_final": account.is_final,
        "is_exact": not account.problems,
        "problems": list(account.problems),
        "effective_cost": account.effective_cost,
        "lines": account.lines,
        "difference": account.difference,
        "statements": [statement_dict(one) for one in account.statements],
    }


def _invoice(bundle: Bundle) -> dict[str, Any] | None:
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
    return {
        "billed_cost": billed.cost,
        "effective_cost": effective.cost,
        "rows": billed.rows,
        "difference": effective.difference,
        "lines": [{"line": name, "rows": count, "cost": cost} for name, count, cost in lines if count or cost],
    }


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
        {
            "team": team,
            "before": before.get(team, 0.0),
            "after": after.get(team, 0.0),
            "adjustment": _minus(after.get(team), before.get(team)),
        }
        for team in sorted({*before, *after})
    ]
    totals = {
        name: {"before": previous["totals"].get(name), "after": made["totals"][name]}
        for name in ("charge", "unallocated_cost", "not_collected_cost", "node_cost")
    }
    for one in totals.values():
        one["adjustment"] = _minus(one["after"], one["before"])
    return {"state": previous["state"], "teams": differences, "totals": totals}


def _minus(after: float | None, before: float | None) -> float:
    """Exact to the ninth decimal, which money has."""
    return float(round(Decimal(str(after or 0)) - Decimal(str(before or 0)), 9))
