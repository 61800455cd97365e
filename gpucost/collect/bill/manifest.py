"""AWS manifests: the files of a billing period. Files in no manifest are leftovers and do not count.

Legacy reports and CUR list their files in `reportKeys`, Data Exports in `dataFiles`. The manifest of a period is above the
manifests of its deliveries ("assemblies") and names the valid one. Sources: AWS CUR User Guide, "Cost and
Usage Reports files"; AWS Data Exports User Guide, "Understanding export delivery".
"""

import re
from itertools import takewhile
from pathlib import PurePosixPath

from gpucost import inputs
from gpucost.errors import DataError
from gpucost.objects import Entry
from gpucost.records import frozen_dataclass

_PERIOD = re.compile(r"BILLING_PERIOD=(\d{4}-\d{2})", re.IGNORECASE)
_RANGE = re.compile(r"^(\d{4})(\d{2})\d{2}-\d{8}$")


@frozen_dataclass
class BillManifest:
    """A manifest: the export's name, the billing period, and the keys of its files in the bucket.

    `delivered` orders deliveries in the same folder by time; '' without an order. `sizes`: bytes of the
    files, 0 if unknown.
    """

    key: str
    source: str
    billing_period: str
    files: tuple[str, ...]
    delivered: str = ""
    sizes: tuple[int, ...] = ()
    provider: str = "aws"

    @property
    def depth(self) -> int:
        return len(PurePosixPath(self.key).parts)


def parse(text: bytes, entry: Entry, name: str) -> BillManifest | None:
    """The manifest; None for any other JSON file, and for an Azure run without a period.

    Raises DataError if it cannot be used.
    """
    try:
        document = inputs.parse_json(text)
    except ValueError:
        if "manifest" not in PurePosixPath(entry.key).name.lower():
            return None
        raise DataError(
            f"{name} is a truncated manifest", "get it again; nothing below it was loaded"
        ) from None
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("blobs"), list):
        return _of_azure(document, entry)
    addresses = document.get("reportKeys", document.get("dataFiles"))
    if not isinstance(addresses, list):
        return None
    bucket = str(document.get("bucket") or "")
    files = []
    for address in map(str, addresses or document.get("dataFiles") or []):
        if address.startswith("s3://"):
            bucket, _, address = address.removeprefix("s3://").partition("/")
        files.append(address.lstrip("/"))
    stated = _month(_part(document, "billingPeriod").get("start"))
    period = stated or next(filter(None, map(_named, files)), None)
    if period is None:
        raise DataError(f"the billing period is missing in manifest {name}", "get the manifest again")
    return BillManifest(entry.key, _source(document, bucket, files), period, tuple(files))


def choose(manifests: list[BillManifest]) -> list[BillManifest]:
    """One manifest per export and billing period: the one above the manifests of deliveries.

    Raises DataError if there are several deliveries and the valid one is unknown.
    """
    chosen: dict[tuple[str, str], BillManifest] = {}
    for manifest in sorted(manifests, key=lambda manifest: (manifest.depth, manifest.key)):
        best = chosen.setdefault((manifest.source, manifest.billing_period), manifest)
        if manifest.delivered and best.delivered:
            chosen[manifest.source, manifest.billing_period] = max(
                best, manifest, key=lambda each: each.delivered
            )
        elif best.depth == manifest.depth and best.files != manifest.files:
            raise DataError(
                f"{best.key} and {manifest.key} are deliveries of the same export and period {manifest.billing_period}",
                "load the directory above them, with the manifest of the period, or only one of them",
            )
    return list(chosen.values())


