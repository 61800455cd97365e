"""Verifying a bundle: reproduced, damaged, forged, or with an older store; and prices for `--collect`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Any

import duckdb
import pytest
from typer.testing import Result

from gpucost import price
from gpucost.clouds import NoCredentials
from gpucost.collect.prices import PriceResult
from gpucost.collect.spot import SpotResult
from gpucost.errors import SourceError
from gpucost.periods import Period, to_ms
from gpucost.publish import chargeback
from gpucost.publish.verify import figures_as_now
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.cell_tables import cell_tables
from tests.text_tables import text_rows, words
from tests.unit import command
from tests.unit.bundles import TEAMS, Made, contents, logged
from tests.unit.command import run

pytestmark = pytest.mark.usefixtures("in_an_empty_folder", "remembered")


def verify(made: Made, code: int, options: str = "") -> Result:
    words = f"chargeback verify --month 2026-10 --format json --out {made.out} --store {made.store}"
    return command.run(f"{words} {made.options} {options}", code)


def checks(result: Result) -> dict[str, str]:
    return {one["check"]: one["result"] for one in json.loads(result.stdout)} if result.stdout else {}


@pytest.mark.ci
def test_log_has_each_seal_and_a_restatement_with_its_reasons(restated: Made) -> None:
    before, last = logged(restated.store)
    assert (before["what"], last["what"]) == ("seal", "restatement")
    assert "; [teams] of the configuration; bill from aws" in last["detail"] and " before; " in last["detail"]


@pytest.mark.ci
def test_figures_of_a_closed_month_are_reproduced(bundle: Made) -> None:
    state = bundle.store.read_bytes(), contents(bundle.out)
    result = verify(bundle, 0)
    assert checks(result) == words("files=ok log=ok figures=ok")
    assert "to the last digit" in result.stderr
    assert (bundle.store.read_bytes(), contents(bundle.out)) == state
    (bundle.out / "other.toml").write_text(TEAMS)
    result = verify(bundle, 0, f"--config {bundle.out}/other.toml")
    assert checks(result).items() >= words("input=changed figures=ok").items()
    assert (
        "[teams] of the configuration" in result.stdout and "changed inputs have no effect" in result.stderr
    )


@pytest.mark.ci
def test_figures_that_cannot_be_reproduced_have_a_reason_if_an_input_changed(
    bundle: Made, sealed: Made, restated: Made
) -> None:
    with duckdb.connect(str(bundle.store)) as con, cell_tables(con):
        for table in ("cost_daily", "cost_hourly"):
            con.execute(f"UPDATE {table} SET cost = cost + 0.000000001 WHERE team = 'research'")  # noqa: S608 - names of our own
    result = verify(bundle, 1)
    assert checks(result)["figures"] == "changed"
    assert "although no sealed input changed" in result.stderr
    result = verify(Made(restated.unsealed, sealed.out, restated.unsealed, restated.options), 1)
    assert "cannot be reproduced: [teams] of the configuration; bill from aws" in result.stderr


def rewritten(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text().replace(old, new, 1))


def index(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """The index with a change, next to a missing ledger."""

    def changed(folder: Path) -> None:
        document = json.loads((folder / "index.json").read_text())
        change(document)
        (folder / "index.json").write_text(json.dumps(document))
        (folder / "ledger.csv").unlink()

    return changed


DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a csv": (rewritten("ledger.csv", "research", "other"), "files=changed log=ok", "ledger.csv\n"),
    "the index": (rewritten("index.json", "research", "other"), "files=changed", "index.json\n"),
    "a file is missing": (lambda folder: (folder / "ledger.parquet").unlink(), "files=changed", "ledger.parquet\n"),
    "sealed again": (
        rewritten("index.json", '"program": "', '"program": "9.'),
        "files=ok log=changed", "index.json is not in the log; its files cannot be reproduced\n",
    ),
    "list of files is missing": (index(lambda document: document.pop("files")), "", "index.json\n"),
    "a file is missing, also in the list": (
        index(lambda document: document.update(files=[one for one in document["files"] if one["file"] != "ledger.csv"])),
        "files=changed", "index.json\n",
    ),
    "seal is missing": (index(lambda document: document.update(seal=None)), "", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_changed_bundle_differs_from_its_seal(what: str, bundle: Made) -> None:
    damage, expected, changed = DAMAGE[what]
    damage(bundle.folder)
    result = verify(bundle, 1)
    assert checks(result).items() >= words(expected).items()
    message = (
        f"differs from its seal: {changed}" if changed else "was not sealed: an earlier gpucost wrote it\n"
    )
    assert message in result.stderr and bool(expected) is bool(result.stdout)


def test_figures_of_earlier_csv_formats_have_the_digest_of_today(tmp_path: Path) -> None:
    manifest = dict.fromkeys(chargeback._FIGURES)
    for ledger in ("team,cost\na;b,1\n", "team,estimated_api_cost,cost\na;b,0,1\n", 'team,cost\n"a;b",1\n'):
        (tmp_path / "ledger.csv").write_text(ledger)
        assert figures_as_now(tmp_path, manifest) == chargeback.figures_digest(
            manifest, 'team,cost\n"a;b",1\n'
        )


def forge_page(folder: Path) -> None:
    """Change the text of a page, and its digest in the index."""
    index, page = folder / "index.json", folder / "all-teams.md"
    before = page.read_bytes()
    page.write_bytes(before.replace(b"research", b"somebody"))
    digests = [sha256(content).hexdigest() for content in (before, page.read_bytes())]
    text = index.read_text().replace(digests[0], digests[1])
    index.write_text(text.replace(f'"bytes": {len(before)},', f'"bytes": {page.stat().st_size},'))


HONEST = (0, "files=ok log=ok figures=ok", "every file can be reproduced")
FORGED = (1, "files=ok log=changed figures=ok", "its files cannot be reproduced")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("forge", "expected"), [(lambda _: None, HONEST), (forge_page, FORGED)], ids=["honest", "forged"]
)
@pytest.mark.parametrize("earlier", ["none", "other"])
def test_restored_store_distinguishes_an_honest_bundle_from_a_forged_one(
    sealed: Made,
    restated: Made,
    tmp_path: Path,
    earlier: str,
    forge: Callable[[Path], object],
    expected: tuple[int, str, str],
) -> None:
    """The copy was made before the seal.

    It has no seal of the month, or the seal of another bundle.
    """
    made = (restated if earlier == "other" else sealed).copy(tmp_path).restored()
    forge(made.folder)
    code, results, message = expected
    result = verify(made, code)
    assert checks(result) == words(results) and f"not in the log; {message}" in result.stdout


MONTH = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture
def store(october: Path, tmp_path: Path, in_an_empty_folder: Path) -> Path:
    (tmp_path / "gpucost.toml").write_text("prometheus = []\n")
    return Path(copyfile(october, tmp_path / "store.duckdb"))


def priced(store: Path, spot: tuple[str, str | None], on_demand: tuple[str, str | None]) -> None:
    """Price all nodes by these sources, as of these days."""
    with duckdb.connect(str(store)) as con:
        con.execute("DELETE FROM node_prices")
        con.execute(
            "INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms, 1 AS price_per_hour,"
            " CASE capacity_type WHEN 'spot' THEN $1 ELSE $3 END AS price_source,"
            " CASE capacity_type WHEN 'spot' THEN $2 ELSE $4 END::DATE AS price_as_of FROM nodes"
            " WHERE CASE capacity_type WHEN 'spot' THEN $1 ELSE $3 END <> 'none'",
            [*spot, *on_demand],
        )


def missing_prices(store: Path) -> list[tuple[str, str]]:
    with Store(store).read() as con:
        return price.missing_price_sources(con, MONTH, NOW, 90)


# price sources of spot nodes and of others, with their days, and the price lists to collect
MISSING = """
price_book   |            | bill       |            |
spot_history |            | price_book |            | spot
bill         |            | catalog    | 2026-10-01 |
bill         |            | catalog    | 2026-07-01 | prices
none         |            | price_book |            | prices spot"""


@pytest.mark.parametrize(("spot", "since", "on_demand", "day", "requested"), text_rows(MISSING))
def test_better_prices_are_collected_if_missing(
    store: Path, spot: str, since: str, on_demand: str, day: str, requested: str
) -> None:
    priced(store, (spot, since or None), (on_demand, day or None))
    assert missing_prices(store) == [(kind, "aws") for kind in requested.split()]


def test_list_prices_are_collected_once_a_day(store: Path) -> None:
    priced(store, ("none", None), ("none", None))
    assert ("prices", "aws") in missing_prices(store)
    with Store(store).write() as con:
        runs.log_run(con, "prices", "aws", (to_ms(NOW) - 3_600_000, to_ms(NOW)), rows=1)
    assert missing_prices(store) == [("spot", "aws")]


@pytest.mark.ci
def test_cloud_without_prices_is_reported_and_the_bundle_is_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(store, ("none", None), ("none", None))
    requested: list[tuple[str, list[str]]] = []

    def spot(*arguments: Any) -> list[SpotResult]:
        requested.append(("spot", list(arguments[4])))
        skipped = NoCredentials("aws: no credentials found", "aws configure")
        return [SpotResult("aws us-east-1", skipped=skipped)]

    def prices(*arguments: Any) -> list[PriceResult]:
        requested.append(("prices", list(arguments[2])))
        error = SourceError("aws: cannot be reached", "check the network")
        return [PriceResult("aws", error=error)]

    monkeypatch.setattr("gpucost.collect.spot.collect_spot", spot)
    monkeypatch.setattr("gpucost.collect.prices.collect_prices", prices)
    out = store.parent / "out"
    result = run(f"chargeback --month 2026-10 --collect --out {out} --store {store}", 1)
    assert requested == [("spot", ["aws"]), ("prices", ["aws"])]
    assert result.stderr.count("aws: no credentials found; skipped (aws configure)\n") == 1
    assert result.stderr.count("error: aws: cannot be reached\nfix: check the network\n") == 1
    assert (out / "2026-10" / "index.json").exists()
