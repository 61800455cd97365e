"""Which labels an object carried when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.oracle.exact.states import State

EVER, NEVER = -(2**62), 2**62
Labels = dict[str, str]


class Span(NamedTuple):
    """Labels that an object carried from `since` up to `until`."""

    since: int
    until: int
    labels: Labels


def spans(told: Iterable[State], *, may_be_empty: bool) -> list[Span]:
    """The object's spans of unchanged labels, in order, the first since ever and the last for ever; none without labels.

    A set of labels ends at its own last sample; what no set tells, the first after it does. Of several sets at a moment each
    label's newest value counts.
    """
    sets = [(s.first, s.last + 1, {k: v for k, v in s.labels.items() if k.startswith("label_")}) for s in told]
    sets = [one for one in sets if one[2] or may_be_empty]
    edges = sorted({edge for one in sets for edge in one[:2]})
    found: list[Span] = []
    begins = EVER
    for since, until in zip(edges, edges[1:], strict=False):
        alive = sorted((one for one in sets if one[0] <= since and until <= one[1]), key=lambda one: one[0])
        if alive:
            merged = {label: value for one in alive for label, value in one[2].items()}
            if found and found[-1].labels == merged:
                found[-1] = Span(found[-1].since, until, merged)
            else:
                found.append(Span(begins, until, merged))
            begins = until
    if found:
        found[-1] = found[-1]._replace(until=NEVER)
    return found


def at(all_spans: list[Span], time: int) -> Span | None:
    """The span that holds a moment."""
    return next((span for span in all_spans if span.since <= time < span.until), None)
