"""Google Cloud's usage cost export: each rule of its mapping, on small files of the shapes that it comes in."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.bills import Bills, csv_text

CORE, RAM = "A2 Instance Core running in Americas", "A2 Instance Ram running in Americas"
GPU = "Nvidia Tesla A100 GPU running in Americas"
VM = {"name": "gke-a100-1", "global_name": "//compute.googleapis.com/projects/77/zones/us-central1-c/instances/4711"}


def row(sku: str = CORE, cost: float = 0.36, hour: int = 0, **changed: Any) -> dict[str, Any]:
    """A row of the detailed export as BigQuery has it, of an a2-highgpu-1g (12 vCPUs) for an hour."""
    units = {CORE: (43200.0, "seconds", 12.0, "hour"), RAM: (85 * 3600 * 2**30, "byte-seconds", 85.0, "gibibyte hour")}
    amount, unit, pricing, pricing_unit = units.get(sku, (3600.0, "seconds", 1.0, "hour"))
    made: dict[str, Any] = {
        "billing_account_id": "01AAAA-BBBBBB-CCCCCC",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": sku[:9], "description": sku},
        "usage_start_time": f"2026-03-05T{hour:02}:00:00Z",
        "usage_end_time": f"2026-03-05T{hour + 1:02}:00:00Z",
        "project": {"id": "ML-Proj", "name": "ml"},
        "labels": [{"key": "k8s-namespace", "value": "training"}],
        "system_labels": labels(cores="12", machine_spec="a2-highgpu-1g", memory="87040"),
        "location": {"region": "us-central1", "zone": "us-central1-c"},
        "export_time": f"2026-03-05T{hour + 2:02}:10:00Z",
        "cost": cost,
        "currency": "USD",
        "usage": {"amount": amount, "unit": unit, "amount_in_pricing_units": pricing, "pricing_unit": pricing_unit},
        "credits": [],
        "invoice": {"month": "202603"},
        "cost_type": "regular",
        "resource": VM,
    }
    return made | changed


def labels(**said: str) -> list[dict[str, str]]:
    return [{"key": f"compute.googleapis.com/{key}", "value": value} for key, value in said.items()]


def credit(kind: str, amount: float, name: str = "") -> dict[str, Any]:
    return {"type": kind, "amount": amount, "name": name, "full_name": None, "id": "x"}


def fee(sku: str, cost: float, units: float, hour: int = 0, **changed: Any) -> dict[str, Any]:
    usage = {"amount": units * 3600, "unit": "seconds", "amount_in_pricing_units": units, "pricing_unit": "hour"}
    return row(sku, cost, hour, **({"usage": usage, "resource": None, "system_labels": [], "labels": []} | changed))


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def load(bills: Bills, rows: list[dict[str, Any]], name: str = "export.json") -> list[dict[str, Any]]:
    """Loads rows as JSON lines, which must load, and answers all charges."""
    run = bills.load(bills.write(name, "".join(json.dumps(one) + "\n" for one in rows)), provider="gcp")
    assert not run.errors, run.errors
    return bills.charges()


def flat(rows: list[dict[str, Any]], text: Any = repr) -> str:
    """The rows as a flattened CSV: dotted columns, lists as `text` writes them."""
    flattened = []
    for one in rows:
        flattened.append(
            {
                f"{key}.{inner}" if isinstance(value, dict) else key: text(item) if isinstance(item, list) else str(item)
                for key, value in one.items()
                for inner, item in (value.items() if isinstance(value, dict) else [("", value)])
            }
        )
    return csv_text(flattened)


def test_parts_of_a_machine_are_one_instance_with_its_hours_once(bills: Bills) -> None:
    charges = load(
        bills, [row(CORE, 0.36), row(RAM, 0.36), row(GPU, 2.93), row("Licensing Fee for RHEL 8 on VM with 12 VCPU", 0.1)]
    )
    assert {charge["kind"] for charge in charges} == {"instance"}
    assert {charge["instance_key"] for charge in charges} == {"ml-proj/us-central1-c/gke-a100-1"}
    assert [charge["instance_hours"] for charge in charges] == [1.0, None, None, None]
    assert {charge["instance_type"] for charge in charges} == {"a2-highgpu-1g"}
    assert {charge["cost_cause"] for charge in charges} == {"same"}


def test_half_an_hour_is_half_an_hour(bills: Bills) -> None:
    half = {"amount": 21600.0, "unit": "seconds", "amount_in_pricing_units": 6.0, "pricing_unit": "hour"}
    assert load(bills, [row(CORE, 0.18, usage=half)])[0]["instance_hours"] == 0.5


def test_rows_that_gke_splits_by_namespace_add_up_to_the_machine(bills: Bills) -> None:
    def part(namespace: str, share: float) -> dict[str, Any]:
        usage = {"amount": 43200 * share, "unit": "seconds", "amount_in_pricing_units": 12 * share, "pricing_unit": "hour"}
        return row(CORE, 0.36 * share, usage=usage, labels=[{"key": "k8s-namespace", "value": namespace}])

    charges = load(bills, [part("a", 0.25), part("b", 0.5), part("kube:unallocated", 0.25)])
    assert sum(charge["instance_hours"] for charge in charges) == 1.0
    assert sum(charge["effective_cost"] for charge in charges) == Decimal("0.36")
    assert [charge["tags"]["k8s-namespace"] for charge in charges] == ["a", "b", "kube:unallocated"]


@pytest.mark.parametrize("cores", ["2", "nonsense"])
def test_a_machine_never_runs_longer_than_its_window(bills: Bills, cores: str) -> None:
    """A wrong or missing number of cores of a type that the catalog does not know: the window is what is left."""
    unknown = labels(cores=cores, machine_spec="z9-highgpu-1g")
    halves = [row(CORE, 0.18, usage={"amount": 21600.0, "unit": "seconds"}, system_labels=unknown) for _ in range(2)]
    assert [charge["instance_hours"] for charge in load(bills, halves)] == [0.5, 0.5]


def test_hours_come_from_gpus_where_no_cores_are_billed(bills: Bills) -> None:
    spot = row("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", 0.88)
    [charge] = load(bills, [spot])
    assert (charge["instance_hours"], charge["pricing_category"]) == (1.0, "Dynamic")


def test_usage_discounts_are_effective_promotions_are_not(bills: Bills) -> None:
    discounts = ["SUSTAINED_USAGE_DISCOUNT", "DISCOUNT", "RESELLER_MARGIN", "SUBSCRIPTION_BENEFIT"]
    [charge] = load(
        bills,
        [
            row(
                GPU,
                3.0,
                credits=[*(credit(kind, -0.1) for kind in discounts), credit("PROMOTION", -0.5), credit("FREE_TIER", -0.25)],
            )
        ],
    )
    assert charge["billed_cost"] == Decimal("1.85")
    assert charge["effective_cost"] == Decimal("2.6")
    assert charge["cost_cause"] == "promotion"


def test_credits_of_old_exports_are_known_by_name(bills: Bills) -> None:
    named = [
        credit("", -0.2, "Sustained Usage Discount"),
        credit("", -0.3, "Committed Usage Discount: CPU"),
        credit("", -0.1, "Grant"),
    ]
    [charge] = load(bills, [row(CORE, 1.0, credits=named)])
    assert (charge["billed_cost"], charge["effective_cost"]) == (Decimal("0.4"), Decimal("0.5"))


@pytest.mark.parametrize("text", [repr, pytest.param(json.dumps, marks=pytest.mark.slow)])
def test_flattened_text_is_the_same_as_nested_records(bills: Bills, text: Any) -> None:
    rows = [
        row(
            GPU,
            3.0,
            credits=[credit("PROMOTION", -5e-06, 'it\'s a "trial", 100 % \\ None')],
            labels=[{"key": "a", "value": "it's"}],
        ),
        row(CORE, 0.36, credits=[]),
    ]
    nested = load(bills, rows)
    again = Bills(bills.directory / "other")
    run = again.load(again.write("export.csv", flat(rows, text)), provider="gcp")
    assert not run.errors
    for one, other in zip(nested, again.charges(), strict=True):
        assert {key: value for key, value in one.items() if key not in ("source_file", "bill_id", "charge_key")} == {
            key: value for key, value in other.items() if key not in ("source_file", "bill_id", "charge_key")
        }
    assert nested[0]["billed_cost"] == Decimal("2.999995") and nested[0]["tags"] == {"a": "it's"}


def test_parquet_and_packed_files_hold_the_same(bills: Bills) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [row(GPU, 3.0, credits=[credit("DISCOUNT", -0.5)]), row(CORE, 0.36, credits=[credit("PROMOTION", -0.1)])]
    pq.write_table(pa.Table.from_pylist(rows), bills.directory / "export.parquet")
    run = bills.load(bills.directory / "export.parquet", provider="gcp")
    assert not run.errors, run.errors
    assert [charge["effective_cost"] for charge in bills.charges()] == [Decimal("2.5"), Decimal("0.36")]
    packed = Bills(bills.directory / "packed")
    text = "".join(json.dumps(one) + "\n" for one in rows)
    run = packed.load(packed.write("export.json.gz", gzip.compress(text.encode())), provider="gcp")
    assert not run.errors, run.errors
    assert packed.sums() == bills.sums()


def test_a_commitment_on_resources_pays_the_rows_that_it_covers(bills: Bills) -> None:
    """24 vCPUs are committed: one machine of 12 is covered in full, another by half, a quarter is wasted."""
    second = VM | {"name": "gke-a100-2"}
    charges = load(
        bills,
        [
            row(CORE, 0.36, credits=[credit("COMMITTED_USAGE_DISCOUNT", -0.36)]),
            row(CORE, 0.36, credits=[credit("COMMITTED_USAGE_DISCOUNT", -0.18)], resource=second),
            fee("Commitment v1: A2 Cpu in Americas for 1 Year", 0.48, 24.0, subscription={"instance_id": "sub-1"}),
            fee("Commitment v1: A2 Ram in Americas for 1 Year", 0.10, 85.0),
        ],
    )
    assert [charge["effective_cost"] for charge in charges] == [Decimal(text) for text in ("0.24", "0.3", "0.12", "0.1")]
    assert [charge["billed_cost"] for charge in charges] == [Decimal(text) for text in ("0", "0.18", "0.48", "0.1")]
    assert [charge["cost_cause"] for charge in charges] == ["covered_usage", "covered_usage", "fee_amortized", "same"]
    assert [charge["kind"] for charge in charges] == ["instance", "instance", "commitment_unused", "commitment_unused"]
    assert [charge["commitment_discount_status"] for charge in charges] == ["Used", "Used", "Unused", "Unused"]
    assert charges[2]["commitment_discount_id"] == "sub-1"


def test_a_commitment_covers_its_own_hour_region_and_family(bills: Bills) -> None:
    covered = {"credits": [credit("COMMITTED_USAGE_DISCOUNT", -0.36)]}
    elsewhere = {"location": {"region": "europe-west4", "zone": "europe-west4-a"}}
    charges = load(
        bills,
        [
            row(CORE, 0.36, hour=1, **covered),
            fee("Commitment v1: A2 Cpu in Americas for 1 Year", 0.24, 12.0, hour=1),
            fee("Commitment v1: A2 Cpu in Americas for 1 Year", 0.24, 12.0, hour=2),
            fee("Commitment v1: A2 Cpu in Netherlands for 1 Year", 0.24, 12.0, hour=1, **elsewhere),
            fee("Commitment v1: Cpu in Americas for 1 Year", 0.24, 12.0, hour=1),
        ],
    )
    assert [charge["effective_cost"] for charge in charges] == [Decimal("0.24"), 0, *[Decimal("0.24")] * 3]
    assert [charge["kind"] for charge in charges[1:]] == ["commitment_fee", *["commitment_unused"] * 3]


def test_fees_by_the_day_are_shared_by_the_day(bills: Bills) -> None:
    """Google's days begin at midnight Pacific time, 08:00 UTC in winter."""
    covered = {"credits": [credit("COMMITTED_USAGE_DISCOUNT", -0.36)]}
    day = {"usage_start_time": "2026-03-05T08:00:00Z", "usage_end_time": "2026-03-06T08:00:00Z"}
    charges = load(
        bills,
        [
            row(CORE, 0.36, hour=7, **covered),
            row(CORE, 0.36, hour=8, **covered),
            row(CORE, 0.36, hour=20, **covered),
            fee("Commitment v1: A2 Cpu in Americas for 1 Year", 4.8, 48.0, **day),
        ],
    )
    assert [charge["effective_cost"] for charge in charges] == [0, Decimal("1.2"), Decimal("1.2"), Decimal("2.4")]


