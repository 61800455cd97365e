"""Figures as text, with the same words in the terminal and in Markdown."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter

from gpucost.records import grouped
from gpucost.render.view import Column, Coverage, Figure, Gap, Item, Unit, Value

_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
FINAL = ("bill", "final_price_book")  # sources of final prices
_SOURCES = {
    "bill": "the bill",
    "price_book": "the price book",
    "final_price_book": "final rows of the price book",
    "spot_history": "spot price history",
    "catalog": "catalog list prices",
}
_NOT_KNOWN = "–"
_CLUSTERS_SHOWN = 5
_GAPS_SHOWN = 3
_UNITS_OF_SUM = {"hours": " h"}


def cell(value: Value, column: Column, currency: str) -> str:
    """One cell: thousands separated, with the column's decimals; a dash for unknown."""
    return figure_text(value, column.unit, currency, column.decimals)


def figure_text(value: Value, unit: Unit, currency: str, decimals: int) -> str:
    """A value as text: money with its sign, hours with decimals, ratios (0-1) in percent, a dash for None."""
    if isinstance(value, str):
        return value
    if value is None:
        return _NOT_KNOWN
    if unit == "ratio":
        return f"{_plain(value * 100, decimals)} %"
    text = _plain(value, decimals)
    if unit not in ("money", "price"):
        return text
    symbol = _SYMBOLS.get(currency, f"{currency} ")
    return f"-{symbol}{text[1:]}" if text.startswith("-") else symbol + text


def sum_text(value: float, unit: Unit, currency: str) -> str:
    """The sum next to a table's title, with its unit."""
    return figure_text(value, unit, currency, 1) + _UNITS_OF_SUM.get(unit, "")


def value_of(figure: Figure, currency: str) -> str:
    text = figure_text(figure.value, figure.unit, currency, 2 if figure.unit == "money" else 1)
    return f"{text} h" if figure.unit == "hours" else text


def share_of(figure: Figure) -> str:
    """`18.6 %`, for a figure that is a share."""
    return percent(figure.share) if figure.share_of else ""


def remark_of(figure: Figure) -> str:
    """The whole of a share, or its target and why it is unknown."""
    return "; ".join(part for part in (figure.share_of, target_text(figure), figure.note) if part)


def target_text(figure: Figure) -> str:
    """`target > 70 %`, for a figure with a target."""
    return "" if figure.target is None else f"target > {figure.target * 100:.3g} %"


def remark(figure: Figure) -> str:
    """The share and its remark."""
    return f"{share_of(figure)} {remark_of(figure)}".strip()


def item_value(item: Item, currency: str) -> str:
    """The value of an item."""
    return f"{'≤ ' if item.is_most else ''}{figure_text(item.value, item.unit, currency, 2)}"


def coverage_lines(coverage: Coverage, currency: str) -> list[tuple[str, list[str]]]:
    """The facts for judging the figures, as (label, sentences)."""
    off = coverage.off
    unknown = coverage.unknown_capacity_gpu_hours
    lines = {
        "State": [coverage.state, *(coverage.reasons or ())] if coverage.state else [],
        "Measured": [
            "no GPU-hours were allocated"
            if coverage.measured_ratio is None
            else f"{percent(coverage.measured_ratio)} of the allocated GPU-hours"
        ],
        "Prices": _prices(coverage),
        "Final" if "final_price_book" in coverage.price_sources else "Billed": _final(coverage, currency),
        "Collected": [
            _collected(coverage),
            *([f"{coverage.bridged_hours:,.1f} h bridged"] if coverage.bridged_hours else []),
            *(
                f"{sum(gap.hours for gap in off if gap.cluster == name):,.1f} h of {name} off"
                for name in sorted({gap.cluster for gap in off})
            ),
        ],
        # accepted gaps, with name and reason
        "Accepted": [
            signed_text(alike)
            for alike in alike_gaps(gap for gap in coverage.not_collected if gap.accepted_by)
        ],
        "Capacity": [f"type unknown for {unknown:,.1f} GPU-hours, left out of the spot ratio"]
        if unknown
        else [],
        "Basis": [f"{coverage.cost_basis}: CPU and memory are charged by request; idle cost is for GPUs only"]
        if coverage.cost_basis
        else [],
        "Reconciled": [coverage.reconciliation] if coverage.reconciliation else [],
    }
    return [(label, sentences) for label, sentences in lines.items() if sentences]


def percent(value: float | None) -> str:
    """A share (0-1) in percent."""
    return figure_text(value, "ratio", "", 1)


