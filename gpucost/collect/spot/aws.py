"""AWS: ec2.describe_spot_price_history, one region after the other, 90 days back at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.collect import aws
from gpucost.collect.spot.base import HISTORY, BadFact, price_of_row
from gpucost.errors import SourceError
from gpucost.periods import from_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpucost.config.model import Aws
    from gpucost.store.prices import SpotPrice
    from gpucost.store.runs import Span

SOURCE = "aws"
FALLBACK_REGION = "us-east-1"
PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# An EC2 request takes this many values of a filter.
_TYPES_AT_ONCE = 200
_AGAIN = "gpucost collect spot"


class AwsSpot:
    """Spot prices of AWS. Raises NoCredentials where boto3 finds none, ConfigError for a profile that does not exist."""

    def __init__(self, settings: Aws, instance_types: list[str]) -> None:
        self._settings = settings
        self._types = instance_types
        self._session = aws.logged_in(settings)

    def fetch(self, region: str, span: Span) -> list[SpotPrice]:
        """Changes of Linux prices of all accelerated types in [span), and those in force at its start.

        Raises SourceError where AWS refuses, does not answer, or answers what cannot be used.
        """
        with aws.in_words(source_of(region), _AGAIN, "ec2:DescribeSpotPriceHistory"):
            client = aws.client(self._session, self._settings, "ec2", region)
            return [self._price(row, region) for row in self._rows(client, span)]

    def _rows(self, client: Any, span: Span) -> Iterator[dict[str, Any]]:
        paginator = client.get_paginator("describe_spot_price_history")
        for first in range(0, len(self._types), _TYPES_AT_ONCE):
            # A filter, unlike InstanceTypes, takes types that the region does not know.
            types = self._types[first : first + _TYPES_AT_ONCE]
            pages = paginator.paginate(
                StartTime=from_ms(span[0]),
                EndTime=from_ms(span[1]),
                ProductDescriptions=list(PRODUCTS),
                Filters=[{"Name": "instance-type", "Values": types}],
                PaginationConfig={"PageSize": 1000},
            )
            for page in pages:
                yield from page[HISTORY]

    @staticmethod
    def _price(row: dict[str, Any], region: str) -> SpotPrice:
        try:
            at = row.get("Timestamp")
            price = price_of_row(row | {"Timestamp": at.isoformat() if at else ""}, SOURCE)
            return price._replace(region=region, source=source_of(region))
        except BadFact as error:
            raise SourceError(
                f"{source_of(region)}: the answer cannot be used: {error}; nothing of the region was loaded", _AGAIN
            ) from None


def source_of(region: str) -> str:
    """What the store calls a region's price history."""
    return f"{SOURCE} {region}"
