"""`gpucost prices`: what a GPU costs where."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import Call, argument, command, option, parameters
from gpucost.cli.output import line_width, write_text
from gpucost.cli.whatif import store_or_empty
from gpucost.errors import ConfigError, GpucostError, UsageError
from gpucost.periods import iso, to_ms
from gpucost.price.listing import ListedPrice, Listing, Overview
from gpucost.render.rows import FLAT, RowFormat, fitted, left_out, natural_width

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from gpucost.config.model import Config
    from gpucost.price.history import ZoneHistory
    from gpucost.price.onprem import BookEntry, Tco


class PurchaseOption(StrEnum):
    """How a price is bought."""

    on_demand = "on_demand"
    spot = "spot"
    reserved = "reserved"
    savings_plan = "savings_plan"
    cud = "cud"
    capacity_block = "capacity_block"
    flex_start = "flex_start"
    calendar = "calendar"


@command("* written")
def prices(
    call: Call,
    name: Annotated[
        str | None,
        argument("GPU or INSTANCE", "GPU model in any spelling, or instance type."),
    ] = None,
    provider: Annotated[list[str] | None, option("--provider", "NAME", "Only this cloud, such as aws; repeatable.")] = None,
    region: Annotated[
        list[str] | None, option("--region", "NAME", "Only this region, with every zone; repeatable; may hold * and ?.")
    ] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Every region and zone, not only the cheapest of each price.")
    ] = False,
    purchase_option: Annotated[
        list[PurchaseOption] | None, option("--purchase-option", "OPTION", f"Only {', '.join(PurchaseOption)}; repeatable.")
    ] = None,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Also the prices that newer ones replaced; JSON always has them.")
    ] = False,
) -> None:
    """Say what a GPU costs where, cheapest GPU-hour first.

    List prices of the catalog inside gpucost and of the store (gpucost collect prices), and the newest spot prices (gpucost
    collect spot), as they hold today. Your own price book, discounts and bills are not in it. Without a name: every GPU
    model, with its cheapest price on demand and as spot. With one: the cheapest region of every price. H100 means all H100
    models.

    \b
    Examples:
      gpucost prices
      gpucost prices H100
      gpucost prices p5.48xlarge --region us-east-1
      gpucost prices "A100 80GB" --all-regions --purchase-option spot --format csv -o a100.csv
    """
    from gpucost.price.fx import rates
    from gpucost.price.listing import Asked, listing, overview

    settings = call.settings
    if name is None and (all_regions or superseded):
        option = "--all-regions" if all_regions else "--superseded"
        raise UsageError(f"{option} needs a GPU or an instance type", f"for example: gpucost prices H100 {option}")
    asked = Asked(
        today=_today(settings.tz),
        currency=settings.currency,
        stale_after_days=settings.prices.stale_after_days,
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        purchase_options=tuple(option.value for option in purchase_option or ()),
        all_regions=all_regions,
    )
    fx = rates(settings)
    with store_or_empty(settings) as con:
        answer = overview(con, asked, fx) if name is None else listing(con, name, asked, fx)
    if call.format is RowFormat.json:
        call.write(listing_json(answer))
        return
    width = line_width(call.target) if call.format is RowFormat.table else None
    columns, rows = listing_rows(answer, whole=call.format in FLAT, superseded=superseded, width=width)
    call.write_rows(columns, rows)
    remarks = listing_notes(answer)
    if width is not None:
        every, _ = listing_rows(answer, whole=False, superseded=superseded)
        # without a name a narrow table has the same in other columns, but for the source
        remarks += filter(None, [left_out(every if name is not None else every[-1:], columns)])
    for remark in remarks:
        call.note(remark)


def _today(tz: ZoneInfo) -> date:
    return datetime.now(tz).date()


_PRICES = "gpucost.prices/1"

_SHOWN = Decimal("0.0001")
_PER_GPU_HOUR = "per GPU-h"
_TYPE = "instance type"
_DISCOUNT = "spot discount"
_SOURCE = "source"

# Columns that a narrow terminal may have no room for; the heaviest goes first.
_WEIGHTS = {"per hour": 1, _DISCOUNT: 1, "GPUs": 2, "more regions": 3, _SOURCE: 4}

# What a CSV file and JSON hold of each price.
FIELDS = (
    "provider", "region", "zone", "instance_type", "gpu_model", "gpu_count", "purchase_option", "term_years", "payment_option",
    "offering", "price_per_hour", "price_per_gpu_hour", "currency", "spot_discount_percent", "price_as_of", "is_stale", "source",
    "origin", "effective_start", "listed_price_per_hour", "listed_currency", "more_regions", "status",
)  # fmt: skip


def listing_json(answer: Listing | Overview) -> str:
    """Schema gpucost.prices/1: of one name its prices as `rows` and `superseded`; of all, a row per GPU model."""
    from gpucost.render.schema import json_text

    document: dict[str, Any] = {
        "schema": _PRICES,
        "today": answer.today,
        "currency": answer.currency,
        "stale_after_days": answer.stale_after_days,
    }
    if isinstance(answer, Listing):
        document |= {
            "name": answer.name,
            "gpu_models": list(answer.gpu_models),
            "rows": [_fields(row) for row in answer.rows],
            "superseded": [_fields(row) for row in answer.superseded],
            "not_sold_on_demand": list(answer.not_sold_on_demand),
        }
    else:
        document["rows"] = [
            {
                "gpu_model": model,
                **{option: _fields(found[option]) if option in found else None for option in answer.purchase_options},
            }
            for model, found in answer.rows
        ]
    return json_text(document)


def listing_rows(
    answer: Listing | Overview, *, whole: bool, superseded: bool, width: int | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Column names and rows: every field where `whole`, else those that people read, in their words, and of these as many as
    a table of `width` characters has room for.
    """
    if isinstance(answer, Overview):
        if whole:
            return _whole_overview(answer)
        columns, lines = _short_overview(answer)
        if _is_wide(columns, lines, width):
            columns, lines = _long_overview(answer)
        return fitted(columns, lines, [_WEIGHTS[_SOURCE] * (name == _SOURCE) for name in columns], width)
    rows = [*answer.rows, *(answer.superseded if superseded else ())]
    if whole:
        return list(FIELDS), [list(_fields(row).values()) for row in rows]
    columns, lines = _short_listing(answer, rows, superseded=superseded)
    if _is_wide(columns, lines, width):
        columns, lines = _short_listing(answer, rows, superseded=superseded, tight=True)
    weights = _WEIGHTS | ({_TYPE: 2} if len({row.instance_type for row in rows}) == 1 else {})
    return fitted(columns, lines, [weights.get(name, 0) for name in columns], width)


