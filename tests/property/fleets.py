"""Random fleets: nodes that come, go or are cordoned, reused names, gaps, MIG, slots, price steps, short and excess pods."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.strategies import (
    DrawFn,
    SearchStrategy,
    booleans,
    composite,
    fixed_dictionaries,
    integers,
    lists,
    one_of,
    sampled_from,
    tuples,
)

from gpucost.config.model import Config
from gpucost.periods import Period, from_ms, iso
from tests.replay.cases import words
from tests.replay.cases.words import MORNING
from tests.replay.fleet import Fleet, device_key, is_on
from tests.replay.load import write_book, write_config

PERCENTS = (0, 1, 4.9, 5, 5.1, 40, 100)
NONSENSE = (2147483632, 4294967295, 9.223372036854776e18, 140737488355330, "NaN", 101, -1)
CUT = [{"gi": 7, "profile": "1g.10gb"}, {"gi": 3, "profile": "2g.20gb"}, {"gi": 1, "profile": "3g.40gb"}]

#: GPUs, cores and GiB of an instance, as its cloud sells it; and the reference of list prices for any host.
SIZES = {"g5.xlarge": (1, 4, 16), "g6.12xlarge": (4, 48, 192), "p5.48xlarge": (8, 192, 2048)}
REFERENCE = "gcp/us-central1/a2"

RARELY_SLOW = settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
ONE = settings(RARELY_SLOW, max_examples=1)


def involved(drawn: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Exclude the simplest example, which Hypothesis draws first and would be the only one of a single draw."""
    return tuples(integers(0, 999).filter(bool), drawn).map(lambda pair: pair[1])


def many(test: Any, drawn: Callable[[Any], Any], base: settings, examples: int = 12) -> Any:
    """Return the same test with many more examples, for the slow suite."""
    return pytest.mark.slow(settings(base, max_examples=examples)(drawn(test.hypothesis.inner_test)))


@contextmanager
def priced(fleet: Fleet, book: list[str]) -> Iterator[Config]:
    """Yield the fleet's configuration with a price book of these rows, in a temporary folder."""
    with TemporaryDirectory(prefix="fleet-") as folder:
        yield write_config(fleet, Path(folder), write_book(Path(folder), book))


def period(start: int, end: int) -> Period:
    """Draw a span of seconds."""
    return Period(from_ms(start * 1000), from_ms(end * 1000))


@composite
def fleets(draw: DrawFn) -> Fleet:
    """Draw a fleet of one to six hours with one to three nodes, some possibly over-allocated."""
    scrape = draw(sampled_from([30, 60, 300]))
    end = MORNING + draw(integers(1, 6)) * 3600
    fleet = {
        **words.fleet(0, [], [], {}),
        "end": end,
        "scrape": scrape,
        "offset": draw(integers(0, scrape - 1)),
        "jitter": draw(sampled_from([0, scrape / 20])),
        "seed": draw(integers(0, 99)),
        "honor_labels": draw(booleans()),
        "ksm_replicas": draw(sampled_from([1, 1, 2])),
        "prometheus_replicas": draw(sampled_from([1, 1, 2])),
        "hostname_label": draw(sampled_from(["Hostname", "hostname"])),
        "invalid": {},
        "silent": [],
    }
    # collected time begins with the first sample: ensure one at the start
    silent = draw(lists(_span(MORNING + 2 * scrape, end, 20 * 60), max_size=1))
    for number in range(draw(integers(1, 3))):
        start, stop = draw(_life(end))
        fleet["nodes"].append(draw(_node(f"n{number}", start, stop)))
        if stop + 900 < end and draw(booleans()):
            begins = stop + draw(integers(2 * scrape, 890))
            fleet["nodes"].append(draw(_node(f"n{number}", begins, end, "GPU-again")))
    # the first node's start needs samples to be known
    first = min(node["from"] for node in fleet["nodes"])
    fleet["ksm_silent"] = [span for span in silent if span[0] >= first + 2 * scrape]
    for node in fleet["nodes"]:
        draw(_fill(fleet, node))
    return fleet


