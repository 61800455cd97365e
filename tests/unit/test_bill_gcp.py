"""Google Cloud's usage cost export: each mapping rule, on small files in each form of the export."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.text_tables import titled, words
from tests.unit.bills import Bills, Charge, check_scene, csv_text, parquet, scene, text_of

Row = dict[str, Any]
CORE, RAM = "A2 Instance Core running in Americas", "A2 Instance Ram running in Americas"
GPU = "Nvidia Tesla A100 GPU running in Americas"
#: A row of the detailed BigQuery export, of an a2-highgpu-1g (12 vCPUs), without its SKU and cost.
ROW = """{
  "billing_account_id": "01AAAA-BBBBBB-CCCCCC", "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
  "project": {"id": "ML-Proj", "name": "ml"}, "labels": [{"key": "k8s-namespace", "value": "training"}],
  "system_labels": [{"key": "compute.googleapis.com/cores", "value": "12"},
    {"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-1g"},
    {"key": "compute.googleapis.com/memory", "value": "87040"}],
  "location": {"region": "us-central1", "zone": "us-central1-c"}, "currency": "USD", "credits": [],
  "invoice": {"month": "202603"}, "cost_type": "regular",
  "resource": {"name": "gke-a100-1",
    "global_name": "//compute.googleapis.com/projects/77/zones/us-central1-c/instances/4711"}
}"""


def used(amount: float, units: float, unit: str = "seconds", pricing_unit: str = "hour") -> Row:
    return {"amount": amount, "unit": unit, "amount_in_pricing_units": units, "pricing_unit": pricing_unit}


def row(sku: str = CORE, cost: float = 0.36, hour: int = 0, **changed: Any) -> Row:
    """A row of an hour of a SKU."""
    usage = {CORE: used(43200.0, 12.0), RAM: used(85 * 3600 * 2**30, 85.0, "byte-seconds", "gibibyte hour")}
    own = {
        "sku": {"id": sku[:9], "description": sku},
        "usage_start_time": f"2026-03-05T{hour:02}:00:00Z",
        "usage_end_time": f"2026-03-05T{hour + 1:02}:00:00Z",
        "export_time": f"2026-03-05T{hour + 2:02}:10:00Z",
        "cost": cost,
        "usage": usage.get(sku, used(3600.0, 1.0)),
    }
    return {**json.loads(ROW), **own, **changed}


def credit(kind: str, amount: float, name: str = "") -> Row:
    return {"type": kind, "amount": amount, "name": name, "full_name": None, "id": "x"}


def load(bills: Bills, rows: list[Row], name: str = "export.json") -> list[Charge]:
    """Load rows as JSON lines, which must be accepted; return all charges."""
    bills.take(rows, name, provider="gcp")
    return bills.charges()


def flat(rows: list[Row], text: Any = repr) -> str:
    """The rows as a flattened CSV: dotted columns, lists as `text` writes them."""
    flattened = []
    for one in rows:
        columns: dict[str, str] = {}
        for key, value in one.items():
            inner = value if isinstance(value, dict) else {"": value}
            for name, item in inner.items():
                column = f"{key}.{name}".removesuffix(".") if isinstance(value, dict) else key
                columns[column] = text(item) if isinstance(item, list) else str(item)
        flattened.append(columns)
    return csv_text(flattened)


#: SKUs by the first word of a table row.
SKUS = {
    "core": CORE,
    "ram": RAM,
    "gpu": GPU,
    "cpu_fee": "Commitment v1: A2 Cpu in Americas for 1 Year",
    "ram_fee": "Commitment v1: A2 Ram in Americas for 1 Year",
    "spend_fee": "Commitment - dollar based v1: GCE for 1 year",
    "flex_fee": "Compute Flexible CUDs 1 Year",
}
#: Credits of commitments, by their short names.
COVERS = {
    "cud": "COMMITTED_USAGE_DISCOUNT {}",
    "spend": "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE {} GCE Commitments",
}


def table_row(text: str) -> Row:
    """A row from a word of SKUS and its changes.

    `cud` and `spend` are amounts covered by a commitment, `credits` are "type amount name, ..."; `seconds`
    and `units` are the usage, `system` its system labels. Other names are columns: JSON, text or empty.
    """
    kind, _, changed = text.strip().partition(" ")
    cells = words(changed)
    made: Row = {}
    if kind.endswith("_fee"):
        made = {"resource": None, "system_labels": [], "labels": []}
    if "units" in cells:
        units = float(cells.pop("units"))
        made["usage"] = used(float(cells.pop("seconds", units * 3600)), units)
    if "vm" in cells:
        made["resource"] = json.loads(ROW)["resource"] | {"name": cells.pop("vm")}
    system = words(cells.pop("system", "")).items()
    if system:
        made["system_labels"] = [
            {"key": f"compute.googleapis.com/{key}", "value": value} for key, value in system
        ]
    amounts = [form.format(f"-{cells.pop(word)}") for word, form in COVERS.items() if word in cells]
    amounts += cells.pop("credits").split(",") if "credits" in cells else []
    triples = [[*one.split(maxsplit=2), ""][:3] for one in amounts]
    made["credits"] = [credit(form.strip("-"), float(amount), name) for form, amount, name in triples]
    own = row(
        cells.pop("sku", SKUS[kind]), float(cells.pop("cost", "0.36")), int(cells.pop("hour", "0")), **made
    )
    return own | {
        name: json.loads(value) if value[:1] in ("{", "[") else value or None for name, value in cells.items()
    }


#: Rows of a project's bill, and the expected charges.
CASES = titled("""
= parts of a machine are one instance, and its hours count once
core           | kind=instance hours=1 instance_type=a2-highgpu-1g cause=same machine=ml-proj/us-central1-c/gke-a100-1
ram            | kind=instance hours=- instance_type=a2-highgpu-1g cause=same machine=ml-proj/us-central1-c/gke-a100-1
gpu cost=2.93  | kind=instance hours=- instance_type=a2-highgpu-1g cause=same machine=ml-proj/us-central1-c/gke-a100-1
core sku="Licensing Fee for RHEL 8 on VM with 12 VCPU" cost=0.1 | kind=instance hours=- instance_type=a2-highgpu-1g cause=same
= rows that GKE splits by namespace add up to the machine
core cost=0.09 seconds=10800 units=3 labels='[{"key": "ns", "value": "a"}]' | hours=0.25 effective=0.09 tags='{"ns": "a"}'
core cost=0.18 seconds=21600 units=6 labels='[{"key": "ns", "value": "b"}]' | hours=0.5 effective=0.18 tags='{"ns": "b"}'
core cost=0.09 seconds=10800 units=3 labels='[{"key": "ns", "value": "-"}]' | hours=0.25 effective=0.09 tags='{"ns": "-"}'
= a machine never runs longer than its window
# the core count is wrong or missing and the catalog lacks the type: only the window is left
core cost=0.18 usage='{"amount": 21600, "unit": "seconds"}' vm=a system="cores=2 machine_spec=z9-highgpu-1g" | hours=0.5
core cost=0.18 usage='{"amount": 21600, "unit": "seconds"}' vm=a system="cores=2 machine_spec=z9-highgpu-1g" tags=[] | hours=0.5
core cost=0.18 usage='{"amount": 21600, "unit": "seconds"}' vm=b system="cores=x machine_spec=z9-highgpu-1g" | hours=0.5
core cost=0.18 usage='{"amount": 21600, "unit": "seconds"}' vm=b system="cores=x machine_spec=z9-highgpu-1g" tags=[]
    | hours=0.5
