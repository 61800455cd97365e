"""`gpucost prices history`: how a spot price moved, and what it came to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    output_file,
    put_or_write,
)
from gpucost.cli._periods import FromOption, ToOption, parse_period
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from gpucost.price.history import ZoneHistory

_SCHEMA = "gpucost.prices.history/1"
_LEVELS = "▁▂▃▄▅▆▇█"
_STEPS_SHOWN = 20
_SIDES = ("left", "right", "right", "right", "right", "right", "left")


@handle_errors
def prices_history(
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="Instance type, such as p3.2xlarge.")],
    zone: Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="Only this zone.", show_default=False)] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Only this region's zones.", show_default=False)
    ] = None,
    start: FromOption = None,
    end: ToOption = None,
    product: Annotated[
        str | None,
        typer.Option("--product", metavar="NAME", help="Such as Windows, as EC2 calls it; without it Linux.", show_default=False),
    ] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show how the spot price of an instance type moved: mean weighted by time, lowest, highest, and each step.

    Prices are those that gpucost collect spot stored. A price holds until the next change, also across the edges of the
    period, but no longer than prices.stale_after_days after the end of what was collected. The mean is over the hours
    whose price is known. Changes are counted where one known price gave way to another inside the period; a price that
    is told again is none. CSV has one row for each zone; the steps are in JSON. Without a period: all that is known.

    \b
    Examples:
      gpucost prices history p3.2xlarge --zone us-east-1c --from 2020-02-01 --to 2020-03-01
      gpucost prices history p5.48xlarge --region us-east-1 --from 2026-10-01
      gpucost prices history p3.2xlarge --zone us-east-1c --format json
    """
    from gpucost.price.history import Question, history

    settings, opened = load(config, store)
    target = output_file(output)
    now = datetime.now(UTC)
    chosen = parse_period(settings.tz, now, start=start, end=end)
    question = Question(instance, zone, region, product, chosen[0] if chosen else None, settings.prices.stale_after_days)
    with opened.read() as con:
        zones = history(con, question, round(now.timestamp() * 1000))
    if format in (*FLAT, RowFormat.markdown):
        columns = [name for name in _record(zones[0]) if name not in ("steps", "notes")]
        rows = [[record[name] for name in columns] for record in map(_decimals, zones)]
        write_rows(columns, rows, format, target)
    else:
        text = _json(zones) if format is RowFormat.json else _table(zones)
        put_or_write(text, target)
    if format is not RowFormat.json:  # JSON holds the notes of each zone
        for said in _notes(zones):
            note(f"note: {said}", quiet=quiet)


def _decimals(zone: ZoneHistory) -> dict[str, Any]:
    return _record(zone, _short)


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _short(value: Decimal | None) -> Decimal | None:
    """Without the zeros behind the sixth decimal."""
    from decimal import Decimal

    six = Decimal("0.000001")
    if value is None:
        return None
    rounded = value.quantize(six)
    return rounded if rounded == value else value.normalize()


def _record(zone: ZoneHistory, number: Callable[[Decimal | None], Any] | None = None) -> dict[str, Any]:
    """A zone's figures by name, in the order in which they are written; `number` makes decimals what the format knows."""
    from gpucost.model import iso

    plain = number or _float
    return {
        "provider": zone.provider,
        "region": zone.region,
        "zone": zone.zone or None,
        "instance_type": zone.instance_type,
        "product": zone.product,
        "from": iso(zone.start),
        "to": iso(zone.end),
        "currency": zone.currency,
        "mean_price_per_hour": plain(zone.mean),
        "min_price_per_hour": plain(zone.lowest),
        "max_price_per_hour": plain(zone.highest),
        "changes": zone.changes,
        "covered_hours": plain(zone.covered_hours),
        "not_covered_hours": plain(zone.not_covered_hours),
        "on_demand_price_per_hour": plain(zone.on_demand),
        "on_demand_price_as_of": zone.on_demand_as_of.isoformat() if zone.on_demand_as_of else None,
        "discount": plain(zone.discount),
        "notes": zone.notes,
        "steps": [
            {"from": iso(step.start), "to": iso(step.end), "price_per_hour": plain(step.price_per_hour)} for step in zone.steps
        ],
    }


