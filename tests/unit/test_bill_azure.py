"""Azure's cost exports: each mapping rule, on small files with the columns of every agreement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpucost.errors import DataError
from tests.text_tables import columns, titled, words
from tests.unit.bills import Bills, Charge, Row, check_scene, csv_text, scene

SUB = "/subscriptions/11111111-aaaa-bbbb-cccc-000000000001"
SET = f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1-vmss"
INFO = {
    **words("UsageType=ComputeHR ServiceType=Standard_NC24ads_A100_v4 VMName=aks-gpu-1-vmss_3"),
    "VCPUs": 24,
}
#: A row of an Enterprise agreement's export: a machine of an AKS node pool for a day.
ROW = """
    SubscriptionName=ml ResourceLocation="US East" Date=03/05/2026 ProductName= MeterCategory="Virtual Machines"
    MeterSubCategory="NCads A100 v4 Series" MeterId=m-1 MeterName="NC24ads A100 v4" UnitOfMeasure="10 Hours" Quantity=24
    EffectivePrice=3.673 CostInBillingCurrency=88.152 ConsumedService=Microsoft.Compute Tags='{"aks-managed-poolName": "gpu"}'
    ReservationId= ReservationName= ChargeType=Usage PricingModel=OnDemand Frequency=UsageBased BillingAccountId=4711
    BillingCurrencyCode=USD BillingPeriodStartDate=03/01/2026 BillingPeriodEndDate=03/31/2026"""


def row(**changed: str) -> Row:
    machine = words(f"SubscriptionId={SUB.rpartition('/')[2]} ResourceId={SET}")
    return words(ROW) | machine | {"AdditionalInfo": json.dumps(INFO)} | changed


#: Rows by the first word of a table row, and short names of columns.
ITEMS = columns("""
    machine
    covered PricingModel=Reservation ReservationId=ri-1
    bought PricingModel=Reservation ReservationId=ri-1 ChargeType=Purchase of= id= Quantity=1 AdditionalInfo= meter=RI
    license MeterCategory="Virtual Machines Licenses"
""")
COLUMNS = words(
    "cost=CostInBillingCurrency id=ResourceId of=MeterCategory meter=MeterName unit=UnitOfMeasure day=Date"
)


def item(text: str) -> Row:
    """A row from a word of ITEMS and its changed columns.

    `vm` is the machine's name in AdditionalInfo.
    """
    kind, _, changed = text.strip().partition(" ")
    cells = words(ITEMS[kind]) | words(changed.replace("SET", SET).replace("SUB", SUB))
    if "vm" in cells:
        cells["AdditionalInfo"] = json.dumps(INFO | {"VMName": cells.pop("vm") or None})
    return row(**{COLUMNS.get(name, name): value for name, value in cells.items()})


def load(bills: Bills, rows: list[Row], name: str = "cost.csv") -> list[Charge]:
    """Load rows as CSV, which must be accepted; return all charges."""
    bills.take(rows, name, provider="azure")
    return bills.charges()


def amortized() -> list[Row]:
    return scene(CASES["amortized cost is effective, and commitments have no billed cost"], item)[0]


def actual() -> list[Row]:
    return scene(CASES["actual cost alone gives covered machines no price"], item)[0]


#: Other names of columns, in files of a machine's row.
OLD_NAMES = words("""
    CostInBillingCurrency=PreTaxCost Date=UsageDateTime ResourceId=InstanceId Quantity=UsageQuantity BillingCurrencyCode=Currency
    SubscriptionId=SubscriptionGuid""")
MIXED_NAMES = words(
    "CostInBillingCurrency=costInBillingCurrency Date=date BillingCurrencyCode=billingCurrency"
)
RENAMED: dict[str, Any] = {
    "columns in camel case": lambda name: name[0].lower() + name[1:],
    "columns in capitals": str.upper,
    "columns of another language": lambda name: f"Irgendein Wort ({name})",
    "columns of an old agreement": lambda name: OLD_NAMES.get(name, name),
    "columns in mixed case": lambda name: MIXED_NAMES.get(name, name),
    "a row without a currency has the configured one": lambda name: name.replace(
        "BillingCurrencyCode", "Other"
    ),
}
#: Rows of a file, and the expected charges; SET is a scale set, KEY its id in lowercase.
CASES = titled("""
= a machine of a scale set has its Kubernetes name
machine | kind=instance machine=KEY/virtualmachines/3 hours=24 instance_type=Standard_NC24ads_A100_v4 region=eastus billed=88.152
    effective=88.152 tags='{"aks-managed-poolName": "gpu"}' charge_period_start=2026-03-05T00:00:00
    charge_period_end=2026-03-06T00:00:00 format=azure-cost
