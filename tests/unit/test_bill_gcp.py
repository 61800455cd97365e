"""Google Cloud's usage cost export: each rule of its mapping, on small files of the shapes that it comes in."""

from __future__ import annotations

import gzip
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.bills import Bills, check_charges, csv_text

CORE, RAM = "A2 Instance Core running in Americas", "A2 Instance Ram running in Americas"
GPU = "Nvidia Tesla A100 GPU running in Americas"
VM = {
    "name": "gke-a100-1",
    "global_name": "//compute.googleapis.com/projects/77/zones/us-central1-c/instances/4711",
}


def row(sku: str = CORE, cost: float = 0.36, hour: int = 0, **changed: Any) -> dict[str, Any]:
    """A row of the detailed export as BigQuery has it, of an a2-highgpu-1g (12 vCPUs) for an hour."""
    units = {
        CORE: (43200.0, "seconds", 12.0, "hour"),
        RAM: (85 * 3600 * 2**30, "byte-seconds", 85.0, "gibibyte hour"),
    }
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
        "usage": {
            "amount": amount,
            "unit": unit,
            "amount_in_pricing_units": pricing,
            "pricing_unit": pricing_unit,
        },
        "credits": [],
        "invoice": {"month": "202603"},
        "cost_type": "regular",
        "resource": VM,
    }
    return made | changed


def labels(**texts: str) -> list[dict[str, str]]:
    return [{"key": f"compute.googleapis.com/{key}", "value": value} for key, value in texts.items()]


def credit(kind: str, amount: float, name: str = "") -> dict[str, Any]:
    return {"type": kind, "amount": amount, "name": name, "full_name": None, "id": "x"}


def fee(sku: str, cost: float, units: float, hour: int = 0, **changed: Any) -> dict[str, Any]:
    usage = {
        "amount": units * 3600,
        "unit": "seconds",
        "amount_in_pricing_units": units,
        "pricing_unit": "hour",
    }
    return row(
        sku, cost, hour, **({"usage": usage, "resource": None, "system_labels": [], "labels": []} | changed)
    )


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
                f"{key}.{inner}" if isinstance(value, dict) else key: text(item)
                if isinstance(item, list)
                else str(item)
                for key, value in one.items()
                for inner, item in (value.items() if isinstance(value, dict) else [("", value)])
            }
        )
    return csv_text(flattened)


def part(share: float, **changed: Any) -> dict[str, Any]:
    """A part of an hour of the cores."""
    usage = {
        "amount": 43200 * share,
        "unit": "seconds",
        "amount_in_pricing_units": 12 * share,
        "pricing_unit": "hour",
    }
    return row(CORE, 0.36 * share, usage=usage, **changed)


def resource_cud(amount: float) -> dict[str, Any]:
    return {"credits": [credit("COMMITTED_USAGE_DISCOUNT", -amount)]}


def spend_cud(cost: float, hour: int) -> dict[str, Any]:
    return row(
        CORE, cost, hour, credits=[credit("COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", -cost, "GCE Commitments")]
    )