= hours come from GPUs if no cores are billed
gpu sku="Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas" | hours=1 pricing_category=Dynamic
= usage discounts are effective, promotions are not
gpu cost=3 credits="SUSTAINED_USAGE_DISCOUNT -0.1, DISCOUNT -0.1, RESELLER_MARGIN -0.1, SUBSCRIPTION_BENEFIT -0.1,
    PROMOTION -0.5, FREE_TIER -0.25" | billed=1.85 effective=2.6 cause=promotion
= credits of old exports are identified by name
core cost=1 credits="- -0.2 Sustained Usage Discount, - -0.3 Committed Usage Discount: CPU, - -0.1 Grant"
    | billed=0.4 effective=0.5
= a commitment on resources pays its covered rows
# 24 vCPUs are committed: one machine of 12 is covered in full, another by half, a quarter is wasted
core cud=0.36                 | effective=0.24 billed=0 cause=covered_usage kind=instance commitment_discount_status=Used
core cud=0.18 vm=gke-a100-2   | effective=0.3 billed=0.18 cause=covered_usage kind=instance commitment_discount_status=Used
cpu_fee cost=0.48 units=24 subscription='{"instance_id": "sub-1"}'
    | effective=0.12 billed=0.48 cause=fee_amortized  kind=commitment_unused
    commitment_discount_status=Unused commitment_discount_id=sub-1