@composite
def lived_in(draw: DrawFn, fleet: Fleet) -> Fleet:
    """Add cases that every exact bill should cover, at random times.

    Two nodes are always up: on one, a pod holds GPUs for whole hours, some partly idle, and its exporter misses three or four
    scrapes; the other's slots are shared. Local midnight is at 02:30.
    """
    end = max(fleet["end"], MORNING + 4 * 3600)
    whole = draw(_node("whole", MORNING, end, kind="g6.12xlarge"))
    slots = draw(_node("slots", MORNING, end, kind="g5.xlarge")) | {"replicas": draw(sampled_from([3, 4]))}
    lived = {
        **fleet, "end": end, "timezone": "America/St_Johns", "nodes": [*fleet["nodes"], whole, slots],
        "pods": list(fleet["pods"]), "util": dict(fleet["util"]), "silent": list(fleet["silent"]),
    }  # fmt: skip
    for number in range(2):
        begins = MORNING + draw(integers(0, 1800))
        ends = draw(integers(begins + 3 * 3600, end))
        devices = [{"uuid": f"GPU-whole-{2 * number + i}"} for i in range(2)]
        draw(_pod(lived, whole, devices, "nvidia_com_gpu", begins, ends, number))
        for device in devices:
            lived["util"][device["uuid"]] = draw(_percents(lived))
    for number in range(draw(integers(2, slots["replicas"]))):
        begins = MORNING + draw(integers(1800, 5400))
        ends = draw(integers(begins + 4000, end))
        draw(_pod(lived, slots, [{"uuid": "GPU-slots-0"}], "nvidia_com_gpu", begins, ends, number))
    lived["util"]["GPU-slots-0"] = draw(_percents(lived))
    quiet = draw(integers(MORNING + 3600, end - 3600))
    scrapes = draw(sampled_from([2, 3]))
    lived["silent"].append(["whole", quiet, quiet + scrapes * fleet["scrape"] + 1])
    return lived


@composite
def by_basis(draw: DrawFn, fleet: Fleet) -> Fleet:
    """Draw the same fleet under another cost basis: known hosts with requests for them, some by pods without GPUs."""
    nodes = []
    for node in fleet["nodes"]:
        _, cores, gib = SIZES[node["instance_type"]]
        nodes.append({**node, "vcpus": cores, "memory_gib": draw(sampled_from([gib, gib - 1]))})
    pods = []
    for pod in fleet["pods"]:
        node = next(n for n in nodes if is_on(pod, n))
        requests = fixed_dictionaries(
            {"cpu": integers(0, node["vcpus"] * 8).map(lambda tenths: tenths / 10),
             "memory_gib": integers(0, node["memory_gib"])}
        )  # fmt: skip
        pods.append({**pod, **draw(requests)})
        if draw(booleans()):
            # the first container has a request: a pod without requests is not on the bill
            containers = [
                {"name": "main", "role": "main", "cpu": draw(integers(1, 20)) / 10, "memory_gib": 1}
            ]
            for role in draw(lists(sampled_from(["main", "sidecar", "init"]), max_size=2)):
                containers.append({"name": f"c{len(containers)}", "role": role, **draw(requests)})
            alone = {"name": f"{pod['name']}-host", "uid": f"{pod['uid']}-host", "count": 0, "devices": []}
            pods.append({**pod, **alone, "containers": containers})
    return {
        **fleet,
        "nodes": nodes,
        "pods": pods,
        "cost_basis": draw(sampled_from(["sku", "opencost", "scad"])),
        "list_prices": {kind: draw(_price()) for kind in sorted({n["instance_type"] for n in nodes})},
        "unit_prices": {REFERENCE: [draw(_price()), draw(_price())]},
    }


@composite
def books(draw: DrawFn, fleet: Fleet) -> list[str]:
    """Draw a price book with a row for each kind of node, and steps within the fleet's time."""
    rows = []
    for instance_type in sorted({n["instance_type"] for n in fleet["nodes"]}):
        for option in ("on_demand", "spot"):
            rows.append(f",,,{instance_type},{option},{draw(_price())},USD,")
            for second in draw(lists(integers(fleet["start"], fleet["end"]), max_size=2, unique=True)):
                rows.append(f",,,{instance_type},{option},{draw(_price())},USD,{iso(from_ms(second * 1000))}")
    return rows