def test_covered_rows_without_their_fee_have_no_price(bills: Bills) -> None:
    run = bills.load(
        bills.write("e.json", json.dumps(row(CORE, 0.36, credits=[credit("COMMITTED_USAGE_DISCOUNT", -0.36)]))), provider="gcp"
    )
    assert [finding.code for finding in run.findings] == ["fee_missing"]
    assert bills.charges()[0]["cost_cause"] == "fee_missing"


@pytest.mark.parametrize(
    ("kind", "name"), [("COMMITTED_USAGE_DISCOUNT", ""), ("COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", "GCE Commitments")]
)
def test_rows_covered_in_part_without_their_fee_are_told_too(bills: Bills, kind: str, name: str) -> None:
    """Half of the row is covered: what is left of its cost is not what it costs."""
    half = row(CORE, 0.36, credits=[credit(kind, -0.18, name)])
    run = bills.load(bills.write("e.json", json.dumps(half) + "\n" + json.dumps(row(RAM, 0.36))), provider="gcp")
    assert next(finding.message for finding in run.findings if finding.code == "fee_missing").startswith("1 charges are covered")
    assert [(c["effective_cost"], c["cost_cause"]) for c in bills.charges()] == [
        (Decimal("0.18"), "fee_missing"),
        (Decimal("0.36"), "same"),
    ]