ram_fee cost=0.1 units=85     | effective=0.1 billed=0.1 cause=same kind=commitment_unused commitment_discount_status=Unused
= a commitment covers its own hour, region and family
core hour=1 cud=0.36                | effective=0.24 kind=instance
cpu_fee cost=0.24 units=12 hour=1   | effective=0 kind=commitment_fee
cpu_fee cost=0.24 units=12 hour=2   | effective=0.24 kind=commitment_unused
cpu_fee cost=0.24 units=12 hour=1 location='{"region": "europe-west4", "zone": "europe-west4-a"}'
    sku="Commitment v1: A2 Cpu in Netherlands for 1 Year" | effective=0.24 kind=commitment_unused
cpu_fee cost=0.24 units=12 hour=1 sku="Commitment v1: Cpu in Americas for 1 Year" | effective=0.24 kind=commitment_unused
= fees by the day are shared by the day
# Google's days begin at midnight Pacific time, 08:00 UTC in winter
core hour=7 cud=0.36  | effective=0
core hour=8 cud=0.36  | effective=1.2
core hour=20 cud=0.36 | effective=1.2
cpu_fee cost=4.8 units=48 usage_start_time=2026-03-05T08:00:00Z usage_end_time=2026-03-06T08:00:00Z | effective=2.4
= covered rows without their fee have no price
# a row is covered in half or in full: its remaining cost is not its real cost
core cud=0.36          | effective=0 cause=fee_missing
core cud=0.18 hour=1   | effective=0.18 cause=fee_missing
core spend=0.18 hour=2 | effective=0.18 cause=fee_missing
ram                    | effective=0.36 cause=same
= a commitment on spend is shared by its covered usage
# in hour 0 it is fully used, with a fee of 0.72 for 1.00 covered; in hour 1 half is used
core cost=1 spend=1.0              | effective=0.72 billed=0 commitment_discount_category=Spend
core cost=0.5 spend=0.5 hour=1     | effective=0.36 billed=0 commitment_discount_category=Spend
spend_fee cost=0.72 units=1        | effective=0 billed=0.72 commitment_discount_category=Spend
spend_fee cost=0.72 units=1 hour=1 | effective=0.36 billed=0.72 commitment_discount_category=Spend
= new commitments on spend offset their fee
# the usage has the discounted price; the unused part of the fee remains
core cost=0.72 consumption_model='{"id": "C1", "description": "Compute Flexible CUD - 1 Year"}' cost_at_list=1.0
    | effective=0.72 billed=0.72 kind=instance pricing_category=Committed list_cost=1
ram cost=0.72 consumption_model='{"id": "D", "description": "Default"}'
    | effective=0.72 billed=0.72 kind=instance pricing_category=Standard
flex_fee cost=1 units=1 credits="FEE_UTILIZATION_OFFSET -0.72"
    | effective=0.28 billed=0.28 kind=commitment_unused pricing_category=Committed