def listing_notes(answer: Listing | Overview) -> list[str]:
    """What a reader must know of the rows, one sentence each."""
    rows = answer.rows if isinstance(answer, Listing) else [price for _, found in answer.rows for price in found.values()]
    said = []
    stale = sum(row.is_stale for row in rows)
    if stale:
        old = f"{stale} of {len(rows)} prices {'is' if stale == 1 else 'are'}" if len(rows) > 1 else "the price is"
        said.append(f"{old} over {answer.stale_after_days} days old; gpucost collect prices asks for new ones")
    if isinstance(answer, Overview):
        return said
    said = [*answer.not_sold_on_demand, *said]
    if fresh := answer.cheapest_fresh:
        first = answer.rows[0]
        age = (answer.today - first.price_as_of).days
        cheapest = (
            f"{fresh.instance_type} {bought(fresh)} in {_place(fresh)} at {_listing_money(fresh.price_per_gpu_hour)} per GPU-hour"
        )
        said.append(
            f"the first price, {first.instance_type} {bought(first)}, is {age} days old;"
            f" the cheapest that is not stale: {cheapest}"
        )
    more = sum(1 for row in rows if row.more_regions)
    if more:
        said.append("the cheapest region of each price is shown; --all-regions shows the others")
    if answer.unconverted:
        said.append(
            f"prices in {', '.join(answer.unconverted)} stand last, unconverted: [prices] fx gives the rate to {answer.currency}"
        )
    if any(row.spot_discount_percent is not None and row.spot_discount_percent <= 0 for row in rows):
        said.append("spot at 0 % off costs as much as on demand: there is no discount there")
    return said


