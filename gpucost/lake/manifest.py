"""What a lake holds: one manifest per cluster and writer names the files of each day, and is replaced as a whole."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from gpucost.errors import NoDataError, StoreError
from gpucost.store.schema import latest_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.lake.files import LakeFiles

# Rises when files lie otherwise than before; a lake of a higher number is refused.
FORMAT = 1
# How Hive writes a partition of no value: what is of no cluster (bills, prices), or of no day.
NONE = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = "_gpucost/manifests"


class LakeFile(NamedTuple):
    """A Parquet file: its rows, size, checksum, and a digest of its rows that is the same in whichever order they lie."""

    name: str
    rows: int
    size: int
    sha256: str
    digest: str


@dataclass(slots=True)
class Manifest:
    """What one writer holds of one cluster (None: of none): the files of each day ('' for none) by table, and the day's stamp.

    `sources` are the servers that told of it, `heard` is when anything was first and last heard of it, in milliseconds.
    """

    cluster: str | None
    writer: str
    schema: int = field(default_factory=latest_version)
    sources: list[str] = field(default_factory=list)
    heard: tuple[int, int] | None = None
    stamps: dict[str, str] = field(default_factory=dict)
    days: dict[str, dict[str, LakeFile]] = field(default_factory=dict)

    def save(self, files: LakeFiles) -> None:
        """Replace the manifest in the lake."""
        days = {day: {name: file._asdict() for name, file in tables.items()} for day, tables in sorted(self.days.items())}
        content = {"format": FORMAT, "schema": self.schema, "cluster": self.cluster, "writer": self.writer,
                   "sources": self.sources, "heard": self.heard, "stamps": self.stamps, "days": days}  # fmt: skip
        files.write(self.place, json.dumps(content, indent=1).encode())

    @property
    def place(self) -> str:
        """Its file in the lake."""
        return f"{_FOLDER}/{partition('cluster', self.cluster)}/{quote(self.writer, safe='')}.json"


def partition(name: str, value: str | None) -> str:
    """A folder of a Hive partition, `cluster=prod`."""
    return f"{name}={NONE if value in (None, '') else quote(value or '', safe='')}"


class Lake(NamedTuple):
    """The manifests of a lake, by cluster and writer."""

    files: LakeFiles
    manifests: list[Manifest]

    @property
    def clusters(self) -> list[str]:
        """The clusters that have data, by name."""
        return sorted({one.cluster for one in self.manifests if one.cluster is not None and one.days})

    def of(self, cluster: str | None) -> list[Manifest]:
        """The manifests of one cluster, or of what is of none."""
        return [one for one in self.manifests if one.cluster == cluster]

    def tables(self, cluster: str | None, days: Iterable[str] | None = None) -> dict[str, list[LakeFile]]:
        """The files of a cluster's tables, of these days (and of none), or of all."""
        wanted = None if days is None else {"", *days}
        found: dict[str, list[LakeFile]] = defaultdict(list)
        for manifest in self.of(cluster):
            for day, tables in sorted(manifest.days.items()):
                if wanted is None or day in wanted:
                    for name, file in tables.items():
                        found[name].append(file)
        return found

    def days(self, cluster: str) -> list[str]:
        """The UTC days of which anything of a cluster is there."""
        return sorted({day for one in self.of(cluster) for day in one.days if day})


def read(files: LakeFiles, *, missing_ok: bool = False) -> Lake:
    """All manifests of a lake.

    Raises NoDataError where there is no lake, StoreError for one of a newer version and where two writers hold one partition.
    """
    manifests = all_of(files)
    if not manifests and not missing_ok:
        raise no_lake(files)
    lake = Lake(files, manifests)
    for cluster in lake.clusters:
        owners: dict[str, str] = {}
        for manifest in lake.of(cluster):
            for day in manifest.days:
                if (other := owners.setdefault(day, manifest.writer)) != manifest.writer:
                    raise clash(files, cluster, day, other, manifest.writer)
    return lake


def no_lake(files: LakeFiles) -> NoDataError:
    """The error of an address that nothing was written to."""
    return NoDataError(f"there is no lake at {files.shown()}", "gpucost lake export writes one")


def all_of(files: LakeFiles) -> list[Manifest]:
    """All manifests of a lake, also where two writers hold the same. Raises StoreError for one of a newer version."""
    return _below(files, _FOLDER)


def of_cluster(files: LakeFiles, cluster: str | None) -> list[Manifest]:
    """Those of one cluster, or of none; raises what `all_of` raises."""
    return _below(files, f"{_FOLDER}/{partition('cluster', cluster)}")


def _below(files: LakeFiles, folder: str) -> list[Manifest]:
    found = files.each(partial(_parsed, files), (name for name in files.names(folder) if name.endswith(".json")))
    return [one for one in found if one]


class ClashError(StoreError):
    """Two writers hold one partition."""


def clash(files: LakeFiles, cluster: str | None, day: str, one: str, other: str) -> ClashError:
    """The error of a partition that two writers hold."""
    whose = f"cluster={cluster}" if cluster is not None else "of no cluster"
    return ClashError(
        f"two writers hold {whose}{f', day={day}' if day else ''} in {files.shown()}: {one} and {other}",
        "let one of them write it: gpucost lake drop --writer NAME takes the other's out, [lake] writer names a writer",
    )


def _parsed(files: LakeFiles, name: str) -> Manifest | None:
    content = files.read(name)
    if content is None:  # dropped by now
        return None
    try:
        told: dict[str, Any] = json.loads(content)
        if int(told["format"]) > FORMAT or int(told["schema"]) > latest_version():
            raise StoreError(f"{files.shown(name)} was written by a newer gpucost", "pip install --upgrade gpucost")
        days = {day: {table: LakeFile(**file) for table, file in tables.items()} for day, tables in told["days"].items()}
        heard = tuple(told["heard"]) if told["heard"] else None
        return Manifest(told["cluster"], told["writer"], int(told["schema"]), told["sources"], heard, told["stamps"], days)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        words = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        fix = "delete that file, then let its writer run gpucost lake export --all"
        raise StoreError(f"{files.shown(name)} is no manifest: {words}", fix) from None
