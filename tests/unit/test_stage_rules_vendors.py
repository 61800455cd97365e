"""Rules of single SQL stages of vendors' bills and list prices, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpucost.catalog import load_catalog
from gpucost.collect.bill import anthropic, azure, oci, openai
from gpucost.config.model import Config
from gpucost.price.discounts import load_discounts
from tests.text_tables import named_rows, text_rows, words
from tests.unit.stage_tables import Tables, rule_test

if TYPE_CHECKING:
    from gpucost.collect.bill.formats import Format


@pytest.fixture
def discounts(tables: Tables) -> Tables:
    """A store without discounts, with the macros that classify them."""
    load_catalog(tables.con)
    load_discounts(tables.con, Config.model_validate({}))
    return tables


test_rule = rule_test("""
= every kind of google commitment is a commitment
collect/bill/gcp_3_mapped

gcp_rows: row_id INT, file_row_number INT, start_at TIMESTAMP, end_at TIMESTAMP, kind VARCHAR, \
invoice_month VARCHAR, billing_account_id VARCHAR, service_id VARCHAR, sku_id VARCHAR, sku VARCHAR, \
project_id VARCHAR, global_name VARCHAR, resource_name VARCHAR, region VARCHAR, tags VARCHAR, cost_type VARCHAR, \
adjustment VARCHAR, subscription_id VARCHAR, consumption_model VARCHAR, currency VARCHAR, project_name VARCHAR, \
service VARCHAR, zone VARCHAR, machine_type VARCHAR, pricing_unit VARCHAR, unit VARCHAR, reservation_name VARCHAR, \
instance_key VARCHAR, source_file VARCHAR, cost DECIMAL(38, 12) DEFAULT 0, usage_credits DECIMAL(38, 12) DEFAULT 0, \
other_credits DECIMAL(38, 12) DEFAULT 0, resource_cud DECIMAL(38, 12) DEFAULT 0, spend_cud DECIMAL(38, \
12) DEFAULT 0, cost_at_list DECIMAL(38, 12) DEFAULT 0, cost_at_contract DECIMAL(38, 12) DEFAULT 0, \
pricing_amount DECIMAL(38, 12) DEFAULT 0, amount DECIMAL(38, 12) DEFAULT 0, list_price DECIMAL(38, 12) DEFAULT 0, \
contract_price DECIMAL(38, 12) DEFAULT 0, units_priced DECIMAL(38, 12) DEFAULT 0, is_spot BOOLEAN DEFAULT false, \
has_offset BOOLEAN DEFAULT false, is_unused_reservation BOOLEAN DEFAULT false

gcp_hours: row_id INT, instance_hours DOUBLE

gcp_fees: row_id INT, is_fee BOOLEAN, is_without_fee BOOLEAN, share DECIMAL(38, 12)

gcp_rows: row_id, sku, kind, cost_type, resource_cud, spend_cud, consumption_model
1, 'resource', 'instance', 'regular', -1, 0, NULL
2, 'spend', 'instance', 'regular', 0, -1, 'Default'
3, 'model', 'instance', 'regular', 0, 0, 'Flex'
4, 'fee', 'commitment_fee', 'regular', 0, 0, NULL
5, 'none', 'instance', 'regular', 0, 0, 'Default'
->
SELECT sku_description, pricing_category, commitment_discount_category, commitment_discount_type, \
commitment_discount_status FROM mapped
resource | Committed | Usage | Committed use discount | Used
spend | Committed | Spend | Committed use discount | Used
model | Committed | Spend | Committed use discount | Used
fee | Committed | Usage | Committed use discount | -
none | Standard | - | - | -

= a load has a bill per account and month, final if all its costs are invoiced
store/sql/incoming_bills
params {"source": None, "format": "given"}
sql SET VARIABLE line_columns = ['source_row']

bills: bill_id
7
3

first_rows: detail_id INT, source_row INT
1, 1
2, 3
3, 4
4, 5
5, 6
6, 7
7, 8
8, 9
9, 10
10, 11
11, 12
12, 13

