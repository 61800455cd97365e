"""The bundle of October, made once for all tests that read it or change a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import duckdb
import pytest
from typer.testing import Result

from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.publish.chargeback import Bundle, ChargebackQuery, read_bundle
from gpucost.questions import findings as of_findings
from gpucost.questions.findings.kinds import Findings
from gpucost.store.connection import Store
from tests.cell_tables import cell_tables
from tests.golden.report_fleet import alone
from tests.unit import command
from tests.unit.billed import bill

TEAMS = '[[teams]]\nname = "all"\nnamespaces = ["no-such"]\n'


@dataclass
class Made:
    """A bundle in `out`, its sealed store, the store before the seal, and the run's options and messages."""

    store: Path
    out: Path
    unsealed: Path
    options: str = ""
    stderr: str = ""

    @property
    def folder(self) -> Path:
        return self.out / "2026-10"

    def copy(self, folder: Path) -> Made:
        (folder / "copy").mkdir()
        out, store = (
            copytree(self.out, folder / "out"),
            copyfile(self.store, folder / "copy" / "store.duckdb"),
        )
        return Made(Path(store), Path(out), self.unsealed, self.options)

    def restored(self) -> Made:
        """The same bundle with the store from before the seal."""
        copyfile(self.unsealed, self.store)
        return self

    def run(self, options: str = "", code: int = 0) -> Result:
        return run(self.store, self.out, f"{self.options} {options}", code)


KNOWN: dict[Any, Any] = {}
BUILD, READ_FINDINGS = read_bundle, of_findings.read_findings


@contextmanager
def remembering() -> Iterator[dict[Any, Any]]:
    """Make bundles and findings once per store and configuration; clear the yielded dict to make them
    again."""

    def key(config: Config, store: Store, *more: object) -> tuple[object, ...]:
        return (
            sha256(store.path.read_bytes()).digest(),
            config.model_dump_json(exclude={"store_settings"}),
            *more,
        )

    def built(config: Config, store: Store, ask: ChargebackQuery, folder: Path, *tell: Any) -> Bundle:
        of = key(config, store, ask._replace(now=min(ask.now, ask.period.end)))
        if of not in KNOWN:
            KNOWN[of] = (BUILD(config, store, ask, folder, *tell), contents(folder))
        bundle, files = KNOWN[of]
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return bundle  # type: ignore[no-any-return]

    def found(config: Config, store: Store, period: Period, *tell: Any) -> Findings:
        of = key(config, store, period)
        if of not in KNOWN:
            KNOWN[of] = READ_FINDINGS(config, store, period, *tell)
        return KNOWN[of]  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        for module in ("publish.chargeback", "publish.verify"):
            patch.setattr(f"gpucost.{module}.read_bundle", built)
        for module in ("questions.findings", "publish.verify"):
            patch.setattr(f"gpucost.{module}.read_findings", found)
        yield KNOWN


def make(store: Path, folder: Path, options: str = "", over: Path | None = None, code: int = 0) -> Made:
    """The bundle of a copy of a store, in its own folder, over a copy of another bundle if given."""
    made = Made(folder / "store.duckdb", folder / "out", folder / "unsealed.duckdb", options)
    copyfile(store, made.store)
    copyfile(store, made.unsealed)
    if over:
        copytree(over, made.out)
    with remembering(), pytest.MonkeyPatch.context() as patch:
        alone(folder, patch)
        result = made.run(code=code)
    assert "GPU chargeback 2026-10: " in result.stdout
    made.stderr = result.stderr
    return made


def restate(sealed: Made, folder: Path) -> Made:
    """The bundle after a final bill halved the cost and the configuration changed."""
    store, config = Path(copyfile(sealed.store, folder / "billed.duckdb")), folder / "other.toml"
    config.write_text(TEAMS)
    with duckdb.connect(str(store)) as con:
        # the result of attribution with a bill of half the cost
        bill(con, *({"key": f"i-{node}", "hour": 0, "length": 744.0, "cost": "10"} for node in (1, 2, 3, 4)))
        con.execute("UPDATE bills SET is_final = true")
        with cell_tables(con):
            for table in ("cost_hourly", "cost_daily"):
                halves = ", ".join(
                    f"{name} = {name} / 2" for name in ("cost", "idle_cost", "unallocated_cost")
                )
                con.execute(f"UPDATE {table} SET {halves}, estimated_cost = 0")  # noqa: S608 - names of our own
            for table in ("node_hourly", "node_daily"):
                con.execute(f"UPDATE {table} SET node_cost = node_cost / 2, price_source = 'bill'")  # noqa: S608 - names of our own
    return make(store, folder, f"--config {config}", sealed.out)


def run(store: Path, out: Path, options: str = "", code: int = 0) -> Result:
    return command.run(f"chargeback --month 2026-10 --out {out} --store {store} {options}", code)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def modes(folder: Path) -> set[tuple[bool, str]]:
    return {(path.is_dir(), f"{path.stat().st_mode & 0o777:o}") for path in (folder, *folder.rglob("*"))}


def manifest(made: Made) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made.folder / "index.json").read_text())
    return found


def logged(store: Path) -> list[dict[str, str]]:
    entries = command.answer(f"store log --store {store}")
    return [one for one in entries if one["what"] in ("seal", "restatement")]