CPU_FEE = "Commitment v1: A2 Cpu in Americas for 1 Year"
SPEND_FEE, FLEX_FEE = "Commitment - dollar based v1: GCE for 1 year", "Compute Flexible CUDs 1 Year"
ELSEWHERE = {"location": {"region": "europe-west4", "zone": "europe-west4-a"}}
DAY = {"usage_start_time": "2026-03-05T08:00:00Z", "usage_end_time": "2026-03-06T08:00:00Z"}
FLEX = {"id": "C1", "description": "Compute Flexible CUD - 1 Year"}
UNUSED = labels(machine_spec="a2-highgpu-1g", is_unused_reservation="true", reservation_name="gpus")
RESERVED = labels(machine_spec="a2-highgpu-1g", cores="12", reservation_name="gpus")
DISK = {"name": "pvc-1", "global_name": "//compute.googleapis.com/projects/77/zones/us-central1-c/disk/9"}
DISCOUNTS = ("SUSTAINED_USAGE_DISCOUNT", "DISCOUNT", "RESELLER_MARGIN", "SUBSCRIPTION_BENEFIT")
#: Rows of a project's bill, and what their charges say; of costs as text.
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, list[Any]]]] = {
    "parts of a machine are one instance, with its hours once": (
        [row(CORE, 0.36), row(RAM, 0.36), row(GPU, 2.93), row("Licensing Fee for RHEL 8 on VM with 12 VCPU", 0.1)],
        {"kind": ["instance"] * 4, "instance_hours": [1.0, None, None, None], "instance_type": ["a2-highgpu-1g"] * 4,
         "cost_cause": ["same"] * 4, "instance_key": ["ml-proj-0/us-central1-c/gke-a100-1"] * 4},
    ),
    "half an hour is half an hour": ([part(0.5)], {"instance_hours": [0.5]}),
    "rows that GKE splits by namespace add up to the machine": (
        [part(share, labels=[{"key": "k8s-namespace", "value": name}])
         for name, share in (("a", 0.25), ("b", 0.5), ("kube:unallocated", 0.25))],
        {"instance_hours": [0.25, 0.5, 0.25], "effective_cost": ["0.09", "0.18", "0.09"],
         "tags": [{"k8s-namespace": name} for name in ("a", "b", "kube:unallocated")]},
    ),
    # a wrong or missing number of cores of a type that the catalog does not know: the window is what is left
    **{
        f"a machine never runs longer than its window: {cores}": (
            [row(CORE, 0.18, usage={"amount": 21600.0, "unit": "seconds"},
                 system_labels=labels(cores=cores, machine_spec="z9-highgpu-1g"))] * 2,
            {"instance_hours": [0.5, 0.5]},
        )
        for cores in ("2", "nonsense")
    },
    "hours come from GPUs where no cores are billed": (
        [row("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", 0.88)],
        {"instance_hours": [1.0], "pricing_category": ["Dynamic"]},
    ),
    "usage discounts are effective, promotions are not": (
        [row(GPU, 3.0, credits=[*(credit(kind, -0.1) for kind in DISCOUNTS), credit("PROMOTION", -0.5),
                                credit("FREE_TIER", -0.25)])],
        {"billed_cost": ["1.85"], "effective_cost": ["2.6"], "cost_cause": ["promotion"]},
    ),
    "credits of old exports are known by name": (
        [row(CORE, 1.0, credits=[credit("", -0.2, "Sustained Usage Discount"), credit("", -0.3, "Committed Usage Discount: CPU"),
                                 credit("", -0.1, "Grant")])],
        {"billed_cost": ["0.4"], "effective_cost": ["0.5"]},
    ),
    # 24 vCPUs are committed: one machine of 12 is covered in full, another by half, a quarter is wasted
    "a commitment on resources pays the rows that it covers": (
        [row(CORE, 0.36, **resource_cud(0.36)), row(CORE, 0.36, resource=VM | {"name": "gke-a100-2"}, **resource_cud(0.18)),
         fee(CPU_FEE, 0.48, 24.0, subscription={"instance_id": "sub-1"}),
         fee("Commitment v1: A2 Ram in Americas for 1 Year", 0.10, 85.0)],
        {"effective_cost": ["0.24", "0.3", "0.12", "0.1"], "billed_cost": ["0", "0.18", "0.48", "0.1"],
         "cost_cause": ["covered_usage", "covered_usage", "fee_amortized", "same"],
         "kind": ["instance", "instance", "commitment_unused", "commitment_unused"],
         "commitment_discount_status": ["Used", "Used", "Unused", "Unused"]},
    ),
    "a commitment covers its own hour, region and family": (
        [row(CORE, 0.36, hour=1, **resource_cud(0.36)), fee(CPU_FEE, 0.24, 12.0, hour=1), fee(CPU_FEE, 0.24, 12.0, hour=2),
         fee("Commitment v1: A2 Cpu in Netherlands for 1 Year", 0.24, 12.0, hour=1, **ELSEWHERE),
         fee("Commitment v1: Cpu in Americas for 1 Year", 0.24, 12.0, hour=1)],
        {"effective_cost": ["0.24", "0", "0.24", "0.24", "0.24"],
         "kind": ["instance", "commitment_fee", *["commitment_unused"] * 3]},
    ),
    # Google's days begin at midnight Pacific time, 08:00 UTC in winter
    "fees by the day are shared by the day": (
        [*(row(CORE, 0.36, hour=hour, **resource_cud(0.36)) for hour in (7, 8, 20)), fee(CPU_FEE, 4.8, 48.0, **DAY)],
        {"effective_cost": ["0", "1.2", "1.2", "2.4"]},
    ),
    # half of a row is covered, or all: what is left of its cost is not what it costs
    **{
        f"covered rows without their fee have no price: {number}": (
            [row(CORE, 0.36, credits=[credit(kind, -amount, name)]), row(RAM, 0.36)],
            {"effective_cost": [left, "0.36"], "cost_cause": ["fee_missing", "same"]},
        )
        for number, (kind, amount, name, left) in enumerate((
            ("COMMITTED_USAGE_DISCOUNT", 0.36, "", "0"), ("COMMITTED_USAGE_DISCOUNT", 0.18, "", "0.18"),
            ("COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", 0.18, "GCE Commitments", "0.18"),
        ))
    },
    # used in full in hour 0, where 0.72 of a fee stands to 1.00 covered; by half in hour 1
    "a commitment on spend is shared by what it covers": (
        [spend_cud(1.0, 0), spend_cud(0.5, 1), fee(SPEND_FEE, 0.72, 1.0, 0), fee(SPEND_FEE, 0.72, 1.0, 1)],
        {"effective_cost": ["0.72", "0.36", "0", "0.36"], "commitment_discount_category": ["Spend"] * 4,
         "billed_cost": ["0", "0", "0.72", "0.72"]},
    ),
    # the usage is charged the discounted price; of the fee stays what nobody used
    "new commitments on spend offset their fee": (
        [row(CORE, 0.72, consumption_model=FLEX, cost_at_list=1.0),
         row(RAM, 0.72, consumption_model={"id": "D", "description": "Default"}),
         fee(FLEX_FEE, 1.0, 1.0, credits=[credit("FEE_UTILIZATION_OFFSET", -0.72)]),
         fee(FLEX_FEE, 1.0, 1.0, hour=1, credits=[credit("FEE_UTILIZATION_OFFSET", -1.0)])],
        {"effective_cost": ["0.72", "0.72", "0.28", "0"], "billed_cost": ["0.72", "0.72", "0.28", "0"],
         "kind": ["instance", "instance", "commitment_unused", "commitment_fee"],
         "pricing_category": ["Committed", "Standard", "Committed", "Committed"]},
    ),
    "fees stay whole to the last digit": (
        [*(row(CORE, 0.1, resource=VM | {"name": f"n{number}"}, **resource_cud(0.1)) for number in range(7)),
         fee(CPU_FEE, 1.0, 97.0)],
        {"billed_cost": [*["0"] * 7, "1"]},
    ),
    "prices": (
        [row(price={"list_price": 3, "effective_price_default": 2.5, "pricing_unit_quantity": 10})],
        {"list_unit_price": ["0.3"], "contracted_unit_price": ["0.25"], "invoice_id": [None], "sku_price_id": [None]},
    ),
    "a row without a currency has the configured one": (
        [{name: value for name, value in row().items() if name != "currency"}], {"billing_currency": ["EUR"]}
    ),
    "what is no machine stays apart": (
        [row("Storage PD Capacity", 0.1, resource=DISK), row("SSD backed Local Storage", 0.1),
         row("Network Inter Zone Data Transfer Out", 0.1), row("External IP Charge on a Standard VM", 0.1),
         row(GPU, 0.1, system_labels=UNUSED), row(CORE, 0.1, system_labels=RESERVED),
         row("Tax", 0.1, cost_type="tax", resource=None),
         row("Premium Support", 9.0, service={"id": "S", "description": "Support"}, resource=None),
         row(CORE, -0.1, adjustment_info={"type": "GOODWILL"}, cost_type="adjustment"),
         row(CORE, -0.1, hour=3, adjustment_info={"type": "USAGE_CORRECTION"}, cost_type="adjustment"),
         row("Autopilot Cluster Fee", 0.1, service={"id": "K", "description": "Kubernetes Engine"}, resource=None)],
        {"kind": ["storage", "storage", "network", "network", "reserved_unused", "instance", "tax", "support", "credit",
                  "instance", "other"],
         "charge_category": [*["Usage"] * 6, "Tax", "Usage", "Credit", "Adjustment", "Usage"],
         "capacity_reservation_status": [*[None] * 4, "Unused", "Used", *[None] * 5],
         "charge_class": [*[None] * 9, "Correction", None]},
    ),
}  # fmt: skip
Loaded = tuple[list[str], dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """All cases in one file, each in a billing account and a project of its own: what is said of them, and their charges."""
    accounts = {f"01AAAA-BBBBBB-{number:06}": name for number, name in enumerate(CASES)}
    rows = [
        one | {"billing_account_id": account, "project": {"id": f"ML-Proj-{number}", "name": "ml"}}
        for number, (account, name) in enumerate(accounts.items())
        for one in CASES[name][0]
    ]
    bills = Bills(tmp_path_factory.mktemp("bills"))
    run = bills.load(
        bills.write("export.json", "".join(json.dumps(one) + "\n" for one in rows)),
        provider="gcp",
        currency="EUR",
    )
    assert not run.errors, run.errors
    charges = bills.charges()
    messages = [finding.message for finding in run.findings if finding.code == "fee_missing"]
    return messages, {
        name: [one for one in charges if accounts[one["billing_account_id"]] == name] for name in CASES
    }


@pytest.mark.parametrize("name", CASES)
def test_what_rows_cost_and_are(loaded: Loaded, name: str) -> None:
    messages, charges = loaded
    check_charges(charges[name], CASES[name][1])
    assert [message.partition(" ")[2].startswith("charges are covered") for message in messages] == [True]
    if name == "fees stay whole to the last digit":
        assert sum(charge["effective_cost"] for charge in charges[name]) == 1
    if name == "a commitment on resources pays the rows that it covers":
        assert charges[name][2]["commitment_discount_id"] == "sub-1"
    if name == "new commitments on spend offset their fee":
        assert charges[name][0]["list_cost"] == 1
    if name == "what is no machine stays apart":
        assert all(
            (charge["instance_key"] is not None) == (charge["kind"] == "instance") for charge in charges[name]
        )


def test_files_of_every_kind_hold_the_same(bills: Bills) -> None:
    """Nested records, flattened text in two spellings, Parquet and packed text, each of a billing account of its own."""
    trial = credit("PROMOTION", -5e-06, 'it\'s a "trial", 100 % \\ None')
    rows = [
        row(GPU, 3.0, credits=[trial], labels=[{"key": "a", "value": "it's"}]),
        row(CORE, 0.36, credits=[]),
    ]
    out = io.BytesIO()

    def own(number: int) -> list[dict[str, Any]]:
        return [
            one | {"billing_account_id": f"01AAAA-BBBBBB-{number:06}", "project": {"id": f"p-{number}"}}
            for one in rows
        ]

    def lines(number: int) -> bytes:
        return "".join(json.dumps(one) + "\n" for one in own(number)).encode()

    pq.write_table(pa.Table.from_pylist(own(3)), out)
    texts = [
        lines(0),
        flat(own(1)).encode(),
        flat(own(2), json.dumps).encode(),
        out.getvalue(),
        gzip.compress(lines(4)),
    ]
    run = bills.load(
        *(bills.write(f"{number}.csv", text) for number, text in enumerate(texts)), provider="gcp"
    )
    assert not run.errors, run.errors
    others = (
        "source_file",
        "bill_id",
        "charge_key",
        "billing_account_id",
        "source",
        "sub_account_id",
        "instance_key",
    )
    charges = [{name: value for name, value in one.items() if name not in others} for one in bills.charges()]
    assert len(charges) == 10 and charges == charges[:2] * 5
    check_charges(charges[:2], {"billed_cost": ["2.999995", "0.36"], "effective_cost": ["3", "0.36"]})
    assert charges[0]["tags"] == {"a": "it's"}


def test_the_invoice_month_is_the_period_and_corrections_are_added(bills: Bills) -> None:
    first = [row(CORE, 0.36, hour) for hour in range(4)]
    load(bills, first, "day-1.json")
    late = row(
        CORE, -0.06, 3, export_time="2026-03-09T00:00:00Z", usage={"amount": -7200.0, "unit": "seconds"}
    )
    later = row(CORE, 0.36, 5, invoice={"month": "202604"})
    again = [one | {"export_time": "2026-03-20T00:00:00Z"} for one in first]
    load(bills, [*again, late, later], "days-1-5.json")
    source = "gcp/01AAAA-BBBBBB-CCCCCC"
    assert bills.sums() == [
        (source, "2026-03", 5, pytest.approx(1.38), pytest.approx(1.38)),
        (source, "2026-04", 1, 0.36, 0.36),
    ]
    assert sum(
        charge["instance_hours"] for charge in bills.charges() if charge["billing_period"] == "2026-03"
    ) == pytest.approx(23 / 6)


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


def test_nested_values_that_are_none_are_refused_in_words(bills: Bills) -> None:
    for changed in ({"credits": "{half"}, {"labels": "none"}):
        assert (
            "000.csv cannot be read" in bills.refusals({"file": json.dumps(row() | changed)}, "gcp")["file"]
        )
    rows = {
        "a credit": json.dumps(row(credits=[{"type": "DISCOUNT", "amount": "soon"}])),
        "a cost": flat([row(), row(cost="soon")]),  # type: ignore[arg-type]
        "a currency": json.dumps(row(currency="")),
    }
    assert bills.refusals(rows, "gcp") == {
        "a credit": "row 1: the billed cost is empty or cannot be read",
        "a cost": "row 2: the billed cost is empty or cannot be read",
        "a currency": "row 1: the currency is empty or cannot be read",
    }