charges_split: detail_id INT, source_row INT, source_file VARCHAR, provider VARCHAR, billing_period VARCHAR, \
billing_account_id VARCHAR, format VARCHAR, is_invoiced BOOLEAN, is_free BOOLEAN, issuer VARCHAR, rows INT
1, 1, 'f1', 'aws', '2026-09', 'acc', 'cur', true, false, NULL, 3
1, 2, 'f1', 'aws', '2026-09', 'acc', 'cur', false, false, NULL, 50
2, 3, 'f1', 'aws', '2026-09', NULL, 'cur', NULL, true, NULL, 2
3, 4, 'f2', 'aws', '2026-09', 'a1', 'cur', true, false, NULL, 1
4, 5, 'f2', 'aws', '2026-09', 'a2', 'cur', true, false, NULL, 1
5, 6, 'f2', 'aws', '2026-09', NULL, 'cur', false, false, NULL, 1
6, 7, 'f3', 'gcp', '2026-09', 'b', 'std', true, false, 'reseller', 1
7, 8, 'f4', 'gcp', '2026-09', 'b', 'std', NULL, false, 'reseller', 4
8, 9, 'f5', 'azure', '2026-09', 's', NULL, NULL, false, 'x', 1
9, 10, 'f5', 'azure', '2026-09', 's', NULL, NULL, false, NULL, 1
10, 11, 'f6', 'azure', '2026-10', 't', NULL, true, false, NULL, 1
11, 12, 'f6', 'azure', '2026-10', 't', NULL, false, false, NULL, 1
12, 13, 'f1', 'aws', '2026-09', 'acc', 'cur', true, false, NULL, 1
->
SELECT bill_id, source, told_format, format, billing_account_id, billing_period, is_final, issuer, rows \
FROM incoming_bills ORDER BY bill_id
8 | aws | cur | cur | | 2026-09 | False | - | 1
9 | aws/a1 | cur | cur | a1 | 2026-09 | True | - | 1
10 | aws/a2 | cur | cur | a2 | 2026-09 | True | - | 1
11 | aws/acc | cur | cur | acc | 2026-09 | True | - | 6
12 | azure/s | - | given | s | 2026-09 | - | - | 2
13 | azure/t | - | given | t | 2026-10 | False | - | 2
14 | gcp/b | std | std | b | 2026-09 | False | reseller | 5
""")


def _raw(tables: Tables, form: Format, *rows: dict[str, str]) -> None:
    """Rows of an export as text; columns without a value are empty."""
    texts = ", ".join(f"{name} VARCHAR" for name in form.columns)
    tables.make(
        f"raw: {texts}, source_file VARCHAR, file_row_number BIGINT, row_digest UBIGINT, label_digest UBIGINT,"
        " tag_columns MAP(VARCHAR, VARCHAR)"
    )
    for number, row in enumerate(rows):
        named = {"source_file": "f", "file_row_number": str(number)} | row
        tables.con.execute(
            f"INSERT INTO raw ({', '.join(named)}) VALUES ({', '.join('?' * len(named))})",  # noqa: S608
            list(named.values()),
        )
    tables.run("store/sql/bill_macros")


# a row of an export, then its format, its cost in dollars and the code of its warning
_REPORT = "starting_at=2026-10-01T00:00:00Z ending_at=2026-10-02T00:00:00Z amount=250 currency=usd"
ANTHROPIC = """
totals | @ | anthropic-totals | 2.5 | not_by_item
by item | @ description=Claude | anthropic | 2.5 |
the console | usage_date_utc=2026-10-01 cost_usd=2.5 token_type=input | anthropic-console | 2.5 |
a day without costs | starting_at=2026-10-01T00:00:00Z | | |
"""


@pytest.mark.parametrize(("row", "form", "cost", "code"), named_rows(ANTHROPIC.replace("@", _REPORT)))
def test_anthropic_costs_keep_their_currency_and_totals_are_warned_about(
    tables: Tables, row: str, form: str, cost: str, code: str
) -> None:
    _raw(tables, anthropic.FORMATS[0], words(row))
    assert [answer["code"] for answer in tables.answers("collect/bill/anthropic")] == code.split()
    assert tables.texts("SELECT format, billed_cost FROM mapped") == ([(form, cost)] if form else [])


def test_openai_costs_without_line_items_belong_to_their_group(tables: Tables) -> None:
    bucket = {"start_time": "1759276800", "end_time": "1759363200", "project_id": "p"}
    _raw(tables, openai.FORMATS[0], bucket | {"amount_value": "1.5", "amount_currency": "usd"}, bucket)
    assert [answer["code"] for answer in tables.answers("collect/bill/openai")] == ["not_by_item"]
    found = tables.texts(
        "SELECT format, billing_period, billed_cost, billing_currency, source_row FROM mapped"
    )
    assert found == [("openai-projects", "2025-10", "1.5", "USD", "1")]


@pytest.mark.parametrize(
    "row",
    [
        "line_item_interval_usage_start=2026-10-01T00:00Z line_item_interval_usage_end=2026-10-01T01:00Z "
        "product_service=COMPUTE cost_my_cost=4",
        "charge_period_start=2026-10-01T00:00Z charge_period_end=2026-10-01T01:00Z billing_period_start=2026-10-01T00:00Z "
        "charge_category=Usage service_name=COMPUTE billed_cost=4",
    ],
    ids=["classic", "FOCUS"],
)
def test_oci_gpu_machine_is_recognized_by_its_service_in_both_reports(tables: Tables, row: str) -> None:
    machine = words("product_resource_id=ocid1.instance.oc1..a usage_quantity=1")
    _raw(tables, oci.FORMATS[0], machine | words(row) | {"cost_billing_unit_readable": "GPU Hour"})
    tables.run("collect/bill/oci")
    found = tables.texts("SELECT kind, service_name, instance_hours, billed_cost FROM mapped")
    assert found == [("instance", "COMPUTE", "1", "4")]


SPOT_NODES = """
nodes: node_id, cluster, node, provider, instance_type, zone, capacity_type, up_from_ms, up_to_ms
1, 'c', 'a', 'aws', 'p5', NULL, 'spot', 0, 50h
2, 'c', 'b', 'aws', 'p5', '', 'spot', 10h, 180600000
3, 'c', 'd', 'aws', 'p5', '', 'spot', 70h, 80h
4, 'c', 'e', 'aws', 'p5', 'ra', 'spot', 20h, 1000h
5, 'c', 'f', 'aws', 'p5', NULL, 'on_demand', 0, 50h

