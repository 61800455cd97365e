"""The monthly bundle: complete or absent, reproducible, and with an adjustment if it replaces another."""

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


def test_bundle_has_every_file_and_is_readable_only_by_its_owner(sealed: Made) -> None:
    files = set(contents(sealed.folder))
    kinds = ["md", "html", "csv", "json"]
    teams = {f"teams/{team}.{kind}" for team in ("research", "product", "vision") for kind in kinds}
    assert {name for name in files if name.startswith("teams/")} == teams and files > {*FILES.split()}
    assert {one["file"] for one in manifest(sealed)["files"]} == files - {"index.json"}
    assert [item.name for item in sealed.out.iterdir()] == ["2026-10"]
    assert modes(sealed.folder) == {(True, "700"), (False, "600")}
    # the seal is the only write to the store
    assert len(Store(sealed.store).query("FROM seals")[1]) == 1


@pytest.mark.ci
def test_second_run_writes_the_same_bytes_and_keeps_other_files(
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
def test_every_file_contains_the_same_figures(sealed: Made, shared: Made, sharing: str | None) -> None:
    made = shared if sharing else sealed
    # a bundle with other sharing is not a restatement
    assert [one["what"] for one in logged(made.store)] == ["seal"] * (2 if sharing else 1)
    folder, index_json = made.folder, manifest(made)
    assert index_json["share_unallocated"] == sharing
    ledger = duckdb.sql(f"FROM '{folder / 'ledger.parquet'}'")
    charge = "cost + shared_unallocated_cost" if sharing else "cost"
    names = "charge cost idle_cost allocated_gpu_hours"
    sums = f"sum({charge}), sum(cost), sum(idle_cost), sum(allocated_gpu_hours)"
    sql = f"SELECT team, {sums} FROM ledger WHERE kind = 'allocated' GROUP BY 1"  # noqa: S608
    assert sorted(shown(*row) for row in duckdb.execute(sql).fetchall()) == sorted(
        figures(team, f"team {names}") for team in index_json["teams"]
    )
    for team in index_json["teams"]:
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
        assert (coverage["state"], coverage["reasons"]) == (index_json["state"], index_json["reasons"])
        assert (
            coverage["reconciliation"] == "no bill of 2026-10 was collected, so the reconciliation is missing"
        )
    assert index_json["state"] == "estimate"
    assert any(team["charge"] > team["cost"] for team in index_json["teams"]) is bool(sharing)
    whole = json.loads((folder / "all-teams.json").read_text())["totals"]["node_cost"]
    focus = duckdb.read_parquet(str(folder / "focus.parquet")).sum("EffectiveCost").fetchall()[0][0]
    assert index_json["totals"]["node_cost"] == whole
    assert ledger.sum("cost").fetchall() == [(Decimal(str(whole)),)]
    assert float(focus) == pytest.approx(whole, abs=1e-9)


def test_ledger_has_a_row_per_team_workload_day_model_and_capacity_type(sealed: Made) -> None:
    names = ("kind", "team", "workload", "day", "gpu_model", "capacity_type")
    lines = csv.DictReader((sealed.folder / "ledger.csv").open())
    keys = [tuple(line[name] for name in names) for line in lines]
    assert len(set(keys)) == len(keys) and {key[0] for key in keys} == {"allocated", "unallocated"}
    assert ("allocated", "product", "Deployment/serve", "2026-10-01", "A100", "on_demand") in keys


def test_file_names_are_unique_for_any_team_names() -> None:
    names = file_names([*HOSTILE, "", "A", "a", "a-559aead0", "a" * 61, "a" * 60])
    assert len({name.lower() for name in names.values()}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", name) for name in names.values())
    assert names["research"] == "research" and names["Research"].startswith("research-")
    assert file_names(["Research"])["Research"] == names["Research"]


def test_final_month_over_an_estimate_shows_the_adjustment(sealed: Made, restated: Made) -> None:
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
def test_bundle_has_the_file_mode_of_the_store(store: Path, tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('[store]\nmode = "0644"\n')
    mask = os.umask(0o027)
    try:
        run(store, tmp_path / "shared")
    finally:
        os.umask(mask)
    assert modes(tmp_path / "shared" / "2026-10") == {(True, "750"), (False, "640")}


@pytest.fixture(scope="module")
def incomplete(october: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A month with 48 hours and a bill of taxes and fees.

    Two bills are missing: one of a cloud with a bill in the previous month, one of a configured cloud.
    """
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


def test_incomplete_month_is_written_and_exits_with_4(
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
    # after `--collect`, the fix for the rest is `gpucost doctor`
    monkeypatch.setattr("gpucost.cli.bills.collect_missing", lambda *_: 0)
    monkeypatch.chdir(incomplete.out.parent)
    store = copyfile(incomplete.unsealed, tmp_path / "store.duckdb")
    result = run(store, tmp_path / "out", f"{incomplete.options} --collect", 4)
    assert result.stderr.endswith(f"fix: gpucost doctor --store {store}\n")


def test_index_lists_the_steps_from_the_charge_to_the_invoice(incomplete: Made) -> None:
    index_json = manifest(incomplete)
    charged, shared = index_json["totals"]["charge"], index_json["totals"]["shared_cost"]
    estimated = sum(team["estimated_cost"] for team in index_json["teams"])
    assert 0 < estimated < charged and 0 < shared < charged
    lines = {line["line"]: (line["rows"], line["cost"]) for line in index_json["invoice"].pop("lines")}
    assert index_json["invoice"] == {"billed_cost": 57, "effective_cost": 7, "rows": 2, "difference": 0}
    assert lines == {
        "charged": (0, charged), "estimated": (None, pytest.approx(-estimated)), "shared": (None, pytest.approx(-shared)),
        "other_bills": (None, pytest.approx(estimated + shared - charged)), "commitment_fees": (1, 0), "tax": (1, 7),
        "billed_less_effective": (None, 50),
    }  # fmt: skip
    index = (incomplete.folder / "index.md").read_text()
    assert f"| estimates, which are on no bill |  | -${estimated:,.2f} |" in index
    assert "| **Invoice** | **2** | **$57.00** |" in index


def test_failed_run_keeps_the_previous_content_and_cleans_up(
    bundle: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = contents(bundle.folder)
    monkeypatch.setattr("gpucost.publish.chargeback.html", full)
    result = bundle.restored().run(code=1)
    assert "No space left on device; the previous content is kept" in result.stderr
    assert contents(bundle.folder) == before
    assert [item.name for item in bundle.out.iterdir()] == ["2026-10"]


def test_foreign_directory_is_not_replaced_and_file_as_out_is_a_usage_error(
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
def test_without_an_atomic_exchange_two_renames_are_used(
    bundle: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucost.publish.chargeback._exchange", lambda *_: False)
    before = contents(bundle.folder)
    bundle.restored().run()
    assert contents(bundle.folder) == before
    assert [item.name for item in bundle.out.iterdir()] == ["2026-10"]


@pytest.mark.parametrize(
    ("month", "code", "message"),
    [("2025-01", "4", "--collect collects the missing data"), ("2999-01", "2", "2999-01 has not begun")],
)
def test_month_without_data_writes_no_files(
    store: Path, tmp_path: Path, month: str, code: str, message: str
) -> None:
    command.check_end(f"chargeback --out {tmp_path}/a/b --store {store} --month {month}", code, message)
    assert not (tmp_path / "a").exists()


def test_last_month_ends_at_midnight_in_a_zone_with_a_half_hour_offset() -> None:
    after_midnight = datetime(2026, 10, 31, 18, 40, tzinfo=UTC)
    call: Any = SimpleNamespace(month=None, tz=ZoneInfo("Asia/Kolkata"), now=after_midnight)
    assert _month(call)[0] == "2026-10"