def test_a_commitment_on_spend_is_shared_by_what_it_covers(bills: Bills) -> None:
    """Used in full in hour 0, where 0.72 of a fee stands to 1.00 covered; by half in hour 1."""

    def used(cost: float, hour: int) -> dict[str, Any]:
        return row(CORE, cost, hour, credits=[credit("COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", -cost, "GCE Commitments")])

    sku = "Commitment - dollar based v1: GCE for 1 year"
    charges = load(bills, [used(1.0, 0), used(0.5, 1), fee(sku, 0.72, 1.0, 0), fee(sku, 0.72, 1.0, 1)])
    assert [charge["effective_cost"] for charge in charges] == [Decimal(text) for text in ("0.72", "0.36", "0", "0.36")]
    assert [charge["commitment_discount_category"] for charge in charges] == ["Spend"] * 4
    assert sum(charge["effective_cost"] for charge in charges) == sum(charge["billed_cost"] for charge in charges)


def test_new_commitments_on_spend_offset_their_fee(bills: Bills) -> None:
    """The usage is charged the discounted price; of the fee stays what nobody used."""
    model = {"id": "C1", "description": "Compute Flexible CUD - 1 Year"}
    charges = load(
        bills,
        [
            row(CORE, 0.72, consumption_model=model, cost_at_list=1.0),
            row(RAM, 0.72, consumption_model={"id": "D", "description": "Default"}),
            fee("Compute Flexible CUDs 1 Year", 1.0, 1.0, credits=[credit("FEE_UTILIZATION_OFFSET", -0.72)]),
            fee("Compute Flexible CUDs 1 Year", 1.0, 1.0, hour=1, credits=[credit("FEE_UTILIZATION_OFFSET", -1.0)]),
        ],
    )
    assert [charge["effective_cost"] for charge in charges] == [Decimal(text) for text in ("0.72", "0.72", "0.28", "0")]
    assert [charge["billed_cost"] for charge in charges] == [charge["effective_cost"] for charge in charges]
    assert [charge["kind"] for charge in charges] == ["instance", "instance", "commitment_unused", "commitment_fee"]
    assert [charge["pricing_category"] for charge in charges] == ["Committed", "Standard", "Committed", "Committed"]
    assert charges[0]["list_cost"] == 1


