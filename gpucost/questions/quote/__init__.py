"""The cost of a number of GPUs for a number of hours."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import Names, Option
from gpucost.price.listing import PriceQuery, listing
from gpucost.price.quote import Quantity, Quote, Quoted, list_prices, owned, ranked, user_price
from gpucost.questions.prices import GpuOrInstance, Providers, bought, place, price_column
from gpucost.questions.prices.tco import own_node
from gpucost.questions.quote.files import quoted
from gpucost.questions.request import Request, store_or_empty, with_notes
from gpucost.render.schema import table
from gpucost.render.view import Document, Figure, Figures, Table, figure, text
from gpucost.whatif.flags import DEAREST, HOURS, HOURS_PER_MONTH, PricePer

_WAYS = {"cud": "Committed use", "given": "Your price", "own": "Own nodes"}


def quote(
    request: Request,
    name: GpuOrInstance = None,
    count: Annotated[int | None, Option("Instances. Default: 1.", "COUNT", least=1, most=1000000)] = None,
    gpus: Annotated[int | None, Option("GPUs, in whole instances.", "COUNT", least=1, most=10000000)] = None,
    hours: Annotated[
        Decimal | None, replace(HOURS, help="Hours of use. Default: 730, a month.", metavar="HOURS")
    ] = None,
    days: Annotated[Decimal | None, replace(HOURS, help="Days of use, of 24 hours.", metavar="DAYS")] = None,
    provider: Providers = (),
    region: Annotated[Names, Option("Only this region; repeatable; * and ? are wildcards.", "NAME")] = (),
    price: Annotated[
        Decimal | None, Option("Your own price per hour.", "PRICE", above=True, most=DEAREST)
    ] = None,
    price_per: Annotated[
        PricePer, Option("Unit of --price: a node or a GPU.", is_shown=True)
    ] = PricePer.node,
    own: Annotated[Path | None, Option("Your own nodes: a file for gpucost prices tco.", "FILE")] = None,
    file: Annotated[
        tuple[Path, ...],
        Option("Manifest or sbatch script to price before it is submitted; repeatable.", "FILE", also="-f"),
    ] = (),
    brief: Annotated[bool, Option("With --file: one line per file, for a comment.")] = False,
) -> Document:
    """Compare the ways to buy a number of GPUs for a number of hours, or price a workload before it is submitted.

    Compares on-demand, spot and commitment prices of today's lists (gpucost prices), your own price, and your own nodes. Needs
    no store. Commitments and own nodes are paid for their whole term, so rows are sorted by the total payment; old prices
    and single-GPU hosts come last. For a GPU model, only the cheapest place of each cloud is listed.

    With --file: GPUs of a manifest or an sbatch script, their price in the store's clusters, the hours of earlier runs with
    its name, a cheaper place, and the rest of the team's budget; exits with 3 if the p95 cost exceeds it (docs/quote.md).
    Needs a store.

    \b
    Examples:
      gpucost quote p5.48xlarge --count 2 --hours 168
      gpucost quote H100 --gpus 16 --days 7 --region 'us-*'
      gpucost quote H100 --gpus 16 --days 7 --price 3 --price-per gpu --own onprem.toml
      gpucost quote --gpus 16 --days 7 --price 3 --price-per gpu
      gpucost quote -f job.yaml --brief
    """
    settings = request.settings
    if file:
        if name or count or gpus or days or price or own or provider or region:
            raise UsageError("--file takes only --hours and --brief", "leave out the other options")
        return quoted(request, file, hours, brief=brief)
    if not (name or price or own):
        raise UsageError(
            "the GPUs or the price are missing",
            "for example: gpucost quote p5.48xlarge --count 2 --hours 168",
        )
    for pair, is_twice in {
        "--count and --gpus": count and gpus,
        "--hours and --days": hours and days,
    }.items():
        if is_twice:
            raise UsageError(f"{pair} exclude each other", "leave out one of them")
    need = Quantity(hours or (days * 24 if days else Decimal(HOURS_PER_MONTH)), count, gpus)
    query = PriceQuery.of(settings, request.now, providers=provider, regions=region)
    currency = settings.currency
    rows: list[Quoted] = []
    if name:
        with store_or_empty(settings) as con:
            rows = list_prices(listing(con, name, query), need)
    wanted = Decimal(gpus) if gpus else next((row.gpus for row in rows if row.gpus), None)
    if price:
        if price_per is PricePer.gpu and not wanted:
            raise UsageError("the number of GPUs of --price is missing", "add --gpus 16")
        if price_per is PricePer.node and gpus:
            raise UsageError(
                "the number of nodes of --price is missing",
                "add --price-per gpu, or replace --gpus by --count",
            )
        rows.append(user_price(price, need, currency, wanted if price_per is PricePer.gpu else None))
    if own:
        if not wanted:
            raise UsageError("the number of GPUs of the own nodes is missing", "add --gpus 16")
        rows.append(owned(own_node(own, {}, currency), wanted, need.hours))
    answer = Quote(query.today, currency, query.stale_after_days, name, need.hours, ranked(rows, currency))
    what = f"{wanted:f} GPUs" if wanted else f"{count or 1} nodes"
    return with_notes(request, _document(answer, what), _notes(answer))


def _document(answer: Quote, what: str) -> Document:
    """The least to pay for each way to buy, with the age of its price, then all offers."""

    least: dict[str, Quoted] = {}
    for row in answer.rows:
        if row.currency == answer.currency:
            least.setdefault(row.purchase_option, row)
    figures = (
        Figure(
            _WAYS.get(name, name.replace("_", " ").capitalize()),
            row.to_pay,
            "money",
            note=f"{_offer(row)}{_age(row, answer)}",
        )
        for name, row in least.items()
    )
    columns = [
        price_column("to_pay", "To pay", 2),
        price_column("cost", "These hours", 2),
        price_column("price_per_hour", "Per hour"),
        text(bought, "Bought"),
        text(lambda row: row.provider or "", "Provider"),
        text(lambda row: place(row) if row.provider else "", "Place", weight=1),
        text(_instances, "Instances"),
        text(lambda row: "" if row.gpus is None else f"{row.gpus:f}", "GPUs", weight=2),
        figure(lambda row: "" if row.price_as_of is None else f"{row.price_as_of}", "As of"),
        text("source", weight=4),
    ]
    return Document(
        title=f"{answer.name or what} for {answer.hours:,f} hours",
        subtitle=f"{what}, list prices of {answer.today}",
        currency=answer.currency,
        sections=(Figures("Least to pay", tuple(figures)), Table.of("Ways to buy", answer.rows, columns)),
        name="quote",
        data=answer,
        flat=table(answer.rows),
        whole_in="json",
    )


def _instances(row: Quoted) -> str:
    return " × ".join(filter(None, (str(row.instances or ""), row.instance_type)))


def _offer(row: Quoted) -> str:
    where = f"{row.provider} {place(row)}" if row.provider else ""
    return ", ".join(filter(None, (*bought(row).split(", ")[1:], _instances(row), where)))


def _age(row: Quoted, answer: Quote) -> str:
    if row.price_as_of is None:
        return ""
    days = (answer.today - row.price_as_of).days
    return f"; a price of {row.price_as_of}, {days:,} days ago" if row.is_stale else f", {row.price_as_of}"


def _notes(answer: Quote) -> list[str]:
    ways, notes = {row.purchase_option for row in answer.rows}, []
    if "spot" in ways:
        notes.append(
            "spot prices do not include work repeated after interruptions: gpucost whatif spot includes it"
        )
    if any(row.term_years for row in answer.rows):
        notes.append("commitments and own nodes are paid for their whole term, used or not")
    if "capacity_block" in ways:
        notes.append("capacity blocks are sold by the day, subject to availability")
    if stale := sum(row.is_stale for row in answer.rows):
        old = "1 price is" if stale == 1 else f"{stale} prices are"
        notes.append(
            f"{old} over {answer.stale_after_days} days old; gpucost collect prices loads new prices"
        )
    if others := sorted({row.currency for row in answer.rows} - {answer.currency}):
        notes.append(
            f"prices in {', '.join(others)} are last, unconverted: set the rate to {answer.currency} in [prices] fx"
        )
    return notes