= the machine of a row; the resource id keeps its case
machine id=SUB/resourceGroups/Rg/providers/Microsoft.Compute/virtualMachines/GPU-1 AdditionalInfo=
    | resource_id=SUB/resourceGroups/Rg/providers/Microsoft.Compute/virtualMachines/GPU-1
machine vm=aks-gpu-1-vmss_12 | machine=KEY/virtualmachines/12
machine vm=                  | machine=KEY
machine vm=flex-vm-7 | machine=GROUP/virtualmachines/flex-vm-7
machine vm= id=SET/virtualMachines/5 | machine=KEY/virtualmachines/5
machine vm=VM-1 id=SUB/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachines/VM-1
    | machine=GROUP/virtualmachines/vm-1
= additional info and tags with and without braces
machine AdditionalInfo='"VMName": "aks-gpu-1-vmss_3", "UsageType": "ComputeHR"' Tags='"team": "nlp","cost center": "7"'
    | machine=KEY/virtualmachines/3 tags='{"cost center": "7", "team": "nlp"}'
machine AdditionalInfo='{"VMName":"aks-gpu-1-vmss_3"}' | machine=KEY/virtualmachines/3
= a row without a currency has the configured one
machine | billing_currency=EUR
= the period is the billing period, or the month of the day
machine day=02/28/2026 | billing_period=2026-03
machine day=02/27/2026 BillingPeriodStartDate= BillingPeriodEndDate= | billing_period=2026-02
= kinds of charges
machine of=Storage meter="P30 Disks" unit=1/Month             | kind=storage hours=-
machine of=Bandwidth meter="Data Transfer Out" unit="1 GB"    | kind=network hours=-
machine of="Load Balancer" unit="1 Hour"                      | kind=network hours=-
license meter="2 vCPU VM License"                             | kind=instance hours=- pricing_category=Standard
machine meter="NC24ads A100 v4 Spot"                          | kind=instance hours=24 pricing_category=Dynamic
machine meter=low PricingModel=Spot                           | kind=instance hours=24 pricing_category=Dynamic
machine ChargeType=Refund cost=-5                             | kind=refund hours=-
machine ChargeType=Tax cost=5                                 | kind=tax hours=-
machine of="Microsoft Support" ChargeType=Purchase            | kind=support hours=-
machine of="Azure Monitor" id=SUB/x/y/z AdditionalInfo=       | kind=other hours=-
machine id=SUB/resourceGroups/r/providers/Microsoft.Compute/capacityReservationGroups/g/capacityReservations/c
    | kind=reserved_unused hours=-
machine id=SUB/rsid2 of="Virtuelle Computer"                  | kind=instance hours=24
= a free license needs no explanation
machine                                   | cause=same
license meter="24 vCPU VM License" cost=0 | cause=same
= amortized cost is effective, and commitments have no billed cost
covered cost=40               | effective=40 billed=0 kind=instance cause=covered_usage commitment_discount_id=ri-1
    commitment_discount_type=Reservation format=azure-amortized
machine day=03/06/2026 cost=88 | effective=88 billed=88 kind=instance cause=same commitment_discount_id=- format=azure-amortized
    commitment_discount_type=-
