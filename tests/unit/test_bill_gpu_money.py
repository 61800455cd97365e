"""What AWS charges for GPUs besides on-demand hours: onto which node it goes, or what it is named where it has none."""

from __future__ import annotations

import pytest

from tests.unit.bills import usage
from tests.unit.test_bill_discounts import OTHER, A, B, C, Case, Priced, Row, edp, machine

CR = "arn:aws:ec2:us-east-1:444455556666:capacity-reservation/cr-0{}"


def auto(hour: int, **more: str) -> Row:
    fee = {
        "ProductCode": "AmazonEKS",
        "UsageType": "USE1-EKS-Auto:p4d.24xlarge-management-hours",
        "UnblendedCost": "3.6",
    }
    return usage(hour, **(fee | {"ResourceId": f"arn:aws:ec2:us-east-1:444455556666:instance/{A}"} | more))


def sagemaker(usage_type: str, hour: int = 10, **more: str) -> Row:
    job = {
        "ProductCode": "AmazonSageMaker",
        "UnblendedCost": "60",
        "ResourceId": "arn:aws:sagemaker:us-east-1:1:training-job/x",
    }
    return usage(hour, UsageType=usage_type, **(job | more))


def reserved(row: Row, reservation: str = "aaa", kind: str = "") -> Row:
    capacity = "capacityReservation/CapacityReservation"
    return row | {capacity + "Arn": CR.format(reservation), capacity + "Type": kind}


P5, BLOCK = {"UsageType": "BoxUsage:p5.48xlarge"}, {"UsageType": "USE1-CapacityBlock:p5.48xlarge"}
OF_BLOCK = {"ResourceId": CR.format("aaa")}
HYPERPOD = {"ResourceId": f"arn:aws:sagemaker:us-east-1:1:cluster/x/{A}"}
#: Which of them share a price with a machine beside them, which costs 30.
OTHERS = {
    "alike": (machine(10, B, "10"), True),
    "reserved": (reserved(machine(10, B, "10")), False),
    "dedicated": (machine(10, B, "10", UsageType="DedicatedUsage:p4d.24xlarge"), False),
    "another system": (machine(10, B, "10", Operation="RunInstances:0002"), False),
    "another account": (machine(10, B, "10", UsageAccountId=OTHER), False),
}
CASES = {
    "EKS Auto Mode's fee is part of its machine's price and no hours": Case(
        [machine(10), auto(10), machine(11), machine(10, B), auto(11, UnblendedCost="7.2", UsageAmount="2")],
        {(A, 10): (33.6, 0), (A, 11): (37.2, 0), (B, 10): (30, 0)},
    ),
    # each by the rate of its own product
    "a discount on EKS Auto Mode's fee lowers its machine": Case(
        [machine(10), auto(10, UnblendedCost="4"), edp("-3"), edp("-0.4", ProductCode="AmazonEKS", UsageType="")],
        {(A, 10): (30.6, -3.4)},
    ),
    # its hours are charged nothing, and nothing says why
    "a fee alone is no price": Case(
        [machine(10, cost="0"), auto(10), edp("-0.36", ResourceId=A)], {(A, 10): (3.24, -0.36, 0)}
    ),
    "a HyperPod machine that the bill names": Case([sagemaker("USE1-Cluster:ml.p5.48xlarge", **HYPERPOD)], {(A, 10): (60, 0)}),
    "only instance usage is billed hours": Case(
        [reserved(machine(10)), auto(10), edp("-3", ResourceId=A, UsageAmount="1"),
         usage(10, UsageType="USE1-Reservation:p4d.24xlarge", UsageAmount="2", UnblendedCost="0", **OF_BLOCK),
         usage(10, UsageType="USE1-UnusedBox:p4d.24xlarge", UnblendedCost="30", **OF_BLOCK),
         machine(10, "", "100", LineItemType="Fee", UsageAmount="720")],
        {(A, 10): (30.6, -3)},
    ),
    "a capacity block's fee is on its hours": Case(
        [reserved(machine(0, CR.format("aaa"), "100", LineItemType="Fee", LineItemDescription="Capacity Block upfront fee")),
         *(reserved(machine(10, key, "0"), kind="capacity-block") for key in (A, B)),
         machine(10, C, "0", UsageType="USE1-UnusedBox:p4d.24xlarge"),
         edp("-10", LineItemDescription="EDP, Capacity Block upfront fee", **OF_BLOCK)],
        {(A, 10): (45, -5), (B, 10): (45, -5)},
    ),
    "a discount on a block without its id": Case(
        [machine(0, "", "1000", LineItemType="Fee", LineItemDescription="Capacity Block fee", **BLOCK), machine(10, A, "0", **P5),
         machine(11, A, "0", **P5), machine(10, B, "60", **P5),
         edp("-100", 0, LineItemDescription="Discount on Capacity Block fee", **BLOCK)],
        {(A, 10): (450, -50), (A, 11): (450, -50), (B, 10): (60, 0)},
    ),
    **{
        f"machines of one system, tenancy and capacity type share a price: {name}": Case(
            [machine(10), row],
            {(A, 10): (30, 0, 20 if is_shared else 30), (B, 10): (10, 0, 20 if is_shared else 10)}, sharing="pooled"
        )
        for name, (row, is_shared) in OTHERS.items()
    },
    "each reservation and each block shares by itself": Case(
        [reserved(machine(10)), reserved(machine(10, B, "10")), reserved(machine(10, C, "6"), "bbb")],
        {(A, 10): (30, 0, 20), (B, 10): (10, 0, 20), (C, 10): (6, 0)}, sharing="pooled",
    ),
}  # fmt: skip
#: What GPUs without a node are: a kind, and a type of machine.
NAMED = [
    (sagemaker("USE1-Train:ml.p5.48xlarge"), "managed", "p5.48xlarge"),
    (
        sagemaker("USE1-Cluster:ml.p5.48xlarge", ResourceId="arn:aws:sagemaker:us-east-1:1:cluster/x"),
        "managed",
        "p5.48xlarge",
    ),
    (sagemaker("USW2-Host:ml.g5.12xlarge"), "managed", "g5.12xlarge"),
    (sagemaker("USE1-Notebk:ml.g4dn.xlarge"), "managed", "g4dn.xlarge"),
    (
        sagemaker("USE1-Studio:KernelGateway-ml.g4dn.xlarge", product_instance_type="ml.g4dn.xlarge"),
        "managed",
        "g4dn.xlarge",
    ),
    (sagemaker("USE1-Train:ml.m5.xlarge"), "other", None),
    (sagemaker("USE1-Cluster:VolumeUsage.gp2"), "other", None),
    (auto(10, ResourceId="arn:aws:eks:us-east-1:1:cluster/x"), "managed", "p4d.24xlarge"),
    (auto(10, ResourceId="", UsageType="USE1-EKS-Auto:m5.metal-24xl-management-hours"), "other", None),
    (
        usage(UsageType="USE1-UnusedBox:p5.48xlarge", ResourceId=CR.format(1)),
        "reserved_unused",
        "p5.48xlarge",
    ),
    (
        usage(UsageType="USE1-Reservation:p5.48xlarge", ResourceId=CR.format(1), UnblendedCost="0"),
        "other",
        None,
    ),
    (
        usage(UsageType="USE1-DedicatedRes:p5.48xlarge", ResourceId=CR.format(1), UnblendedCost="0"),
        "other",
        None,
    ),
]


