"""Files that lie beside billing exports and hold no charges: what they are, and what to give instead."""

from __future__ import annotations

from gpucost.collect.bill.formats import Foreign

_COST_AND_USAGE = "give the FOCUS cost and usage file: the one with BilledCost and EffectiveCost"

# The more particular first.
FOREIGN = (
    Foreign(
        ("ResultsByTime",),
        "an answer of the AWS Cost Explorer API: sums, not charges",
        "give the Cost and Usage Report: create a Data Export (CUR 2.0) in the AWS Billing console",
    ),
    Foreign(("SpotPriceHistory",), "an answer of the EC2 API with spot prices, not a bill", "gpucost collect spot"),
    Foreign(("PriceList", "FormatVersion"), "an answer of the AWS price list API, not a bill", "gpucost collect prices"),
    Foreign(("files", "manifest", "run_id"), "the manifest of a FOCUS data set, not its charges", _COST_AND_USAGE),
    Foreign(
        ("ContractCommitmentId", "ContractCommitmentCost"),
        "a FOCUS contract commitment file: what was agreed, not what was charged",
        _COST_AND_USAGE,
    ),
    Foreign(
        ("InvoiceDetailId", "InvoiceDetailGrain"),
        "a FOCUS invoice detail file: sums of charges, not the charges",
        _COST_AND_USAGE,
    ),
    Foreign(
        ("BillingPeriodStatus", "BillingPeriodCreated"),
        "a FOCUS billing period file: it says which periods are closed, and holds no charges",
        _COST_AND_USAGE,
    ),
    Foreign(
        ("RecordType", "LinkedAccountId", "UsageType", "ProductCode"),
        "an AWS detailed billing report, which AWS replaced by the Cost and Usage Report in 2019",
        "create a Data Export (CUR 2.0) in the AWS Billing console and give its files",
    ),
    Foreign(("skus",), "an answer of the Google Cloud price list API, not a bill", "gpucost collect prices"),
    Foreign(
        ("report_period_start", "interval_start"),
        "OpenShift usage of the cost management operator: usage, not charges",
        "give the cloud's own billing export; usage comes from Prometheus: gpucost collect prometheus",
    ),
    Foreign(
        ("Timestamp", "UsageType", "Operation", "InstanceID", "MyBidID"),
        "a spot instance data feed: prices of spot instances, not a bill",
        "gpucost collect spot",
    ),
)
