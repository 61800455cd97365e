"""How a node's price is split into GPU, cores and memory, and who requested what: DESIGN, "Cost basis"."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.oracle.prices import PROVIDERS

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
    size = SIZES[node["instance_type"]]
    if basis in ("opencost", "scad"):
        weights = [
            amount * each
            for amount, each in zip(size, OPENCOST if basis == "opencost" else SCAD, strict=True)
        ]
    else:
        family = f"{PROVIDERS[node['provider']]}/{node['region']}/{node['instance_type'].split('-')[0]}"
        core, gib = (
            Fraction(price) for price in fleet["unit_prices"].get(family, fleet["unit_prices"][REFERENCE])
        )
        listed = Fraction(fleet["list_prices"][node["instance_type"]])
        weights = [max(listed - size[1] * core - size[2] * gib, Fraction(0)), size[1] * core, size[2] * gib]
    return dict(zip(("gpu", "cpu", "memory"), (weight / sum(weights) for weight in weights), strict=True))


def offered(node: dict[str, Any], part: str) -> Fraction:
    """Cores or GiB that the node says it has, else those its cloud sells."""
    size = SIZES[node["instance_type"]]
    return (
        Fraction(str(node.get("vcpus", 64)))
        if part == "cpu"
        else Fraction(str(node.get("memory_gib", size[2])))
    )


def requested(pod: dict[str, Any], part: str) -> Fraction:
    """Cores or GiB that a pod holds: its containers and sidecars together, or its largest init container."""
    key = "cpu" if part == "cpu" else "memory_gib"
    if "containers" not in pod:
        return Fraction(str(pod.get(key, 0)))
    lasting = sum(
        (Fraction(str(c.get(key, 0))) for c in pod["containers"] if c.get("role") != "init"), Fraction(0)
    )
    return max(
        [lasting, *(Fraction(str(c.get(key, 0))) for c in pod["containers"] if c.get("role") == "init")]
    )