def _json(zones: list[ZoneHistory]) -> str:
    """One object; a zone that stands alone has its figures at the top, too."""
    from gpucost.model import iso

    first = zones[0]
    top: dict[str, Any] = {
        "schema": _SCHEMA,
        "instance_type": first.instance_type,
        "from": iso(first.start),
        "to": iso(first.end),
    }
    if len(zones) == 1:
        top |= _record(first)
    top["zones"] = [_record(zone) for zone in zones]
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def _table(zones: list[ZoneHistory]) -> str:
    return _one(zones[0]) if len(zones) == 1 else _many(zones)


def _one(zone: ZoneHistory) -> str:
    from gpucost.model import iso

    place = zone.zone or zone.region
    lines = [f"{zone.instance_type} in {place}, {zone.product}, spot", f"{iso(zone.start)} to {iso(zone.end)}", ""]
    if zone.mean is not None:
        lines += [
            f"  mean     {_money(zone.mean)} {zone.currency}/h over {zone.covered_hours:,.1f} h",
            f"  lowest   {_money(zone.lowest)}",
            f"  highest  {_money(zone.highest)}",
            f"  changes  {zone.changes:,}",
        ]
    if zone.on_demand is not None:
        off = f", {_percent(zone.discount)} off" if zone.discount is not None and zone.discount > 0 else ""
        lines.append(f"  list     {_money(zone.on_demand)} on demand, as of {zone.on_demand_as_of}{off}")
    if zone.steps:
        lines += ["", f"  {sparkline(zone, _width())}", ""]
        for step in zone.steps[-_STEPS_SHOWN:]:
            lines.append(f"  {iso(step.start):<24}  {_money(step.price_per_hour):>12}")
        if len(zone.steps) > _STEPS_SHOWN:
            lines.append(f"  the last {_STEPS_SHOWN} of {len(zone.steps):,} steps; --format json has all")
    return "\n".join(lines) + "\n"


def _many(zones: list[ZoneHistory]) -> str:
    first = zones[0]
    from gpucost.model import iso

    heads = ("zone", "mean/h", "lowest", "highest", "changes", "discount", "")
    rows = [
        (
            zone.zone or zone.region,
            _money(zone.mean),
            _money(zone.lowest),
            _money(zone.highest),
            f"{zone.changes:,}",
            _percent(zone.discount),
            sparkline(zone, 24),
        )
        for zone in sorted(zones, key=lambda zone: (zone.mean is None, zone.mean or 0, zone.zone))
    ]
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    lines = [f"{first.instance_type}, spot, {first.currency}/h: {iso(first.start)} to {iso(first.end)}", ""]
    for row in (heads, *rows):
        padded = zip(row, widths, _SIDES, strict=True)
        cells = [text.ljust(width) if side == "left" else text.rjust(width) for text, width, side in padded]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines) + "\n"


def _notes(zones: list[ZoneHistory]) -> list[str]:
    """What is to be said of the zones, once where it is said of several."""
    said: dict[str, list[str]] = {}
    for zone in zones:
        for text in zone.notes:
            said.setdefault(text, []).append(zone.zone or zone.region)
    return [f"{', '.join(where)}: {text}" for text, where in said.items()]


def sparkline(zone: ZoneHistory, width: int) -> str:
    """The price as `width` blocks, each the mean of its part of the period by time; a blank where no price is known."""
    start, part_seconds = zone.start.timestamp(), (zone.end - zone.start).total_seconds() / width
    covered, cost = [0.0] * width, [0.0] * width
    for step in zone.steps:
        first, last = ((at.timestamp() - start) / part_seconds for at in (step.start, step.end))
        for index in range(max(0, int(first)), min(width, int(last) + 1)):
            share = max(0.0, min(index + 1, last) - max(index, first))
            covered[index] += share
            cost[index] += share * float(step.price_per_hour)
    parts = [paid / time if time else None for paid, time in zip(cost, covered, strict=True)]
    known = [part for part in parts if part is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high - low < 1e-9:
        return "".join(" " if part is None else _LEVELS[0] for part in parts)
    return "".join(" " if part is None else _LEVELS[round((part - low) / (high - low) * (len(_LEVELS) - 1))] for part in parts)


def _width() -> int:
    from gpucost.cli._fit import line_width

    return max(20, min(72, (line_width() or 76) - 4))


def _money(value: Decimal | None) -> str:
    return "-" if value is None else f"{value:,.6f}"


def _percent(value: Decimal | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"
