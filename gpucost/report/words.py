"""Figures as people read them: the same words in the terminal and in Markdown."""

from __future__ import annotations

from decimal import Decimal

from gpucost.report.view import Column, Coverage, Figure, Unit, Value

_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
_SOURCES = {
    "bill": "the bill",
    "price_book": "the price book",
    "spot_history": "the history of spot prices",
    "catalog": "catalog list prices",
}
_NOT_KNOWN = "–"
_UNITS_OF_SUM = {"hours": " h"}


def cell(value: Value, column: Column, currency: str) -> str:
    """One cell: thousands separated, as many decimals as the column has; a dash for what is not known."""
    return figure_text(value, column.unit, currency, column.decimals)


def with_arrow(value: Value, column: Column, currency: str) -> str:
    """The same, a change with an arrow."""
    text = cell(value, column, currency)
    if column.unit != "change" or not isinstance(value, float) or not text.strip("+-0., %"):
        return text
    return f"{'▲' if value > 0 else '▼'} {text}"


def figure_text(value: Value, unit: Unit, currency: str, decimals: int) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return _NOT_KNOWN
    if unit == "change":
        text = _plain(value * 100, decimals)
        return f"{'' if text.startswith('-') else '+' if text.strip('0.,') else ''}{text} %"
    if unit == "ratio":
        return f"{_plain(value * 100, decimals)} %"
    text = _plain(value, decimals)
    if unit not in ("money", "price"):
        return text
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    return f"{sign}{_SYMBOLS.get(currency, currency + ' ')}{digits}"


def sum_text(value: float, unit: Unit, currency: str) -> str:
    """The sum beside a table's title, with its unit."""
    return figure_text(value, unit, currency, 1) + _UNITS_OF_SUM.get(unit, "")


def value_of(figure: Figure, currency: str) -> str:
    text = figure_text(figure.value, figure.unit, currency, 2 if figure.unit == "money" else 1)
    return f"{text} h" if figure.unit == "hours" else text


def share_of(figure: Figure) -> str:
    """`18.6 %`, where a figure is a share of something."""
    return figure_text(figure.share, "ratio", "", 1) if figure.share_of else ""


def remark_of(figure: Figure) -> str:
    """What a figure is a share of, or its target and why that is unknown."""
    target = f"target > {figure.target * 100:.3g} %" if figure.target is not None else None
    return "; ".join(part for part in (figure.share_of, target, figure.note) if part)


def coverage_lines(coverage: Coverage, currency: str) -> list[tuple[str, list[str]]]:
    """What a reader must know of the figures, as (label, sentences)."""
    return [
        *([("State", [coverage.state, *coverage.reasons])] if coverage.state else []),
        ("Measured", [_measured(coverage)]),
        ("Prices", _prices(coverage)),
        *_billed(coverage, currency),
        ("Collected", [_collected(coverage)]),
        *_unknown_capacity(coverage),
        *_cost_basis(coverage),
        *([("Reconciled", [coverage.reconciliation])] if coverage.reconciliation else []),
    ]


def _measured(coverage: Coverage) -> str:
    if coverage.measured_ratio is None:
        return "no GPU-hours were held"
    return f"{figure_text(coverage.measured_ratio, 'ratio', '', 1)} of the GPU-hours held"


def _prices(coverage: Coverage) -> list[str]:
    parts: list[str] = []
    for source in coverage.price_sources:
        age = ""
        if source.as_of is not None and source.age_days is not None and source.name != "bill":
            days = f", {source.age_days:,} days old" if source.age_days > 1 else ""
            age = f" of {source.as_of}{days}"
        share = figure_text(source.share, "ratio", "", 1)
        parts.append(f"{share} of cost from {_SOURCES.get(source.name, source.name)}{age}")
    if coverage.unpriced_gpu_hours:
        share = figure_text(coverage.unpriced_ratio, "ratio", "", 1)
        parts.append(f"{coverage.unpriced_gpu_hours:,.1f} GPU-hours ({share}) of the nodes have no price")
    return parts or ["none"]


def _billed(coverage: Coverage, currency: str) -> list[tuple[str, list[str]]]:
    """What is billed and what is not, where a bill covers anything, and in a bundle: without a bill all is an estimate."""
    if not coverage.state and not any(source.name == "bill" for source in coverage.price_sources):
        return []
    billed, estimated = (figure_text(cost, "money", currency, 2) for cost in (coverage.billed_cost, coverage.estimated_cost))
    if not coverage.estimated_cost:
        return [("Billed", [f"all of it: {billed}"])]
    return [("Billed", [f"{billed}; {estimated} is an estimate until its bill is collected"])]


def _collected(coverage: Coverage) -> str:
    if coverage.is_complete:
        return "the whole period"
    if not any(notice.code == "not_collected" for notice in coverage.warnings) and coverage.collected_to:
        return f"until {coverage.collected_to:%Y-%m-%d %H:%M}; the period is not over yet"
    clusters = len({gap.cluster for gap in coverage.not_collected})
    which = (
        f" in the cluster that misses most, of {clusters}"
        if clusters > 1
        else f" for cluster {coverage.not_collected[0].cluster}"
    )
    return f"all but {coverage.not_collected_hours:,.1f} h{which}"


def _unknown_capacity(coverage: Coverage) -> list[tuple[str, list[str]]]:
    if not coverage.unknown_capacity_gpu_hours:
        return []
    hours = f"{coverage.unknown_capacity_gpu_hours:,.1f}"
    return [("Capacity", [f"type unknown for {hours} GPU-hours, left out of the spot ratio"])]


def _cost_basis(coverage: Coverage) -> list[tuple[str, list[str]]]:
    if coverage.cost_basis == "node":
        return []
    return [("Basis", [f"{coverage.cost_basis}: CPU and memory are charged by request; idle cost is that of GPUs alone"])]


def _plain(value: float | Decimal, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text  # no minus on what rounds to nothing