def test_fees_stay_whole_to_the_last_digit(bills: Bills) -> None:
    rows = [
        row(CORE, 0.1, resource=VM | {"name": f"n{number}"}, credits=[credit("COMMITTED_USAGE_DISCOUNT", -0.1)])
        for number in range(7)
    ]
    charges = load(bills, [*rows, fee("Commitment v1: A2 Cpu in Americas for 1 Year", 1.0, 97.0)])
    assert sum(charge["effective_cost"] for charge in charges) == 1
    assert sum(charge["billed_cost"] for charge in charges) == 1


def test_what_is_no_machine_stays_apart(bills: Bills) -> None:
    disk = {"name": "pvc-1", "global_name": "//compute.googleapis.com/projects/77/zones/us-central1-c/disk/9"}
    unused = labels(machine_spec="a2-highgpu-1g", is_unused_reservation="true", reservation_name="gpus")
    reserved = labels(machine_spec="a2-highgpu-1g", cores="12", reservation_name="gpus")
    kinds = load(
        bills,
        [
            row("Storage PD Capacity", 0.1, resource=disk),
            row("SSD backed Local Storage", 0.1),
            row("Network Inter Zone Data Transfer Out", 0.1),
            row("External IP Charge on a Standard VM", 0.1),
            row(GPU, 0.1, system_labels=unused),
            row(CORE, 0.1, system_labels=reserved),
            row("Tax", 0.1, cost_type="tax", resource=None),
            row("Premium Support", 9.0, service={"id": "S", "description": "Support"}, resource=None),
            row(CORE, -0.1, adjustment_info={"type": "GOODWILL"}, cost_type="adjustment"),
            row(CORE, -0.1, hour=3, adjustment_info={"type": "USAGE_CORRECTION"}, cost_type="adjustment"),
            row("Autopilot Cluster Fee", 0.1, service={"id": "K", "description": "Kubernetes Engine"}, resource=None),
        ],
    )
    assert [charge["kind"] for charge in kinds] == (
        [
            "storage",
            "storage",
            "network",
            "network",
            "reserved_unused",
            "instance",
            "tax",
            "support",
            "credit",
            "instance",
            "other",
        ]
    )
    assert [charge["charge_category"] for charge in kinds[6:10]] == ["Tax", "Usage", "Credit", "Adjustment"]
    assert [charge["capacity_reservation_status"] for charge in kinds[4:6]] == ["Unused", "Used"]
    assert kinds[9]["charge_class"] == "Correction"
    assert [charge["instance_key"] is not None for charge in kinds] == [charge["kind"] == "instance" for charge in kinds]


