"""The figures at the top of the page, taken from the view."""

from __future__ import annotations

from gpucost.report.rows import ratio
from gpucost.report.view import Figure, Figures, ReportView


def summary(view: ReportView) -> list[Figure]:
    """What it cost, what of that was no use, and the ratios that have a target."""
    totals, nodes = view.totals, view.node_totals
    whole = nodes.node_cost if nodes else totals.cost
    figures = [Figure("Cost", whole, "money", note="of all GPU nodes" if nodes else None)]
    if nodes:
        figures.append(Figure("Allocated", totals.cost, "money", ratio(totals.cost, whole), "of cost"))
        figures.append(Figure("Unallocated", nodes.unallocated_cost, "money", ratio(nodes.unallocated_cost, whole), "of cost"))
    figures.append(
        Figure(
            "Idle", totals.idle_cost, "money", ratio(totals.idle_cost, totals.cost), "of allocated cost" if nodes else "of cost"
        )
    )
    if view.totals_shared and view.totals_shared.costs:
        figures.append(Figure("Shared", view.totals_shared.shared_cost, "money", note="on top"))
    figures.append(Figure("GPU-hours held", totals.allocated_gpu_hours, "hours"))
    return [
        *figures,
        *(figure for section in view.sections if isinstance(section, Figures) for figure in section.figures if figure.status),
    ]
