"""Labels of objects over time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from tests.oracle.exact.states import State

EVER, NEVER = -(2**62), 2**62
Labels = dict[str, str]


class Span(NamedTuple):
    """Labels of an object in [since, until)."""

    since: int
    until: int
    labels: Labels


#: Labels that describe a node's GPUs: it has some once they are discovered.
_GPU_LABELS = """
    label_nvidia_com_gpu_product label_nvidia_com_gpu_count label_nvidia_com_gpu_replicas
    label_nvidia_com_mig_strategy label_cloud_google_com_gke_accelerator label_amd_com_gpu_product_name"""


def spans(kube_states: Iterable[State], *, of_node: bool = False) -> list[Span]:
    """Return the object's spans of unchanged labels by time, the first and last unbounded; none without labels.

    A set of labels ends at its own last sample; the next set covers time without one. If several sets overlap, the newest
    value of each label counts. A node always has labels, and a GPU node has some that describe its GPUs: sets without them
    date from before their discovery, or from a time of lost labels.
    """
    sets = [
        (s.first, s.last + 1, {k: v for k, v in s.labels.items() if k.startswith("label_")})
        for s in kube_states
    ]
    edges = sorted({edge for one in sets for edge in one[:2]})
    stretches = []
    for since, until in itertools.pairwise(edges):
        alive = sorted((one for one in sets if one[0] <= since and until <= one[1]), key=lambda one: one[0])
        if alive:
            stretches.append((until, {label: value for one in alive for label, value in one[2].items()}))
    if of_node:
        telling = [stretch for stretch in stretches if stretch[1].keys() & _GPU_LABELS.split()]
        stretches = telling or [stretch for stretch in stretches if stretch[1]]
    found = []
    for until, merged in stretches:
        if found and found[-1].labels == merged:
            found[-1] = Span(found[-1].since, until, merged)
        else:
            found.append(Span(found[-1].until if found else EVER, until, merged))
    if found:
        found[-1] = found[-1]._replace(until=NEVER)
    return found


def at(all_spans: list[Span], time: int) -> Span | None:
    """Return the span that contains a moment."""
    return next((span for span in all_spans if span.since <= time < span.until), None)
