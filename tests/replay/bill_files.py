"""Charges as billing exports, in the columns that the clouds deliver: AWS CUR (legacy and 2.0), Google Cloud, Azure, FOCUS.

In addition to machine hours, the files contain other lines of real bills: storage and transfer under the instance's id,
covered usage with its negation and fees, credits and tax.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tests.replay.billing import DAY, HOUR, Charge
from tests.text_tables import columns, text_rows
from tests.unit.bills import csv_text, snake

ACCOUNT = "444455556666"
PAYER = "111122223333"
PLAN = f"arn:aws:savingsplans::{PAYER}:savingsplan/11111111-2222-3333-4444-555555555555"
RESERVATION = f"arn:aws:ec2:us-west-2:{PAYER}:reserved-instances/99999999-8888"

Cells = dict[str, str]


def aws_cur(charges: Iterable[Charge], *, legacy: bool = False) -> str:
    """Return a Cost and Usage Report as CSV: CUR 2.0, or the legacy format with slash columns."""
    charged = list(charges)
    rows = [row for charge in charged for row in _aws_rows(charge)]
    if charged:
        rows += _aws_rest(charged)
    return csv_text(rows if legacy else snake(rows))


_COVERED = {"savings_plan": "SavingsPlanCoveredUsage", "reservation": "DiscountedUsage"}
_USAGE = {"spot": "SpotUsage"}


def _aws_rows(charge: Charge) -> list[Cells]:
    kind, listed = charge.node["instance_type"], charge.list_cost
    row = _aws_base(charge) | columns(f"""
        lineItem/LineItemType       {_COVERED.get(charge.option, "Usage")}
        lineItem/UsageType          USW2-{_USAGE.get(charge.option, "BoxUsage")}:{kind}
        lineItem/UsageAmount        {float(charge.hours):.10f}
        lineItem/UnblendedCost      {charge.cost}
        pricing/publicOnDemandCost  {listed}
        pricing/unit                Hrs
        product/instanceType        {kind}
    """)
    # the cost of a volume and a transfer under the instance's id
    beside = [
        row
        | columns(f"""
            lineItem/LineItemType   Usage
            lineItem/Operation      Other
            lineItem/UsageType      USW2-{usage}
            lineItem/UnblendedCost  {cost}
            pricing/unit            {unit}
        """)
        for usage, cost, unit in (
            (f"EBSOptimized:{kind}", "0.11", "Hrs"),
            ("EBS:VolumeUsage.gp3", "0.07", "GB-Mo"),
            ("DataTransfer-Out-Bytes", "0.03", "GB"),
        )
    ]
    beside[0]["pricing/publicOnDemandCost"] = ""
    if charge.option == "savings_plan":
        row |= columns(f"""
            lineItem/UnblendedCost                {listed}
            savingsPlan/SavingsPlanARN            {PLAN}
            savingsPlan/SavingsPlanEffectiveCost  {charge.cost}
        """)
        negation = {"lineItem/LineItemType": "SavingsPlanNegation", "lineItem/UnblendedCost": f"-{listed}"}
        beside.append(row | negation)
    if charge.option == "reservation":
        row |= columns(f"""
            lineItem/UnblendedCost      0
            reservation/ReservationARN  {RESERVATION}
            reservation/EffectiveCost   {charge.cost}
        """)
    return [row, *beside]


def _aws_rest(charged: list[Charge]) -> list[Cells]:
    """Return a credit and tax of the account, and the commitments' fees, partly unused."""
    used, reserved = (sum(c.cost for c in charged if c.option == option) for option in _COVERED)
    base = _aws_base(charged[0]) | {"lineItem/ResourceId": "", "lineItem/UsageType": "", "pricing/unit": ""}
    rows = (
        """
        lineItem/LineItemType         Credit
        lineItem/UnblendedCost        -20
        lineItem/LineItemDescription  Credit
        """,
        """
        lineItem/LineItemType   Tax
        lineItem/UnblendedCost  17.5
        lineItem/TaxType        VAT
        """,
        f"""
        lineItem/LineItemType              SavingsPlanRecurringFee
        savingsPlan/SavingsPlanARN         {PLAN}
        savingsPlan/TotalCommitmentToDate  {used + 5}
        savingsPlan/UsedCommitment         {used}
        lineItem/UnblendedCost             {used + 5}
        """,
        f"""
        lineItem/LineItemType                                  RIFee
        reservation/ReservationARN                             {RESERVATION}
        reservation/UnusedAmortizedUpfrontFeeForBillingPeriod  0
        reservation/UnusedRecurringFee                         3
        lineItem/UnblendedCost                                 {reserved + 3}
        """,
    )
    return [base | columns(row) for row in rows]


