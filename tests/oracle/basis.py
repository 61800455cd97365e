"""How a node's price is split into GPU, cores and memory, and who requested what: DESIGN, "Cost basis"."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.replay.kube import PROVIDERS

#: GPUs, cores and GiB of an instance, as its cloud sells it.
SIZES = {
    "g5.xlarge": (1, 4, 16),
    "g6.12xlarge": (4, 48, 192),
    "p5.48xlarge": (8, 192, 2048),
    "a2-highgpu-2g": (2, 24, 170),
}
#: Whose list prices stand for any host's.
REFERENCE = "gcp/us-central1/a2"
OPENCOST = (Fraction("0.95"), Fraction("0.031611"), Fraction("0.004237"))
SCAD = (Fraction(90), Fraction(9), Fraction(1))
#: A price that rides on the node's GPUs alone.
WHOLE = {"gpu": Fraction(1), "cpu": Fraction(0), "memory": Fraction(0)}


def parts(fleet: dict[str, Any], node: dict[str, Any]) -> dict[str, Fraction]:
    """The parts of `gpu`, `cpu` and `memory` in the node's price; they add up to 1."""
    basis = fleet.get("cost_basis", "node")
    if basis == "node":
        return WHOLE
    kind = node["instance_type"]
    _, cores, memory = size = SIZES[kind]
    if basis == "sku":
        family = f"{PROVIDERS[node['provider']]}/{node['region']}/{kind.split('-')[0]}"
        prices = fleet["unit_prices"].get(family, fleet["unit_prices"][REFERENCE])
        host = [amount * Fraction(price) for amount, price in zip((cores, memory), prices, strict=True)]
        weights = [max(Fraction(fleet["list_prices"][kind]) - sum(host), Fraction(0)), *host]
    else:
        rates = OPENCOST if basis == "opencost" else SCAD
        weights = [amount * each for amount, each in zip(size, rates, strict=True)]
    return dict(zip(WHOLE, (weight / sum(weights) for weight in weights), strict=True))


def offered(node: dict[str, Any], part: str) -> Fraction:
    """Cores or GiB that the node says it has, else those its cloud sells."""
    if part == "cpu":
        return Fraction(str(node.get("vcpus", 64)))
    return Fraction(str(node.get("memory_gib", SIZES[node["instance_type"]][2])))


def requested(pod: dict[str, Any], part: str) -> Fraction:
    """Cores or GiB that a pod holds."""
    return together(pod, "cpu" if part == "cpu" else "memory_gib")


def together(pod: dict[str, Any], key: str) -> Fraction:
    """What its containers and sidecars ask for together, or its largest init container."""
    lasting, first = Fraction(0), [Fraction(0)]
    for container in pod.get("containers", [pod]):
        amount = Fraction(str(container.get(key, 0)))
        if container.get("role") == "init":
            first.append(amount)
        else:
            lasting += amount
    return max(lasting, *first)
