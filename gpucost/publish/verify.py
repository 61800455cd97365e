"""Proof that a closed month's figures can be reproduced, or the changes since."""

import csv
import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from gpucost import disk
from gpucost.config.model import Config
from gpucost.errors import GpucostError
from gpucost.periods import iso
from gpucost.publish import seal
from gpucost.publish.chargeback import (
    FILE,
    ChargebackQuery,
    File,
    Manifest,
    ShowProgress,
    figures_digest,
    manifest_of,
    read_bundle,
    write,
)
from gpucost.questions.findings import read_findings
from gpucost.questions.report.page import bundle_blocks
from gpucost.records import frozen_dataclass
from gpucost.store import log
from gpucost.store.connection import Store
from gpucost.store.table_files import csv_text


@frozen_dataclass
class Verification:
    """A sealed bundle compared with the figures now.

    `altered` files differ from their digests; `changed` inputs from the sealed ones. `detail` is the time of the seal
    in the log, or the reason to trust it without one (`is_listed`) or not.
    """

    target: Path
    month: str
    altered: tuple[str, ...]
    is_listed: bool
    detail: str
    changed: tuple[str, ...]
    is_same: bool
    charge: str

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Each check, its result, and details."""
        return [
            ("files", "changed" if self.altered else "ok", ", ".join(self.altered)),
            ("log", "ok" if self.is_listed else "changed", self.detail),
            *(("input", "changed", name) for name in self.changed),
            ("figures", "ok" if self.is_same else "changed", f"charged to teams: {self.charge}"),
        ]

    @property
    def error(self) -> GpucostError | None:
        """The error of the verification, None if all checks pass."""
        if self.altered or not self.is_listed:
            what = ", ".join(self.altered) or f"index.json is {self.detail}"
            return GpucostError(
                f"the bundle {self.target} differs from its seal: {what}", "restore it from a copy"
            )
        if self.is_same:
            return None
        if self.changed:
            return GpucostError(
                f"the figures of {self.month} cannot be reproduced: {'; '.join(self.changed)}",
                "undo the changes, or run chargeback again: the new bundle shows old and new figures and the reason",
            )
        return GpucostError(
            f"the figures of {self.month} differ although no sealed input changed",
            "run gpucost store check to check the store",
        )


def verify(
    config: Config,
    store: Store,
    query: ChargebackQuery,
    target: Path,
    manifest: Manifest,
    show_progress: ShowProgress,
) -> Verification:
    """Make the figures of the sealed bundle in `target` again, in a temporary folder, and compare them."""
    digest = digest_of(target)
    files = altered(target, manifest)
    with disk.temporary() as folder:
        show_progress("making the figures again")
        bundle = read_bundle(config, store, query, folder, show_progress)
        now = manifest_of(bundle, config, None)
        with store.read() as con:
            seal_times = dict(log.seals(con, query.month))
        is_listed = digest in seal_times
        detail = f"sealed {iso(seal_times[digest])}" if is_listed else "not in the log"
        # the log of a store restored from a copy lacks seals: prove every byte
        if not is_listed and not files:
            blocks = bundle_blocks(config, bundle, read_findings(config, store, query.period, show_progress))
            stated = {
                name: manifest[name] for name in (("replaces",) if seal_times else ("replaces", "seal"))
            }
            write(bundle, now | stated, folder, blocks)
            is_listed = digest_of(folder) == digest
            detail += "; every file can be reproduced" if is_listed else "; its files cannot be reproduced"
    figures = now["seal"]["figures"]
    is_same = figures == manifest["seal"]["figures"] or (
        not files and figures == figures_as_now(target, manifest)
    )
    changed = seal.changes(manifest["seal"], now["seal"])
    charge = f"{now['totals']['charge']:,.2f} {now['currency']}"
    return Verification(target, query.month, tuple(files), is_listed, detail, tuple(changed), is_same, charge)


def digest_of(bundle: Path) -> str:
    """The SHA-256 of a bundle's manifest."""
    return sha256((bundle / FILE).read_bytes()).hexdigest()


_NEEDED: dict[str, TypeAdapter[Any]] = {
    "files": TypeAdapter(tuple[File, ...]),
    "seal": TypeAdapter(seal.Seal),
    "share_unallocated": TypeAdapter(Literal["proportional", "even"] | None),
}


def is_whole(manifest: Manifest) -> bool:
    """Whether a sealed manifest has all the data to reproduce and compare its figures."""
    try:
        figures_digest(manifest, ())
        for name, adapter in _NEEDED.items():
            adapter.validate_json(json.dumps(manifest[name]), strict=True)
    except (KeyError, ValueError):
        return False
    return True


def altered(folder: Path, manifest: Manifest) -> list[str]:
    """The altered or missing files of a sealed bundle, including the manifest if its seal differs."""
    files = [
        entry["file"]
        for entry in manifest["files"]
        if not (path := folder / entry["file"]).is_file()
        or sha256(path.read_bytes()).hexdigest() != entry["sha256"]
    ]
    ledger = folder / "ledger.csv"
    if not files and (
        not ledger.is_file()
        or figures_digest(manifest, [ledger.read_text("utf-8")]) != manifest["seal"]["figures"]
    ):
        files.append(FILE)
    return files


# A column of ledgers before schema 22, 0 for every charge of a bill.
_FORMER_COLUMN = "estimated_api_cost"


def figures_as_now(folder: Path, manifest: Manifest) -> str:
    """The digest of an unaltered bundle's figures in today's CSV format, without the column removed since."""
    with (folder / "ledger.csv").open(encoding="utf-8", newline="") as ledger:
        header, *rows = [*csv.reader(ledger)] or [[]]
    at = [*header, _FORMER_COLUMN].index(_FORMER_COLUMN)
    return figures_digest(manifest, [csv_text(row[:at] + row[at + 1 :] for row in (header, *rows))])
