"""AWS' list prices: the price list, Savings Plans, and what EC2 says of its instance types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from gpucost.collect import aws
from gpucost.collect.login import NoCredentials
from gpucost.collect.prices import aws_bulk
from gpucost.collect.prices.aws_products import AGAIN, WANTED, plan_price, product_prices
from gpucost.collect.prices.aws_types import accelerated
from gpucost.collect.prices.base import PriceCollector, one_of_each
from gpucost.collect.prices.known import known_types
from gpucost.collect.prices.public import PublicList
from gpucost.errors import SourceError
from gpucost.store.list_prices import InstanceType, ListPrice, ProviderPrices

if TYPE_CHECKING:
    import boto3

_ELSE = "us-east-1"
_TYPES_PER_REQUEST = 50
_PERMISSIONS = "pricing:GetProducts, savingsplans:DescribeSavingsPlansOfferingRates and ec2:DescribeInstanceTypes"
_PAGES = 10_000  # no answer has as many: a server that repeats itself is left


class AwsPrices(PriceCollector):
    """On-demand, reserved and Savings Plans prices of every accelerated instance type, region by region."""

    provider: ClassVar[str] = "aws"

    def fetch(self) -> ProviderPrices:
        regions = self.regions or self.config.aws.regions or self.seen or [_ELSE]
        try:
            session = aws.logged_in(self.config.aws)
        except NoCredentials:
            return self._public(regions)
        with aws.in_words(self.provider, AGAIN, _PERMISSIONS):
            prices: list[ListPrice] = []
            types: dict[str, InstanceType] = {}
            for region in regions:
                self.tell(f"{region}: instance types")
                here = list(self._types(session, region))
                types |= {item.instance_type: item for item in here}
                names = {*known_types("aws"), *types}
                found = [*self._products(session, region, names), *self._plans(session, region, names)]
                prices += _not_none(found, region)
        return ProviderPrices("aws", regions, one_of_each(prices), instance_types=list(types.values()))

    def _public(self, regions: Sequence[str]) -> ProviderPrices:
        """Without a login: the bulk lists, hundreds of megabytes a region, of the instance types that the catalog knows."""
        public = PublicList(self.provider, "the bulk price list", "[aws] price_list_url")
        server, names = self.config.aws.price_list_url, set(known_types("aws"))
        prices: list[ListPrice] = []
        for region in regions:
            self.tell(f"{region}: no login; the public price list, which is long")
            found = aws_bulk.product_prices(public, server, region, names, self.day)
            self.tell(f"{region}: no login; the public list of Savings Plans, which is long")
            prices += _not_none([*found, *aws_bulk.plan_prices(public, server, region, names)], region)
        return ProviderPrices("aws", regions, one_of_each(prices))

    def _types(self, session: boto3.Session, region: str) -> Iterator[InstanceType]:
        pages = aws.client(session, self.config.aws, "ec2", region).get_paginator("describe_instance_types").paginate()
        for page in pages:
            for said in _part(page, "InstanceTypes", "describe_instance_types"):
                if found := accelerated(said):
                    yield found

    def _products(self, session: boto3.Session, region: str, names: set[str]) -> Iterator[ListPrice]:
        client = aws.client(session, self.config.aws, "pricing", _price_list_region(region))
        asked = {**WANTED, "regionCode": region}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in asked.items()]
        more: dict[str, str] = {}
        for page in range(1, _PAGES):
            self.tell(f"{region}: price list, page {page}")
            answer = client.get_products(ServiceCode="AmazonEC2", FormatVersion="aws_v1", Filters=filters, **more)
            for text in _part(answer, "PriceList", "get_products"):
                yield from product_prices(text, region, names, self.day)
            if not answer.get("NextToken"):
                return
            more = {"NextToken": answer["NextToken"]}
        raise SourceError(f"aws: the price list of {region} has no end")

    def _plans(self, session: boto3.Session, region: str, names: set[str]) -> Iterator[ListPrice]:
        client = aws.client(session, self.config.aws, "savingsplans", _price_list_region(region))
        ordered = sorted(names)
        for start in range(0, len(ordered), _TYPES_PER_REQUEST):
            filters = {
                "region": [region],
                "tenancy": ["shared"],
                "productDescription": ["Linux/UNIX"],
                "instanceType": ordered[start : start + _TYPES_PER_REQUEST],
            }
            for rate in self._rates(client, region, [{"name": name, "values": values} for name, values in filters.items()]):
                if (price := plan_price(rate, names)) and price.region == region:
                    yield price

    def _rates(self, client: Any, region: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        more: dict[str, str] = {}
        for page in range(1, _PAGES):
            self.tell(f"{region}: Savings Plans, page {page}")
            answer = client.describe_savings_plans_offering_rates(
                savingsPlanTypes=["Compute", "EC2Instance"],
                products=["EC2"],
                serviceCodes=["AmazonEC2"],
                filters=filters,
                maxResults=1000,
                **more,
            )
            yield from _part(answer, "searchResults", "describe_savings_plans_offering_rates")
            if not answer.get("nextToken"):
                return
            more = {"nextToken": answer["nextToken"]}
        raise SourceError(f"aws: the Savings Plans of {region} have no end")


def _not_none(found: list[ListPrice], region: str) -> list[ListPrice]:
    if any(price.purchase_option == "on_demand" for price in found):
        return found
    raise SourceError(
        f"aws: there are no prices of GPU instances in {region}",
        f"gpucost collect prices --provider aws --region {_ELSE}, or name other regions under [aws]",
    )


def _part(answer: Mapping[str, Any], name: str, operation: str) -> Any:
    """`answer[name]`. botocore takes JSON that breaks off for an answer without content: then SourceError."""
    if name not in answer:
        raise aws.half(AwsPrices.provider, AGAIN, operation)
    return answer[name]


def _price_list_region(region: str) -> str:
    """Where the price list of a region is served: in one place per partition."""
    return "cn-northwest-1" if region.startswith("cn-") else "us-east-1"