flex_fee cost=1 units=1 hour=1 credits="FEE_UTILIZATION_OFFSET -1.0"
    | effective=0 billed=0 kind=commitment_fee pricing_category=Committed
= fees are shared exactly to the last digit
core vm=a cost=0.1 cud=0.1 | billed=0
core vm=b cost=0.1 cud=0.1 | billed=0
core vm=c cost=0.1 cud=0.1 | billed=0
cpu_fee cost=1 units=97    | billed=1
= prices
core price='{"list_price": 3, "effective_price_default": 2.5, "pricing_unit_quantity": 10}'
    | list_unit_price=0.3 contracted_unit_price=0.25 invoice_id=- sku_price_id=-
= a row without a currency has the configured one
core currency= | billing_currency=EUR
= charges without a machine are kept separate
core sku="Storage PD Capacity" resource='{"name": "pvc-1", "global_name":
    "//compute.googleapis.com/projects/77/zones/us-central1-c/disk/9"}' | kind=storage charge_category=Usage machine=-
core sku="SSD backed Local Storage" | kind=storage charge_category=Usage machine=- capacity_reservation_status=-
core sku="Network Inter Zone Data Transfer Out" | kind=network charge_category=Usage machine=- charge_class=-
core sku="External IP Charge on a Standard VM" | kind=network charge_category=Usage machine=-
gpu system="machine_spec=a2-highgpu-1g is_unused_reservation=true reservation_name=gpus"
    | kind=reserved_unused charge_category=Usage machine=- capacity_reservation_status=Unused
core system="machine_spec=a2-highgpu-1g cores=12 reservation_name=gpus"
    | kind=instance charge_category=Usage machine=ml-proj/us-central1-c/gke-a100-1 capacity_reservation_status=Used
core sku=Tax cost_type=tax resource= | kind=tax charge_category=Tax machine=-
core sku="Premium Support" service='{"id": "S", "description": "Support"}' resource=
    | kind=support charge_category=Usage machine=-
core cost=-0.1 adjustment_info='{"type": "GOODWILL"}' cost_type=adjustment
    | kind=credit charge_category=Credit machine=- charge_class=-
core cost=-0.1 hour=3 adjustment_info='{"type": "USAGE_CORRECTION"}' cost_type=adjustment
    | kind=instance charge_category=Adjustment machine=ml-proj/us-central1-c/gke-a100-1 charge_class=Correction
