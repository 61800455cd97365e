"""What AWS charges for GPUs besides on-demand hours: onto which node it goes, or what it is named where it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.bills import Bills, usage
from tests.unit.test_bill_discounts import OTHER, A, B, C, edp, machine, priced

CR = "arn:aws:ec2:us-east-1:444455556666:capacity-reservation/cr-0{}"


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def auto(hour: int, **more: str) -> dict[str, str]:
    fee = {"ProductCode": "AmazonEKS", "UsageType": "USE1-EKS-Auto:p4d.24xlarge-management-hours", "UnblendedCost": "3.6"}
    return usage(hour, **(fee | {"ResourceId": f"arn:aws:ec2:us-east-1:444455556666:instance/{A}"} | more))


def sagemaker(usage_type: str, hour: int = 10, **more: str) -> dict[str, str]:
    job = {"ProductCode": "AmazonSageMaker", "UnblendedCost": "60", "ResourceId": "arn:aws:sagemaker:us-east-1:1:training-job/x"}
    return usage(hour, UsageType=usage_type, **(job | more))


def reserved(row: dict[str, str], reservation: str = "aaa", kind: str = "") -> dict[str, str]:
    names = ("capacityReservation/CapacityReservationArn", "capacityReservation/CapacityReservationType")
    return row | {names[0]: CR.format(reservation), names[1]: kind}


def pools(bills: Bills) -> list[Any]:
    return bills.store.query("SELECT instance_key, capacity_type, price_per_hour::DOUBLE FROM billed_hours ORDER BY 1")[1]


def test_eks_auto_modes_fee_is_part_of_its_machines_price_and_no_hours(bills: Bills) -> None:
    found = priced(bills, machine(10), auto(10), machine(11), machine(10, B), auto(11, UnblendedCost="7.2", UsageAmount="2"))
    assert found == {(A, 10): (33.6, 0, 1, 33.6), (A, 11): (37.2, 0, 1, 37.2), (B, 10): (30, 0, 1, 30)}
    charge = next(charge for charge in bills.charges() if charge["kind"] == "node_fee")
    assert (charge["instance_key"], charge["instance_type"], charge["instance_hours"]) == (A, "p4d.24xlarge", None)


def test_a_discount_on_eks_auto_modes_fee_lowers_its_machine(bills: Bills) -> None:
    """Each by the rate of its own product."""
    discounts = [edp("-3"), edp("-0.4", ProductCode="AmazonEKS", UsageType="")]
    fees = [auto(10, UnblendedCost="4")]
    assert priced(bills, machine(10), *fees, *discounts) == {(A, 10): (30.6, -3.4, 1, 30.6)}


def test_a_fee_alone_is_no_price_of_a_machine(bills: Bills) -> None:
    """Its hours are charged nothing, and nothing says why."""
    priced(bills, machine(10, cost="0"), auto(10), edp("-0.36", ResourceId=A))
    assert bills.store.query("SELECT is_unexplained, price_per_hour FROM billed_hours")[1] == [(True, None)]


def test_gpus_without_a_node_are_named(bills: Bills) -> None:
    told: list[tuple[dict[str, str], str, str | None]] = [
        (sagemaker("USE1-Train:ml.p5.48xlarge"), "managed", "p5.48xlarge"),
        (
            sagemaker("USE1-Cluster:ml.p5.48xlarge", ResourceId="arn:aws:sagemaker:us-east-1:1:cluster/x"),
            "managed",
            "p5.48xlarge",
        ),
        (sagemaker("USW2-Host:ml.g5.12xlarge"), "managed", "g5.12xlarge"),
        (sagemaker("USE1-Notebk:ml.g4dn.xlarge"), "managed", "g4dn.xlarge"),
        (sagemaker("USE1-Studio:KernelGateway-ml.g4dn.xlarge", product_instance_type="ml.g4dn.xlarge"), "managed", "g4dn.xlarge"),
        (sagemaker("USE1-Train:ml.m5.xlarge"), "other", None),
        (sagemaker("USE1-Cluster:VolumeUsage.gp2"), "other", None),
        (auto(10, ResourceId="arn:aws:eks:us-east-1:1:cluster/x"), "managed", "p4d.24xlarge"),
        (auto(10, ResourceId="", UsageType="USE1-EKS-Auto:m5.metal-24xl-management-hours"), "other", None),
        (usage(UsageType="USE1-UnusedBox:p5.48xlarge", ResourceId=CR.format(1)), "reserved_unused", "p5.48xlarge"),
        (usage(UsageType="USE1-Reservation:p5.48xlarge", ResourceId=CR.format(1), UnblendedCost="0"), "other", None),
        (usage(UsageType="USE1-DedicatedRes:p5.48xlarge", ResourceId=CR.format(1), UnblendedCost="0"), "other", None),
    ]
    charges = bills.aws([row for row, _, _ in told])
    for (row, kind, instance_type), charge in zip(told, charges, strict=True):
        found = (charge["kind"], charge["instance_type"], charge["instance_key"])
        assert found == (kind, instance_type, None), row
        assert (charge["instance_hours"] is None) == (kind != "reserved_unused")


def test_a_hyperpod_machine_that_the_bill_names_is_priced_as_any_node(bills: Bills) -> None:
    row = sagemaker("USE1-Cluster:ml.p5.48xlarge", ResourceId=f"arn:aws:sagemaker:us-east-1:1:cluster/x/{A}")
    with bills.store.write() as con:
        con.execute(
            "INSERT INTO nodes (node_id, cluster, node, machine_id, up_from_ms, up_to_ms, provider, capacity_type, gpu_count) "
            "VALUES (1, 'prod', 'n', $1, 0, 9e15, 'aws', 'unknown', 8)",
            [f"aws:///use1-az4/sagemaker/cluster/hyperpod-tqci9uwuwqiz-{A}"],
        )
    assert priced(bills, row) == {(A, 10): (60, 0, 1, 60)}
    assert bills.store.query("SELECT instance_key, node_id FROM billed_nodes")[1] == [(A, 1)]


def test_only_instance_usage_is_billed_hours(bills: Bills) -> None:
    reservation = {"ResourceId": CR.format("aaa"), "UnblendedCost": "0"}
    rows = [
        reserved(machine(10)),
        auto(10),
        edp("-3", ResourceId=A, UsageAmount="1"),
        usage(10, UsageType="USE1-Reservation:p4d.24xlarge", UsageAmount="2", **reservation),
        usage(10, UsageType="USE1-UnusedBox:p4d.24xlarge", UnblendedCost="30", ResourceId=CR.format("aaa")),
        machine(10, "", "100", LineItemType="Fee", UsageAmount="720"),
    ]
    assert priced(bills, *rows) == {(A, 10): (30.6, -3, 1, 30.6)}
    assert pools(bills) == [(A, "reserved", 30.6)]


def test_a_capacity_blocks_fee_is_on_its_hours_and_they_are_in_a_block(bills: Bills) -> None:
    fee = reserved(machine(0, CR.format("aaa"), "100", LineItemType="Fee", LineItemDescription="Capacity Block upfront fee"))
    hours = [reserved(machine(10, key, "0"), kind="capacity-block") for key in (A, B)]
    discount = edp("-10", ResourceId=CR.format("aaa"), LineItemDescription="EDP, Capacity Block upfront fee")
    found = priced(bills, fee, *hours, machine(10, C, "0", UsageType="USE1-UnusedBox:p4d.24xlarge"), discount)
    assert found == {(A, 10): (45, -5, 1, 45), (B, 10): (45, -5, 1, 45)}
    assert [row[1] for row in pools(bills)] == ["capacity_block"] * 2


def test_a_discount_on_a_block_without_its_id_lowers_the_blocks_hours(bills: Bills) -> None:
    p5, block = {"UsageType": "BoxUsage:p5.48xlarge"}, {"UsageType": "USE1-CapacityBlock:p5.48xlarge"}
    rows = [
        machine(0, "", "1000", LineItemType="Fee", LineItemDescription="Capacity Block fee", **block),
        machine(10, A, "0", **p5),
        machine(11, A, "0", **p5),
        machine(10, B, "60", **p5),
        edp("-100", 0, LineItemDescription="Discount on Capacity Block fee", **block),
    ]
    assert priced(bills, *rows) == {(A, 10): (450, -50, 1, 450), (A, 11): (450, -50, 1, 450), (B, 10): (60, 0, 1, 60)}


def test_machines_of_one_system_tenancy_and_capacity_type_share_a_price(bills: Bills) -> None:
    """Each pair in a region of its own."""
    others = [
        (machine(10, B, "10"), True),
        (reserved(machine(10, B, "10")), False),
        (machine(10, B, "10", UsageType="DedicatedUsage:p4d.24xlarge"), False),
        (machine(10, B, "10", Operation="RunInstances:0002"), False),
        (machine(10, B, "10", UsageAccountId=OTHER), False),
    ]
    rows = [
        row | {"lineItem/ResourceId": f"{key}{number}", "lineItem/AvailabilityZone": f"eu-west-{number + 1}a"}
        for number, (other, _) in enumerate(others)
        for key, row in ((A, machine(10)), (B, other))
    ]
    found = priced(bills, *rows, sharing="pooled")
    for number, (other, is_shared) in enumerate(others):
        assert [found[f"{key}{number}", 10][3] for key in (A, B)] == ([20, 20] if is_shared else [30, 10]), other


def test_each_reservation_and_each_block_shares_by_itself(bills: Bills) -> None:
    rows = [reserved(machine(10)), reserved(machine(10, B, "10")), reserved(machine(10, C, "6"), "bbb")]
    assert [value[3] for value in priced(bills, *rows, sharing="pooled").values()] == [20, 20, 6]
    assert bills.store.query("SELECT count(DISTINCT pool) FROM billed_hours")[1] == [(2,)]