@pytest.fixture(scope="module")
def money(tmp_path_factory: pytest.TempPathFactory) -> Priced:
    named = {"named": Case([row for row, _, _ in NAMED], {})}
    node = f"aws:///use1-az4/sagemaker/cluster/hyperpod-tqci9uwuwqiz-{A}"
    return Priced(
        tmp_path_factory.mktemp("bills"), CASES | named, {"a HyperPod machine that the bill names": node}
    )


@pytest.mark.parametrize("name", CASES)
def test_on_which_machine_it_is(money: Priced, name: str) -> None:
    money.check(name)


def test_what_machines_are_and_gpus_without_a_node(money: Priced) -> None:
    for (row, kind, instance_type), charge in zip(NAMED, money.charges("named"), strict=True):
        assert (charge["kind"], charge["instance_type"], charge["instance_key"]) == (
            kind,
            instance_type,
            None,
        ), row
        assert (charge["instance_hours"] is None) == (kind != "reserved_unused")
    fee = next(
        one
        for one in money.charges("EKS Auto Mode's fee is part of its machine's price and no hours")
        if one["kind"] == "node_fee"
    )
    assert (fee["instance_type"], fee["instance_hours"]) == ("p4d.24xlarge", None)

    def pools(name: str) -> list[tuple[str, bool, int]]:
        end = money.own(name, A).removeprefix(A)
        return sorted(row[1:] for row in money.answer(name, "pools") if row[0][6:] == end)

    assert [row[0] for row in pools("only instance usage is billed hours")] == ["reserved"]
    assert {row[0] for row in pools("a capacity block's fee is on its hours")} == {"capacity_block"}
    assert [row[1] for row in pools("a fee alone is no price")] == [True]
    assert len({row[2] for row in pools("each reservation and each block shares by itself")}) == 2
    name = "a HyperPod machine that the bill names"
    assert money.answer(name, "nodes") == [(money.own(name, A), 1)]
