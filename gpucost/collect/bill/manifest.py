"""AWS's manifests: which files make up a billing period. What no manifest names is a leftover and does not count.

Legacy reports and CUR name their files in `reportKeys`, Data Exports in `dataFiles`. The manifest of a period lies above
those of its single deliveries ("assemblies") and names the one that holds.
Sources: AWS CUR User Guide, "Cost and Usage Reports files"; AWS Data Exports User Guide, "Understanding export delivery".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gpucost.collect.bill.opening import Entry
from gpucost.errors import DataError

_PERIOD = re.compile(r"BILLING_PERIOD=(\d{4}-\d{2})", re.IGNORECASE)
_RANGE = re.compile(r"^(\d{4})(\d{2})\d{2}-\d{8}$")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says: the export's name, the billing period, and the keys of its files in the bucket.

    `delivered` orders deliveries that stand beside each other, later after earlier; '' where nothing does. `sizes` are the
    files' bytes, 0 where they are not told.
    """

    key: str
    source: str
    billing_period: str
    files: tuple[str, ...]
    delivered: str = ""
    sizes: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        return len(PurePosixPath(self.key).parts)


def parse(text: bytes, entry: Entry, name: str) -> Manifest | None:
    """The manifest, None for any other JSON file. Raises DataError for one that cannot be used."""
    try:
        document = json.loads(text)
    except ValueError:
        if "manifest" not in PurePosixPath(entry.key).name.lower():
            return None
        raise DataError(f"{name} is a manifest that breaks off", "get it again; nothing below it was loaded") from None
    if not isinstance(document, dict) or not isinstance(document.get("reportKeys", document.get("dataFiles")), list):
        return None
    bucket = str(document.get("bucket") or "")
    files = []
    for listed in document.get("reportKeys") or document.get("dataFiles") or []:
        address = str(listed)
        if address.startswith("s3://"):
            bucket, _, address = address.removeprefix("s3://").partition("/")
        files.append(address.lstrip("/"))
    period = _period(document, files)
    if period is None:
        raise DataError(f"{name} is a manifest that does not say its billing period", "get the manifest again")
    return Manifest(entry.key, _source(document, bucket, files), period, tuple(files))


def choose(manifests: list[Manifest]) -> list[Manifest]:
    """One manifest for each export and billing period: that of the period, which lies above those of single deliveries.

    Raises DataError where several deliveries are there and nothing says which of them holds.
    """
    chosen: dict[tuple[str, str], Manifest] = {}
    for manifest in sorted(manifests, key=lambda manifest: (manifest.depth, manifest.key)):
        known = chosen.setdefault((manifest.source, manifest.billing_period), manifest)
        if manifest.delivered and known.delivered:
            chosen[manifest.source, manifest.billing_period] = max(known, manifest, key=lambda one: one.delivered)
        elif known.depth == manifest.depth and known.files != manifest.files:
            raise DataError(
                f"{known.key} and {manifest.key} are deliveries of the same export and period {manifest.billing_period}",
                "give the directory above them, with the manifest of the period, or one of them alone",
            )
    return list(chosen.values())


def find(manifest: Manifest, entries: dict[str, Entry], name: str) -> list[Entry]:
    """The files that a manifest names, wherever its tree begins. Raises DataError where one of them is missing."""
    there, missing = [], []
    above = [str(parent) for parent in PurePosixPath(manifest.key).parents]
    for listed in manifest.files:
        entry = _located(PurePosixPath(listed).parts, above, entries)
        there.append(entry) if entry else missing.append(listed)
    if missing:
        raise DataError(
            f"{name} names {len(manifest.files)} files, but {missing[0]} is not there"
            + (f" ({len(missing)} are missing)" if len(missing) > 1 else ""),
            "download the export again, all of it; nothing of this period was loaded",
        )
    for entry, size in zip(there, manifest.sizes, strict=False):
        if entry and entry.size < size:
            raise DataError(
                f"{entry.key} has {entry.size:,} bytes of the {size:,} that {name} tells of",
                "download it again; nothing of this period was loaded",
            )
    return [entry for entry in there if entry]


