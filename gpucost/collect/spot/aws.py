"""AWS: ec2.describe_spot_price_history, region by region, for at most 90 days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.clouds import aws_client, aws_in_words
from gpucost.collect.spot.base import HISTORY, BadFact, price_of_row
from gpucost.errors import SourceError
from gpucost.periods import Span, from_ms
from gpucost.store.prices import SpotAnswer

if TYPE_CHECKING:
    import boto3

    from gpucost.config.model import Aws

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# The maximum number of filter values in an EC2 request.
_TYPES_AT_ONCE = 200
_AGAIN = "gpucost collect spot"


def fetch(session: boto3.Session, settings: Aws, types: list[str], region: str, span: Span) -> SpotAnswer:
    """Linux price changes of all accelerated types in [span), and the prices at its start.

    Raises SourceError if AWS refuses, does not answer, or the answer cannot be used.
    """
    prices = []
    with aws_in_words(source_of(region), _AGAIN, "ec2:DescribeSpotPriceHistory"):
        paginator = aws_client(session, settings, "ec2", region).get_paginator("describe_spot_price_history")
        for first in range(0, len(types), _TYPES_AT_ONCE):
            pages = paginator.paginate(
                StartTime=from_ms(span[0]),
                EndTime=from_ms(span[1]),
                ProductDescriptions=list(PRODUCTS),
                # A filter, unlike InstanceTypes, accepts types that the region does not have.
                Filters=[{"Name": "instance-type", "Values": types[first : first + _TYPES_AT_ONCE]}],
                PaginationConfig={"PageSize": 1000},
            )
            try:
                for page in pages:
                    for row in page[HISTORY]:
                        at = row.get("Timestamp")
                        row |= {"Timestamp": at.isoformat() if at else ""}
                        prices.append(price_of_row(row, "aws"))
            except BadFact as error:
                message = f"{source_of(region)}: cannot use the answer: {error}; no prices of the region were loaded"
                raise SourceError(message, _AGAIN) from None
    return SpotAnswer(prices)


def source_of(region: str) -> str:
    """The name of a region's price history in the store."""
    return f"aws {region}"
