"""`gpucost prices`: what a GPU costs where."""

from __future__ import annotations

from dataclasses import asdict, replace
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
    from gpucost.price.listing import PriceQuery, listing, overview

    settings = call.settings
    if name is None and (all_regions or superseded):
        option = "--all-regions" if all_regions else "--superseded"
        raise UsageError(f"{option} needs a GPU or an instance type", f"for example: gpucost prices H100 {option}")
    query = PriceQuery(
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
        answer = overview(con, query, fx) if name is None else listing(con, name, query, fx)
    if call.format is RowFormat.json:
        call.write(_listing_json(answer))
        return
    prices = _prices_of(answer) + (list(answer.superseded) if superseded and isinstance(answer, Listing) else [])
    notes = listing_notes(answer)
    if call.format in FLAT:
        call.write_rows(list(asdict(prices[0])), [list(asdict(price).values()) for price in prices])
    else:
        width = line_width(call.target) if call.format is RowFormat.table else None
        columns, rows, without = _listing_table(answer, prices, width, superseded=superseded)
        call.write_rows(columns, rows)
        notes += [without] if without else []
    for text in notes:
        call.note(text)


def _today(tz: ZoneInfo) -> date:
    return datetime.now(tz).date()


def _listing_json(answer: Listing | Overview) -> str:
    """Schema gpucost.prices/1: of one name its prices as `rows` and `superseded`; of all, a row per GPU model."""
    from gpucost.render.schema import json_text

    document = {"schema": "gpucost.prices/1", **asdict(answer)}
    if isinstance(answer, Overview):
        options = document.pop("purchase_options")
        document["rows"] = [
            {"gpu_model": model, **{option: prices.get(option) for option in options}} for model, prices in document["rows"]
        ]
    return json_text(document)


def _prices_of(answer: Listing | Overview) -> list[ListedPrice]:
    if isinstance(answer, Listing):
        return list(answer.rows)
    return [prices[option] for _, prices in answer.rows for option in answer.purchase_options if option in prices]


_PER_GPU_HOUR = "per GPU-h"
_TYPE = "instance type"
_DISCOUNT = "spot discount"
_SOURCE = "source"

# Columns that a narrow terminal may have no room for; the heaviest goes first.
_WEIGHTS = {"per hour": 1, _DISCOUNT: 1, "GPUs": 2, "more regions": 3, _SOURCE: 4}

Table = tuple[list[str], list[list[Any]]]


def _listing_table(
    answer: Listing | Overview, prices: list[ListedPrice], width: int | None, *, superseded: bool
) -> tuple[list[str], list[list[Any]], str]:
    """Columns and rows as people read them, as many as `width` characters have room for; and in words what was left out."""
    if isinstance(answer, Overview):
        whole, tight = _wide_overview(answer), _long_overview(answer)
        weights = {_SOURCE: _WEIGHTS[_SOURCE]}
    else:
        whole, tight = (_listing_columns(answer, prices, superseded=superseded, tight=is_tight) for is_tight in (False, True))
        weights = _WEIGHTS | ({_TYPE: 2} if len({price.instance_type for price in prices}) == 1 else {})
    columns, rows = whole
    kept = [index for index, name in enumerate(columns) if name != _SOURCE]
    narrowest = natural_width([columns[index] for index in kept], [[row[index] for index in kept] for row in rows])
    if width is not None and narrowest > width:
        columns, rows = tight
    shown, rows = fitted(columns, rows, [weights.get(name, 0) for name in columns], width)
    # without a name a narrow table has the same in other columns, but for the source
    without = left_out([_SOURCE] if isinstance(answer, Overview) else columns, shown) if width is not None else ""
    return shown, rows, without


def _listing_columns(answer: Listing, prices: list[ListedPrice], *, superseded: bool, tight: bool) -> Table:
    columns: dict[str, list[Any]] = {
        _PER_GPU_HOUR: [_shown(price.price_per_gpu_hour) for price in prices],
        "per hour": [_shown(price.price_per_hour) for price in prices],
        "currency": [price.currency for price in prices],
        "provider": [price.provider for price in prices],
        "place": [_place(price) for price in prices],
        _TYPE: [price.instance_type for price in prices],
        "GPUs": [f"{price.gpu_count:f} × {price.gpu_model}" if price.gpu_count else "not known" for price in prices],
        "bought": [_bought(price, tight=tight) for price in prices],
        _DISCOUNT: [price.spot_discount_percent for price in prices],
        "as of": [_as_of(price, answer.today, tight=tight) for price in prices],
        "more regions": [price.more_regions for price in prices],
        "status": [price.status for price in prices],
        _SOURCE: [price.source for price in prices],
    }
    if all(currency == answer.currency for currency in columns["currency"]):
        del columns["currency"]
    if not superseded:
        del columns["status"]
    for name in (_DISCOUNT, "more regions"):
        if not any(value is not None for value in columns[name]):
            del columns[name]
    if _DISCOUNT in columns:
        columns[_DISCOUNT] = ["" if value is None else f"{value} %" for value in columns[_DISCOUNT]]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _wide_overview(answer: Overview) -> Table:
    """A row for each GPU model."""
    columns = ["GPU"]
    for bought in answer.purchase_options:
        columns += [bought.replace("_", " "), "where", "as of", _SOURCE]
    rows: list[list[Any]] = []
    for model, prices in answer.rows:
        rows.append([model])
        for bought in answer.purchase_options:
            rows[-1] += _overview_cells(prices[bought], answer.today) if bought in prices else [None] * 4
    return columns, rows


def _long_overview(answer: Overview) -> Table:
    """The same with a row for each price: half as wide."""
    rows = []
    for model, prices in answer.rows:
        for bought in answer.purchase_options:
            if bought in prices:
                money, *rest = _overview_cells(prices[bought], answer.today, tight=True)
                rows.append([model, bought.replace("_", " "), money, *rest])
    return ["GPU", "bought", _PER_GPU_HOUR, "where", "as of", _SOURCE], rows


def _overview_cells(price: ListedPrice, today: date, *, tight: bool = False) -> list[Any]:
    where = " ".join(part for part in (price.provider, price.region, price.instance_type) if part)
    return [_shown(price.price_per_gpu_hour), where, _as_of(price, today, tight=tight), price.source]


def listing_notes(answer: Listing | Overview) -> list[str]:
    """What a reader must know of the rows, one sentence each."""
    prices, notes = _prices_of(answer), []
    if stale := sum(price.is_stale for price in prices):
        old = f"{stale} of {len(prices)} prices {'is' if stale == 1 else 'are'}" if len(prices) > 1 else "the price is"
        notes.append(f"{old} over {answer.stale_after_days} days old; gpucost collect prices asks for new ones")
    if isinstance(answer, Overview):
        return notes
    notes = [*answer.not_sold_on_demand, *notes]
    if fresh := answer.cheapest_fresh:
        first = answer.rows[0]
        age = (answer.today - first.price_as_of).days
        cheapest = f"{fresh.instance_type} {_bought(fresh)} in {_place(fresh)} at {_shown(fresh.price_per_gpu_hour)} per GPU-hour"
        notes.append(
            f"the first price, {first.instance_type} {_bought(first)}, is {age} days old;"
            f" the cheapest that is not stale: {cheapest}"
        )
    if any(price.more_regions for price in prices):
        notes.append("the cheapest region of each price is shown; --all-regions shows the others")
    if answer.unconverted:
        notes.append(
            f"prices in {', '.join(answer.unconverted)} stand last, unconverted: [prices] fx gives the rate to {answer.currency}"
        )
    if any(price.spot_discount_percent is not None and price.spot_discount_percent <= 0 for price in prices):
        notes.append("spot at 0 % off costs as much as on demand: there is no discount there")
    return notes


def _bought(price: ListedPrice, *, tight: bool = False) -> str:
    """`reserved, 3 years, no upfront, standard`, or where there is little room `reserved 3y no upfront standard`."""
    years = price.term_years or 0
    term = f"{years}y" if tight else f"{years} year{'s' if years > 1 else ''}"
    words = (price.purchase_option, term if years else None, price.payment_option, price.offering)
    return (" " if tight else ", ").join(word.replace("_", " ") for word in words if word)


def _as_of(price: ListedPrice, today: date, *, tight: bool = False) -> str:
    """`2021-03-01, 1,700 days old`, or where there is little room `2021-03-01 1,700 d`; the day alone where it is not stale."""
    # a price that a newer one replaced is old in any case
    if not price.is_stale or price.status != "current":
        return price.price_as_of.isoformat()
    age = f"{(today - price.price_as_of).days:,}"
    return f"{price.price_as_of} {age} d" if tight else f"{price.price_as_of}, {age} days old"


def _place(price: ListedPrice) -> str:
    if price.region and price.zone and not price.zone.startswith(price.region):
        return f"{price.region} {price.zone}"  # AWS' zone ids do not say their region in full
    return price.zone or price.region or "any"


def _shown(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else amount.quantize(Decimal("0.0001"), ROUND_HALF_UP)


_LEVELS = "▁▂▃▄▅▆▇█"
_STEPS_SHOWN = 20


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
    from gpucost.price.history import HistoryQuery, history

    period = call.named_period[0] if call.named_period else None
    question = HistoryQuery(instance, zone, region, product, period, call.settings.prices.stale_after_days)
    with call.store.read() as con:
        zones = history(con, question, to_ms(call.now))
    records = [_renamed(asdict(zone)) for zone in zones]
    if call.format is RowFormat.json:  # which holds the notes of each zone
        from gpucost.render.schema import json_text

        first = records[0]
        top = {"schema": "gpucost.prices.history/1"} | {name: first[name] for name in ("instance_type", "from", "to")}
        # a zone that stands alone has its figures at the top, too
        call.write(json_text(top | (first if len(records) == 1 else {}) | {"zones": records}))
        return
    if call.format is RowFormat.table:
        call.write(_one_zone(zones[0]) if len(zones) == 1 else _zones_table(zones))
    else:
        columns = [name for name in records[0] if name not in ("steps", "notes")]
        call.write_rows(columns, [[_flat(record[name]) for name in columns] for record in records])
    places: dict[str, list[str]] = {}
    for one in zones:
        for text in one.notes:
            places.setdefault(text, []).append(one.place)
    for text, where in places.items():
        call.note(f"note: {', '.join(where)}: {text}")


def _renamed(record: dict[str, Any]) -> dict[str, Any]:
    """`from` is a word of Python's."""
    if "steps" in record:
        record["steps"] = [_renamed(step) for step in record["steps"]]
    return {{"start": "from", "end": "to"}.get(name, name): value for name, value in record.items()}


def _flat(value: Any) -> Any:
    """Moments as text, and decimals without the zeros behind the sixth."""
    if isinstance(value, Decimal):
        rounded = value.quantize(Decimal("0.000001"))
        return rounded if rounded == value else value.normalize()
    return iso(value) if isinstance(value, datetime) else value.isoformat() if isinstance(value, date) else value


def _one_zone(zone: ZoneHistory) -> str:
    lines = [f"{zone.instance_type} in {zone.place}, {zone.product}, spot", f"{iso(zone.start)} to {iso(zone.end)}", ""]
    if zone.mean_price_per_hour is not None:
        lines += [
            f"  mean     {_per_hour(zone.mean_price_per_hour)} {zone.currency}/h over {zone.covered_hours:,.1f} h",
            f"  lowest   {_per_hour(zone.min_price_per_hour)}",
            f"  highest  {_per_hour(zone.max_price_per_hour)}",
            f"  changes  {zone.changes:,}",
        ]
    if zone.on_demand_price_per_hour is not None:
        off = f", {_percent(zone.discount)} off" if zone.discount is not None and zone.discount > 0 else ""
        price = _per_hour(zone.on_demand_price_per_hour)
        lines.append(f"  list     {price} on demand, as of {zone.on_demand_price_as_of}{off}")
    if zone.steps:
        width = max(20, min(72, (line_width() or 76) - 4))
        lines += ["", f"  {_sparkline(zone, width)}", ""]
        lines += [f"  {iso(step.start):<24}  {_per_hour(step.price_per_hour):>12}" for step in zone.steps[-_STEPS_SHOWN:]]
        if len(zone.steps) > _STEPS_SHOWN:
            lines.append(f"  the last {_STEPS_SHOWN} of {len(zone.steps):,} steps; --format json has all")
    return "\n".join(lines) + "\n"


def _zones_table(zones: list[ZoneHistory]) -> str:
    first = zones[0]
    rows = [["zone", "mean/h", "lowest", "highest", "changes", "discount", ""]]
    for zone in sorted(
        zones, key=lambda zone: (zone.mean_price_per_hour is None, zone.mean_price_per_hour or 0, zone.zone or "")
    ):
        prices = (zone.mean_price_per_hour, zone.min_price_per_hour, zone.max_price_per_hour)
        figures = (*map(_per_hour, prices), f"{zone.changes:,}", _percent(zone.discount))
        rows.append([zone.place, *figures, _sparkline(zone, 24)])
    lines = [f"{first.instance_type}, spot, {first.currency}/h: {iso(first.start)} to {iso(first.end)}", ""]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for place, *texts, line in rows:
        cells = [text.rjust(width) for text, width in zip(texts, widths[1:-1], strict=True)]
        lines.append("  ".join(("  " + place.ljust(widths[0]), *cells, line)).rstrip())
    return "\n".join(lines) + "\n"


def _sparkline(zone: ZoneHistory, width: int) -> str:
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
    scale = (len(_LEVELS) - 1) / (high - low) if high - low >= 1e-9 else 0
    return "".join(" " if part is None else _LEVELS[round((part - low) * scale)] for part in parts)


def _per_hour(value: Decimal | None) -> str:
    return "-" if value is None else f"{value:,.6f}"


def _percent(value: Decimal | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


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
        call.note(_save_entry(call.settings, entry))
    if call.format is RowFormat.json:
        call.write(_tco_json(answer, entry))
        return
    call.write_rows(["part", f"{inputs.currency} per hour", "from"], _tco_rows(answer))
    if answer.gpu_watts_source == "tdp":
        call.note(
            f"power is the rated {answer.gpu_watts:f} W of {inputs.gpu_model}; gpucost collects no measured power:"
            " --gpu-watts takes the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if inputs.not_given:
        call.note(f"not given, and counted as nothing (pue as 1): {', '.join(inputs.not_given)}")


def _tco_json(answer: Tco, saved: BookEntry | None) -> str:
    """Schema gpucost.tco/1: the parts, whose sum the price of a node-hour is, the prices, and what they were reckoned from."""
    from gpucost.render.schema import json_text

    head = {"schema": "gpucost.tco/1", "currency": answer.inputs.currency}
    return json_text(head | asdict(answer) | {"not_given": answer.inputs.not_given, "saved": asdict(saved) if saved else None})


def _tco_rows(answer: Tco) -> list[list[Any]]:
    """A row for each part, then the prices that they add up to."""
    inputs = answer.inputs
    rows: list[list[Any]] = [[part.name, part.price_per_hour, part.basis] for part in answer.parts]
    rows.append(["node-hour", answer.price_per_hour, "the sum"])
    rows.append(["GPU-hour", answer.price_per_gpu_hour, f"over all hours, {inputs.gpus_per_node:f} GPUs"])
    if answer.price_per_utilized_gpu_hour is not None:
        rows.append(["GPU-hour in use", answer.price_per_utilized_gpu_hour, f"at {inputs.utilization_percent:f} % of the hours"])
    return rows


def _save_entry(config: Config, entry: BookEntry) -> str:
    """Put `entry` into the price book, creating the file where there is none; what was done, in a sentence.

    The file is replaced as a whole. Raises ConfigError where no book is configured, PriceError where the book cannot be read,
    and GpucostError where the result would not load or cannot be written.
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
    if book.exists():
        read_book(book, config.currency, config.tz, fx)
        before = book.read_bytes().decode("utf-8")
    after, replaced = with_entry(before, entry, config.tz)
    try:
        read_book(book, config.currency, config.tz, fx, after)
    except GpucostError as error:
        raise GpucostError(f"not saved, and {book} is as it was: the new row would refuse it: {error.message}") from None
    try:
        write_text(after, book)
    except GpucostError as error:
        raise GpucostError(error.message, "[prices] book names the file") from None
    where = f"in place of line {replaced}" if replaced else "as its last line"
    return f"saved to {book} {where}: {entry.price_per_hour:f} {entry.currency} per node-hour"
