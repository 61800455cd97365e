"""What an hour of an own node costs, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpucost.disk import write_text
from gpucost.errors import ConfigError, GpucostError, UsageError
from gpucost.options import Option, OptionGroup, argument
from gpucost.price.book import read_book
from gpucost.price.fx import rates
from gpucost.price.onprem import (
    BookEntry,
    Tco,
    TcoAnswer,
    TcoPart,
    node_cost,
    read_file,
    read_inputs,
    with_entry,
)
from gpucost.questions.request import Request, with_notes
from gpucost.render.view import Document, Table, shown, text

if TYPE_CHECKING:
    from gpucost.config.model import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNode(OptionGroup):
    """What an own node costs, by the keys of its file; texts that are read as those of the file."""

    purchase_price: Annotated[str | None, Option("Price of one node, GPUs included.", "NUMBER")] = None
    gpus_per_node: Annotated[str | None, Option("GPUs in a node.", "NUMBER")] = None
    gpu_model: Annotated[str | None, Option("GPU model in any spelling.", "NAME")] = None
    years: Annotated[str | None, Option("Years over which the node is written off.", "NUMBER")] = None
    residual_percent: Annotated[
        str | None, Option("Percent of the purchase price that you get back at the end: 0 to 100.", "NUMBER")
    ] = None
    gpu_watts: Annotated[
        str | None,
        Option(
            "Power of one GPU, as DCGM_FI_DEV_POWER_USAGE measures it; else the model's rated power.",
            "NUMBER",
        ),
    ] = None
    other_watts: Annotated[str | None, Option("Power of the node without its GPUs.", "NUMBER")] = None
    pue: Annotated[
        str | None,
        Option("Power usage effectiveness: the site's power over that of its machines, 1 or more.", "NUMBER"),
    ] = None
    price_per_kwh: Annotated[str | None, Option("Price of electricity.", "NUMBER")] = None
    colocation_per_kw_month: Annotated[
        str | None, Option("Price of space, per kW of rated power and month.", "NUMBER")
    ] = None
    staff_per_year: Annotated[str | None, Option("Cost of the people who run the nodes.", "NUMBER")] = None
    staff_nodes: Annotated[str | None, Option("How many nodes they run.", "NUMBER")] = None
    network_per_node: Annotated[str | None, Option("Network of one node, once.", "NUMBER")] = None
    maintenance_percent_per_year: Annotated[
        str | None, Option("Support and spare parts a year, in percent of the purchase price.", "NUMBER")
    ] = None

    @property
    def values(self) -> dict[str, str]:
        """The options given, by their keys."""
        return {name: getattr(self, name) for name in self.given}


def prices_tco(
    request: Request,
    own: OwnNode,
    file: Annotated[Path | None, argument("FILE", "TOML file of the same keys; options win over it.")] = None,
    utilization_percent: Annotated[
        str | None, Option("Share of hours in use: above 0, at most 100.", "NUMBER")
    ] = None,
    currency: Annotated[
        str | None, Option("Currency of every price here; else the config's.", "CODE")
    ] = None,
    save: Annotated[bool, Option("Write the price of a node-hour into the price book.")] = False,
    node_selector: Annotated[
        str | None, Option("With --save: nodes with these labels.", "LABEL=VALUE;…")
    ] = None,
    instance_type: Annotated[str | None, Option("With --save: nodes of this instance type.", "TYPE")] = None,
    effective_start: Annotated[
        str | None, Option("With --save: from when it holds; else ever.", "DATE")
    ] = None,
) -> Document:
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
    of_row = {
        "--node-selector": node_selector,
        "--instance-type": instance_type,
        "--effective-start": effective_start,
    }
    for name, value in of_row.items():
        if value is not None and not save:
            raise UsageError(f"{name} needs --save", "it says which nodes the saved price is for")
    given = {**own.values, "utilization_percent": utilization_percent, "currency": currency}
    answer = own_node(file, given, request.settings.currency)
    entry = None
    if save:
        entry = BookEntry(
            answer.price_per_hour,
            answer.inputs.currency,
            instance_type or "",
            node_selector or "",
            effective_start or "",
        )
        request.note(_save_entry(request.settings, entry))
    notes = []
    if answer.gpu_watts_source == "tdp":
        notes.append(
            f"power is the rated {answer.gpu_watts:f} W of {answer.inputs.gpu_model}; gpucost collects no "
            f"measured power:"
            " --gpu-watts takes the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if answer.inputs.not_given:
        notes.append(f"not given, and counted as nothing (pue as 1): {', '.join(answer.inputs.not_given)}")
    return with_notes(request, _tco_document(answer, entry), notes)


def own_node(file: Path | None, given: Mapping[str, str | None], currency: str, **defaults: str) -> Tco:
    """What an own node costs by the file and the options given, which win over it; `defaults` hold where neither says.

    Raises ConfigError naming what is missing or cannot be used.
    """
    options = {key: value for key, value in given.items() if value is not None}
    return node_cost(read_inputs({**defaults, **(read_file(file) if file else {})}, options, file, currency))


def _tco_document(answer: Tco, saved: BookEntry | None) -> Document:
    """A row for each part, then the prices that they add up to."""
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
    book = config.prices.book
    if book is None:
        raise ConfigError("no price book is configured", 'set [prices] book = "prices.csv" in gpucost.toml')
    entry.check(config.tz)
    fx = rates(config)
    if entry.currency not in (config.currency, *fx.steps):
        raise ConfigError(
            f"a price in {entry.currency} cannot be used: there is no rate from {entry.currency} to "
            f"{config.currency}",
            f"set [prices] fx = {{ {entry.currency} = … }}, what 1 {entry.currency} is worth in "
            f"{config.currency}",
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
