"""A node's price per hour at a moment, and its source."""

from collections.abc import Iterator
from typing import Annotated

from gpucost.options import Option, argument
from gpucost.periods import iso, parse_instant
from gpucost.pipeline import read_attributed
from gpucost.price.explain import NodeExplained, explain_node as explain, shown_price
from gpucost.questions.request import Request
from gpucost.render.view import Document, Section, Table, Texts, figure, text


def explain_node(
    request: Request,
    name: Annotated[str, argument("NAME", "The node's name in Kubernetes.")],
    at: Annotated[
        str | None,
        Option(
            "Moment: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z. Default: "
            "the last moment at which the node was up.",
            "TIME",
        ),
    ] = None,
    cluster: Annotated[
        str | None, Option("The node's cluster, if several have a node of that name.", "NAME")
    ] = None,
) -> Document:
    """Show a node's price per hour at a moment, and its source.

    Lists every matching price in order of precedence, and the exchange rates and discounts applied to the first.

    \b
    Examples:
      gpucost explain node gpu01
      gpucost explain node gpu02 --at 2026-10-01T06:00Z --cluster hpc
      gpucost explain node gpu02 --format json
    """
    moment = parse_instant("--at", at, request.tz) if at is not None else None
    config = request.settings
    answer = read_attributed(config, request.store, lambda con: explain(con, config, name, moment, cluster))
    node = answer.node
    place = ", ".join(filter(None, (node.provider, node.region, node.zone)))
    facts = (
        f"up {iso(node.up_from)} .. {iso(node.up_to)}",
        f"at {iso(answer.at)}",
        f"in {place or 'an unknown place'}",
        f"is {node.instance_type or 'an unknown instance type'}",
        f"{node.capacity_type.replace('_', '-')}, {node.gpu_count:g} × {node.gpu_model}",
    )
    return Document(
        title=f"Node {node.node} in cluster {node.cluster}",
        currency=answer.currency,
        sections=(Texts("Properties", facts), *_prices(answer)),
        whole_in="json",
        name="explain.node",
        data=answer,
        flat=((), ()),
    )


def _prices(answer: NodeExplained) -> Iterator[Section]:
    """Every matching price, and the steps from the first to the node's price."""
    if not answer.candidates:
        yield Texts(
            "Price",
            (
                "no price matches at that time: the node has no cost in the figures",
                *([f"fix: {answer.fix}"] if answer.fix else []),
            ),
        )
        return
    yield Table.of(
        "Matching prices; the first one wins",
        answer.candidates,
        (
            figure(lambda price: f"{price.price_per_hour.normalize():f}", "Price per hour"),
            text("currency", weight=1),
            text("price_source", "Source"),
            text(lambda price: str(price.price_as_of or ""), "As of"),
            text("origin"),
            text("why"),
        ),
    )
    steps = [
        f"x {step.factor.normalize():f}  {step.detail}: {shown_price(step.price_per_hour)}"
        for step in answer.steps[1:]
    ]
    if answer.price_per_hour is not None and answer.price_per_gpu_hour is not None:
        per_gpu = shown_price(answer.price_per_gpu_hour)
        steps.append(
            f"{shown_price(answer.price_per_hour)} {answer.currency} per node-hour, {per_gpu} per GPU-hour"
        )
    yield Texts("Price", tuple(steps))
