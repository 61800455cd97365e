"""Manifests: the files of a lake by cluster and day, with their writers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from pydantic import TypeAdapter

from gpucost import inputs
from gpucost.errors import NoDataError, StoreError
from gpucost.installation import upgrade
from gpucost.records import frozen_dataclass
from gpucost.store.schema import latest_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.lake.files import LakeFiles

# Increases with the layout of files; a lake with a higher number is refused.
FORMAT = 1
# Hive's name for a partition without a value: bills and prices have no cluster, some tables have no day.
NONE = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = "_gpucost/manifests"


@frozen_dataclass
class LakeFile:
    """A Parquet file: rows, size, checksum, and a digest of its rows that does not depend on their order."""

    name: str
    rows: int
    size: int
    sha256: str
    digest: str


Tables = dict[str, list[LakeFile]]


@dataclass(slots=True)
class LakeManifest:
    """The files of one cluster (None: bills and prices) that one writer exported.

    `days` are the files by UTC day ('' for none) and table. `stamps` are the days' digests of loads,
    `sources` the servers that reported the cluster, `heard` the first and last moment of its data, in
    milliseconds.
    """

    cluster: str | None
    writer: str
    format: int = FORMAT
    schema: int = field(default_factory=latest_version)
    sources: list[str] = field(default_factory=list)
    heard: tuple[int, int] | None = None
    stamps: dict[str, str] = field(default_factory=dict)
    days: dict[str, dict[str, LakeFile]] = field(default_factory=dict)

    def save(self, files: LakeFiles) -> None:
        """Replace the manifest in the lake: its files become visible at once."""
        files.write(self.place, _MANIFEST.dump_json(self, indent=1))

    @property
    def place(self) -> str:
        """Its file in the lake."""
        return f"{_FOLDER}/{partition('cluster', self.cluster)}/{quote(self.writer, safe='')}.json"

    @property
    def files(self) -> list[LakeFile]:
        """All files in the manifest."""
        return [file for tables in self.days.values() for file in tables.values()]


_MANIFEST = TypeAdapter(LakeManifest)


def partition(name: str, value: str | None) -> str:
    """A folder of a Hive partition, `cluster=prod`."""
    return f"{name}={quote(value, safe='') if value else NONE}"


class Lake(NamedTuple):
    """The manifests of a lake."""

    files: LakeFiles
    manifests: list[LakeManifest]

    @property
    def clusters(self) -> list[str]:
        """The clusters with data, by name."""
        return sorted(
            {
                manifest.cluster
                for manifest in self.manifests
                if manifest.cluster is not None and manifest.days
            }
        )

    def manifests_of(self, cluster: str | None) -> list[LakeManifest]:
        """The manifests of one cluster, or of bills and prices."""
        return [manifest for manifest in self.manifests if manifest.cluster == cluster]

    def tables(
        self, cluster: str | None, days: Iterable[str] | None = None
    ) -> defaultdict[str, list[LakeFile]]:
        """The files of a cluster by table, for these days (default: all) and without a day."""
        wanted = None if days is None else {"", *days}
        found = defaultdict[str, list[LakeFile]](list)
        for manifest in self.manifests_of(cluster):
            for day, tables in sorted(manifest.days.items()):
                if wanted is None or day in wanted:
                    for name, file in tables.items():
                        found[name].append(file)
        return found

    def days(self, cluster: str) -> list[str]:
        """The UTC days with data of a cluster."""
        return sorted({day for manifest in self.manifests_of(cluster) for day in manifest.days if day})


def read(files: LakeFiles) -> Lake:
    """All manifests of a lake.

    Raises NoDataError without a lake, StoreError for a newer version's lake and for two writers of one
    partition.
    """
    lake = load(files)
    if not lake.manifests:
        raise no_lake(files)
    for cluster in lake.clusters:
        refuse_clash(files, lake.manifests_of(cluster))
    return lake


def refuse_clash(files: LakeFiles, manifests: Iterable[LakeManifest]) -> None:
    """Raise StoreError if two manifests of a cluster have one day.

    Bills and prices can have many writers.
    """
    owners: dict[str, LakeManifest] = {}
    for item in manifests:
        for day in item.days if item.cluster is not None else ():
            other = owners.setdefault(day, item)
            if other is not item:
                raise StoreError(
                    f"two writers have cluster={item.cluster}, day={day} in {files.label()}: "
                    f"{other.writer} and {item.writer}",
                    "keep one of them: name it in [lake] writer, or "
                    f"delete {files.label(other.place)}, which removes {other.writer}",
                )


def load(files: LakeFiles) -> Lake:
    """All manifests of a lake, possibly none, or several writers of one partition."""
    names = [name for name in files.names(_FOLDER) if name.endswith(".json")]
    return Lake(files, [manifest for manifest in files.each(partial(_parsed, files), names) if manifest])


def no_lake(files: LakeFiles) -> NoDataError:
    """The error for an address without a lake."""
    return NoDataError(f"lake not found: {files.label()}", "create one: gpucost lake export")


def _parsed(files: LakeFiles, name: str) -> LakeManifest | None:
    content = files.read(name)
    if content is None:  # deleted since it was listed
        return None
    try:
        fields = inputs.parse_json(content)
        if fields["format"] > FORMAT or fields["schema"] > latest_version():
            raise StoreError(f"{files.label(name)} was written by a newer gpucost", upgrade())
        return _MANIFEST.validate_json(content, strict=True)
    except (ValueError, KeyError, TypeError) as error:
        words = f"{error} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0]
        fix = "delete that file, then let its writer run gpucost lake export --all"
        raise StoreError(f"{files.label(name)} is not a manifest: {words}", fix) from None
