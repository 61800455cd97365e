"""OCI's cost reports: the classic one, and the one in FOCUS columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.text_tables import titled, words
from tests.unit.bills import Bills, Charge, Row, check_scene, csv_text, scene

MACHINE = "ocid1.instance.oc1.iad.aNuwc"


def classic(hour: int, quantity: str = "8", **changed: str) -> Row:
    """A row of an 8-GPU machine's hour."""
    row = words(f"""
        lineItem/referenceNo=V2.{hour} lineItem/tenantId=ocid1.tenancy.oc1..aaa
        lineItem/intervalUsageStart=2026-03-05T{hour:02}:00Z lineItem/intervalUsageEnd=2026-03-05T{hour + 1:02}:00Z
        product/service=COMPUTE product/compartmentId=ocid1.compartment.oc1..c product/compartmentName=ml
        product/region=us-ashburn-1 product/availabilityDomain=kIdk:US-ASHBURN-AD-1 product/resourceId={MACHINE}
        usage/billedQuantity={quantity} usage/billedQuantityOverage= cost/subscriptionId=4711 cost/productSku=B109479
        product/Description="Compute - GPU - H100" cost/unitPrice=10 cost/unitPriceOverage= cost/myCost={int(quantity) * 10}
        cost/myCostOverage= cost/currencyCode=USD cost/skuUnitDescription="GPU Per Hour" cost/overageFlag=N
        lineItem/isCorrection=false lineItem/backreferenceNo= tags/team=nlp tags/Oracle-Tags.CreatedBy=""")
    return row | changed


def focus(hour: int, quantity: str = "8", **changed: str) -> Row:
    """The same machine's hour in the columns of the FOCUS preview."""
    row = words(f"""
        AvailabilityZone=AD-1 BilledCost={int(quantity) * 10} BillingAccountId=4711 BillingCurrency=EUR
        BillingPeriodStart=2026-03-01T00:00Z BillingPeriodEnd=2026-04-01T00:00Z ChargeCategory=Usage
        ChargeDescription="Compute - GPU - H100" ChargePeriodStart=2026-03-05T{hour:02}:00Z
        ChargePeriodEnd=2026-03-05T{hour + 1:02}:00Z ChargeSubcategory=On-Demand EffectiveCost= InvoiceIssuer=Oracle
        ListUnitPrice=10 PricingQuantity={quantity} PricingUnit="GPU Per Hour" Provider=Oracle Publisher=Oracle
        Region=us-ashburn-1 ResourceId={MACHINE} ServiceCategory=Compute ServiceName=Compute SkuId=B109479
        Tags='{{"team": "nlp"}}' UsageQuantity={quantity} UsageUnit="GPU Per Hour" oci_ReferenceNumber=r{hour}
        oci_CompartmentName=ml oci_BackReferenceNumber=""")
    return row | changed


COLUMNS = words("""
    sku=product/Description unit=cost/skuUnitDescription service=product/service id=product/resourceId ref=lineItem/referenceNo
    product=cost/productSku""")


def item(text: str) -> Row:
    """A row: its format, hour and quantity, and its changed columns."""
    kind, hour, quantity, *changed = text.strip().split(maxsplit=3)
    cells = {COLUMNS.get(name, name): value for name, value in words(" ".join(changed)).items()}
    return (classic if kind == "classic" else focus)(int(hour), quantity, **cells)


#: Rows of an account, and the expected charges.
CASES = titled("""
= a machine costs the same as its GPU hours
classic 1 8 | kind=instance hours=1 effective=80 billed=80 provider=oci region=us-ashburn-1 billing_currency=USD
classic 2 8 | billing_period=2026-03 resource_id=ocid1.instance.oc1.iad.aNuwc machine=ocid1.instance.oc1.iad.anuwc
classic 3 4 | kind=instance hours=0.5 effective=40 billed=40 tags='{"team": "nlp"}'
= a machine in FOCUS columns
focus 1 8 | kind=instance hours=1 effective=80 billed=80 provider=oci region=us-ashburn-1 billing_currency=EUR
focus 2 8 | billing_period=2026-03 resource_id=ocid1.instance.oc1.iad.aNuwc machine=ocid1.instance.oc1.iad.anuwc
focus 3 4 | kind=instance hours=0.5 effective=40 billed=40 tags='{"team": "nlp"}'
= hours of a machine without GPUs come from cores, not from memory and licenses
classic 1 4 unit="OCPU Per Hour" sku="Compute - Standard - E4 - OCPU" ref=r4 product=B4             | kind=instance hours=1
classic 1 64 unit="Gigabyte Per Hour" sku="Compute - Standard - E4 - Memory" ref=r64 product=B64    | kind=instance hours=-
classic 1 5 unit="OCPU Per Hour" sku="Compute - Windows OS" ref=r5 product=B5                       | kind=instance hours=-
= corrections are separate charges
classic 1 8 | charge_class=- billed=80 hours=1
classic 1 -8 lineItem/isCorrection=true lineItem/backreferenceNo=V2.1 ref=V2.9 | charge_class=Correction billed=-80 hours=-1
= charges without a machine
classic 1 8 service=BLOCK_STORAGE id=ocid1.volume.oc1.iad.v sku="Block Volume"    | kind=storage machine=-
classic 2 8 service=NETWORK id=ocid1.vcn.oc1.iad.v sku="Outbound Data Transfer"   | kind=network machine=-""")


Loaded = dict[str, list[Charge]]


@pytest.fixture(scope="module")
def loaded(module_path: Path) -> Loaded:
    """The charges of each case, in its own account.

    Each row is in the file twice and counts once.
    """
    files = {}
    for number, (name, table) in enumerate(CASES.items()):
        text = csv_text(scene(table, item)[0] * 2)
        files[name] = text.replace("4711", f"47{number}").replace(MACHINE, f"{MACHINE}-{number}")
    _, charges = Bills(module_path).cases(files, provider=None)
    for number, own_charges in enumerate(charges.values()):
        for charge in own_charges:
            for column in ("resource_id", "instance_key"):
                charge[column] = charge[column] and charge[column].removesuffix(f"-{number}")
    return charges


@pytest.mark.parametrize("name", CASES)
def test_rows_have_their_cost_and_kind(loaded: Loaded, name: str) -> None:
    check_scene(loaded[name], scene(CASES[name], str)[1])


def test_other_commands_name_the_right_one(bills: Bills) -> None:
    (error,) = bills.load(bills.write("oci.csv", csv_text([classic(1)])), provider="aws").errors
    assert error.message.endswith("oci.csv is an OCI cost report")
    assert error.fix == "load it with gpucost collect focus"
