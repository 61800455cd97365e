"""AWS list prices: the price list, Savings Plans, and EC2's instance types."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.clouds import HALF, aws_client, aws_in_words, aws_login
from gpucost.collect.prices.base import (
    HOURS_PER_YEAR,
    PriceCollector,
    again,
    gpu_memory_mib,
    gpu_model,
    read_as,
    types_in_catalog,
    without_duplicates,
)
from gpucost.errors import SourceError
from gpucost.inputs import JsonObject
from gpucost.store.prices import InstanceType, ListPrice, ProviderPrices

if TYPE_CHECKING:
    import boto3


PRODUCTS = "aws pricing get_products"
RATES = "aws savingsplans describe_savings_plans_offering_rates"

_SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600

# Attributes of a plain instance. Other products are another system, tenancy or licence, or an unused
# reservation.
WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
}
AGAIN = again("aws")
_TERMS = {"1yr": 1, "3yr": 3}
_PAYMENTS = {"No Upfront": "no_upfront", "Partial Upfront": "partial_upfront", "All Upfront": "all_upfront"}
_KINDS = ("OnDemand", "Reserved")
_PLANS = {"Compute": "compute", "EC2Instance": "ec2_instance"}


def product_prices(text: str, region: str, instance_types: Collection[str], day: date) -> Iterator[ListPrice]:
    """The on-demand and reserved prices of one product of get_products, in JSON.

    None unless it is a plain Linux instance of `instance_types`. Raises SourceError if the text is not such a
    product.
    """
    with read_as(f"aws: cannot read a product of {region}: incomplete answer", AGAIN):
        product = json.loads(text)
        attributes = product["product"]["attributes"]
        if is_plain(attributes, region, instance_types):
            for kind in _KINDS:
                for term in product["terms"].get(kind, {}).values():
                    yield from _term_prices(region, attributes["instanceType"], kind, term, day)


def is_plain(attributes: Mapping[str, str], region: str, instance_types: Collection[str]) -> bool:
    """Whether a product is the plain Linux instance of one of `instance_types` in `region`."""
    if attributes.get("regionCode", region) != region or attributes.get("instanceType") not in instance_types:
        return False
    # Capacity blocks and the like have the same attributes as the plain instance.
    if (attributes.get("marketoption") or "OnDemand") != "OnDemand":
        return False
    return all(attributes.get(name) == value for name, value in WANTED.items())


def _term_prices(region: str, name: str, kind: str, term: JsonObject, day: date) -> Iterator[ListPrice]:
    """The hourly prices of a term that has begun, one per currency; upfront payments are spread over its
    hours.

    Raises ValueError, KeyError or TypeError if they cannot be read.
    """
    started = datetime.fromisoformat(term["effectiveDate"]).date()
    if started > day:
        return
    option, years, payment, offering = "on_demand", 0, "", ""
    if kind == "Reserved":
        commitment = term["termAttributes"]
        option, offering = "reserved", commitment["OfferingClass"]
        years, payment = _TERMS[commitment["LeaseContractLength"]], _PAYMENTS[commitment["PurchaseOption"]]
    hours = {"Hrs": 1, "Quantity": years * HOURS_PER_YEAR}
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for dimension in term["priceDimensions"].values():
        for currency, amount in dimension["pricePerUnit"].items():
            sums[currency] += Decimal(amount) / hours[dimension["unit"]]
    for currency, price in sums.items():
        if price > 0:
            yield ListPrice(
                region,
                name,
                option,
                price,
                currency,
                PRODUCTS,
                years,
                payment,
                offering,
                effective_start=started,
            )


def plan_price(rate: JsonObject, instance_types: Collection[str]) -> ListPrice | None:
    """The price of one rate of describe_savings_plans_offering_rates; None unless it is a plain Linux
    instance.

    A plan's rate is its commitment's charge per hour, including upfront payments. Raises SourceError if the
    rate cannot be read.
    """
    with read_as("aws: cannot read a Savings Plans rate", AGAIN):
        offering = rate["savingsPlanOffering"]
        properties = {item["name"]: item["value"] for item in rate["properties"]}
        plan = _PLANS.get(offering["planType"])
        price = Decimal(str(rate["rate"]))
        name, usage = properties["instanceType"], rate["usageType"]
        is_plain_use = rate["unit"] == "Hrs" and rate["operation"] == "RunInstances" and "BoxUsage" in usage
        # The unused part of a reservation has its own usage type.
        is_wanted = is_plain_use and "UnusedBox" not in usage and name in instance_types
        if not is_wanted or plan is None or price <= 0:
            return None
        years = round(int(offering["durationSeconds"]) / _SECONDS_PER_YEAR)
        payment, currency = _PAYMENTS[offering["paymentOption"]], offering["currency"]
        return ListPrice(
            properties["region"], name, "savings_plan", price, currency, RATES, years, payment, plan
        )


SOURCE = "aws ec2 describe_instance_types"

# EC2's places of each kind of accelerator. Inferentia is in two of them; the first is enough.
_PLACES = (
    ("GpuInfo", "Gpus"),
    ("NeuronInfo", "NeuronDevices"),
    ("InferenceAcceleratorInfo", "Accelerators"),
    ("MediaAcceleratorInfo", "Accelerators"),
)


def accelerated(described: JsonObject) -> InstanceType | None:
    """One instance type of describe_instance_types; None without accelerators."""
    devices = next(
        (described[info][kind] for info, kind in _PLACES if described.get(info, {}).get(kind)), None
    )
    if not devices:
        return None
    device, name = devices[0], described["InstanceType"]
    known_type = types_in_catalog("aws").get(name)
    memory = device.get("MemoryInfo", {}).get("SizeInMiB")
    # EC2 has one name for the A100 of 40 and of 80 GB.
    sized = [] if memory is None else [f"{device['Name']}-{round(memory / 1024)}GB"]
    model = known_type.gpu_model if known_type else gpu_model(*sized, device["Name"])
    return InstanceType(
        instance_type=name,
        gpu_model=model,
        gpu_count=_count(name, devices, model),
        gpu_memory_mib=memory,
        vcpus=described.get("VCpuInfo", {}).get("DefaultVCpus"),
        memory_gib=described["MemoryInfo"]["SizeInMiB"] / 1024 if "MemoryInfo" in described else None,
        source=SOURCE,
    )


def _count(name: str, devices: list[JsonObject], model: str) -> float:
    """The number of GPUs, including fractions. A fraction (g6f) is reported with a count of 0.

    Its size is then the partition's, otherwise the catalog's, otherwise its share of a GPU's memory.
    """
    if count := sum(int(device.get("Count") or 0) for device in devices):
        return float(count)
    if parts := sum(
        float(d.get("LogicalGpuCount") or 0) * float(d.get("GpuPartitionSize") or 0) for d in devices
    ):
        return parts
    if known_type := types_in_catalog("aws").get(name):
        return float(known_type.gpu_count)
    memory, whole = devices[0].get("MemoryInfo", {}).get("SizeInMiB"), gpu_memory_mib(model)
    # Partitions are eighths: memory is a little less than its share.
    return max(1, round(8 * memory / whole)) / 8 if memory and whole else 1.0


_ELSE = "us-east-1"
_TYPES_PER_REQUEST = 50
_PERMISSIONS = (
    "pricing:GetProducts, savingsplans:DescribeSavingsPlansOfferingRates and ec2:DescribeInstanceTypes"
)
_PAGES = 10_000  # no answer has as many pages; stops a server that repeats itself


class AwsPrices(PriceCollector):
    """On-demand, reserved and Savings Plans prices of every accelerated instance type, by region."""

    provider = "aws"

    def fetch(self) -> ProviderPrices:
        regions = self.regions or self.config.aws.regions or self.seen or [_ELSE]
        session = aws_login(self.config.aws)
        with aws_in_words(self.provider, AGAIN, _PERMISSIONS):
            prices = []
            types: dict[str, InstanceType] = {}
            for region in regions:
                self.show_progress(f"{region}: instance types")
                types |= {item.instance_type: item for item in self._types(session, region)}
                names = {*types_in_catalog("aws"), *types}
                in_region = [*self._products(session, region, names), *self._plans(session, region, names)]
                if all(price.purchase_option != "on_demand" for price in in_region):
                    raise SourceError(
                        f"aws: no prices of GPU instances in {region}",
                        f"gpucost collect prices --provider aws --region {_ELSE}, or set other regions in [aws]",
                    )
                prices += in_region
        return ProviderPrices("aws", regions, without_duplicates(prices), instance_types=list(types.values()))

    def _types(self, session: boto3.Session, region: str) -> Iterator[InstanceType]:
        client = aws_client(session, self.config.aws, "ec2", region)
        for page in client.get_paginator("describe_instance_types").paginate():
            for described in _part(page, "InstanceTypes", "describe_instance_types"):
                if kind := accelerated(described):
                    yield kind

    def _products(self, session: boto3.Session, region: str, names: set[str]) -> Iterator[ListPrice]:
        self.show_progress(f"{region}: price list")
        client = aws_client(session, self.config.aws, "pricing", _price_list_region(region))
        wanted = {**WANTED, "regionCode": region}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
        pages = client.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2", FormatVersion="aws_v1", Filters=filters
        )
        for page in pages:
            for text in _part(page, "PriceList", "get_products"):
                yield from product_prices(text, region, names, self.day)

    def _plans(self, session: boto3.Session, region: str, names: set[str]) -> Iterator[ListPrice]:
        self.show_progress(f"{region}: Savings Plans")
        client = aws_client(session, self.config.aws, "savingsplans", _price_list_region(region))
        ordered = sorted(names)
        for start in range(0, len(ordered), _TYPES_PER_REQUEST):
            filters = {
                "region": [region],
                "tenancy": ["shared"],
                "productDescription": ["Linux/UNIX"],
                "instanceType": ordered[start : start + _TYPES_PER_REQUEST],
            }
            for rate in self._rates(client, filters):
                if (price := plan_price(rate, names)) and price.region == region:
                    yield price

    def _rates(self, client: Any, filters: dict[str, list[str]]) -> Iterator[JsonObject]:
        more: dict[str, str] = {}
        for _ in range(_PAGES):
            answer = client.describe_savings_plans_offering_rates(
                savingsPlanTypes=["Compute", "EC2Instance"],
                products=["EC2"],
                serviceCodes=["AmazonEC2"],
                filters=[{"name": name, "values": values} for name, values in filters.items()],
                maxResults=1000,
                **more,
            )
            yield from _part(answer, "searchResults", "describe_savings_plans_offering_rates")
            if not answer.get("nextToken"):
                return
            more = {"nextToken": answer["nextToken"]}
        raise SourceError("aws: the Savings Plans pages do not end")


def _part(answer: JsonObject, name: str, operation: str) -> Any:
    """`answer[name]`. Raises SourceError without it: botocore accepts truncated JSON as an empty answer."""
    if name not in answer:
        raise SourceError(f"aws: {HALF.replace(',', f' of {operation},', 1)}", AGAIN)
    return answer[name]


def _price_list_region(region: str) -> str:
    """The endpoint of a region's price list: one per partition."""
    return "cn-northwest-1" if region.startswith("cn-") else "us-east-1"
