"""`gpucost explain node`: which prices fit a node at a moment, and why one won."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, put
from gpucost.cli._periods import parse_instant

if TYPE_CHECKING:
    from gpucost.price.explain import NodePrice


_WEIGHTS = (0, 1, 0, 0, 0, 0)


class ExplainFormat(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"


@handle_errors
def explain_node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node, as Kubernetes names it.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="The moment: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z. "
            "Default: the last at which the node was up.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Its cluster, where several have such a node.", show_default=False),
    ] = None,
    format: Annotated[ExplainFormat, typer.Option("--format", help="How to write it.")] = ExplainFormat.table,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what a node costs per hour at a moment, and why.

    Lists every price that fits it in the order in which they count, and what currency rates and discounts make of the
    first.

    \b
    Examples:
      gpucost explain node ip-10-0-3-17.ec2.internal
      gpucost explain node gpu-7 --at 2026-10-01T06:00Z --cluster prod
      gpucost explain node gpu-7 --format json
    """
    from gpucost import pipeline

    settings, opened = load(config, store)
    moment = parse_instant("--at", at, settings.tz) if at is not None else None
    answer = pipeline.explain_node(settings, opened, name, moment, cluster)
    if format is ExplainFormat.json:
        put(json.dumps(_document(answer), indent=2, ensure_ascii=False))
    else:
        _print(answer)


def _print(answer: NodePrice) -> None:
    from gpucost.cli._fit import fitted, left_out, line_width, wrapped
    from gpucost.cli._rows import RowFormat, write_rows
    from gpucost.model import iso
    from gpucost.price.explain import shown_price

    node = answer.node
    place = ", ".join(part for part in (node.provider, node.region, node.zone) if part)
    put(f"node  {node.node} in cluster {node.cluster}")
    put(f"up    {iso(node.up_from)} .. {iso(node.up_to)}")
    put(f"at    {iso(answer.at)}")
    put(f"in    {place or 'no known place'}")
    put(f"is    {node.instance_type or 'no known instance type'}, {node.capacity_type}, {node.gpu_count:g} x {node.gpu_model}\n")
    if not answer.candidates:
        put("no price fits it then: it costs nothing in the figures")
        if answer.fix:
            put(f"fix: {answer.fix}")
        return
    # a column of text, not of dates: what the price book has held since ever has none
    rows = [
        (c.price_per_hour.normalize(), c.currency, c.price_source, str(c.price_as_of or ""), c.origin, c.why)
        for c in answer.candidates
    ]
    columns = ("price/h", "currency", "price_source", "price_as_of", "origin", "why")
    shown = fitted(columns, rows, _WEIGHTS, line_width())
    write_rows(*shown, RowFormat.table, None)
    if below := left_out(columns, shown[0]):
        put(below)
    put()
    for step in answer.steps[1:]:
        put(wrapped(f"x {_digits(step.factor)}  {step.detail}: {shown_price(step.price_per_hour)}"))
    if answer.price_per_hour is not None and answer.price_per_gpu_hour is not None:
        per_gpu = shown_price(answer.price_per_gpu_hour)
        put(f"{shown_price(answer.price_per_hour)} {answer.currency} per node-hour, {per_gpu} per GPU-hour")


def _document(answer: NodePrice) -> dict[str, Any]:
    winner = answer.candidates[0] if answer.candidates else None
    document = {
        "schema": "gpucost.explain.node/1",
        **{key: value for key, value in asdict(answer.node).items() if key != "node_id"},
        "at": answer.at,
        "currency": answer.currency,
        "price_per_hour": answer.price_per_hour,
        "price_per_gpu_hour": answer.price_per_gpu_hour,
        "price_source": winner.price_source if winner else "none",
        "price_as_of": winner.price_as_of if winner else None,
        "candidates": [asdict(candidate) for candidate in answer.candidates],
        "steps": [asdict(step) for step in answer.steps],
        "fix": answer.fix,
    }
    return {key: _plain(value) for key, value in document.items()}


def _digits(value: Decimal) -> str:
    return f"{value.normalize():f}"


def _plain(value: Any) -> Any:
    from gpucost.model import iso

    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
