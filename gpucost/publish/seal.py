"""The seal of a closed month: digests of its inputs, to reproduce its figures or name the changes."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gpucost import __version__
from gpucost.catalog import catalog_digest
from gpucost.engine import answer_rows
from gpucost.price.book import book_digest
from gpucost.price.fx import fx_digest
from gpucost.records import frozen_dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period

# Sections of the configuration that affect figures; for `prices` the content of its files.
_SECTIONS = (
    "timezone", "currency", "coverage", "clusters", "prices", "bills", "idle", "activity", "mig", "hami", "team_labels", "teams",
    "labels", "workload_types", "shared_costs", "slurm", "units", "serving",
)  # fmt: skip
_FILES = {"book", "fx_rates"}


@frozen_dataclass
class SealedInput:
    """The store's data from one source."""

    kind: str
    source: str
    rows: int
    checksum: str


@frozen_dataclass
class Seal:
    """Digests of all inputs of a month's figures, and of the figures.

    `algorithm` is the version of the computation: the same versions make the same figures from the same inputs.
    `configuration` has a digest of each section that differs from its defaults, and of the files it names.
    """

    program: str
    algorithm: dict[str, int]
    catalog: str
    configuration: dict[str, str]
    inputs: tuple[SealedInput, ...]
    figures: str


def inputs_of(con: DuckDBPyConnection, month: str, period: Period) -> tuple[SealedInput, ...]:
    """The store's data for a month, by kind and source."""
    parameters = {"month": month, "start": period.start_ms, "end": period.end_ms}
    return tuple(SealedInput(**row) for row in answer_rows(con, __package__, "seal_inputs", parameters))


def make(config: Config, algorithm: Mapping[str, int], inputs: tuple[SealedInput, ...], figures: str) -> Seal:
    """The seal for these inputs and figures, with this program and configuration."""
    texts = {
        f"the {name}" if isinstance(getattr(config, name), str) else f"[{name}]": config.model_dump_json(
            include={name}, exclude={"prices": _FILES}, exclude_defaults=True
        )
        for name in _SECTIONS
    }
    digests = {name: sha256(text.encode()).hexdigest() for name, text in texts.items() if text != "{}"}
    files = {"the price book": book_digest(config), "the file of exchange rates": fx_digest(config)}
    digests |= {name: digest for name, digest in files.items() if digest}
    return Seal(__version__, dict(algorithm), catalog_digest(), digests, inputs, figures)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The differences between two seals of index.json, except figures, each as a phrase."""
    changed = []
    if before["algorithm"] != after["algorithm"]:
        changed.append(f"the algorithm: {_numbers(before)} before, {_numbers(after)} now")
    if before["catalog"] != after["catalog"]:
        changed.append(
            f"the catalog of prices and machines: version {before['program']} before, {after['program']} now"
        )
    old = before["configuration"]
    new = after["configuration"]
    changed += [
        f"{name} of the configuration" if name[0] == "[" else name
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    rows, now = ({(row["kind"], row["source"]): row for row in seal["inputs"]} for seal in (before, after))
    for kind, source in sorted({*rows, *now}):
        was = rows.get((kind, source))
        is_now = now.get((kind, source))
        if was != is_now:
            changed.append(f"{kind} from {source}: {_rows(was)} before, {_rows(is_now)} now")
    return changed


def _numbers(seal: Mapping[str, Any]) -> str:
    return f"{', '.join(f'{name} {number}' for name, number in seal['algorithm'].items())} (gpucost {seal['program']})"


def _rows(row: Mapping[str, Any] | None) -> str:
    return f"{row['rows']:,} rows" if row else "none"