def _is_wide(columns: list[str], lines: list[list[Any]], width: int | None) -> bool:
    """Whether a table of `width` has no room even without sources."""
    kept = [index for index, name in enumerate(columns) if name != _SOURCE]
    narrowest = natural_width([columns[index] for index in kept], [[line[index] for index in kept] for line in lines])
    return width is not None and narrowest > width


def _short_listing(
    answer: Listing, rows: list[ListedPrice], *, superseded: bool, tight: bool = False
) -> tuple[list[str], list[list[Any]]]:
    mixed = any(row.currency != answer.currency for row in rows)
    columns = [_PER_GPU_HOUR, "per hour", *(["currency"] if mixed else [])]
    discounted = any(row.spot_discount_percent is not None for row in rows)
    columns += ["provider", "place", _TYPE, "GPUs", "bought", *([_DISCOUNT] if discounted else []), "as of"]
    columns += ["more regions"] if any(row.more_regions is not None for row in rows) else []
    columns += [*(["status"] if superseded else []), _SOURCE]
    lines = []
    for row in rows:
        line: list[Any] = [
            _listing_money(row.price_per_gpu_hour),
            _listing_money(row.price_per_hour),
            *([row.currency] if mixed else []),
        ]
        line += [row.provider, _place(row), row.instance_type, _gpus(row), bought(row, tight=tight)]
        line += [*([_listing_percent(row.spot_discount_percent)] if discounted else []), _as_of(row, answer.today, tight=tight)]
        line += [row.more_regions] if "more regions" in columns else []
        line += [*([row.status] if superseded else []), row.source]
        lines.append(line)
    return columns, lines


def _short_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    columns = ["GPU"]
    for bought_as in answer.purchase_options:
        columns += [bought_as.replace("_", " "), "where", "as of", _SOURCE]
    lines = []
    for model, found in answer.rows:
        line: list[Any] = [model]
        for bought_as in answer.purchase_options:
            row = found.get(bought_as)
            if row is None:
                line += [None, None, None, None]
            else:
                line += [_listing_money(row.price_per_gpu_hour), _where(row), _as_of(row, answer.today), row.source]
        lines.append(line)
    return columns, lines


def _long_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    """The same with a row for each price: half as wide."""
    lines: list[list[Any]] = [
        [
            model,
            option.replace("_", " "),
            _listing_money(found[option].price_per_gpu_hour),
            _where(found[option]),
            _as_of(found[option], answer.today, tight=True),
            found[option].source,
        ]
        for model, found in answer.rows
        for option in answer.purchase_options
        if option in found
    ]
    return ["GPU", "bought", _PER_GPU_HOUR, "where", "as of", _SOURCE], lines


def _whole_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    rows = [found[option] for _, found in answer.rows for option in answer.purchase_options if option in found]
    return list(FIELDS), [list(_fields(row).values()) for row in rows]


def _fields(row: ListedPrice) -> dict[str, Any]:
    return {name: getattr(row, name) for name in FIELDS}


def bought(row: ListedPrice, *, tight: bool = False) -> str:
    """`reserved, 3 years, no upfront, standard`, or where there is little room `reserved 3y no upfront standard`."""
    years = f"{row.term_years} year{'s' if row.term_years > 1 else ''}" if row.term_years else None
    words = (row.purchase_option, f"{row.term_years}y" if tight and years else years, row.payment_option, row.offering)
    return (" " if tight else ", ").join(word.replace("_", " ") for word in words if word)


def _as_of(row: ListedPrice, today: date, *, tight: bool = False) -> str:
    """`2021-03-01, 1,700 days old`, or where there is little room `2021-03-01 1,700 d`; the day alone where it is not stale."""
    # a price that a newer one replaced is old in any case
    if not row.is_stale or row.status != "current":
        return row.price_as_of.isoformat()
    age = f"{(today - row.price_as_of).days:,}"
    return f"{row.price_as_of} {age} d" if tight else f"{row.price_as_of}, {age} days old"


def _where(row: ListedPrice) -> str:
    return " ".join(part for part in (row.provider, row.region, row.instance_type) if part)


def _place(row: ListedPrice) -> str:
    if row.region and row.zone and not row.zone.startswith(row.region):
        return f"{row.region} {row.zone}"  # AWS' zone ids do not say their region in full
    return row.zone or row.region or "any"


