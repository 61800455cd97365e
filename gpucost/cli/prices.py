"""`gpucost prices`: what a GPU costs where."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.cli.command import Call, argument, command, option, parameters, switch
from gpucost.cli.output import write_text
from gpucost.cli.whatif import store_or_empty
from gpucost.errors import ConfigError, GpucostError, UsageError
from gpucost.periods import iso, to_ms
from gpucost.price.listing import ListedPrice, Listing, PricesAnswer
from gpucost.render.formatting import figure_text
from gpucost.render.rows import FLAT
from gpucost.render.schema import table
from gpucost.render.view import (
    Document,
    Figure,
    Figures,
    Section,
    Shown,
    Table,
    Texts,
    count,
    figure,
    number,
    shown,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from zoneinfo import ZoneInfo

    from gpucost.config.model import Config
    from gpucost.price.history import ZoneHistory
    from gpucost.price.onprem import BookEntry, Tco
    from gpucost.price.quote import Quoted
    from gpucost.price.tokens import TokenPricesAnswer


_DECIMALS = 4  # of a price per hour, or of a million tokens


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


GpuOrInstance = Annotated[
    str | None, argument("GPU or INSTANCE", "GPU model in any spelling, or instance type.")
]
Providers = Annotated[
    list[str] | None, option("--provider", "NAME", "Only this cloud, such as aws; repeatable.")
]


@command("* written")
def prices(
    call: Call,
    name: GpuOrInstance = None,
    provider: Providers = None,
    region: Annotated[
        list[str] | None,
        option("--region", "NAME", "Only this region, with every zone; repeatable; may hold * and ?."),
    ] = None,
    all_regions: Annotated[
        bool, switch("--all-regions", "Every region and zone, not only the cheapest of each price.")
    ] = False,
    purchase_option: Annotated[
        list[PurchaseOption] | None,
        option("--purchase-option", "OPTION", f"Only {', '.join(PurchaseOption)}; repeatable."),
    ] = None,
    superseded: Annotated[
        bool, switch("--superseded", "Also the prices that newer ones replaced; JSON always has them.")
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
        raise UsageError(
            f"{option} needs a GPU or an instance type", f"for example: gpucost prices H100 {option}"
        )
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
    replaced = list(answer.superseded) if superseded and isinstance(answer, Listing) else []
    write_with_notes(
        call,
        _listing_document(answer, _prices_of(answer) + replaced, superseded=superseded),
        listing_notes(answer),
    )


def write_with_notes(call: Call, document: Document, notes: Sequence[str]) -> None:
    """Writes the document with `notes` at its end; beside flat formats they go to stderr, and JSON has them its own way."""
    below = (Texts("Notes", tuple(notes)),) if notes and not call.quiet else ()
    call.answer(replace(document, sections=(*document.sections, *below)))
    if call.format in FLAT:
        for note in notes:
            call.note(note)


def _today(tz: ZoneInfo) -> date:
    return datetime.now(tz).date()


def _prices_of(answer: Listing | PricesAnswer) -> list[ListedPrice]:
    if isinstance(answer, Listing):
        return list(answer.rows)
    models = [row for row in answer.rows if isinstance(row, dict)]
    return [price for model in models for price in model.values() if isinstance(price, ListedPrice)]


def _listing_document(
    answer: Listing | PricesAnswer, prices: list[ListedPrice], *, superseded: bool
) -> Document:
    """Prices as people read them: of one name with what tells them apart, of all GPU models with where each is cheapest."""

    per_gpu_hour = price_column("price_per_gpu_hour", "Per GPU-h")
    as_of = figure(lambda row: f"{row.price_as_of}{_age(row, answer.today)}", "As of")
    source = text("source", weight=4)
    if isinstance(answer, PricesAnswer):
        title = "What GPUs cost"
        where = text(
            lambda row: " ".join(part for part in (row.provider, row.region, row.instance_type) if part),
            "Where",
        )
        columns = [text("gpu_model", "GPU"), text(bought, "Bought"), per_gpu_hour, where, as_of, source]
    else:
        title = f"What {answer.name} costs"
        columns = [
            per_gpu_hour,
            price_column("price_per_hour", "Per hour", weight=1),
            text("provider"),
            text(place, "Place"),
            text("instance_type", weight=2 if len({price.instance_type for price in prices}) == 1 else 0),
            text(
                lambda row: f"{row.gpu_count:f} × {row.gpu_model}" if row.gpu_count else "not known",
                "GPUs",
                weight=2,
            ),
            text(bought, "Bought"),
        ]
        if any(price.spot_discount_percent is not None for price in prices):
            columns.append(
                figure(
                    lambda row: "" if row.spot_discount_percent is None else f"{row.spot_discount_percent} %",
                    "Spot discount",
                    weight=1,
                )
            )
        columns.append(as_of)
        if any(price.more_regions is not None for price in prices):
            columns.append(count("more_regions", weight=3))
        columns += [*([text("status")] if superseded else []), source]
    return Document(
        title=title,
        subtitle=f"list prices and the newest spot prices, {answer.today}",
        currency=answer.currency,
        sections=(Table.of("Prices", prices, columns),),
        name="prices",
        data=answer.printed() if isinstance(answer, Listing) else answer,
        flat=table(prices),
        whole_in="json",
    )


def price_column(name: str, title: str, decimals: int = _DECIMALS, weight: int = 0) -> Shown:
    """The prices that rows have as `name`, each in the row's currency."""
    return figure(
        lambda row: figure_text(getattr(row, name), "price", row.currency, decimals), title, weight=weight
    )


