"""Unit prices of Google Cloud's parts: they add up to the machines' prices and give the shares that are known."""

from __future__ import annotations

import csv
from decimal import Decimal

import pytest

from gpucost.resources import pricing_dir

Rows = list[dict[str, str]]


def rows(name: str) -> Rows:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


UNITS = {
    tuple(row[name] for name in ("region", "family", "component", "gpu_model", "purchase_option", "term_years")): Decimal(
        row["price_per_hour"]
    )
    for row in rows("components.csv")
}
INSTANCES = {row["instance_type"]: row for row in rows("instances.csv")}


def _parts(
    region: str, instance_type: str, purchase_option: str = "on_demand", term_years: str = ""
) -> dict[str, Decimal] | None:
    """What each part of a machine costs per hour; None where a part has no price of its own."""
    row, family = INSTANCES[instance_type], instance_type.split("-")[0]
    counts = {
        "vcpu": row["vcpus"],
        "memory_gib": row["memory_gib"],
        "gpu": row["gpu_count"],
        "local_ssd_gib": row["local_ssd_gib"],
    }
    parts = {}
    for component, count in counts.items():
        if Decimal(count or 0) == 0:
            continue
        model = row["gpu_model"] if component == "gpu" else ""
        unit = UNITS.get((region, family, component, model, purchase_option, term_years))
        if unit is None:
            return None
        parts[component] = unit * Decimal(count)
    return parts


def test_every_part_is_one_of_four_and_only_gpus_name_a_model() -> None:
    models = {row["gpu_model"] for row in rows("gpus.csv")}
    for row in rows("components.csv"):
        assert row["component"] in {"vcpu", "memory_gib", "gpu", "local_ssd_gib"}, row
        assert (row["gpu_model"] in models) if row["component"] == "gpu" else row["gpu_model"] == "", row


def test_parts_add_up_to_the_machines_price() -> None:
    checked = set()
    for row in rows("prices.csv"):
        instance_type = row["instance_type"]
        # a3-megagpu's GPUs are another product; older months had other prices
        if row["provider"] != "gcp" or instance_type.startswith("a3-mega") or row["source_id"] != "cyclenerd-gcp":
            continue
        parts = _parts(row["region"], instance_type, row["purchase_option"], row["term_years"])
        if parts is None:
            continue
        assert abs(sum(parts.values()) - Decimal(row["price_per_hour"])) < Decimal("0.00005"), row
        checked.add((row["region"], instance_type))
    assert len(checked) > 200
    assert {instance_type.split("-")[0] for _, instance_type in checked} == {"a2", "a3", "g2"}


@pytest.mark.parametrize(
    ("instance_type", "share"),
    [
        ("a2-highgpu-1g", "0.7987"),
        ("a2-ultragpu-1g", "0.775"),
        ("a3-highgpu-8g", "0.8857"),
        ("g2-standard-4", "0.7923"),
        ("g2-standard-32", "0.3229"),
    ],
)
def test_the_gpu_parts_share_of_a_machine(instance_type: str, share: str) -> None:
    parts = _parts("us-central1", instance_type)
    assert parts is not None
    assert round(parts["gpu"] / sum(parts.values()), 4) == Decimal(share)


@pytest.mark.parametrize(
    ("vcpus", "memory_gib", "price", "share"),
    [
        (192, 2048, "55.04", "0.7321"),  # p5.48xlarge
        (96, 1152, "21.957642", "0.6395"),  # p4d.24xlarge
        (4, 16, "1.006", "0.8069"),  # g5.xlarge
        (64, 256, "4.096", "0.2413"),  # g5.16xlarge
        (208, 1872, "88.49", "0.8361"),  # a3-highgpu-8g
        (4, 16, "0.706832", "0.7252"),  # g2-standard-4
        (96, 1900, "32.77", "0.6617"),  # Standard_ND96amsr_A100_v4
    ],
)
def test_what_a_host_at_googles_list_leaves_for_the_gpus(vcpus: int, memory_gib: int, price: str, share: str) -> None:
    host = vcpus * UNITS["us-central1", "a2", "vcpu", "", "on_demand", ""]
    host += memory_gib * UNITS["us-central1", "a2", "memory_gib", "", "on_demand", ""]
    assert round(1 - host / Decimal(price), 4) == Decimal(share)
