"""The cost of an hour of an own node, part by part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from gpucost.options import Option, OptionGroup, argument
from gpucost.price.onprem import Tco, TcoAnswer, TcoPart, node_cost, read_file, read_inputs
from gpucost.questions.request import Request, with_notes
from gpucost.records import keyed_dataclass
from gpucost.render.view import Document, Table, column_of, text


@keyed_dataclass
class OwnNode(OptionGroup):
    """The costs of an own node, by the keys of its file, as texts."""

    purchase_price: Annotated[str | None, Option("Price of one node, GPUs included.", "NUMBER")] = None
    gpus_per_node: Annotated[str | None, Option("GPUs in a node.", "NUMBER")] = None
    gpu_model: Annotated[str | None, Option("GPU model in any spelling.", "NAME")] = None
    years: Annotated[str | None, Option("Depreciation period in years.", "NUMBER")] = None
    residual_percent: Annotated[
        str | None, Option("Resale value in percent of the purchase price: 0 to 100.", "NUMBER")
    ] = None
    gpu_watts: Annotated[
        str | None,
        Option(
            "Power of one GPU, as in DCGM_FI_DEV_POWER_USAGE. Default: the model's rated power.", "NUMBER"
        ),
    ] = None
    other_watts: Annotated[str | None, Option("Power of the node without its GPUs.", "NUMBER")] = None
    pue: Annotated[
        str | None,
        Option("Power usage effectiveness: power of the site ÷ power of its machines, 1 or more.", "NUMBER"),
    ] = None
    price_per_kwh: Annotated[str | None, Option("Price of electricity.", "NUMBER")] = None
    colocation_per_kw_month: Annotated[
        str | None, Option("Price of space, per kW of rated power and month.", "NUMBER")
    ] = None
    staff_per_year: Annotated[str | None, Option("Cost of the people who run the nodes.", "NUMBER")] = None
    staff_nodes: Annotated[str | None, Option("Number of nodes that they run.", "NUMBER")] = None
    network_per_node: Annotated[str | None, Option("Network of one node, a one-time cost.", "NUMBER")] = None
    maintenance_percent_per_year: Annotated[
        str | None, Option("Support and spare parts a year, in percent of the purchase price.", "NUMBER")
    ] = None

    @property
    def values(self) -> dict[str, str]:
        """The options given, by their keys."""
        return {name: getattr(self, name) for name in self.explicit_options}


def prices_tco(
    request: Request,
    own: OwnNode,
    file: Annotated[
        Path | None, argument("FILE", "TOML file with the same keys; options override it.")
    ] = None,
    utilization_percent: Annotated[
        str | None, Option("Share of hours in use: above 0, at most 100.", "NUMBER")
    ] = None,
    currency: Annotated[
        str | None, Option("Currency of the prices. Default: the configured one.", "CODE")
    ] = None,
) -> Document:
    """Compute the hourly cost of your own node and of its GPUs, part by part.

    Reads a file, options, or both. A year has 8,760 hours, a month 730. Power is paid in every hour, used or not. Missing parts
    count as 0 and are listed. To use the price of a node-hour elsewhere, add it to the price book.

    \b
    Examples:
      gpucost prices tco onprem.toml
      gpucost prices tco onprem.toml --gpu-watts 450 --format json
      gpucost prices tco --purchase-price 280000 --gpus-per-node 8 --gpu-model H100 --years 4 --price-per-kwh 0.12 --pue 1.3
    """
    explicit = {**own.values, "utilization_percent": utilization_percent, "currency": currency}
    answer = own_node(file, explicit, request.settings.currency)
    notes = []
    if answer.gpu_watts_source == "tdp":
        notes.append(
            f"power is the rated {answer.gpu_watts:f} W of {answer.inputs.gpu_model}; for measured power, set --gpu-watts to "
            "the mean of DCGM_FI_DEV_POWER_USAGE"
        )
    if answer.inputs.not_given:
        notes.append(f"missing, counted as 0 (pue as 1): {', '.join(answer.inputs.not_given)}")
    return with_notes(request, _tco_document(answer), notes)


def own_node(file: Path | None, explicit: Mapping[str, str | None], currency: str, **defaults: str) -> Tco:
    """The cost of an own node by its file and by options, which override the file and `defaults`.

    Raises ConfigError that names a missing or invalid key.
    """
    options = {key: value for key, value in explicit.items() if value is not None}
    return node_cost(read_inputs({**defaults, **(read_file(file) if file else {})}, options, file, currency))


def _tco_document(answer: Tco) -> Document:
    """A row for each part, then their sums."""
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
        column_of("price_per_hour", "Per hour", unit="price", decimals=9),
        text("basis", "From"),
    ]
    return Document(
        title="Cost of an own node",
        currency=inputs.currency,
        sections=(Table.of("Price of an hour", parts, columns, is_sum=lambda part: part in sums),),
        name="tco",
        data=TcoAnswer(inputs.currency, answer, inputs.not_given),
        flat=(
            ["part", f"{inputs.currency} per hour", "from"],
            [[part.name, part.price_per_hour, part.basis] for part in parts],
        ),
    )