covered ChargeType=UnusedReservation cost=10 id= | effective=10 billed=0 kind=commitment_unused cause=commitment_unused
    commitment_discount_id=ri-1 commitment_discount_type=Reservation format=azure-amortized
machine ChargeType=UnusedSavingsPlan cost=2 PricingModel=SavingsPlan benefitId=sp-1 | effective=2 billed=0 kind=commitment_unused
    cause=commitment_unused commitment_discount_id=sp-1 commitment_discount_type="Savings Plan" format=azure-amortized
= actual cost alone gives covered machines no price
covered cost=0                 | effective=0 kind=instance cause=zero_unexplained format=azure-actual
machine day=03/06/2026 cost=88 | effective=88 kind=instance cause=same format=azure-actual
bought cost=365                | effective=365 kind=commitment_fee cause=same format=azure-actual
= prices, invoices and commitments
# prices of another currency are left out
machine InvoiceId=G1 PayGPrice=4.5 UnitPrice=3.9 PartNumber=AAH-1 PricingCurrency=USD
    | invoice_id=G1 list_unit_price=4.5 contracted_unit_price=3.9 sku_price_id=AAH-1 commitment_discount_name=-
machine day=03/06/2026 InvoiceId=G1 PayGPrice=4.5 UnitPrice=3.9 PartNumber=AAH-1 PricingCurrency=EUR
    | invoice_id=G1 list_unit_price=- contracted_unit_price=- sku_price_id=AAH-1 commitment_discount_quantity=-
covered ReservationName=gpus | invoice_id=- list_unit_price=- contracted_unit_price=- sku_price_id=-
    commitment_discount_name=gpus commitment_discount_quantity=24 commitment_discount_unit='10 Hours'