collected: cluster, from_ms, to_ms
'c', 0, 1000h

allocations: allocation_id, cluster, uid, node_id, gpus, held_to_ms
1, 'c', 'u1', 1, 1, 50h
2, 'c', 'u2', 2, 1, 180600000
3, 'c', 'u3', 3, 1, 80h
4, 'c', 'u4', 4, 1, 1000h

series: series_id, cluster, metric, labels

states: series_id, value, first_ms, last_ms
"""


def test_spot_evidence_is_by_pool_and_halves_with_age(tables: Tables) -> None:
    """The second node ends 10 minutes after the first: one end; the fourth is still there at the end."""
    half_life = 1000 * 3_600_000
    tables.fill(SPOT_NODES)
    for half, weight in ((10**18, 1.0), (half_life, 0.5)):
        tables.run("whatif/spot/spot_evidence", held_within_ms=1000, half_life_ms=half)
        named, other = tables.rows(
            "SELECT zone, node_hours, reclaims, pool_hours, ends FROM spot_evidence ORDER BY zone"
        )
        # two ends 10 minutes apart count as one; the pool is empty for 20 hours
        assert named[:1] == ("",) and named[2] == 0
        assert named[1] == pytest.approx((50 + 40 + 1 / 6 + 10) * weight, rel=0.05)
        assert named[3] == pytest.approx((50 + 1 / 6 + 10) * weight, rel=0.05)  # empty for 20 hours
        assert named[4] == pytest.approx(2 * weight, rel=0.05)
        assert (other[0], other[2], other[4]) == ("ra", 0, 0)


MACHINE = "/subscriptions/S/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/VM1"
# values of a row ("_" is a space); then its kind, hours, whether it is spot, under a commitment, and whether it has a machine
AZURE = f"""
resource_id={MACHINE} meter_category=Virtual_Machines meter_name=NC24_Spot | instance | 2 | True | False | True
resource_id={MACHINE} meter_category=Virtual_Machines product_name=NCads pricing_model=Savings_Plan | instance | 2 | False \
| True | True
resource_id={MACHINE} meter_category=Virtual_Machines_Licenses | instance | - | False | False | True
resource_id={MACHINE} meter_category=Bandwidth | network | - | False | False | False
meter_category=Storage | storage | - | False | False | False
charge_type=Purchase reservation_id=r | commitment_fee | - | False | True | False
charge_type=Purchase product_name=Reserved_VM_Instance | commitment_fee | - | False | True | False
charge_type=Unused_Reservation | commitment_unused | - | False | True | False
charge_type=Refund | refund | - | False | False | False
charge_type=Tax | tax | - | False | False | False
resource_id=/x/capacityReservationGroups/c meter_category=Virtual_Machines | reserved_unused | - | False | False | False
charge_type=Usage | other | - | False | False | False
"""


def test_azure_row_is_classified_by_its_charge_and_meter(tables: Tables) -> None:
    usage = words("date=2026-10-01 cost=4 quantity=2 unit_of_measure=1_Hour charge_type=Usage")
    cases = text_rows(AZURE)
    rows = [usage | words(row) for row, *_ in cases]
    spaced = [
        {name: value if name == "resource_id" else value.replace("_", " ") for name, value in row.items()}
        for row in rows
    ]
    _raw(tables, azure.FORMATS[0], *spaced)
    tables.run("collect/bill/azure_1_rows")
    found = tables.texts(
        "SELECT kind, instance_hours, is_spot, is_of_commitment, instance_key IS NOT NULL FROM azure_rows "
        "ORDER BY file_row_number"
    )
    assert found == [row[1:] for row in cases]
    # the columns that separate charges are equal whether a column is missing or empty
    assert tables.rows("SELECT DISTINCT meter_subcategory FROM azure_rows") == [("",)]
    assert tables.rows("SELECT meter_name, product_name FROM azure_rows ORDER BY ALL")[0] == ("", "")
