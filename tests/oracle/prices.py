"""What a described node costs per hour at each moment, from a price book alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.exact.labels import EVER, NEVER, Span
from tests.oracle.exact.nodes import Node
from tests.oracle.exact.prices import Row, steps
from tests.replay.kube import node_labels, provider_id

Steps = list[tuple[int, Fraction]]
#: The rows of a price book, or what says the steps of a node, and whether its labels are known.
Book = list[Row] | Callable[[dict[str, Any], bool], Steps]


def price_steps(book: Book, node: dict[str, Any], known: bool) -> Steps:
    """(second, price of the whole node per hour from then on), in order; `known`: the node's labels are exported."""
    if callable(book):
        return book(node, known)
    labels = {name: str(value) for name, value in node_labels(node).items() if value}
    spans = [Span(EVER, NEVER, labels)] if known else []
    gpus = Fraction(len(node["gpus"]))
    described = Node(node["cluster"], node["name"], provider_id(node), 0, 0, spans, gpus=gpus)
    return [(at // 1000, Fraction(price)) for at, price in steps(book, described, ZoneInfo("UTC"))]
