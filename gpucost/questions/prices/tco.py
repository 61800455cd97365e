"""What an hour of an own node costs, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpucost.options import Option, OptionGroup, argument
from gpucost.price.onprem import Tco, TcoAnswer, TcoPart, node_cost, read_file, read_inputs
from gpucost.questions.request import Request, with_notes
from gpucost.render.view import Document, Table, shown, text


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
) -> Document:
    """Say what an hour of an own node and of its GPUs costs, part by part.

    From a file, from options, or both. A year is 8,760 hours, a month 730. Power counts in every hour, used or not. What was
    not given counts as nothing, and is named. Add the price of a node-hour to the price book by hand.

    \b
    Examples:
      gpucost prices tco onprem.toml
      gpucost prices tco onprem.toml --gpu-watts 450 --format json
      gpucost prices tco --purchase-price 280000 --gpus-per-node 8 --gpu-model H100 --years 4 --price-per-kwh 0.12 --pue 1.3
    """
    given = {**own.values, "utilization_percent": utilization_percent, "currency": currency}
    answer = own_node(file, given, request.settings.currency)
    notes = []
    if answer.gpu_watts_source == "tdp":
        notes.append(
            f"power is the rated {answer.gpu_watts:f} W of {answer.inputs.gpu_model}; gpucost collects no "
            f"measured power:"
            " --gpu-watts takes the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if answer.inputs.not_given:
        notes.append(f"not given, and counted as nothing (pue as 1): {', '.join(answer.inputs.not_given)}")
    return with_notes(request, _tco_document(answer), notes)


def own_node(file: Path | None, given: Mapping[str, str | None], currency: str, **defaults: str) -> Tco:
    """What an own node costs by the file and the options given, which win over it; `defaults` hold where neither says.

    Raises ConfigError naming what is missing or cannot be used.
    """
    options = {key: value for key, value in given.items() if value is not None}
    return node_cost(read_inputs({**defaults, **(read_file(file) if file else {})}, options, file, currency))


def _tco_document(answer: Tco) -> Document:
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
        data=TcoAnswer(inputs.currency, answer, inputs.not_given),
        flat=(
            ["part", f"{inputs.currency} per hour", "from"],
            [[part.name, part.price_per_hour, part.basis] for part in parts],
        ),
    )
