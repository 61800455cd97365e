"""`gpucost prices tco`: what an hour of an own node costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, VerboseOption, handle_errors, note, output_file, put_or_write
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat, write_rows

if TYPE_CHECKING:
    from gpucost.price.onprem import BookEntry, Tco

SCHEMA = "gpucost.tco/1"


def _number(name: str, help: str) -> Any:
    return typer.Option(name, metavar="NUMBER", help=help, show_default=False)


@handle_errors
def prices_tco(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="TOML file of the same keys; options win over it.", show_default=False)
    ] = None,
    purchase_price: Annotated[str | None, _number("--purchase-price", "Of one node, GPUs included.")] = None,
    gpus_per_node: Annotated[str | None, _number("--gpus-per-node", "GPUs in a node.")] = None,
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="GPU model in any spelling.", show_default=False)
    ] = None,
    years: Annotated[str | None, _number("--years", "Over which the node is written off.")] = None,
    residual_percent: Annotated[
        str | None, _number("--residual-percent", "Of the purchase price, got back at the end: 0 to 100.")
    ] = None,
    gpu_watts: Annotated[
        str | None,
        _number("--gpu-watts", "Power of one GPU, as DCGM_FI_DEV_POWER_USAGE measures it; else the model's rated power."),
    ] = None,
    other_watts: Annotated[str | None, _number("--other-watts", "Power of the node without its GPUs.")] = None,
    pue: Annotated[str | None, _number("--pue", "Power of the site over power of its machines: 1 or more.")] = None,
    price_per_kwh: Annotated[str | None, _number("--price-per-kwh", "Price of electricity.")] = None,
    colocation_per_kw_month: Annotated[
        str | None, _number("--colocation-per-kw-month", "Price of space, per kW of rated power and month.")
    ] = None,
    staff_per_year: Annotated[str | None, _number("--staff-per-year", "Cost of the people who run the nodes.")] = None,
    staff_nodes: Annotated[str | None, _number("--staff-nodes", "How many nodes they run.")] = None,
    network_per_node: Annotated[str | None, _number("--network-per-node", "Network of one node, once.")] = None,
    maintenance_percent_per_year: Annotated[
        str | None, _number("--maintenance-percent-per-year", "Of the purchase price: support and spare parts.")
    ] = None,
    utilization_percent: Annotated[
        str | None, _number("--utilization-percent", "Share of hours in use: above 0, at most 100.")
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option("--currency", metavar="CODE", help="Currency of every price here; else the config's.", show_default=False),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write the price of a node-hour into the price book.")] = False,
    node_selector: Annotated[
        str | None,
        typer.Option(
            "--node-selector", metavar="LABEL=VALUE;…", help="With --save: nodes with these labels.", show_default=False
        ),
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option("--instance-type", metavar="TYPE", help="With --save: nodes of this instance type.", show_default=False),
    ] = None,
    effective_start: Annotated[
        str | None,
        typer.Option("--effective-start", metavar="DATE", help="With --save: from when it holds; else ever.", show_default=False),
    ] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
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
    from gpucost.config import load_config
    from gpucost.price.onprem import BookEntry, read_file, read_inputs, tco
    from gpucost.price.onprem.gpus import rated_power
    from gpucost.store.scratch import scratch_store

    given = {
        "purchase_price": purchase_price,
        "gpus_per_node": gpus_per_node,
        "gpu_model": gpu_model,
        "years": years,
        "residual_percent": residual_percent,
        "gpu_watts": gpu_watts,
        "other_watts": other_watts,
        "pue": pue,
        "price_per_kwh": price_per_kwh,
        "colocation_per_kw_month": colocation_per_kw_month,
        "staff_per_year": staff_per_year,
        "staff_nodes": staff_nodes,
        "network_per_node": network_per_node,
        "maintenance_percent_per_year": maintenance_percent_per_year,
        "utilization_percent": utilization_percent,
        "currency": currency,
    }
    _check_options(
        save=save, row={"--node-selector": node_selector, "--instance-type": instance_type, "--effective-start": effective_start}
    )
    target = output_file(output)
    settings = load_config(config)
    options = {key: value for key, value in given.items() if value is not None}
    inputs = read_inputs(read_file(file) if file else {}, options, file, settings.currency)
    tdp = None
    if inputs.gpu_model:
        from dataclasses import replace

        with scratch_store() as con:
            model, tdp = rated_power(con, inputs.gpu_model, needed=inputs.gpu_watts is None)
        inputs = replace(inputs, gpu_model=model)
    answer = tco(inputs, tdp)
    entry = None
    if save:
        from gpucost.cli._book import save_entry

        entry = BookEntry(answer.price_per_hour, inputs.currency, instance_type or "", node_selector or "", effective_start or "")
        note(save_entry(settings, entry), quiet=quiet)
    if format is RowFormat.json:
        text = to_json(answer, entry)
        put_or_write(text, target)
        return
    write_rows(*to_rows(answer), format, target)
    for remark in remarks(answer):
        note(remark, quiet=quiet)


def _check_options(*, save: bool, row: dict[str, str | None]) -> None:
    """Raises UsageError for words about a row of the price book where none is written."""
    from gpucost.errors import UsageError

    for option, value in row.items():
        if value is not None and not save:
            raise UsageError(f"{option} needs --save", "it says which nodes the saved price is for")


def to_json(answer: Tco, saved: BookEntry | None) -> str:
    """Schema gpucost.tco/1: the parts, whose sum the price of a node-hour is, the prices, and what they were reckoned from."""
    from dataclasses import asdict

    from gpucost.cli._rows import plain_value

    document = {"schema": SCHEMA, "currency": answer.inputs.currency, **asdict(answer), "not_given": answer.inputs.not_given}
    return (
        json.dumps(
            {**plain_value(document), "saved": plain_value(asdict(saved)) if saved else None}, indent=2, ensure_ascii=False
        )
        + "\n"
    )


def to_rows(answer: Tco) -> tuple[list[str], list[list[Any]]]:
    """A row for each part, then the prices that they add up to."""
    inputs = answer.inputs
    rows: list[list[Any]] = [[part.name, part.price_per_hour, part.basis] for part in answer.parts]
    rows.append(["node-hour", answer.price_per_hour, "the sum"])
    rows.append(["GPU-hour", answer.price_per_gpu_hour, f"over all hours, {inputs.gpus_per_node:f} GPUs"])
    if answer.price_per_utilized_gpu_hour is not None:
        rows.append(["GPU-hour in use", answer.price_per_utilized_gpu_hour, f"at {inputs.utilization_percent:f} % of the hours"])
    return ["part", f"{inputs.currency} per hour", "from"], rows


def remarks(answer: Tco) -> list[str]:
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