def find(manifest: BillManifest, entries: dict[str, Entry], name: str) -> list[Entry]:
    """The files of a manifest, wherever its tree begins. Raises DataError if one is missing."""
    there = located(manifest, entries)
    missing = [name for name, entry in zip(manifest.files, there, strict=True) if entry is None]
    if missing:
        more = f" ({len(missing)} are missing)" if len(missing) > 1 else ""
        raise DataError(
            f"{name} names {len(manifest.files)} files, but {missing[0]} is missing{more}",
            "download the whole export again; none of this period was loaded",
        )
    for entry, size in zip(there, manifest.sizes, strict=False):
        if entry and entry.size < size:
            raise DataError(
                f"{entry.key} has {entry.size:,} of the {size:,} bytes in {name}",
                "download it again; none of this period was loaded",
            )
    return [entry for entry in there if entry]


def governed(manifest: BillManifest) -> str:
    """The directory whose other files are leftovers: the period's for a CUR, the export's for Data Exports."""
    parts = PurePosixPath(manifest.key).parent.parts
    below = parts.index("metadata") if "metadata" in parts else len(parts)
    return "/".join(parts[:below])


def located(manifest: BillManifest, entries: dict[str, Entry]) -> list[Entry | None]:
    """For each file, the longest existing tail of its key below a parent directory of the manifest."""
    above = PurePosixPath(manifest.key).parents

    def find_file(parts: tuple[str, ...]) -> Entry | None:
        places = (str(parent.joinpath(*parts[start:])) for start in range(len(parts)) for parent in above)
        return next((entries[place] for place in places if place in entries), None)

    return [find_file(PurePosixPath(name).parts) for name in manifest.files]


def _month(moment: object) -> str | None:
    digits = re.sub(r"\D", "", str(moment or ""))
    return f"{digits[:4]}-{digits[4:6]}" if len(digits) >= 6 else None


def _named(file: str) -> str | None:
    """The month in a file's path: BILLING_PERIOD=2026-03, or a directory 20260301-20260401."""
    if named := _PERIOD.search(file):
        return named.group(1)
    ranges = (_RANGE.match(part) for part in PurePosixPath(file).parts)
    return next((f"{dates.group(1)}-{dates.group(2)}" for dates in ranges if dates), None)


def _source(document: inputs.JsonObject, bucket: str, files: list[str]) -> str:
    """`s3://bucket/prefix/name`: the export's destination, without month and delivery."""
    name = str(document.get("reportName") or document.get("exportArn") or "").rpartition("/")[2]
    parts = PurePosixPath(files[0]).parts[:-1] if files else ()
    prefix = list(
        takewhile(lambda part: part != "data" and not _PERIOD.match(part) and not _RANGE.match(part), parts)
    )
    if name and not prefix:
        prefix.append(name)
    return "s3://" + "/".join([bucket or "unknown", *prefix])


_RUN = re.compile(r"^\d{12}$")


def _of_azure(document: inputs.JsonObject, entry: Entry) -> BillManifest | None:
    """The manifest of an export run: 'root/export' of
    'root/export/20230101-20230131/202301041442/<run>/000001.csv'.
    """
    blobs = [blob for blob in document["blobs"] if isinstance(blob, dict) and blob.get("blobName")]
    files = tuple(str(blob["blobName"]).lstrip("/") for blob in blobs)
    run = _part(document, "runInfo")
    placed = PurePosixPath(files[0] if files else entry.key).parent
    month = _month(run.get("startDate")) or _named(str(placed))
    if month is None:
        return None
    folder = takewhile(
        lambda part: not _RANGE.match(part), (part for part in placed.parts if not _RUN.match(part))
    )
    number = next((part for part in reversed(placed.parts) if _RUN.match(part)), None)
    container = str(_part(document, "deliveryConfig").get("containerUri") or "").rpartition("/")[2]
    return BillManifest(
        entry.key,
        "azure://" + "/".join(part for part in (container, *folder) if part),
        month,
        files,
        delivered=str(run.get("submittedTime") or number or entry.key),
        sizes=tuple(int(blob.get("byteCount") or 0) for blob in blobs),
        provider="azure",
    )


def _part(document: inputs.JsonObject, name: str) -> inputs.JsonObject:
    part = document.get(name)
    return part if isinstance(part, dict) else {}