def _prices(coverage: Coverage) -> list[str]:
    parts = []
    for source in coverage.sources:
        age = f" of {source.as_of}" if source.as_of and source.name not in FINAL else ""
        if age and source.age_days and source.age_days > 1:
            age += f", {source.age_days:,} days old"
        parts.append(f"{percent(source.share)} of cost from {_SOURCES.get(source.name, source.name)}{age}")
    if coverage.unpriced_gpu_hours:
        part = f"{coverage.unpriced_gpu_hours:,.1f} GPU-hours ({percent(coverage.unpriced_ratio)})"
        parts.append(f"{part} of the nodes have no price")
    return parts or ["none"]


def _final(coverage: Coverage, currency: str) -> list[str]:
    """Final and estimated cost, if any is final or in a bundle."""
    if not (coverage.state or coverage.price_sources.keys() & FINAL):
        return []
    final, estimated = (
        figure_text(cost, "money", currency, 2) for cost in (coverage.final_cost, coverage.estimated_cost)
    )
    if not coverage.estimated_cost:
        return [f"all of it: {final}"]
    return [f"{final}; {estimated} are an estimate until the bill is collected"]


def _collected(coverage: Coverage) -> str:
    missing = coverage.not_collected
    if any(notice.code == "not_collected" for notice in coverage.warnings) or (
        coverage.is_complete and missing
    ):
        clusters = len({gap.cluster for gap in missing})
        which = (
            f" in the cluster with the largest gaps, of {clusters}"
            if clusters > 1
            else f" of {clusters_text(missing)}"
        )
        return f"all but {coverage.not_collected_hours:,.1f} h{which}"
    if coverage.is_complete:
        return "the whole period"
    if left_out := [gap for gap in coverage.partial if gap.is_missing]:
        return f"all but some nodes of {clusters_text(left_out)}"
    until = f"until {local_text(coverage.collected_to)}; " if coverage.collected_to else ""
    return f"{until}the period is not over yet"


def alike_gaps(gaps: Iterable[Gap]) -> list[list[Gap]]:
    """Group gaps of several clusters with the same time, families and reason."""
    same = attrgetter("start", "end", "families", "reason", "accepted_by", "accepted_why")
    return list(grouped((same(gap), gap) for gap in gaps).values())


def gap_text(alike: Sequence[Gap]) -> str:
    """`502.0 h of prod were not collected, 2026-10-10 04:00 to 2026-10-31 00:00: … (nodes, pods)`, for one of
    `alike_gaps`.
    """
    gap = alike[0]
    families = f" ({', '.join(gap.families)})" if gap.families else ""
    span = f"{local_text(gap.start)} to {local_text(gap.end)}"
    return f"{gap.hours:,.1f} h of {clusters_text(alike)} were not collected, {span}: {gap.reason}{families}"


def signed_text(alike: Sequence[Gap]) -> str:
    """The text of a gap, with the name and reason if it was accepted."""
    gap = alike[0]
    return gap_text(alike) + (
        f"; accepted by {gap.accepted_by}: {gap.accepted_why}" if gap.accepted_by else ""
    )


def missing_text(gaps: Iterable[Gap]) -> str | None:
    """The gaps that are not accepted; None without any."""
    texts = list(map(gap_text, alike_gaps(gap for gap in gaps if gap.is_missing)))
    if len(texts) > _GAPS_SHOWN:
        texts[_GAPS_SHOWN:] = [f"and {len(texts) - _GAPS_SHOWN:,} more such gaps"]
    return "; ".join(texts) or None


def clusters_text(gaps: Iterable[Gap]) -> str:
    """The clusters of the gaps, the first few by name."""
    names = list(dict.fromkeys(gap.cluster for gap in gaps))
    more = f" and {len(names) - _CLUSTERS_SHOWN:,} more clusters" if len(names) > _CLUSTERS_SHOWN else ""
    return ", ".join(names[:_CLUSTERS_SHOWN]) + more


def local_text(moment: datetime, between: str = " ") -> str:
    """Local time to the minute, with its offset if clocks show it twice; with `T` between for --from and --to."""
    return (
        moment.strftime(f"%Y-%m-%d{between}%H:%M")
        if is_plain(moment)
        else moment.isoformat(between, timespec="minutes")
    )


def is_plain(moment: datetime) -> bool:
    """Whether clocks show the local time only once."""
    return moment.replace(fold=0).utcoffset() == moment.replace(fold=1).utcoffset()


def _plain(value: float | Decimal, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return (
        text.removeprefix("-") if not text.strip("-0.,") else text
    )  # no minus sign on a value that rounds to zero
