"""FOCUS: any provider, any version from 1.0, and how gpucost classifies each row."""

from __future__ import annotations

from decimal import Decimal

from tests.text_tables import columns, titled, words
from tests.unit.bills import FOCUS_USAGE, Bills, Row, check_scene, csv_text, parquet, scene, snake


def item(text: str) -> Row:
    """A machine's hour with its changed columns."""
    return FOCUS_USAGE | words(text)


#: Changes to a machine's hour, and the expected charge.
ROWS = """
SkuPriceDetails='{"InstanceType": "gpu-8x-h100"}' Tags='{"team": "ml"}' | provider="nimbus gpu cloud" kind=instance hours=1
    instance_type=gpu-8x-h100 tags='{"team": "ml"}' billing_period=2026-03 source="nimbus gpu cloud/acct-1"
InvoiceId=I1 ListUnitPrice=5 ContractedUnitPrice=4 SkuPriceId=P1 SkuPriceDetails='{"GpuCount": 8}'
    CommitmentDiscountName="three years" CommitmentDiscountQuantity=1 CommitmentDiscountUnit=Hours
    x_CostCategories='{"Department": "Research"}' | invoice_id=I1 list_unit_price=5 contracted_unit_price=4 sku_price_id=P1
    sku_price_details='{"GpuCount": 8}' commitment_discount_name="three years" commitment_discount_quantity=1
    commitment_discount_unit=Hours cost_categories='{"Department": "Research"}'
BillingCurrency=                   | billing_currency=EUR
BillingAccountId=acct-2            | source="nimbus gpu cloud/acct-2"
ProviderName=AWS                   | provider=aws source=aws/acct-1
ProviderName="Amazon Web Services" | provider=aws
ProviderName=Microsoft             | provider=azure
ProviderName="Google Cloud"        | provider=gcp
ProviderName=Oracle                | provider=oci
ServiceProviderName="Google Cloud" | provider=gcp
CommitmentDiscountId=NULL Tags=NULL SubAccountId=NULL       | commitment_discount_id=- tags=- sub_account_id=-
ProviderName=Microsoft SubAccountId=/subscriptions/0AB1-CD  | sub_account_id=0ab1-cd
ProviderName=Microsoft SubAccountId=0AB1-CD                 | sub_account_id=0ab1-cd
SubAccountId=/subscriptions/0AB1-CD                         | sub_account_id=/subscriptions/0AB1-CD
ResourceId=arn:aws:ec2:eu-west-1:2:instance/i-2d1026706d7e  | machine=i-2d1026706d7e
ResourceId=i-0ABC                                           | machine=i-0abc
ResourceId=//compute.googleapis.com/projects/p/zones/us-east1-b/instances/N | machine=p/us-east1-b/n
ResourceId=//compute.googleapis.com/projects/p/instances/n AvailabilityZone=zone-1 | machine=p/zone-1/n
ResourceId=/subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/virtualMachines/V
    | machine=/subscriptions/s/resourcegroups/r/providers/microsoft.compute/virtualmachines/v
ResourceId=vm-1 AvailabilityZone=zone-1                     | machine=vm-1
ChargeCategory=Tax ResourceId=                              | kind=tax cause=same
ChargeCategory=Credit BilledCost=-4 EffectiveCost=-4        | kind=credit cause=same
ChargeCategory=Adjustment BilledCost=-4 EffectiveCost=-4    | kind=refund cause=same
ServiceName="Premium Support"                               | kind=support cause=same
ChargeCategory=Purchase CommitmentDiscountId=c EffectiveCost=0 | kind=commitment_fee cause=fee_amortized
CommitmentDiscountId=c BilledCost=0 CommitmentDiscountStatus=Unused | kind=commitment_unused cause=commitment_unused
CommitmentDiscountId=c BilledCost=0 CommitmentDiscountStatus=Used   | kind=instance cause=covered_usage
CapacityReservationId=cr-1 CapacityReservationStatus=Unused | kind=reserved_unused cause=same
ServiceCategory=Storage ConsumedUnit=GB-Months              | kind=storage cause=same
ServiceCategory=Networking ConsumedUnit=GB                  | kind=network cause=same
EffectiveCost=0 BilledCost=0                                | kind=instance cause=zero_unexplained"""