@composite
def _span(draw: DrawFn, start: int, end: int, longest: int) -> list[int]:
    since = draw(integers(start, end))
    return [since, min(end, since + draw(integers(longest // 4, longest)))]


@composite
def _life(draw: DrawFn, end: int) -> tuple[int, int]:
    if draw(booleans()):
        return MORNING, end
    start = MORNING + draw(integers(0, (end - MORNING) // 2))
    return start, draw(integers(start + 1200, max(start + 1200, end)))


@composite
def _node(
    draw: DrawFn, name: str, start: int, stop: int, gpu: str = "GPU", kind: str | None = None
) -> dict[str, Any]:
    """Draw a node of a kind; without one, a node that may be partitioned or shared."""
    chosen = kind or draw(sampled_from(["g6.12xlarge", "g5.xlarge", "p5.48xlarge"]))
    described = words.node(name, chosen, 0, 0, draw(sampled_from(["on_demand", "spot"])))
    uuids = [uuid.replace("GPU", gpu) for uuid in described["gpus"]]
    is_cut = chosen == "p5.48xlarge" and draw(booleans())
    return {
        **described,
        "from": start,
        "to": stop,
        "provider": draw(sampled_from(["karpenter", "eks"])),
        "gpus": uuids,
        "replicas": draw(sampled_from([1, 3])) if chosen == "g5.xlarge" and not kind else 1,
        "mig": {uuids[0]: CUT} if is_cut else {},
        "cordoned": draw(lists(_span(start, stop, 7200), max_size=1)),
        "not_ready": draw(lists(_span(start, stop, 1800), max_size=1)),
    }


@composite
def _fill(draw: DrawFn, fleet: Fleet, node: dict[str, Any]) -> None:
    """Put successive pods on some of the node's devices and slots."""
    slots = []
    for uuid in node["gpus"]:
        if uuid in node["mig"]:
            slots += [
                ([{"uuid": uuid, "gi": p["gi"]}], "nvidia_com_mig_" + p["profile"].replace(".", "_"))
                for p in CUT
            ]
        else:
            slots += [([{"uuid": uuid}], "nvidia_com_gpu")] * node["replicas"]
    whole = [uuid for uuid in node["gpus"] if uuid not in node["mig"]]
    if len(whole) > 2 and draw(booleans()):
        pair = [{"uuid": uuid} for uuid in whole[-2:]]
        slots = [slot for slot in slots if slot[0][0] not in pair] + [(pair, "nvidia_com_gpu")]
    once = draw(sampled_from([True, True, False]))
    lanes = draw(lists(sampled_from(range(len(slots))), max_size=4, unique=once))
    moments, scrape = integers(node["from"], node["to"]), fleet["scrape"]
    for lane, (devices, resource) in enumerate(slots[number] for number in lanes):
        moment = node["from"] + draw(integers(0, 1800))
        for _ in range(draw(integers(1, 3))):
            end = moment + draw(one_of(integers(20, 400), integers(400, 9000)))
            if moment + 20 >= node["to"]:
                break
            free = draw(_pod(fleet, node, devices, resource, moment, min(end, node["to"]), lane, once))
            moment = free + draw(integers(0, 1500))
        for device in devices:
            key = device_key(device)
            fleet["util"][key] = draw(_percents(fleet))
            if draw(integers(0, 5)) == 0:
                since, scrapes = draw(moments), draw(integers(5, 20))
                fleet["invalid"][key] = [[since, since + scrapes * scrape, draw(sampled_from(NONSENSE))]]
    if draw(integers(0, 3)) == 0:
        since = draw(moments)
        fleet["silent"].append([node["name"], since, since + draw(integers(5, 30)) * scrape])


@composite
def _pod(
    draw: DrawFn,
    fleet: Fleet,
    node: dict[str, Any],
    devices: list[dict[str, Any]],
    resource: str,
    start: int,
    end: int,
    lane: int,
    once: bool = True,
) -> int:
    """Add a pod; return the time from which its devices are certainly free.

    The end of a pod that is not listed after it is an estimate and gives way to a successor (tests/fleets/exact.py); with
    `once`, no successor comes before it.
    """
    number = len(fleet["pods"])
    listed = draw(sampled_from([0, 0, 200, 2000] if once else [200, 2000]))
    reused = f"same-{devices[0]['uuid']}-{devices[0].get('gi')}-{lane}"
    name, namespace = draw(sampled_from([f"p{number}", reused])), draw(sampled_from(["a", "b", "c"]))
    facts = {
        "uid": f"u{number}",
        "resource": resource,
        "count": len(devices),
        "devices": devices,
        "scheduled": start,
        "from": start + draw(integers(0, min(300, end - start))),
        "to": end,
        "keep_until": end + listed,
        "end_phase": draw(sampled_from(["Succeeded", "Failed"])),
        "restarts": draw(lists(integers(start, end), max_size=2)),
        "timestamps": draw(sampled_from([True, True, False])),
    }
    fleet["pods"].append(words.pod(name, node["name"], [], 0, 0, namespace, **facts))
    return end if listed else end + 2 * fleet["scrape"]


@composite
def _percents(draw: DrawFn, fleet: Fleet) -> list[list[float]]:
    edges = sorted(
        {fleet["start"], fleet["end"], *draw(lists(integers(fleet["start"], fleet["end"]), max_size=4))}
    )
    return [[a, b, draw(sampled_from(PERCENTS))] for a, b in itertools.pairwise(edges)]


def _price() -> SearchStrategy[str]:
    return integers(1, 999_999).map(lambda cents: f"{cents / 10_000:.4f}")