def _aws_base(charge: Charge) -> Cells:
    return columns(f"""
        bill/BillingPeriodStartDate  {_utc(charge.start):%Y-%m-01T00:00:00Z}
        bill/PayerAccountId          {PAYER}
        bill/InvoiceId
        lineItem/UsageStartDate      {_utc(charge.start):%Y-%m-%dT%H:%M:%SZ}
        lineItem/UsageEndDate        {_utc(charge.start + charge.length):%Y-%m-%dT%H:%M:%SZ}
        lineItem/UsageAccountId      {ACCOUNT}
        lineItem/ProductCode         AmazonEC2
        lineItem/Operation           RunInstances
        lineItem/AvailabilityZone    {charge.node["zone"]}
        lineItem/ResourceId          {charge.instance_id}
        lineItem/CurrencyCode        USD
        product/region               {charge.node["region"]}
    """)


#: vCPUs, GiB and GPUs of machine types.
GCP_SHAPES = {"a2-highgpu-2g": (24, 170, 2)}


def gcp_jsonl(charges: Iterable[Charge]) -> str:
    """Return Google Cloud's detailed export as JSON lines from BigQuery: separate lines for cores, memory and GPUs."""
    return "".join(json.dumps(row) + "\n" for charge in charges for row in _gcp_rows(charge))


def _gcp_rows(charge: Charge) -> list[dict[str, Any]]:
    kind, zone, region = charge.node["instance_type"], charge.node["zone"], charge.node["region"]
    cores, gib, gpus = GCP_SHAPES[kind]
    name = charge.instance_id
    spot = "Spot Preemptible " if charge.option == "spot" else ""
    attached = "attached to Spot Preemptible VMs " if spot else ""
    core, memory = (charge.cost * share / 10 for share in (2, 1))
    parts = text_rows(f"""
        {spot}A2 Instance Core running in Netherlands | {core} | {charge.seconds * cores} | seconds | {charge.seconds * cores / HOUR} | hour
        {spot}A2 Instance Ram running in Netherlands | {memory} | {charge.seconds * gib * 2**30} | byte-seconds | {charge.seconds * gib / HOUR} | gibibyte hour
        Nvidia Tesla A100 GPU {attached}running in Netherlands | {charge.cost - core - memory} | {charge.seconds * gpus} | seconds | {charge.seconds * gpus / HOUR} | hour
        Network Internet Data Transfer Out from Netherlands | 0.02 | {2**30} | bytes | 1 | gibibyte
        SSD backed PD Capacity in Netherlands | 0.05 | {2**30} | byte-seconds | 1 | gibibyte month
    """)  # noqa: E501
    found = []
    for place, (sku, cost, amount, unit, priced, pricing_unit) in enumerate(parts):
        row = json.loads(f"""{{
            "billing_account_id": "01AAAA-BBBBBB-CCCCCC",
            "service": {{"id": "6F81-5844-456A", "description": "Compute Engine"}},
            "sku": {{"id": "{place:04}-0000-0000", "description": "{sku}"}},
            "usage_start_time": "{_utc(charge.start):%Y-%m-%dT%H:%M:%SZ}",
            "usage_end_time": "{_utc(charge.start + charge.length):%Y-%m-%dT%H:%M:%SZ}",
            "project": {{"id": "a-project", "name": "A project", "number": "1"}},
            "labels": [{{"key": "goog-k8s-cluster-name", "value": "{charge.node["cluster"]}"}}],
            "system_labels": [
                {{"key": "compute.googleapis.com/machine_spec", "value": "{kind}"}},
                {{"key": "compute.googleapis.com/cores", "value": "{cores}"}}
            ],
            "location": {{"location": "{zone}", "country": "NL", "region": "{region}", "zone": "{zone}"}},
            "export_time": "{_utc(charge.start + 3 * HOUR):%Y-%m-%dT%H:%M:%SZ}",
            "cost": {float(cost)},
            "currency": "USD",
            "currency_conversion_rate": 1,
            "usage": {{
                "unit": "{unit}", "pricing_unit": "{pricing_unit}", "amount": {amount}, "amount_in_pricing_units": {float(priced)}
            }},
            "credits": [],
            "invoice": {{"month": "{_utc(charge.start):%Y%m}"}},
            "cost_type": "regular",
            "resource": {{
                "name": "{name}",
                "global_name": "//compute.googleapis.com/projects/a-project/zones/{zone}/instances/{name}"
            }}
        }}""")
        # a discount on usage is part of its cost, a promotion is not
        if place == 2:
            row |= {"cost": float(cost) * 2, "credits": json.loads(_CREDITS.replace("COST", cost))}
        found.append(row)
    return found


_CREDITS = """[
    {"name": "Negotiated savings", "full_name": "", "id": "", "type": "DISCOUNT", "amount": -COST},
    {"name": "Trial", "full_name": "", "id": "", "type": "PROMOTION", "amount": -0.01}
]"""