def test_row_has_its_kind_machine_and_account(bills: Bills) -> None:
    rows, expected = scene(ROWS, item)
    bills.take(rows, provider=None, currency="EUR")
    check_scene(bills.charges(), expected)


#: Rows of commitments by the commitments' ids; each has a billed cost of 4.00 by default.
COMMITMENTS = titled("""
= /providers/Microsoft.BillingBenefits/savingsPlanOrders/O-1/savingsPlans/p
# a purchase borne by usage is not counted again; the order is bought, one of its plans is used
usage CommitmentDiscountStatus=Used | effective=4
bought CommitmentDiscountId=/providers/microsoft.billingbenefits/savingsplanorders/o-1 | effective=0
= not spread
usage EffectiveCost=0 | effective=0
bought                | effective=4
= returned
bought EffectiveCost=0 | effective=0
bought EffectiveCost=-4 BilledCost=-4 ChargeClass=Correction | effective=0
= returned in cash
bought                             | effective=4
given EffectiveCost=-4 BilledCost=-4 | effective=-4
= /providers/microsoft.capacity/reservationorders/returned after use
usage EffectiveCost=1.5              | effective=1.5
bought                               | effective=0
given EffectiveCost=-6 BilledCost=-6 | effective=-1.5
= fee next to usage
# usage with a lower cost does not bear a purchase, except in Azure rows that state both
usage EffectiveCost=1.5 | effective=1.5
bought                  | effective=4
= fee next to usage, returned
usage EffectiveCost=1.5              | effective=1.5
bought                               | effective=4
given EffectiveCost=-6 BilledCost=-6 | effective=-5.5
= refund alone
# the refunded charge is in another file
given EffectiveCost=-4 BilledCost=-4 | effective=-4
= refund of usage at cost 0
usage EffectiveCost=0 BilledCost=0   | effective=0
given EffectiveCost=-4 BilledCost=-4 | effective=-4
= refund of usage
usage                                | effective=4
given EffectiveCost=-6 BilledCost=-6 | effective=-4
= purchase alone
bought | effective=4""")
KINDS = columns("""
    usage
    bought ChargeCategory=Purchase ResourceId=plan
    given  ChargeCategory=Adjustment""")


def test_commitment_counts_once_in_effective_cost(bills: Bills) -> None:
    rows, expected = [], []
    for name, table in COMMITMENTS.items():
        texts, charges = scene(table, str)
        expected += charges
        for text in texts:
            kind, _, changed = text.strip().partition(" ")
            rows.append(item(KINDS[kind]) | {"CommitmentDiscountId": name} | words(changed))
    run = bills.take(rows, provider=None)
    charges = bills.charges()
    check_scene(charges, expected)
    differing = [charge for charge in charges if charge["effective_cost"] != charge["billed_cost"]]
    assert differing and all(charge["cost_cause"] != "same" for charge in differing)
    alone = " ".join(finding.message for finding in run.findings if finding.code == "commitment_alone")
    named = {name for name in COMMITMENTS if f"refunds of {name} keep" in alone}
    assert named == {"refund alone", "purchase alone", "returned in cash"}


def test_snake_case_and_parquet_give_the_same_charges(bills: Bills) -> None:
    bills.take(
        parquet([snake([FOCUS_USAGE])[0] | {"tags": {"team": "ml"}, "billed_cost": 4.0}]), provider=None
    )
    (charge,) = bills.charges()
    assert (charge["billed_cost"], charge["tags"], charge["kind"]) == (Decimal(4), {"team": "ml"}, "instance")


def test_each_command_reads_only_files_of_its_provider(bills: Bills) -> None:
    def refusal(text: str, provider: str | None = "aws") -> tuple[str, str | None]:
        (error,) = bills.load(bills.write("focus.csv", text), provider=provider).errors
        return error.message, error.fix

    message, fix = refusal(csv_text([FOCUS_USAGE]))
    assert "is a FOCUS cost and usage file of nimbus gpu cloud" in message
    assert fix == "load files of any provider with gpucost collect focus"
    both = csv_text([FOCUS_USAGE, item("ProviderName=AWS")])
    assert "contains charges of aws, nimbus gpu cloud" in refusal(both)[0]
    assert "contract commitment" in refusal("ContractCommitmentId,ContractCommitmentCost\na,1\n", None)[0]
