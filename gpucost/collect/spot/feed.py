"""The EC2 spot data feed: what each spot instance of an account cost, hour by hour.

Format: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-data-feeds.html. A line stands for one hour of one
instance; Timestamp is the moment whose market price it pays, MarketPrice that price. Hours of an instance follow each
other, so the price is taken to hold for the hour that begins there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpucost.collect.spot.facts import BadFact, moment_of, price_of
from gpucost.collect.spot.places import region_of_usage
from gpucost.errors import DataError
from gpucost.model import MS_PER_HOUR
from gpucost.store.spot_prices import SpotPrice

FIELDS = ("Timestamp", "UsageType", "Operation", "InstanceID", "MyBidID", "MyMaxPrice", "MarketPrice", "Charge", "Version")
_FIX = "fetch the file again from the bucket of the data feed"

# Fields stand apart by a tab, or by spaces where the file was copied from a page.
_AMOUNT = r"(\S+)(?: ([A-Z]{3}))?"
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+"
    + r"\s+".join((_AMOUNT, _AMOUNT, _AMOUNT))
    + r"\s+(\d+)\s*"
)
_USAGE = re.compile(r"(?:([A-Z0-9]+)-)?SpotUsage(?::(\S+))?")

# Codes behind "RunInstances:", with SV and three digits for spot left out. Source: AWS documentation, "Platform details
# and usage operation values", 2026-11.
_PRODUCTS = {
    "": "Linux/UNIX",
    "0002": "Windows",
    "000g": "SUSE Linux",
    "0010": "Red Hat Enterprise Linux",
}


class _Row(NamedTuple):
    version: int
    price: SpotPrice


def is_feed(text: str) -> bool:
    """Whether a file begins as the data feed does."""
    return text.startswith(("#Version", "#Fields"))


def parse(name: str, text: str, source: str) -> list[SpotPrice]:
    """All hours in a file, corrected versions of an hour after the older ones.

    Raises DataError, naming file and line, where any of it cannot be used.
    """
    rows: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("#Fields:") and tuple(line.removeprefix("#Fields:").split()) != FIELDS:
                raise BadFact(f"the fields are not {' '.join(FIELDS)}")
            if line.strip() and not line.startswith("#"):
                rows.append(_row(line, source))
        except BadFact as error:
            raise DataError(f"{name}: line {number}: {error}; nothing was loaded", _FIX) from None
    return [row.price for row in sorted(rows, key=lambda row: row.version)]


def _row(line: str, source: str) -> _Row:
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadFact(f"{len(FIELDS)} fields are expected in {line[:60]!r}")
    at, usage, operation, instance_id = found.group(1, 2, 3, 4)
    market, currency = found.group(8, 9)
    type_of = _USAGE.fullmatch(usage)
    if type_of is None:
        raise BadFact(f"UsageType {usage!r} is no usage of a spot instance")
    at_ms = moment_of("Timestamp", at)
    region = region_of_usage(type_of[1] or "")
    price = SpotPrice(
        provider="aws",
        region=region,
        zone="",
        instance_type=type_of[2] or "m1.small",  # the one type whose usage is not told apart
        product=_product(operation),
        instance_id=instance_id,
        at_ms=at_ms,
        to_ms=at_ms + MS_PER_HOUR,
        price=price_of("MarketPrice", market),
        currency=currency or "USD",
        source=f"{source} {region}",
    )
    return _Row(int(found[12]), price)


def _product(operation: str) -> str:
    """The product in the words of the price history; an operation that is not known stays as it is."""
    codes = [code for code in operation.split(":")[1:] if not re.fullmatch(r"SV\d+", code)]
    return _PRODUCTS.get(":".join(codes), operation)