def _gpus(row: ListedPrice) -> str:
    return f"{row.gpu_count:f} × {row.gpu_model}" if row.gpu_count else "not known"


def _listing_money(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else amount.quantize(_SHOWN, ROUND_HALF_UP)


def _listing_percent(value: Decimal | None) -> str:
    return "" if value is None else f"{value} %"


_SCHEMA = "gpucost.prices.history/1"
_LEVELS = "▁▂▃▄▅▆▇█"
_STEPS_SHOWN = 20
_SIDES = ("left", "right", "right", "right", "right", "right", "left")


@command("* start end product written")
def prices_history(
    call: Call,
    instance: Annotated[str, argument("INSTANCE", "Instance type, such as p3.2xlarge.")],
    zone: Annotated[str | None, option("--zone", "ZONE", "Only this zone.")] = None,
    region: Annotated[str | None, option("--region", "REGION", "Only this region's zones.")] = None,
    product: Annotated[str | None, option("--product", "NAME", "Such as Windows, as EC2 calls it; without it Linux.")] = None,
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

    period = call.named_period[0] if call.named_period else None
    question = Question(instance, zone, region, product, period, call.settings.prices.stale_after_days)
    with call.store.read() as con:
        zones = history(con, question, to_ms(call.now))
    if call.format is RowFormat.json:  # which holds the notes of each zone
        call.write(_json(zones))
        return
    if call.format is RowFormat.table:
        call.write(_one(zones[0]) if len(zones) == 1 else _many(zones))
    else:
        columns = [name for name in _zone_record(zones[0]) if name not in ("steps", "notes")]
        call.write_rows(columns, [[_zone_record(zone, _rounded)[name] for name in columns] for zone in zones])
    for text in _notes(zones):
        call.note(f"note: {text}")


def _rounded(value: Decimal | None) -> Decimal | None:
    """Without the zeros behind the sixth decimal."""
    if value is None:
        return None
    rounded = value.quantize(Decimal("0.000001"))
    return rounded if rounded == value else value.normalize()


def _zone_record(zone: ZoneHistory, plain: Callable[[Decimal | None], Any] = lambda value: value) -> dict[str, Any]:
    """A zone's figures by name, in the order in which they are written; `plain` makes decimals what the format knows."""
    from gpucost.periods import iso

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
    from gpucost.render.schema import json_text

    first = zones[0]
    top: dict[str, Any] = {
        "schema": _SCHEMA,
        "instance_type": first.instance_type,
        "from": first.start,
        "to": first.end,
    }
    if len(zones) == 1:
        top |= _zone_record(first)
    top["zones"] = [_zone_record(zone) for zone in zones]
    return json_text(top)


def _one(zone: ZoneHistory) -> str:
    place = zone.zone or zone.region
    lines = [f"{zone.instance_type} in {place}, {zone.product}, spot", f"{iso(zone.start)} to {iso(zone.end)}", ""]
    if zone.mean is not None:
        lines += [
            f"  mean     {_zone_money(zone.mean)} {zone.currency}/h over {zone.covered_hours:,.1f} h",
            f"  lowest   {_zone_money(zone.lowest)}",
            f"  highest  {_zone_money(zone.highest)}",
            f"  changes  {zone.changes:,}",
        ]
    if zone.on_demand is not None:
        off = f", {_zone_percent(zone.discount)} off" if zone.discount is not None and zone.discount > 0 else ""
        lines.append(f"  list     {_zone_money(zone.on_demand)} on demand, as of {zone.on_demand_as_of}{off}")
    if zone.steps:
        width = max(20, min(72, (line_width() or 76) - 4))
        lines += ["", f"  {sparkline(zone, width)}", ""]
        for step in zone.steps[-_STEPS_SHOWN:]:
            lines.append(f"  {iso(step.start):<24}  {_zone_money(step.price_per_hour):>12}")
        if len(zone.steps) > _STEPS_SHOWN:
            lines.append(f"  the last {_STEPS_SHOWN} of {len(zone.steps):,} steps; --format json has all")
    return "\n".join(lines) + "\n"


def _many(zones: list[ZoneHistory]) -> str:
    first = zones[0]
    heads = ("zone", "mean/h", "lowest", "highest", "changes", "discount", "")
    rows = [
        (
            zone.zone or zone.region,
            _zone_money(zone.mean),
            _zone_money(zone.lowest),
            _zone_money(zone.highest),
            f"{zone.changes:,}",
            _zone_percent(zone.discount),
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


def _zone_money(value: Decimal | None) -> str:
    return "-" if value is None else f"{value:,.6f}"


def _zone_percent(value: Decimal | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


_TCO = "gpucost.tco/1"


# What an own node costs, by the keys of its file.
OWN_NODE = parameters(
    {
        key: (str | None, option(f"--{key.replace('_', '-')}", "NAME" if key == "gpu_model" else "NUMBER", words))
        for key, words in {
            "purchase_price": "Of one node, GPUs included.",
            "gpus_per_node": "GPUs in a node.",
            "gpu_model": "GPU model in any spelling.",
            "years": "Over which the node is written off.",
            "residual_percent": "Of the purchase price, got back at the end: 0 to 100.",
            "gpu_watts": "Power of one GPU, as DCGM_FI_DEV_POWER_USAGE measures it; else the model's rated power.",
            "other_watts": "Power of the node without its GPUs.",
            "pue": "Power of the site over power of its machines: 1 or more.",
            "price_per_kwh": "Price of electricity.",
            "colocation_per_kw_month": "Price of space, per kW of rated power and month.",
            "staff_per_year": "Cost of the people who run the nodes.",
            "staff_nodes": "How many nodes they run.",
            "network_per_node": "Network of one node, once.",
            "maintenance_percent_per_year": "Of the purchase price: support and spare parts.",
        }.items()
    }
)


@command(f"file {' '.join(OWN_NODE)} * written", without="store", more=OWN_NODE)
def prices_tco(
    call: Call,
    file: Annotated[Path | None, argument("FILE", "TOML file of the same keys; options win over it.")] = None,
    utilization_percent: Annotated[
        str | None, option("--utilization-percent", "NUMBER", "Share of hours in use: above 0, at most 100.")
    ] = None,
    currency: Annotated[str | None, option("--currency", "CODE", "Currency of every price here; else the config's.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write the price of a node-hour into the price book.")] = False,
    node_selector: Annotated[
        str | None, option("--node-selector", "LABEL=VALUE;…", "With --save: nodes with these labels.")
    ] = None,
    instance_type: Annotated[str | None, option("--instance-type", "TYPE", "With --save: nodes of this instance type.")] = None,
    effective_start: Annotated[
        str | None, option("--effective-start", "DATE", "With --save: from when it holds; else ever.")
    ] = None,
) -> None:
    """Say what an hour of an own node and of its GPUs costs, part by part.

    From a file, from options, or both. A year is 8,760 hours, a month 730. Power counts in every hour, used or not. What was
    not given counts as nothing, and is named. With --save, the price of a node-hour becomes a row of the price book that
    [prices] book names, in place of its earlier row for the same nodes and start; everything else in the book stays.

    \b
    Examples:
      gpucost prices tco onprem.toml
      gpucost prices tco onprem.toml --gpu-watts 450 --format json
      gpucost prices tco --purchase-price 280000 --gpus-per-node 8 --gpu-model H100 --years 4 --price-per-kwh 0.12 --pue 1.3
      gpucost prices tco onprem.toml --save --node-selector node-pool=dgx --effective-start 2026-10-01
    """
    from gpucost.price.onprem import BookEntry, rated_power, read_file, read_inputs, tco
    from gpucost.store.connection import scratch_store

    of_row = {"--node-selector": node_selector, "--instance-type": instance_type, "--effective-start": effective_start}
    for name, value in of_row.items():
        if value is not None and not save:
            raise UsageError(f"{name} needs --save", "it says which nodes the saved price is for")
    given = {**call.more, "utilization_percent": utilization_percent, "currency": currency}
    options = {key: value for key, value in given.items() if value is not None}
    inputs = read_inputs(read_file(file) if file else {}, options, file, call.settings.currency)
    tdp = None
    if inputs.gpu_model:
        with scratch_store() as con:
            model, tdp = rated_power(con, inputs.gpu_model, needed=inputs.gpu_watts is None)
        inputs = replace(inputs, gpu_model=model)
    answer = tco(inputs, tdp)
    entry = None
    if save:
        entry = BookEntry(answer.price_per_hour, inputs.currency, instance_type or "", node_selector or "", effective_start or "")
        call.note(save_entry(call.settings, entry))
    if call.format is RowFormat.json:
        call.write(tco_json(answer, entry))
        return
    call.write_rows(*tco_rows(answer))
    for remark in tco_notes(answer):
        call.note(remark)


def tco_json(answer: Tco, saved: BookEntry | None) -> str:
    """Schema gpucost.tco/1: the parts, whose sum the price of a node-hour is, the prices, and what they were reckoned from."""
    from dataclasses import asdict

    from gpucost.render.schema import json_text

    head = {"schema": _TCO, "currency": answer.inputs.currency}
    tail = {"not_given": answer.inputs.not_given, "saved": asdict(saved) if saved else None}
    return json_text({**head, **asdict(answer), **tail})


def tco_rows(answer: Tco) -> tuple[list[str], list[list[Any]]]:
    """A row for each part, then the prices that they add up to."""
    inputs = answer.inputs
    rows: list[list[Any]] = [[part.name, part.price_per_hour, part.basis] for part in answer.parts]
    rows.append(["node-hour", answer.price_per_hour, "the sum"])
    rows.append(["GPU-hour", answer.price_per_gpu_hour, f"over all hours, {inputs.gpus_per_node:f} GPUs"])
    if answer.price_per_utilized_gpu_hour is not None:
        rows.append(["GPU-hour in use", answer.price_per_utilized_gpu_hour, f"at {inputs.utilization_percent:f} % of the hours"])
    return ["part", f"{inputs.currency} per hour", "from"], rows


def tco_notes(answer: Tco) -> list[str]:
    """What a reader must know of the figures, one sentence each."""
    said = []
    if answer.gpu_watts_source == "tdp":
        said.append(
            f"power is the rated {answer.gpu_watts:f} W of {answer.inputs.gpu_model}; gpucost collects no measured power:"
            " --gpu-watts takes the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if answer.inputs.not_given:
        said.append(f"not given, and counted as nothing (pue as 1): {', '.join(answer.inputs.not_given)}")
    return said


def save_entry(config: Config, entry: BookEntry) -> str:
    """Put `entry` into the price book, creating the file where there is none; what was done, in a sentence.

    The file is replaced as a whole and read back: where the result would not load, it is put back as it was. Raises
    ConfigError where no book is configured, PriceError where the book cannot be read, before or after, and GpucostError
    where it cannot be written.
    """
    from gpucost.price.book import read_book
    from gpucost.price.fx import rates
    from gpucost.price.onprem import with_entry

    book = config.prices.book
    if book is None:
        raise ConfigError("no price book is configured", 'set [prices] book = "prices.csv" in gpucost.toml')
    entry.check(config.tz)
    fx = rates(config)
    if entry.currency not in (config.currency, *fx.steps):
        raise ConfigError(
            f"a price in {entry.currency} cannot be used: there is no rate from {entry.currency} to {config.currency}",
            f"set [prices] fx = {{ {entry.currency} = … }}, what 1 {entry.currency} is worth in {config.currency}",
        )
    before = ""
    is_new = not book.exists()
    if not is_new:
        read_book(book, config.currency, config.tz, fx)
        before = book.read_bytes().decode("utf-8")
    after, replaced = with_entry(before, entry, config.tz)
    try:
        write_text(after, book)
    except GpucostError as error:
        raise GpucostError(error.message, "[prices] book names the file") from None
    try:
        read_book(book, config.currency, config.tz, fx)
    except GpucostError as error:
        if is_new:
            with suppress(OSError):
                book.unlink()
        else:
            write_text(before, book)
        raise GpucostError(f"not saved, and {book} is as it was: the new row would refuse it: {error.message}") from None
    where = f"in place of line {replaced}" if replaced else "as its last line"
    return f"saved to {book} {where}: {entry.price_per_hour:f} {entry.currency} per node-hour"