def is_here(manifest: Manifest, entries: dict[str, Entry]) -> bool:
    """Whether any of the files that a manifest names is there."""
    above = [str(parent) for parent in PurePosixPath(manifest.key).parents]
    return any(_located(PurePosixPath(listed).parts, above, entries) for listed in manifest.files)


def governed(manifest: Manifest) -> str:
    """The directory whose other files are leftovers: the period's for a CUR, the whole export's for Data Exports."""
    parts = PurePosixPath(manifest.key).parent.parts
    below = parts.index("metadata") if "metadata" in parts else len(parts)
    return "/".join(parts[:below])


def _located(parts: tuple[str, ...], above: list[str], entries: dict[str, Entry]) -> Entry | None:
    """The longest tail of the key that is there, below a directory that the manifest lies in."""
    for start in range(len(parts)):
        tail = "/".join(parts[start:])
        for parent in above:
            if entry := entries.get(tail if parent == "." else f"{parent}/{tail}"):
                return entry
    return None


def _period(document: dict[str, Any], files: list[str]) -> str | None:
    span = document.get("billingPeriod")
    start = re.sub(r"\D", "", str(span.get("start", ""))) if isinstance(span, dict) else ""
    if len(start) >= 6:
        return f"{start[:4]}-{start[4:6]}"
    for file in files:
        if named := _PERIOD.search(file):
            return named.group(1)
        for part in PurePosixPath(file).parts:
            if dates := _RANGE.match(part):
                return f"{dates.group(1)}-{dates.group(2)}"
    return None


def _source(document: dict[str, Any], bucket: str, files: list[str]) -> str:
    """`s3://bucket/prefix/name`: where the export is delivered to, whatever month or delivery it is."""
    name = str(document.get("reportName") or document.get("exportArn") or "").rpartition("/")[2]
    parts = PurePosixPath(files[0]).parts[:-1] if files else ()
    prefix: list[str] = []
    for part in parts:
        if part == "data" or _PERIOD.match(part) or _RANGE.match(part):
            break
        prefix.append(part)
    if name and not prefix:
        prefix.append(name)
    return "s3://" + "/".join([bucket or "unknown", *prefix])


_RUN = re.compile(r"^\d{12}$")


def parse_azure(text: bytes, entry: Entry) -> Manifest | None:
    """The manifest of an export run; None for any other JSON file, and for one whose period cannot be told."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("blobs"), list):
        return None
    blobs = [blob for blob in document["blobs"] if isinstance(blob, dict) and blob.get("blobName")]
    files = tuple(str(blob["blobName"]).lstrip("/") for blob in blobs)
    run = _part(document, "runInfo")
    period, folder, number = _placed(files[0] if files else entry.key)
    start = re.sub(r"\D", "", str(run.get("startDate", "")))[:6]
    month = f"{start[:4]}-{start[4:]}" if len(start) == 6 else period
    if month is None:
        return None
    return Manifest(
        entry.key,
        _azure_source(document, folder),
        month,
        files,
        delivered=str(run.get("submittedTime") or number or entry.key),
        sizes=tuple(int(blob.get("byteCount") or 0) for blob in blobs),
    )


def _placed(path: str) -> tuple[str | None, str, str | None]:
    """Of 'root/export/20230101-20230131/202301041442/<run>/000001.csv': the month, 'root/export', the run's time."""
    month, number, folder = None, None, []
    for part in PurePosixPath(path).parts[:-1]:
        if span := _RANGE.match(part):
            month = f"{span.group(1)}-{span.group(2)}"
        elif _RUN.match(part):
            number = part
        elif month is None:
            folder.append(part)
    return month, "/".join(folder), number


def _azure_source(document: dict[str, Any], folder: str) -> str:
    container = str(_part(document, "deliveryConfig").get("containerUri") or "").rpartition("/")[2]
    return "azure://" + "/".join(part for part in (container, folder) if part)


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}