= a row without cost
machine cost= of=Storage | billed=0""")
# the date format is detected for each file
DAYS = "3/5/2026|2026-03-05T00:00:00Z|05.03.2026|03/05/2026|2026-03-05|2026-03-05 00:00:00|20260305"
CASES |= {
    f"days in many ways: {day}": f"machine day='{day}' | charge_period_start=2026-03-05T00:00:00"
    for day in DAYS.split("|")
}
CASES |= {
    f"numbers of any language: {text}": f"machine cost={text} | billed={cost}"
    for text, cost in words("1234,5=1234.5 1.234,56=1234.56 1,234.56=1234.56 1E-05=0.00001").items()
}
SAME = (
    "machine | machine=KEY/virtualmachines/3 billed=88.152 billing_currency=USD "
    "sub_account_id=11111111-aaaa-bbbb-cccc-000000000001"
)
CASES = dict.fromkeys(RENAMED, SAME) | CASES
Loaded = tuple[set[str], dict[str, list[Charge]]]


@pytest.fixture(scope="module")
def loaded(module_path: Path) -> Loaded:
    """Each case in its own file and billing account: the findings, and the charges of each."""
    files = {}
    for number, (name, table) in enumerate(CASES.items(), 1):
        renamed = RENAMED.get(name, str)
        rows = [{renamed(column): value for column, value in one.items()} for one in scene(table, item)[0]]
        text = csv_text(rows).replace("00000001", f"{number:08}").replace("4711", f"9{number}")
        files[name] = ("\ufeff" if number % 2 else "") + text
    bills = Bills(module_path)
    run, charges = bills.cases(files, provider="azure", currency="EUR")
    for number, own_charges in enumerate(charges.values(), 1):
        for charge in own_charges:
            for column in ("instance_key", "resource_id", "sub_account_id"):
                charge[column] = charge[column] and charge[column].replace(f"{number:08}", "00000001")
    return {finding.code for finding in run.findings}, charges


@pytest.mark.parametrize("name", CASES)
def test_rows_have_their_cost_and_kind(loaded: Loaded, name: str) -> None:
    key = SET.lower()
    table = (
        CASES[name]
        .replace("SUB", SUB)
        .replace("KEY", key)
        .replace("GROUP", key.rpartition("/virtualmachinescalesets")[0])
    )
    check_scene(loaded[1][name], scene(table, str)[1])


def test_odd_rows_are_reported(loaded: Loaded) -> None:
    """Rows with only a scale set, rows without cost, actual without amortized cost, and days over 24
    hours."""
    assert loaded[0] == {"scale_set", "no_cost", "actual_only", "billed_twice"}


def test_unreadable_row_is_refused(bills: Bills) -> None:
    changes = {
        "the start of the charge": "machine day=31/12/2026 BillingPeriodStartDate=",
        "the billed cost": "machine cost=n/a",
        "the currency": "machine BillingCurrencyCode=",
    }
    files = {what: csv_text([row(), item(text)]) for what, text in changes.items()}
    for what, message in bills.refusals(files, "azure").items():
        assert message.startswith(f"row 2: {what} is empty or cannot be read")


def by_format(bills: Bills) -> list[tuple[Any, ...]]:
    """Charges, billed and effective cost."""
    return bills.store.query(
        "SELECT format, count(*), sum(billed_cost)::INT, sum(effective_cost)::INT FROM charges GROUP BY 1 ORDER BY 1"
    )[1]


def test_actual_and_amortized_costs_are_never_added(bills: Bills) -> None:
    """In either order, amortized costs are effective, and actual costs add the purchases of commitments."""
    for name, rows in (("a.csv", actual()), ("b.csv", amortized()), ("a.csv", actual())):
        load(bills, rows, name)
    assert by_format(bills) == [("azure-actual", 1, 365, 0), ("azure-amortized", 4, 88, 140)]
    assert bills.store.query("SELECT rows FROM bills ORDER BY format")[1] == [(1,), (4,)]


def test_unchanged_bill_reports_the_sums_of_its_remaining_rows(bills: Bills) -> None:
    """A later load of amortized costs deletes rows of actual costs."""
    for rows, name in ((actual(), "a.csv"), (amortized(), "b.csv")):
        load(bills, rows, name)
    results = bills.load(bills.directory / "a.csv", provider="azure").results
    sums = {"currency": "USD", "billed": 365, "effective": 0}
    assert ("unchanged", [sums]) in [(result.verdict, result.amounts) for result in results]


@pytest.mark.parametrize("month", ["03", "04"])
def test_amortized_cost_loaded_in_the_same_command_is_not_missing(bills: Bills, month: str) -> None:
    """Also for two exports with separate manifests; the amortized cost of another month is still missing."""

    def warned(*files: list[Row]) -> bool:
        paths = [bills.write(f"{n}{len(files)}.csv", csv_text(rows)) for n, rows in enumerate(files)]
        run = bills.loaded(*paths, provider="azure")
        return "actual_only" in {finding.code for finding in run.findings}

    own = {"BillingPeriodStartDate": f"{month}/01/2026"}
    other = [one | own | {"Date": one["Date"].replace("03/", f"{month}/")} for one in amortized()]
    assert warned(actual(), other) == (month == "04")
    assert not warned(amortized())


def test_actual_cost_without_amortized_days_or_accounts_stays(bills: Bills) -> None:
    load(bills, amortized(), "b.csv")
    load(bills, [*actual(), item("machine day=03/07/2026 cost=77")], "a.csv")
    assert by_format(bills) == [("azure-actual", 2, 442, 77), ("azure-amortized", 4, 88, 140)]
    load(bills, [row(SubscriptionId="other", ResourceId=SET.replace("0001", "0002"))], "c.csv")
    assert by_format(bills)[2:] == [("azure-cost", 1, 88, 88)]


def test_part_without_commitments_has_the_kind_of_its_directory(bills: Bills) -> None:
    bills.write("run/part_0.csv", csv_text(amortized()))
    bills.write("run/part_1.csv", csv_text([row(Date="03/20/2026")]))
    run = bills.load(bills.directory / "run", provider="azure")
    assert [(result.format, result.rows) for result in run.results] == [("azure-amortized", 5)]


def manifest(files: dict[str, bytes], submitted: str) -> str:
    blobs = [
        {"blobName": name, "byteCount": len(content), "dataRowCount": 1} for name, content in files.items()
    ]
    run = {"submittedTime": submitted, "startDate": "2026-03-01T00:00:00"}
    return json.dumps(
        {"manifestVersion": "2024-04-01", "runInfo": run, "blobCount": len(blobs), "blobs": blobs}
    )


def delivered(bills: Bills, run: str, rows: list[Row], *, cut: bool = False) -> None:
    """A run of an export, as Cost Management delivers it below its directory."""
    below = f"exports/daily/20260301-20260331/{run}/guid"
    content = csv_text(rows).encode()
    bills.write(f"{below}/000001.csv", content[: len(content) // 2] if cut else content)
    described = manifest({f"{below}/000001.csv": content}, f"2026-03-{run[6:8]}T05:00:00Z")
    bills.write(f"{below}/manifest.json", described)


def test_half_a_delivery_is_refused_and_the_last_run_of_a_month_wins(bills: Bills) -> None:
    delivered(bills, "202603050500", [row(), row(Date="03/06/2026")], cut=True)
    run = bills.load(bills.directory / "exports", provider="azure")
    assert " bytes in " in run.errors[0].message and not run.results
    delivered(bills, "202603050500", [row()])
    delivered(bills, "202603060500", [row(), row(Date="03/06/2026")])
    run = bills.loaded(bills.directory / "exports", provider="azure")
    assert [(result.source, result.rows) for result in run.results] == [("azure://exports/daily", 2)]
    delivered(bills, "202603070500", [row(CostInBillingCurrency="80")])
    bills.load(bills.directory / "exports", provider="azure")
    assert bills.sums() == [("azure://exports/daily", "2026-03", 1, 80.0, 80.0)]


def test_manifest_without_its_files_does_not_affect_others(bills: Bills) -> None:
    bills.write("cost.csv", csv_text([row()]))
    described = manifest(
        {"elsewhere/20260301-20260331/202603050500/g/000001.csv": b"x"}, "2026-03-05T00:00:00Z"
    )
    bills.write("manifest.json", described)
    run = bills.load(bills.directory, provider="azure")
    assert "is missing" in run.errors[0].message
    assert [result.rows for result in run.results] == [1]


ANSWER = """{"properties": {"columns": [{"name": "Cost"}, {"name": "UsageDate"}, {"name": "ResourceId"},
  {"name": "MeterCategory"}, {"name": "PricingModel"}, {"name": "Currency"}, {"name": "NewColumn"}], "rows": [
  [12.34, 20260305, "SET", "Virtual Machines", "OnDemand", "EUR", "?"],
  [0.1, 20260306, "SET/d", "Storage", "", "EUR", "?"]]}}"""


def test_saved_query_api_answer_loads_and_empty_answer_is_reported(bills: Bills) -> None:
    empty = '{"properties": {"columns": [{"name": "Cost"}, {"name": "UsageDate"}], "rows": []}}'
    run = bills.load(bills.write("answer.json", empty), provider="azure")
    assert isinstance(run.errors[0], DataError) and "without rows" in run.errors[0].message
    bills.take(ANSWER.replace("SET", SET), "answer.json", provider="azure")
    _, expected = scene(
        f"""
machine | billed=12.34 kind=instance billing_currency=EUR machine={SET.lower()}
disk    | billed=0.1 kind=storage""",
        str,
    )
    check_scene(bills.charges(), expected)


def test_dollar_column_is_not_used_for_another_currency(bills: Bills) -> None:
    dollars = csv_text([row(BillingCurrencyCode="EUR")]).replace("CostInBillingCurrency", "CostUSD")
    run = bills.load(bills.write("a.csv", dollars), provider="azure")
    assert "it resembles an Azure cost export, but lacks the columns cost" in run.errors[0].message