def listing_notes(answer: Listing | PricesAnswer) -> list[str]:
    """What a reader must know of the rows, one sentence each."""
    prices, notes = _prices_of(answer), []
    if stale := sum(price.is_stale for price in prices):
        old = (
            f"{stale} of {len(prices)} prices {'is' if stale == 1 else 'are'}"
            if len(prices) > 1
            else "the price is"
        )
        notes.append(
            f"{old} over {answer.stale_after_days} days old; gpucost collect prices asks for new ones"
        )
    if isinstance(answer, PricesAnswer):
        return notes
    notes = [*answer.not_sold_on_demand, *notes]
    if fresh := answer.cheapest_fresh:
        first = answer.rows[0]
        price = figure_text(fresh.price_per_gpu_hour, "price", fresh.currency, _DECIMALS)
        notes.append(
            f"the first price, {first.instance_type} {bought(first)}, is {(answer.today - first.price_as_of).days:,} days old;"
            f" the cheapest that is not stale: {fresh.instance_type} {bought(fresh)} in {place(fresh)} at {price} per GPU-hour"
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


def bought(price: ListedPrice | Quoted) -> str:
    """`reserved, 3 years, no upfront, standard`."""
    years = price.term_years or 0
    words = (
        price.purchase_option,
        f"{years} year{'s' if years > 1 else ''}" if years else None,
        price.payment_option,
        price.offering,
    )
    return ", ".join(word.replace("_", " ") for word in words if word)


def _age(price: ListedPrice, today: date) -> str:
    """` (1,700d)`, of a price that is stale; one that a newer replaced is old in any case."""
    if not price.is_stale or price.status != "current":
        return ""
    return f" ({(today - price.price_as_of).days:,}d)"


def place(price: ListedPrice | Quoted) -> str:
    if price.region and price.zone and not price.zone.startswith(price.region):
        return f"{price.region} {price.zone}"  # AWS' zone ids do not say their region in full
    return price.zone or price.region or "any"


_LEVELS = "▁▂▃▄▅▆▇█"
_STEPS_SHOWN = 20
_LINE, _SHORT_LINE = 60, 12


@command("* start end product written")
def prices_history(
    call: Call,
    instance: Annotated[str, argument("INSTANCE", "Instance type, such as p3.2xlarge.")],
    zone: Annotated[str | None, option("--zone", "ZONE", "Only this zone.")] = None,
    region: Annotated[str | None, option("--region", "REGION", "Only this region's zones.")] = None,
    product: Annotated[
        str | None, option("--product", "NAME", "Such as Windows, as EC2 calls it; without it Linux.")
    ] = None,
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
    places: dict[str, list[str]] = {}
    for zone_history in zones:
        for note in zone_history.notes:
            places.setdefault(note, []).append(zone_history.place)
    write_with_notes(
        call, _history_document(zones), [f"{', '.join(where)}: {note}" for note, where in places.items()]
    )


def _history_document(zones: list[ZoneHistory]) -> Document:
    from gpucost.price.history import PriceHistory

    first, (columns, rows) = zones[0], table(zones)
    shown = [at for at, name in enumerate(columns) if name not in ("steps", "notes")]
    where = f" in {first.place}, {first.product}" if len(zones) == 1 else ""
    return Document(
        title=f"{first.instance_type}{where}, spot",
        subtitle=f"{iso(first.start)} to {iso(first.end)}",
        currency=first.currency,
        sections=_one_zone(first) if len(zones) == 1 else (_zones_table(zones),),
        name="prices.history",
        data=PriceHistory(
            first.instance_type, first.start, first.end, first if len(zones) == 1 else None, zones
        ),
        flat=([columns[at] for at in shown], [[_flat(row[at]) for at in shown] for row in rows]),
        whole_in="json",
    )


def _flat(value: Any) -> Any:
    """Days as text, and decimals without the zeros behind the sixth."""
    if isinstance(value, Decimal):
        rounded = value.quantize(Decimal("0.000001"))
        return rounded if rounded == value else value.normalize()
    return str(value) if isinstance(value, date) else value


def _one_zone(zone: ZoneHistory) -> tuple[Section, ...]:
    figures = []
    if zone.mean_price_per_hour is not None:
        figures = [
            Figure(
                "Mean per hour",
                _per_hour(zone, zone.mean_price_per_hour),
                "text",
                note=f"over {zone.covered_hours:,.1f} h",
            ),
            Figure("Lowest", _per_hour(zone, zone.min_price_per_hour), "text"),
            Figure("Highest", _per_hour(zone, zone.max_price_per_hour), "text"),
            Figure("Changes", f"{zone.changes:,}", "text"),
        ]
    if zone.on_demand_price_per_hour is not None:
        off = (
            f", {figure_text(zone.discount, 'ratio', '', 1)} off"
            if zone.discount is not None and zone.discount > 0
            else ""
        )
        as_of = f"as of {zone.on_demand_price_as_of}{off}"
        figures.append(
            Figure("On demand", _per_hour(zone, zone.on_demand_price_per_hour), "text", note=as_of)
        )
    sections: list[Section] = [Figures("Price", tuple(figures))] if figures else []
    if zone.steps:
        more = len(zone.steps) > _STEPS_SHOWN
        columns = (
            text(lambda step: iso(step.start), "From"),
            shown("price_per_hour", "Per hour", unit="price", decimals=6),
        )
        note = (
            f"the last {_STEPS_SHOWN} of {len(zone.steps):,} steps; --format json has all" if more else None
        )
        sections += [
            Texts("Over time", (_sparkline(zone, _LINE),)),
            Table.of("Steps", zone.steps[-_STEPS_SHOWN:], columns, note=note),
        ]
    return tuple(sections)


def _zones_table(zones: list[ZoneHistory]) -> Table:
    columns = [
        text("place", "Zone"),
        price_column("mean_price_per_hour", "Mean", 6),
        price_column("min_price_per_hour", "Lowest", 6),
        price_column("max_price_per_hour", "Highest", 6),
        count("changes", weight=2),
        shown("discount", unit="ratio", weight=1),
        text(lambda zone: _sparkline(zone, _SHORT_LINE), "Over time", weight=3),
        text("product", weight=4),
        price_column("on_demand_price_per_hour", "On demand", 6, weight=4),
        number("covered_hours", "Hours known", weight=4),
    ]
    ranked = sorted(
        zones,
        key=lambda zone: (zone.mean_price_per_hour is None, zone.mean_price_per_hour or 0, zone.zone or ""),
    )
    return Table.of("Price per hour", ranked, columns)


def _per_hour(zone: ZoneHistory, price: Decimal | None) -> str:
    return figure_text(price, "price", zone.currency, 6)


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


@command("* written", without="store")
def prices_tokens(
    call: Call,
    provider: Annotated[
        list[str] | None,
        option("--provider", "NAME", "Only this seller, such as openai, aws or gcp; repeatable."),
    ] = None,
    model: Annotated[
        str | None,
        option("--model", "GLOB", "Only models of this name, or of this after a slash; may hold * and ?."),
    ] = None,
) -> None:
    """Say what a million tokens costs, of which model at whom: list prices of input, cached input and output.

    Those of the catalog inside gpucost, each with its day and source, in the currency it is listed in. aws is Amazon Bedrock,
    gcp Vertex AI and the Gemini API, azure Azure OpenAI and Foundry. Batch, priority and long-context prices are not in it, nor
    what you negotiated.

    \b
    Examples:
      gpucost prices tokens
      gpucost prices tokens --provider openai --provider azure --model "gpt-5*"
      gpucost prices tokens --model "*llama-3.3-70b*" --format json
    """
    from gpucost.price.tokens import TokenPricesAnswer, near_models, token_prices

    settings = call.settings
    today, days = _today(settings.tz), settings.prices.stale_after_days
    rows = token_prices(today, provider or (), model)
    if not rows:
        sellers = sorted({price.provider for price in token_prices(today, (), model)})
        where = f" at {' or '.join(provider)}" if provider else ""
        near = (
            f"those who have it: {', '.join(sellers)}" if sellers else near_models(None, model or "", today)
        )
        raise GpucostError(f"no price of tokens of {model or 'any model'} is known{where}", near)
    answer = TokenPricesAnswer(today, days, rows)
    old = f"{answer.stale:,} of {len(rows):,} prices are over {days} days old; a newer gpucost has newer ones"
    write_with_notes(call, _tokens_document(answer), [old] if answer.stale else [])


def _tokens_document(answer: TokenPricesAnswer) -> Document:
    columns = [
        text("provider"),
        text("model"),
        price_column("input_price_per_million", "Input"),
        price_column("cached_input_price_per_million", "Cached input", weight=1),
        price_column("output_price_per_million", "Output"),
        figure(lambda row: str(row.price_as_of), "As of", weight=2),
        text("source", weight=4),
    ]
    rows = answer.rows
    return Document(
        title="What a million tokens costs",
        subtitle=f"list prices, {answer.today}",
        currency=rows[0].currency,
        sections=(Table.of("Prices per million tokens", rows, columns),),
        name="prices.tokens",
        data=answer,
        flat=table(rows),
        whole_in="json",
    )


# What an own node costs, by the keys of its file.
OWN_NODE = parameters(
    {
        key: (
            str | None,
            option(f"--{key.replace('_', '-')}", "NAME" if key == "gpu_model" else "NUMBER", words),
        )
        for key, words in {
            "purchase_price": "Price of one node, GPUs included.",
            "gpus_per_node": "GPUs in a node.",
            "gpu_model": "GPU model in any spelling.",
            "years": "Years over which the node is written off.",
            "residual_percent": "Percent of the purchase price that you get back at the end: 0 to 100.",
            "gpu_watts": "Power of one GPU, as DCGM_FI_DEV_POWER_USAGE measures it; else the model's rated power.",
            "other_watts": "Power of the node without its GPUs.",
            "pue": "Power usage effectiveness: the site's power over that of its machines, 1 or more.",
            "price_per_kwh": "Price of electricity.",
            "colocation_per_kw_month": "Price of space, per kW of rated power and month.",
            "staff_per_year": "Cost of the people who run the nodes.",
            "staff_nodes": "How many nodes they run.",
            "network_per_node": "Network of one node, once.",
            "maintenance_percent_per_year": "Support and spare parts a year, in percent of the purchase price.",
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
    currency: Annotated[
        str | None, option("--currency", "CODE", "Currency of every price here; else the config's.")
    ] = None,
    save: Annotated[bool, switch("--save", "Write the price of a node-hour into the price book.")] = False,
    node_selector: Annotated[
        str | None, option("--node-selector", "LABEL=VALUE;…", "With --save: nodes with these labels.")
    ] = None,
    instance_type: Annotated[
        str | None, option("--instance-type", "TYPE", "With --save: nodes of this instance type.")
    ] = None,
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
    from gpucost.price.onprem import BookEntry

    of_row = {
        "--node-selector": node_selector,
        "--instance-type": instance_type,
        "--effective-start": effective_start,
    }
    for name, value in of_row.items():
        if value is not None and not save:
            raise UsageError(f"{name} needs --save", "it says which nodes the saved price is for")
    given = {**call.more, "utilization_percent": utilization_percent, "currency": currency}
    answer = own_node(file, given, call.settings.currency)
    entry = None
    if save:
        entry = BookEntry(
            answer.price_per_hour,
            answer.inputs.currency,
            instance_type or "",
            node_selector or "",
            effective_start or "",
        )
        call.note(_save_entry(call.settings, entry))
    notes = []
    if answer.gpu_watts_source == "tdp":
        notes.append(
            f"power is the rated {answer.gpu_watts:f} W of {answer.inputs.gpu_model}; gpucost collects no measured power:"
            " --gpu-watts takes the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if answer.inputs.not_given:
        notes.append(f"not given, and counted as nothing (pue as 1): {', '.join(answer.inputs.not_given)}")
    write_with_notes(call, _tco_document(answer, entry), notes)


def own_node(file: Path | None, given: Mapping[str, str | None], currency: str, **defaults: str) -> Tco:
    """What an own node costs by the file and the options given, which win over it; `defaults` hold where neither says.

    Raises ConfigError naming what is missing or cannot be used.
    """
    from gpucost.price.onprem import node_cost, read_file, read_inputs

    options = {key: value for key, value in given.items() if value is not None}
    return node_cost(read_inputs({**defaults, **(read_file(file) if file else {})}, options, file, currency))


def _tco_document(answer: Tco, saved: BookEntry | None) -> Document:
    """A row for each part, then the prices that they add up to."""
    from gpucost.price.onprem import TcoAnswer, TcoPart

    inputs = answer.inputs
    sums = [
        TcoPart("node-hour", answer.price_per_hour, "the sum"),
        TcoPart("GPU-hour", answer.price_per_gpu_hour, f"over all hours, {inputs.gpus_per_node:f} GPUs"),
    ]
    if answer.price_per_utilized_gpu_hour is not None:
        in_use = f"at {inputs.utilization_percent:f} % of the hours"
        sums.append(TcoPart("GPU-hour in use", answer.price_per_utilized_gpu_hour, in_use))
    parts = [*answer.parts, *sums]
    columns = [
        text("name", "Part"),
        shown("price_per_hour", "Per hour", unit="price", decimals=9),
        text("basis", "From"),
    ]
    return Document(
        title="What an own node costs",
        currency=inputs.currency,
        sections=(Table.of("Price of an hour", parts, columns, is_sum=lambda part: part in sums),),
        name="tco",
        data=TcoAnswer(inputs.currency, answer, inputs.not_given, saved),
        flat=(
            ["part", f"{inputs.currency} per hour", "from"],
            [[part.name, part.price_per_hour, part.basis] for part in parts],
        ),
    )


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
        raise GpucostError(
            f"not saved, and {book} is as it was: the new row would refuse it: {error.message}"
        ) from None
    try:
        write_text(after, book)
    except GpucostError as error:
        raise GpucostError(error.message, "[prices] book names the file") from None
    where = f"in place of line {replaced}" if replaced else "as its last line"
    return f"saved to {book} {where}: {entry.price_per_hour:f} {entry.currency} per node-hour"