core sku="Autopilot Cluster Fee" service='{"id": "K", "description": "Kubernetes Engine"}' resource=
    | kind=other charge_category=Usage machine=- charge_class=-""")
Loaded = tuple[list[str], dict[str, list[Charge]]]


@pytest.fixture(scope="module")
def loaded(module_path: Path) -> Loaded:
    """Each case in its own file and billing account: findings about missing fees, and the charges."""
    files = {}
    for number, (name, table) in enumerate(CASES.items()):
        text = text_of(scene(table, table_row)[0])
        files[name] = text.replace("CCCCCC", f"{number:06}").replace("ML-Proj", f"ML-Proj-{number:06}")
    bills = Bills(module_path)
    run, charges = bills.cases(files, provider="gcp", currency="EUR")
    for number, own_charges in enumerate(charges.values()):
        for charge in own_charges:
            charge["instance_key"] = (charge["instance_key"] or "").replace(f"-{number:06}/", "/") or None
    return [finding.message for finding in run.findings if finding.code == "fee_missing"], charges


@pytest.mark.parametrize("name", CASES)
def test_rows_have_their_cost_and_kind(loaded: Loaded, name: str) -> None:
    charges = loaded[1][name]
    check_scene(charges, scene(CASES[name], table_row)[1])
    if name == "fees are shared exactly to the last digit":
        assert sum(charge["effective_cost"] for charge in charges) == 1


def test_covered_rows_without_their_fee_are_counted(loaded: Loaded) -> None:
    (message,) = loaded[0]
    assert message.startswith("5 charges are covered")


def own(rows: list[Row], number: int) -> list[Row]:
    """The rows in their own billing account and project."""
    names = {"billing_account_id": f"01AAAA-BBBBBB-{number:06}", "project": {"id": f"p-{number}"}}
    return [one | names for one in rows]


def test_files_of_every_form_give_the_same_charges(bills: Bills) -> None:
    """Nested records, flattened text in two spellings, Parquet and packed text."""
    trial = credit("PROMOTION", -5e-06, 'it\'s a "trial", 100 % \\ None')
    rows = [row(GPU, 3.0, credits=[trial], labels=[{"key": "a", "value": "it's"}]), row()]
    contents: list[str | bytes] = [
        text_of(own(rows, 0)), flat(own(rows, 1)), flat(own(rows, 2), json.dumps), parquet(own(rows, 3)),
        gzip.compress(text_of(own(rows, 4)).encode()),
    ]  # fmt: skip
    bills.loaded(*(bills.write(f"{number}.csv", one) for number, one in enumerate(contents)), provider="gcp")
    others = words(
        "source_file= bill_id= charge_key= billing_account_id= source= sub_account_id= instance_key="
    )
    charges = [one | others for one in bills.charges()]
    assert len(charges) == 10 and charges == charges[:2] * 5
    kinds = [words("billed=2.999995 effective=3"), words("billed=0.36 effective=0.36")]
    check_scene(charges[:2], kinds)
    assert charges[0]["tags"] == {"a": "it's"}


def test_invoice_month_is_the_period_and_corrections_are_added(bills: Bills) -> None:
    first = [row(hour=hour) for hour in range(4)]
    load(bills, first, "day-1.json")
    late = row(CORE, -0.06, 3, export_time="2026-03-09T00:00:00Z", usage=used(-7200.0, -2.0))
    later = row(hour=5, invoice={"month": "202604"})
    again = [one | {"export_time": "2026-03-20T00:00:00Z"} for one in first]
    charges = load(bills, [*again, late, later], "days-1-5.json")
    source = "gcp/01AAAA-BBBBBB-CCCCCC"
    assert bills.sums() == [
        (source, "2026-03", 5, pytest.approx(1.38), pytest.approx(1.38)),
        (source, "2026-04", 1, 0.36, 0.36),
    ]
    assert sum(charge["instance_hours"] for charge in charges) == pytest.approx(23 / 6 + 1)


def test_unknown_columns_and_late_fields_are_read(bills: Bills) -> None:
    """The fields first appear after the rows from which a reader infers the columns."""
    rows = [
        row(hour=3, export_time=f"2026-03-07T00:{number // 60:02}:{number % 60:02}Z")
        for number in range(1102)
    ]
    for one in rows[:1100]:
        del one["credits"]
    for one in rows[:2]:
        one["brand_new"] = {"x": 1}
    rows[0]["credits"] = []
    rows[-1]["credits"] = [credit("DISCOUNT", -0.06)]
    charges = load(bills, rows)
    assert len(charges) == 1102 and charges[-1]["effective_cost"] == Decimal("0.3")


def test_export_without_machines_is_reported(bills: Bills) -> None:
    standard = row()
    del standard["resource"]
    run = bills.load(bills.write("standard.json", json.dumps(standard)), provider="gcp")
    assert not run.errors and [finding.code for finding in run.findings] == ["no_resources"]
    assert bills.charges()[0]["kind"] == "other"


def test_malformed_nested_values_are_refused_with_a_message(bills: Bills) -> None:
    for changed in ({"credits": "{half"}, {"labels": "none"}):
        assert (
            "000.csv cannot be read" in bills.refusals({"file": json.dumps(row() | changed)}, "gcp")["file"]
        )
    rows = {
        "1: the billed cost": json.dumps(row(credits=[{"type": "DISCOUNT", "amount": "soon"}])),
        "2: the billed cost": flat([row(), row() | {"cost": "soon"}]),
        "1: the currency": json.dumps(row(currency="")),
    }
    refused = {name: f"row {name} is empty or cannot be read" for name in rows}
    assert bills.refusals(rows, "gcp") == refused
