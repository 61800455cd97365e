"""Prices of GPUs by place."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from gpucost.errors import UsageError
from gpucost.options import Names, Option, argument
from gpucost.price.listing import (
    ListedPrice,
    Listing,
    PriceQuery,
    PricesAnswer,
    cheapest_regions,
    listing,
    overview,
)
from gpucost.price.quote import Quoted
from gpucost.questions.request import Request, store_or_empty, with_notes
from gpucost.render.formatting import figure_text
from gpucost.render.schema import table
from gpucost.render.view import Document, Table, ValueColumn, count, figure, text

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
Providers = Annotated[Names, Option("Only this cloud, such as aws; repeatable.", "NAME", flag="--provider")]


def prices(
    request: Request,
    name: GpuOrInstance = None,
    provider: Providers = (),
    region: Annotated[
        Names, Option("Only this region, with every zone; repeatable; * and ? are wildcards.", "NAME")
    ] = (),
    all_regions: Annotated[
        bool, Option("Every region and zone, not only the cheapest place of each price.")
    ] = False,
    purchase_option: Annotated[
        tuple[PurchaseOption, ...], Option(f"Only {', '.join(PurchaseOption)}; repeatable.", "OPTION")
    ] = (),
) -> Document:
    """List the prices of a GPU by place, cheapest GPU-hour first.

    Today's list prices of gpucost's catalog and of the store (gpucost collect prices), and the newest spot prices (gpucost
    collect spot), without your price book, discounts and bills. Without a name: every GPU model with its cheapest on-demand and
    spot price. With a name: the cheapest region of every price. H100 means all H100 models.

    \b
    Examples:
      gpucost prices
      gpucost prices H100
      gpucost prices p5.48xlarge --region us-east-1
      gpucost prices "A100 80GB" --all-regions --purchase-option spot --format csv -o a100.csv
    """
    settings = request.settings
    if name is None and all_regions:
        raise UsageError(
            "--all-regions needs a GPU or an instance type", "for example: gpucost prices H100 --all-regions"
        )
    query = PriceQuery.of(
        settings, request.now, providers=provider, regions=region, purchase_options=purchase_option
    )
    with store_or_empty(settings) as con:
        answer = overview(con, query) if name is None else listing(con, name, query)
    if isinstance(answer, Listing) and not all_regions and not region:
        answer = replace(answer, rows=cheapest_regions(answer.rows))
    return with_notes(request, _listing_document(answer, _prices_of(answer)), listing_notes(answer))


def today_in(tz: ZoneInfo) -> date:
    return datetime.now(tz).date()


def _prices_of(answer: PricesAnswer) -> list[ListedPrice]:
    if isinstance(answer, Listing):
        return list(answer.rows)
    models = [row for row in answer.rows if isinstance(row, dict)]
    return [price for model in models for price in model.values() if isinstance(price, ListedPrice)]


_BEST = 15


def _best_first(prices: list[ListedPrice], columns: Sequence[ValueColumn]) -> tuple[Table, ...]:
    """The cheapest prices that are not stale, and the others."""
    best = [price for price in prices if not price.is_stale][:_BEST]
    others = [price for price in prices if price not in best]
    tables = Table.of("Best recent prices", best, columns), Table.of("More prices", others, columns)
    return tuple(each for each in tables if each.lines)


def _listing_document(answer: PricesAnswer, prices: list[ListedPrice]) -> Document:
    """Prices as a page: one name with all columns, or all GPU models, each with its cheapest place."""

    per_gpu_hour = price_column("price_per_gpu_hour", "Per GPU-h")
    as_of = figure(lambda row: f"{row.price_as_of}{_age(row, answer.today)}", "As of")
    source = text("source", weight=4)
    if not isinstance(answer, Listing):
        title = "Prices of GPUs"
        where = text(
            lambda row: " ".join(part for part in (row.provider, row.region, row.instance_type) if part),
            "Where",
        )
        columns = [text("gpu_model", "GPU"), text(bought, "Bought"), per_gpu_hour, where, as_of, source]
    else:
        title = f"Prices of {answer.name}"
        columns = [
            per_gpu_hour,
            price_column("price_per_hour", "Per hour", weight=1),
            text("provider"),
            text(place, "Place"),
            text("instance_type", weight=2 if len({price.instance_type for price in prices}) == 1 else 0),
            text(
                lambda row: f"{row.gpu_count:f} × {row.gpu_model}" if row.gpu_count else "unknown",
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
        columns.append(source)
    return Document(
        title=title,
        subtitle=f"list prices and the newest spot prices, {answer.today}",
        currency=answer.currency,
        sections=_best_first(prices, columns)
        if isinstance(answer, Listing)
        else (Table.of("Prices", prices, columns),),
        name="prices",
        data=answer,
        flat=table(prices),
        whole_in="json",
    )


def price_column(name: str, title: str, decimals: int = _DECIMALS, weight: int = 0) -> ValueColumn:
    """The field `name` of the rows as prices, each in the row's currency."""
    return figure(
        lambda row: figure_text(getattr(row, name), "price", row.currency, decimals), title, weight=weight
    )


def listing_notes(answer: PricesAnswer) -> list[str]:
    """Notes on the rows, one sentence each."""
    prices, notes = _prices_of(answer), []
    if stale := sum(price.is_stale for price in prices):
        old = (
            f"{stale} of {len(prices)} prices {'is' if stale == 1 else 'are'}"
            if len(prices) > 1
            else "the price is"
        )
        notes.append(
            f"{old} over {answer.stale_after_days} days old; gpucost collect prices loads new prices"
        )
    if not isinstance(answer, Listing):
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
            f"prices in {', '.join(answer.unconverted)} are last, unconverted: set the rate to "
            f"{answer.currency} in [prices] fx"
        )
    if any(price.spot_discount_percent is not None and price.spot_discount_percent <= 0 for price in prices):
        notes.append("spot at 0 % off has the on-demand price")
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
    """` (1,700d)` for a stale price. A superseded price is always old."""
    if not price.is_stale or price.status != "current":
        return ""
    return f" ({(today - price.price_as_of).days:,}d)"


def place(price: ListedPrice | Quoted) -> str:
    if price.region and price.zone and not price.zone.startswith(price.region):
        return f"{price.region} {price.zone}"  # AWS' zone ids do not contain the full name of the region
    return price.zone or price.region or "any"
