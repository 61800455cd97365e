"""What a notification says: the figures of a report in words, few enough to be read in a chat."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.report.rows import ratio
from gpucost.report.view import Status
from gpucost.report.words import figure_text

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.config import Config
    from gpucost.report.view import ReportView, Row

_MOST_NOTICES = 3
_LONGEST_NAME = 48
_LONGEST_NOTICE = 300
_LONGEST_TITLE = 140

Line = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Message:
    """Title, figures and lines as (name, value, remark), in words; on one line each, without control characters.

    Nothing is escaped: each way of sending has its own characters to disarm.
    """

    title: str
    subtitle: str
    figures: tuple[Line, ...]
    lines_title: str
    lines: tuple[Line, ...]
    more: str
    notices: tuple[str, ...]
    link: str | None


def message_of(view: ReportView, config: Config, link: str | None, top: int) -> Message:
    """The message on `view`, whose rows are by one dimension: its totals and the `top` rows that cost most."""
    rows = [row for row in view.rows if row.kind == "allocated"]
    shown = rows[:top]
    left = len(rows) - len(shown)
    of = "unit" if not view.by else view.by[0].replace("_", " ")
    return Message(
        title=_shortened(view.title, _LONGEST_TITLE),
        subtitle=_plain(view.subtitle),
        figures=tuple(_figures(view, config)),
        lines_title=f"Cost by {of}",
        lines=tuple(_line(row, view) for row in shown),
        more=f"and {left:,} more" if left and shown else "",
        notices=_notices(view),
        link=link,
    )


def _figures(view: ReportView, config: Config) -> list[Line]:
    totals, nodes = view.totals, view.node_totals
    figures: list[Line] = []
    if nodes is not None:
        estimated = view.coverage.estimated_cost
        is_billed = any(source.name == "bill" for source in view.coverage.price_sources)
        remark = "" if not is_billed or not estimated else f"{_money(estimated, view)} of it estimated"
        figures.append(("GPU nodes", _money(nodes.node_cost, view), remark))
    whole = totals.cost if nodes is None else nodes.node_cost
    figures.append(("Allocated", _money(totals.cost, view), f"{totals.allocated_gpu_hours:,.1f} GPU-hours"))
    figures.append(("Idle", _money(totals.idle_cost, view), _share(totals.idle_cost, whole)))
    if nodes is not None:
        figures.append(("Unallocated", _money(nodes.unallocated_cost, view), _share(nodes.unallocated_cost, whole)))
        if nodes.not_collected_cost:
            figures.append(("Not collected", _money(nodes.not_collected_cost, view), _share(nodes.not_collected_cost, whole)))
    targets = config.targets
    is_measured = (totals.measured_ratio or 0.0) >= config.idle.min_measured
    figures.append(_targeted("Efficiency", totals.efficiency, float(targets.efficiency), is_known=is_measured))
    figures.append(_targeted("Spot", totals.spot_ratio, float(targets.spot_ratio), is_known=True))
    return figures


def _targeted(label: str, value: float | None, target: float, *, is_known: bool) -> Line:
    status: Status = "unknown" if value is None or not is_known else "met" if value >= target else "missed"
    return label, figure_text(value, "ratio", "", 1), f"target > {target * 100:.3g} %, {status}"


def _line(row: Row, view: ReportView) -> Line:
    name = next((value for value in row.keys.values() if value), "unknown")
    share = _share(row.measures.idle_cost, row.measures.cost)
    idle = f"{_money(row.measures.idle_cost, view)} idle" + (f", {share.removesuffix(' of cost')}" if share else "")
    return _shortened(name, _LONGEST_NAME), _money(row.measures.cost, view), idle if row.measures.idle_cost else ""


def _notices(view: ReportView) -> tuple[str, ...]:
    warnings = view.coverage.warnings
    shown = [_shortened(notice.message, _LONGEST_NOTICE) for notice in warnings[:_MOST_NOTICES]]
    if len(warnings) > len(shown):
        shown.append(f"{len(warnings) - len(shown)} more warnings: see the report")
    return tuple(shown)


def _money(value: Decimal, view: ReportView) -> str:
    return figure_text(value, "money", view.currency, 2)


def _share(part: Decimal, whole: Decimal) -> str:
    share = ratio(part, whole)
    return "" if share is None else f"{figure_text(share, 'ratio', '', 1)} of cost"


def _shortened(text: str, most: int) -> str:
    plain = _plain(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _plain(text: str) -> str:
    """`text` on one line, without control characters and without those that change the direction of what follows."""
    kept = (" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in text)
    return " ".join("".join(letter for letter in kept if unicodedata.category(letter) not in ("Cf", "Cs")).split())
