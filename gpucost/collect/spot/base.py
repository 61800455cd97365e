"""Facts of spot prices, from servers or files: prices, times and AWS regions."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from gpucost.periods import to_ms
from gpucost.store.prices import SpotPrice

_PRICE = re.compile(r"\d{1,9}(?:\.\d{1,12}0*)?")
_EPOCH = datetime(1970, 1, 2, tzinfo=UTC)


class BadFact(ValueError):
    """An unusable field; the message names field and value."""


def text_of(fields: dict[str, object], name: str) -> str:
    """A required text field. Raises BadFact."""
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadFact(f"{name} is missing" if value in (None, "") else f"{name} is {value!r}, not text")
    return value.strip()


def price_of(name: str, text: str) -> str:
    """A price per hour above zero, as decimal digits. Raises BadFact."""
    if not _PRICE.fullmatch(text) or not text.strip("0."):
        raise BadFact(f"{name} {text!r} is not a price above zero")
    return text


def moment_of(name: str, text: str) -> int:
    """Milliseconds since 1970-01-01T00:00Z; a time without an offset is UTC. Raises BadFact."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if moment < _EPOCH:
            raise ValueError
        return to_ms(moment)
    except (ValueError, OverflowError):
        raise BadFact(f"{name} {text!r} is not a time") from None


# AWS' prefixes of usage types: "USW2-SpotUsage:p3.2xlarge". us-east-1 has no prefix. Source: the region
# billing codes of the AWS Billing documentation, 2026-11; EUW1 and CPT are spellings from bills.
_USAGE_PREFIXES = """
    USE1 us-east-1
    USE2 us-east-2
    USW1 us-west-1
    USW2 us-west-2
    UGW1 us-gov-west-1
    UGE1 us-gov-east-1
    CAN1 ca-central-1
    CAN2 ca-west-1
    MXC1 mx-central-1
    SAE1 sa-east-1
    EU eu-west-1
    EUW1 eu-west-1
    EUW2 eu-west-2
    EUW3 eu-west-3
    EUC1 eu-central-1
    EUC2 eu-central-2
    EUN1 eu-north-1
    EUS1 eu-south-1
    EUS2 eu-south-2
    APE1 ap-east-1
    APE2 ap-east-2
    APN1 ap-northeast-1
    APN2 ap-northeast-2
    APN3 ap-northeast-3
    APS1 ap-southeast-1
    APS2 ap-southeast-2
    APS3 ap-south-1
    APS4 ap-southeast-3
    APS5 ap-south-2
    APS6 ap-southeast-4
    APS7 ap-southeast-5
    APS8 ap-southeast-6
    APS9 ap-southeast-7
    AFS1 af-south-1
    CPT af-south-1
    ILC1 il-central-1
    MES1 me-south-1
    MEC1 me-central-1
"""
USAGE_PREFIXES = {"": "us-east-1"} | dict(line.split() for line in _USAGE_PREFIXES.strip().splitlines())

AWS_REGIONS = frozenset(USAGE_PREFIXES.values())

# us-east-1c, us-gov-west-1a; local and Wavelength zones (us-west-2-lax-1a) begin with the name of their
# region.
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d+(?=[a-z]$|-)")


def region_of_zone(zone: str) -> str | None:
    """The AWS region of a zone's name; None if it is not a zone's name."""
    region = _REGION.match(zone)
    return region[0] if region else None


HISTORY = "SpotPriceHistory"


def price_of_row(row: Any, source: str) -> SpotPrice:
    """One change of a market price; its source is `source` and the region. Raises BadFact."""
    if not isinstance(row, dict):
        raise BadFact(f"{json.dumps(row, default=str)[:60]} is not a price change")
    zone = text_of(row, "AvailabilityZone")
    region = region_of_zone(zone)
    if region is None:
        raise BadFact(f"AvailabilityZone {zone!r} contains no region")
    return SpotPrice(
        provider="aws",
        region=region,
        zone=zone,
        instance_type=text_of(row, "InstanceType"),
        product=text_of(row, "ProductDescription"),
        at_ms=moment_of("Timestamp", text_of(row, "Timestamp")),
        price=price_of("SpotPrice", text_of(row, "SpotPrice")),
        source=f"{source} {region}",
    )
