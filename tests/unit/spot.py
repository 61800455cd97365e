"""Notations for price history answers and lines of the data feed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.text_tables import words

FEED_HEAD = "#Version: 1.0\n#Fields: Timestamp UsageType Operation InstanceID MyBidID MyMaxPrice MarketPrice Charge Version\n"


def at(day: str, hour: int = 0) -> datetime:
    return datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


def change(
    when: str,
    price: str,
    zone: str = "us-east-1a",
    instance_type: str = "p3.2xlarge",
    product: str = "Linux/UNIX",
) -> dict[str, Any]:
    return {
        "AvailabilityZone": zone, "InstanceType": instance_type, "ProductDescription": product, "SpotPrice": price,
        "Timestamp": when if "T" in when else f"{when}T00:00:00.000Z",
    }  # fmt: skip


def answer(changes: Sequence[dict[str, Any]], token: str = "") -> str:
    return json.dumps({"NextToken": token, "SpotPriceHistory": list(changes)}, indent=4)


def write(path: Path, *changes: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(answer(changes))
    return path


def feed_line(
    when: str, usage: str = "USW2-SpotUsage:p3.2xlarge", *, operation: str = "RunInstances:SV001", **more: str
) -> str:
    fields = words(
        "instance=i-0abc bid=sir-1 most='3.060 USD' market='1.234 USD' charge='0.617 USD' version=1"
    )
    fields |= more
    return "\t".join([f"{when} UTC", usage, operation, *fields.values()])
