"""Which region a zone or a line of an AWS bill names."""

from __future__ import annotations

import re

# What AWS puts before a usage type: "USW2-SpotUsage:p3.2xlarge". us-east-1 has nothing there.
# Source: the region billing codes of the AWS Billing documentation, 2026-11; EUW1 and CPT are spellings met in bills.
USAGE_PREFIXES = {
    "": "us-east-1", "USE1": "us-east-1", "USE2": "us-east-2", "USW1": "us-west-1", "USW2": "us-west-2",
    "UGW1": "us-gov-west-1", "UGE1": "us-gov-east-1", "CAN1": "ca-central-1", "CAN2": "ca-west-1", "MXC1": "mx-central-1",
    "SAE1": "sa-east-1", "EU": "eu-west-1", "EUW1": "eu-west-1", "EUW2": "eu-west-2", "EUW3": "eu-west-3",
    "EUC1": "eu-central-1", "EUC2": "eu-central-2", "EUN1": "eu-north-1", "EUS1": "eu-south-1", "EUS2": "eu-south-2",
    "APE1": "ap-east-1", "APE2": "ap-east-2", "APN1": "ap-northeast-1", "APN2": "ap-northeast-2", "APN3": "ap-northeast-3",
    "APS1": "ap-southeast-1", "APS2": "ap-southeast-2", "APS3": "ap-south-1", "APS4": "ap-southeast-3", "APS5": "ap-south-2",
    "APS6": "ap-southeast-4", "APS7": "ap-southeast-5", "APS8": "ap-southeast-6", "APS9": "ap-southeast-7",
    "AFS1": "af-south-1", "CPT": "af-south-1", "ILC1": "il-central-1", "MES1": "me-south-1", "MEC1": "me-central-1",
}  # fmt: skip

AWS_REGIONS = frozenset(USAGE_PREFIXES.values())

# us-east-1c, us-gov-west-1a; local and Wavelength zones (us-west-2-lax-1a) belong to the region they begin with.
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d+(?=[a-z]$|-)")


def region_of_zone(zone: str) -> str | None:
    """The AWS region that a zone's name begins with; None where it is no zone's name."""
    found = _REGION.match(zone)
    return found[0] if found else None


def region_of_usage(prefix: str) -> str:
    """The AWS region of a usage type's prefix; a prefix that is not known stays as it is, so that nothing is lost."""
    return USAGE_PREFIXES.get(prefix, prefix)
