"""The month's bundle: whole or not at all, the same bytes for the same input, and an adjustment over what stood there."""

from __future__ import annotations

import csv
import json
import os
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from gpucost.cli.bills import _month
from gpucost.publish.chargeback import file_names
from gpucost.store.connection import Store
from tests.bill_table import change_bill_rows
from tests.golden.report_fleet import HOUR, OCTOBER
from tests.unit import command
from tests.unit.billed import bill
from tests.unit.bundles import Made, contents, logged, make, manifest, modes, run
from tests.unit.whatif_costs import figures, shown

HOSTILE = [
    "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "+1", "@sum", "-2", "a|b", "../../etc/passwd", "..", "Research",
    "research", "שלום\u202edrow", "x" * 253, "[click](javascript:alert(1))", "con\nnewline", '"quoted", comma',
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("in_an_empty_folder", "remembered")


@pytest.fixture
def store(october: Path, tmp_path: Path) -> Path:
    return Path(copyfile(october, tmp_path / "store.duckdb"))


FILES = "index.md index.html index.json ledger.csv ledger.parquet focus.csv focus.parquet"


def test_a_bundle_has_every_file_and_nobody_else_reads_it(sealed: Made) -> None:
    files = set(contents(sealed.folder))
    kinds = ["md", "html", "csv", "json"]
    teams = {f"teams/{team}.{kind}" for team in ("research", "product", "vision") for kind in kinds}
    assert {name for name in files if name.startswith("teams/")} == teams and files > {*FILES.split()}
    assert {one["file"] for one in manifest(sealed)["files"]} == files - {"index.json"}
    assert [item.name for item in sealed.out.iterdir()] == ["2026-10"]
    assert modes(sealed.folder) == {(True, "700"), (False, "600")}
    # all that is written to the store is the seal
    assert len(Store(sealed.store).query("FROM seals")[1]) == 1


@pytest.mark.ci
def test_a_bundle_made_again_has_the_same_bytes_and_files_of_others_stay(
    restated: Made, tmp_path: Path, remembered: dict[Any, Any]
) -> None:
    again = restated.copy(tmp_path)
    (again.out / ".gpucost-run-killed").mkdir()
    others = {"notes.txt": b"approved by finance", "teams/gone.md": b"mine"}
    for name, content in others.items():
        (again.folder / name).write_bytes(content)
    known = dict(remembered)
    remembered.clear()
    assert again.run("-q").stdout == ""
    remembered |= known
    assert contents(again.folder) == contents(restated.folder) | others
    assert [item.name for item in again.out.iterdir()] == ["2026-10"]
    assert [one["what"] for one in logged(again.store)] == ["seal", "restatement"]


@pytest.mark.parametrize("sharing", [None, "proportional"])
def test_every_file_holds_the_same_figures(sealed: Made, shared: Made, sharing: str | None) -> None:
    made = shared if sharing else sealed
    # a bundle that shares otherwise restates nothing
    assert [one["what"] for one in logged(made.store)] == ["seal"] * (2 if sharing else 1)
    folder, told = made.folder, manifest(made)
    assert told["share_unallocated"] == sharing
    ledger = duckdb.sql(f"FROM '{folder / 'ledger.parquet'}'")
    charge = "cost + shared_unallocated_cost" if sharing else "cost"
    names = "charge cost idle_cost allocated_gpu_hours"
    sums = f"sum({charge}), sum(cost), sum(idle_cost), sum(allocated_gpu_hours)"
    sql = f"SELECT team, {sums} FROM ledger WHERE kind = 'allocated' GROUP BY 1"  # noqa: S608
    assert sorted(shown(*row) for row in duckdb.execute(sql).fetchall()) == sorted(
        figures(team, f"team {names}") for team in told["teams"]
    )
    for team in told["teams"]:
        report = json.loads((folder / f"{team['file']}.json").read_text())
        lines = list(csv.DictReader((folder / f"{team['file']}.csv").open()))
        assert {line["team"] for line in lines} == {team["team"]}
        assert report["totals"]["cost"] == float(sum(Decimal(line["cost"]) for line in lines)) == team["cost"]
        estimate = f"$0.00; ${team['cost']:,.2f} are an estimate until the bill is collected"
        for text, page in (
            (f"${team['charge']:,.2f}", "index.md"), (f"${team['charge']:,.2f}", "index.html"),
            (estimate, f"{team['file']}.md"), (estimate, f"{team['file']}.html"),
        ):  # fmt: skip
            assert text in (folder / page).read_text()
        coverage = report["coverage"]
        assert (coverage["state"], coverage["reasons"]) == (told["state"], told["reasons"])
        assert (
            coverage["reconciliation"] == "no bill of 2026-10 was collected, so the reconciliation is missing"
        )
    assert told["state"] == "estimate"
    assert any(team["charge"] > team["cost"] for team in told["teams"]) is bool(sharing)
    whole = json.loads((folder / "all-teams.json").read_text())["totals"]["node_cost"]
    focus = duckdb.read_parquet(str(folder / "focus.parquet")).sum("EffectiveCost").fetchall()[0][0]
    assert told["totals"]["node_cost"] == whole
    assert ledger.sum("cost").fetchall() == [(Decimal(str(whole)),)]
    assert float(focus) == pytest.approx(whole, abs=1e-9)


def test_the_ledger_has_a_row_per_team_workload_day_model_and_capacity_type(sealed: Made) -> None:
    names = ("kind", "team", "workload", "day", "gpu_model", "capacity_type")
    lines = csv.DictReader((sealed.folder / "ledger.csv").open())
    keys = [tuple(line[name] for name in names) for line in lines]
    assert len(set(keys)) == len(keys) and {key[0] for key in keys} == {"allocated", "unallocated"}
    assert ("allocated", "product", "Deployment/serve", "2026-10-01", "A100", "on_demand") in keys


def test_file_names_are_unique_whatever_teams_are_called() -> None:
    names = file_names([*HOSTILE, "", "A", "a", "a-559aead0", "a" * 61, "a" * 60])
    assert len({name.lower() for name in names.values()}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", name) for name in names.values())
    assert names["research"] == "research" and names["Research"].startswith("research-")
    assert file_names(["Research"])["Research"] == names["Research"]


def test_a_final_month_over_an_estimated_one_shows_the_adjustment(sealed: Made, restated: Made) -> None:
    before, after = manifest(sealed), manifest(restated)
    assert figures(before, "state replaces") == "estimate None"
    assert (after["state"], after["reasons"], after["replaces"]["state"]) == ("final", [], "estimate")
    assert after["replaces"]["reasons"] == [
        "[teams] of the configuration", "bill from aws 2026-10: none before, 4 rows now"
    ]  # fmt: skip
    was = {team["team"]: team["charge"] for team in before["teams"]}
    changed = {one["team"]: one["adjustment"] for one in after["replaces"]["teams"]}
    expected = {one["team"]: one["charge"] - was[one["team"]] for one in after["teams"]}
    assert changed == pytest.approx(expected, abs=1e-8)
    assert len(changed) == 3 and all(less < 0 for less in changed.values())
    index, sentence = (restated.folder / "index.md").read_text(), after["reconciliation"]["sentence"]
    changes = "The previous bundle was an estimate. Changed inputs:\n\n- "
    for text in (changes, "-$", "Reconciled: bill of aws (final"):
        assert text in index
    assert after["reconciliation"]["is_final"] is True
    for team in (*after["teams"], {"file": "all-teams", "cost": after["totals"]["node_cost"]}):
        report = json.loads((restated.folder / f"{team['file']}.json").read_text())["coverage"]
        assert (report["state"], report["reasons"], report["reconciliation"]) == ("final", [], sentence)
        page = (restated.folder / f"{team['file']}.md").read_text()
        assert f"all of it: ${team['cost']:,.2f}" in page and sentence in page


@pytest.mark.ci
def test_a_bundle_has_the_mode_that_the_store_has(store: Path, tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('[store]\nmode = "0644"\n')
    mask = os.umask(0o027)
    try:
        run(store, tmp_path / "shared")
    finally:
        os.umask(mask)
    assert modes(tmp_path / "shared" / "2026-10") == {(True, "750"), (False, "640")}


@pytest.fixture(scope="module")
def incomplete(october: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of 48 hours and a bill of taxes and fees; bills lack of a cloud that had one the month before, and of one that is set."""
    folder = tmp_path_factory.mktemp("incomplete")
    store, end = Path(copyfile(october, folder / "short.duckdb")), OCTOBER + 48 * HOUR
    with duckdb.connect(str(store)) as con:
        con.execute("UPDATE collected SET to_ms = $1", [end])
        con.execute("UPDATE coverage_gaps SET from_ms = $1 WHERE reason = 'after its last sample'", [end])
        con.execute("UPDATE cost_daily SET estimated_cost = cost / 4 WHERE kind = 'allocated'")
        bill(con, {"key": "i-1"}, period="2026-09", provider="gcp")
        bill(
            con,
            {"kind": "commitment_fee", "key": None, "cost": "0"},
            {"kind": "tax", "key": None, "cost": "7"},
        )
        change_bill_rows(
            con,
            "UPDATE bill_rows SET billed_cost = 50, charge_category = 'Purchase' WHERE kind = 'commitment_fee'",
        )
    (folder / "gpucost.toml").write_text('prometheus = []\n[azure]\nexports = ["somewhere"]\n')
    return make(store, folder, "--share-unallocated proportional", code=4)


def test_an_incomplete_month_ends_with_4_and_is_written(
    incomplete: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "2026-10 is incomplete: 696.0 h of prod were not collected, 2026-10-03 00:00 to 2026-11-01 00:00: after its last sample"
        " (nodes, pods, requests, phases); the bill of Azure is missing; the bill of Google Cloud is missing\n"
    ) in incomplete.stderr
    places = f"--out {incomplete.out} --share-unallocated proportional --store {incomplete.store}"
    assert sorted(incomplete.stderr.rpartition("fix: ")[2].split()) == sorted(
        f"gpucost chargeback --collect --month 2026-10 {places}".split()
    )
    assert "This month is incomplete" in (incomplete.folder / "index.md").read_text()
    # what collecting did not bring is for the doctor
    monkeypatch.setattr("gpucost.cli.bills.collect_missing", lambda *_: 0)
    monkeypatch.chdir(incomplete.out.parent)
    store = copyfile(incomplete.unsealed, tmp_path / "store.duckdb")
    result = run(store, tmp_path / "out", f"{incomplete.options} --collect", 4)
    assert result.stderr.endswith(f"fix: gpucost doctor --store {store}\n")


def test_the_index_names_what_stands_between_the_charge_and_the_invoice(incomplete: Made) -> None:
    told = manifest(incomplete)
    charged, shared = told["totals"]["charge"], told["totals"]["shared_cost"]
    estimated = sum(team["estimated_cost"] for team in told["teams"])
    assert 0 < estimated < charged and 0 < shared < charged
    lines = {line["line"]: (line["rows"], line["cost"]) for line in told["invoice"].pop("lines")}
    assert told["invoice"] == {"billed_cost": 57, "effective_cost": 7, "rows": 2, "difference": 0}
    assert lines == {
        "charged": (0, charged), "estimated": (None, pytest.approx(-estimated)), "shared": (None, pytest.approx(-shared)),
        "other_bills": (None, pytest.approx(estimated + shared - charged)), "commitment_fees": (1, 0), "tax": (1, 7),
        "billed_less_effective": (None, 50),
    }  # fmt: skip
    index = (incomplete.folder / "index.md").read_text()
    assert f"| estimates, which are on no bill |  | -${estimated:,.2f} |" in index
    assert "| **Invoice** | **2** | **$57.00** |" in index


def test_a_run_that_fails_keeps_what_was_there_and_cleans_up(
    bundle: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = contents(bundle.folder)
    monkeypatch.setattr("gpucost.render.data.to_parquet", full)
    result = bundle.restored().run(code=1)
    assert "No space left on device; the previous content is kept" in result.stderr
    assert contents(bundle.folder) == before
    assert [item.name for item in bundle.out.iterdir()] == ["2026-10"]


def test_what_is_no_bundle_is_not_replaced_and_a_file_in_place_of_the_directory_is_wrong_usage(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "2026-10").mkdir()
    (tmp_path / "2026-10" / "precious.txt").write_text("x")
    assert "was not written by gpucost chargeback" in run(store, tmp_path, code=1).stderr
    assert (tmp_path / "2026-10" / "precious.txt").read_text() == "x"
    (tmp_path / "out").write_text("x")
    assert "--out names a file" in run(store, tmp_path / "out", code=2).stderr


@pytest.mark.ci
def test_two_runs_do_not_write_at_once(store: Path, tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "out").mkdir()
    descriptor = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    result = run(store, tmp_path / "out", code=1)
    os.close(descriptor)
    assert "another run is writing" in result.stderr


@pytest.mark.ci
def test_without_an_exchange_in_one_step_two_renames_do(
    bundle: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucost.publish.chargeback._exchange", lambda *_: False)
    before = contents(bundle.folder)
    bundle.restored().run()
    assert contents(bundle.folder) == before
    assert [item.name for item in bundle.out.iterdir()] == ["2026-10"]


@pytest.mark.parametrize(
    ("month", "code", "said"),
    [("2025-01", "4", "--collect collects the missing data"), ("2999-01", "2", "2999-01 has not begun")],
)
def test_a_month_without_data_writes_nothing(
    store: Path, tmp_path: Path, month: str, code: str, said: str
) -> None:
    command.check_end(f"chargeback --out {tmp_path}/a/b --store {store} --month {month}", code, said)
    assert not (tmp_path / "a").exists()


def test_last_month_is_over_at_midnight_of_a_zone_half_an_hour_off() -> None:
    after_midnight = datetime(2026, 10, 31, 18, 40, tzinfo=UTC)
    call: Any = SimpleNamespace(month=None, tz=ZoneInfo("Asia/Kolkata"), now=after_midnight)
    assert _month(call)[0] == "2026-10"
