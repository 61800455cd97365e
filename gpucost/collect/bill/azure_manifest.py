"""Azure's manifests: which files one run of an export delivered. Of several runs of a month, the last one holds.

Source: Microsoft Learn, "Cost Management exports: file partitioning and manifest" (2026).
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

from gpucost.collect.bill.manifest import Manifest
from gpucost.collect.bill.trees import Entry

_RANGE = re.compile(r"^(\d{4})(\d{2})\d{2}-\d{8}$")
_RUN = re.compile(r"^\d{12}$")


def parse(text: bytes, entry: Entry) -> Manifest | None:
    """The manifest of an export run; None for any other JSON file, and for one whose period cannot be told."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("blobs"), list):
        return None
    blobs = [blob for blob in said["blobs"] if isinstance(blob, dict) and blob.get("blobName")]
    files = tuple(str(blob["blobName"]).lstrip("/") for blob in blobs)
    run = _part(said, "runInfo")
    period, folder, number = _placed(files[0] if files else entry.key)
    start = re.sub(r"\D", "", str(run.get("startDate", "")))[:6]
    month = f"{start[:4]}-{start[4:]}" if len(start) == 6 else period
    if month is None:
        return None
    return Manifest(
        entry.key,
        _source(said, folder),
        month,
        files,
        delivered=str(run.get("submittedTime") or number or entry.key),
        sizes=tuple(int(blob.get("byteCount") or 0) for blob in blobs),
    )


def _placed(path: str) -> tuple[str | None, str, str | None]:
    """Of 'root/export/20230101-20230131/202301041442/<run>/000001.csv': the month, 'root/export', the run's time."""
    month, number, folder = None, None, []
    for part in PurePosixPath(path).parts[:-1]:
        if found := _RANGE.match(part):
            month = f"{found.group(1)}-{found.group(2)}"
        elif _RUN.match(part):
            number = part
        elif month is None:
            folder.append(part)
    return month, "/".join(folder), number


def _source(said: dict[str, Any], folder: str) -> str:
    container = str(_part(said, "deliveryConfig").get("containerUri") or "").rpartition("/")[2]
    return "azure://" + "/".join(part for part in (container, folder) if part)


def _part(said: dict[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}