def test_the_invoice_month_is_the_period_and_corrections_are_added(bills: Bills) -> None:
    first = [row(CORE, 0.36, hour) for hour in range(4)]
    load(bills, first, "day-1.json")
    late = row(CORE, -0.06, 3, export_time="2026-03-09T00:00:00Z", usage={"amount": -7200.0, "unit": "seconds"})
    later = row(CORE, 0.36, 5, invoice={"month": "202604"})
    load(bills, [*first, late, later], "days-1-5.json")
    source = "gcp/01AAAA-BBBBBB-CCCCCC"
    assert bills.sums() == [(source, "2026-03", 5, pytest.approx(1.38), pytest.approx(1.38)), (source, "2026-04", 1, 0.36, 0.36)]
    assert sum(charge["instance_hours"] for charge in bills.charges() if charge["billing_period"] == "2026-03") == pytest.approx(
        23 / 6
    )


@pytest.mark.slow
def test_loading_twice_and_in_any_order_is_loading_once(bills: Bills) -> None:
    days = [bills.write(f"{day}.json", json.dumps(row(CORE, 0.36, hour=day)) + "\n") for day in range(3)]
    for path in (days[2], days[0], days[1], days[0]):
        assert not bills.load(path, provider="gcp").errors
    (bills.directory / "other").mkdir()
    other = Bills(bills.directory / "other")
    assert not other.load(*days, provider="gcp").errors
    cells = "SELECT billing_period, charge_period_start, billed_cost, kind, instance_key FROM charges ORDER BY ALL"
    assert bills.store.query(cells)[1] == other.store.query(cells)[1]


def test_another_export_of_the_same_bill_is_the_same_bill(bills: Bills) -> None:
    rows = [row(CORE, 0.36, hour) for hour in range(4)]
    load(bills, rows, "first.json")
    load(bills, [one | {"export_time": "2026-03-20T00:00:00Z"} for one in rows], "again.json")
    assert len(bills.charges()) == 4


def test_unknown_columns_and_fields_that_come_late_are_read(bills: Bills) -> None:
    rows = [row(CORE, 0.36, hour=hour, brand_new={"x": 1}) for hour in range(2)]
    rows += [dict(row(CORE, 0.36, hour=3)) for _ in range(1100)]
    for number, one in enumerate(rows):
        one["export_time"] = f"2026-03-07T00:{number // 60 % 60:02}:{number % 60:02}Z"
        if number < 1100:
            del one["credits"]
    rows[-1]["credits"] = [credit("DISCOUNT", -0.06)]
    rows[0]["credits"] = []
    charges = load(bills, rows)
    assert len(charges) == 1102 and charges[-1]["effective_cost"] == Decimal("0.3")


def test_an_export_without_machines_says_so(bills: Bills) -> None:
    standard = {key: value for key, value in row().items() if key != "resource"}
    run = bills.load(bills.write("standard.json", json.dumps(standard)), provider="gcp")
    assert not run.errors and [finding.code for finding in run.findings] == ["no_resources"]
    assert bills.charges()[0]["kind"] == "other"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"credits": [{"type": "DISCOUNT", "amount": "soon"}]}, "row 1: the billed cost"),
        ({"credits": "{half"}, "e.json cannot be read"),
        ({"labels": "none"}, "e.json cannot be read"),
    ],
)
def test_nested_values_that_are_none_are_refused_in_words(bills: Bills, changed: dict[str, Any], said: str) -> None:
    run = bills.load(bills.write("e.json", json.dumps(row() | changed)), provider="gcp")
    assert said in run.errors[0].message and run.errors[0].fix
    assert not bills.store.exists


def test_a_row_that_cannot_be_read_is_named(bills: Bills) -> None:
    run = bills.load(bills.write("e.csv", flat([row(), row(cost="soon")])), provider="gcp")  # type: ignore[arg-type]
    assert "row 2: the billed cost" in run.errors[0].message
    assert not run.results and not bills.store.exists