def azure_amortized(days: Iterable[Charge]) -> str:
    """Return an amortized cost export of an Enterprise agreement, by day, with scale sets as AKS bills them."""
    rows = [row for charge in days for row in _azure_rows(charge)]
    unused = columns("""
        ChargeType             UnusedReservation
        ResourceId
        AdditionalInfo
        CostInBillingCurrency  2.5
    """)
    return csv_text([*rows, *(row | unused for row in rows[:1])])


def _azure_rows(charge: Charge) -> list[Cells]:
    assert charge.length == DAY
    # …/virtualMachineScaleSets/gpu/virtualMachines/3: the export names the set, and the machine in the additional info
    scale_set = charge.machine.removeprefix("azure://").rpartition("/virtualMachines/")[0]
    kind, spot = charge.node["instance_type"], " Spot" if charge.option == "spot" else ""
    models = {"spot": "Spot", "savings_plan": "SavingsPlan", "reservation": "Reservation"}
    vm_name = f"{scale_set.rpartition('/')[2]}_{charge.instance_id}"
    info = {"ServiceType": kind, "VMName": vm_name, "UsageType": "ComputeHR"}
    row = columns(f"""
        SubscriptionId          38f1d748-3ac7-4b7f-a5ae-8b5ff16db82c
        BillingAccountId        89086162
        BillingPeriodStartDate  {_utc(charge.start):%m/01/%Y}
        Date                    {_utc(charge.start):%m/%d/%Y}
        ProductName             Virtual Machines {kind}
        MeterCategory           Virtual Machines
        MeterSubCategory        NCads A100 v4 Series
        MeterName               NC24ads A100 v4{spot}
        MeterId                 55555555-4444-3333-2222-111111111118
        UnitOfMeasure           1 Hour
        Quantity                {float(charge.hours):.10f}
        CostInBillingCurrency   {charge.cost}
        BillingCurrency         USD
        ResourceId              {scale_set.upper()}
        ResourceLocation        {charge.node["region"]}
        ChargeType              Usage
        PricingModel            {models.get(charge.option, "OnDemand")}
        ReservationId           {"a-reservation" if charge.is_covered else ""}
        AdditionalInfo          {json.dumps(info)}
        Tags                    "aks-managed-poolName": "gpu"
    """)
    disk = columns("""
        MeterCategory          Storage
        MeterName              P10 LRS Disk
        CostInBillingCurrency  0.6
        PricingModel           OnDemand
        ReservationId
    """)
    return [row, row | disk]


def focus(charges: Iterable[Charge]) -> str:
    """Return AWS's FOCUS 1.0 export as CSV."""
    return csv_text([row for charge in charges for row in _focus_rows(charge)])


def _focus_rows(charge: Charge) -> list[Cells]:
    kind, covered, region = charge.node["instance_type"], charge.is_covered, charge.node["region"]
    usage = _USAGE.get(charge.option, "BoxUsage")
    commitments = {"savings_plan": ("Spend", "Savings Plan"), "reservation": ("Usage", "Reserved Instance")}
    category, commitment = commitments.get(charge.option, ("", ""))
    row = columns(f"""
        BilledCost                  {0 if covered else charge.cost}
        EffectiveCost               {charge.cost}
        ListCost                    {charge.list_cost}
        BillingAccountId            {PAYER}
        SubAccountId                {ACCOUNT}
        BillingCurrency             USD
        BillingPeriodStart          {_utc(charge.start):%Y-%m-01T00:00:00Z}
        BillingPeriodEnd            {_utc(charge.start + 31 * DAY):%Y-%m-01T00:00:00Z}
        ChargeCategory              Usage
        ChargeDescription           {usage} {kind} Instance Hour
        ChargePeriodStart           {_utc(charge.start):%Y-%m-%dT%H:%M:%SZ}
        ChargePeriodEnd             {_utc(charge.start + charge.length):%Y-%m-%dT%H:%M:%SZ}
        CommitmentDiscountId        {PLAN if covered else ""}
        CommitmentDiscountStatus    {"Used" if covered else ""}
        CommitmentDiscountCategory  {category}
        CommitmentDiscountType      {commitment}
        ConsumedQuantity            {float(charge.hours):.10f}
        ConsumedUnit                Hours
        PricingCategory             {"Committed" if covered else "Dynamic" if charge.option == "spot" else "Standard"}
        ProviderName                AWS
        RegionId                    {region}
        ResourceId                  arn:aws:ec2:{region}:{ACCOUNT}:instance/{charge.instance_id}
        ResourceType                Instance
        ServiceCategory             Compute
        ServiceName                 Amazon Elastic Compute Cloud
        x_UsageType                 USW2-{usage}:{kind}
    """)
    disk = columns("""
        ServiceCategory    Storage
        ChargeDescription  gp3
        x_UsageType        USW2-EBS:VolumeUsage.gp3
        ConsumedUnit       GB-Months
        BilledCost         0.07
        EffectiveCost      0.07
    """)
    return [row, row | disk]


def _utc(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
