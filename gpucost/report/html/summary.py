"""The figures at the top of the page, taken from the view."""

from __future__ import annotations

from typing import Any

from gpucost.report.html.parts import told
from gpucost.report.html.tables import direction
from gpucost.report.rows import ratio
from gpucost.report.view import Change, Column, Figure, Figures, ReportView
from gpucost.report.words import with_arrow

_CHANGE = Column("Change", "change", 1)


def cards(view: ReportView) -> list[dict[str, Any]]:
    """What it cost, what of that was no use, and the ratios that have a target, in words; and how costs changed."""
    totals, nodes, since = view.totals, view.node_totals, view.changes
    whole = nodes.node_cost if nodes else totals.cost
    found: list[tuple[Figure, Change | None]] = [
        (Figure("Cost", whole, "money", note="of all GPU nodes" if nodes else None), _of(view, "node_cost" if nodes else "cost"))
    ]
    if nodes:
        allocated = Figure("Allocated", totals.cost, "money", ratio(totals.cost, whole), "of cost")
        unallocated = Figure("Unallocated", nodes.unallocated_cost, "money", ratio(nodes.unallocated_cost, whole), "of cost")
        found += [(allocated, _of(view, "cost")), (unallocated, _of(view, "unallocated_cost"))]
        if nodes.not_collected_cost:
            share = ratio(nodes.not_collected_cost, whole)
            unseen = Figure("Not collected", nodes.not_collected_cost, "money", share, "of cost")
            found.append((unseen, _of(view, "not_collected_cost")))
    share_of = "of allocated cost" if nodes else "of cost"
    found.append((Figure("Idle", totals.idle_cost, "money", ratio(totals.idle_cost, totals.cost), share_of), None))
    if view.totals_shared and view.totals_shared.costs:
        found.append((Figure("Shared", view.totals_shared.shared_cost, "money", note="on top"), None))
    found.append((Figure("GPU-hours held", totals.allocated_gpu_hours, "hours"), None))
    targets = [figure for section in view.sections if isinstance(section, Figures) for figure in section.figures if figure.status]
    return [
        told(figure, view.currency) | {"change": _told(change) if since else None}
        for figure, change in [*found, *((figure, None) for figure in targets)]
    ]


def _of(view: ReportView, name: str) -> Change | None:
    change: Change | None = getattr(view.changes, name, None)
    return change


def _told(change: Change | None) -> dict[str, str] | None:
    """None where nothing was compared, or there was nothing to compare with."""
    if change is None or change.cost_change_percent is None:
        return None
    value = change.cost_change_percent / 100
    return {"text": with_arrow(value, _CHANGE, ""), "trend": direction(value)}
