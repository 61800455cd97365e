"""The month's bundle: whole or not at all, the same bytes for the same input, and an adjustment over what stood there."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.publish import chargeback
from gpucost.publish.chargeback import file_names
from gpucost.store.connection import Store
from tests.bill_table import change_bill_rows
from tests.cell_tables import cell_tables
from tests.golden.report_fleet import HOUR, OCTOBER, OCTOBER_END, Fleet, alone, sample, stored
from tests.unit.billed import bill

HOSTILE = [
    "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "+1", "@sum", "-2", "a|b", "../../etc/passwd", "..", "Research",
    "research", "שלום\u202edrow", "x" * 253, "[click](javascript:alert(1))", "con\nnewline", '"quoted", comma',
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


# A store of October, of which each test has a copy.
filled = stored(hours=48, collected=[("prod", OCTOBER, OCTOBER_END)])


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return Path(copyfile(filled, tmp_path / "store.duckdb"))


@pytest.fixture(scope="module")
def made(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of that store."""
    folder = tmp_path_factory.mktemp("made")
    before = filled.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        alone(folder, patch)
        result = run(filled, folder / "out")
    assert result.exit_code == 0, result.output
    assert "GPU chargeback 2026-10: estimate" in result.stdout
    # all that is written is the seal
    assert len(Store(filled).query("FROM seals")[1]) == 1
    filled.write_bytes(before)
    return folder / "out"


def run(store: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["chargeback", "--month", "2026-10", "--out", str(out), "--store", str(store), *options])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def manifest(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "2026-10" / "index.json").read_text())
    return found


def test_the_bundle_is_whole_and_the_same_when_made_again(store: Path, made: Path, tmp_path: Path) -> None:
    out = Path(copytree(made, tmp_path / "out"))
    first = contents(out / "2026-10")
    assert {name.split("/")[-1] for name in first if name.startswith("teams/")} == {
        f"{team}.{kind}" for team in ("research", "product", "vision") for kind in ("md", "html", "csv", "json")
    }
    assert set(first) > {"index.md", "index.html", "index.json", "ledger.csv", "ledger.parquet", "focus.csv", "focus.parquet"}
    assert run(store, out, "-q").stdout == ""
    assert contents(out / "2026-10") == first
    assert [item.name for item in out.iterdir()] == ["2026-10"]
    assert {one["file"] for one in manifest(out)["files"]} == set(first) - {"index.json"}


@pytest.mark.slow
def test_every_file_holds_the_same_figures(store: Path, tmp_path: Path) -> None:
    assert run(store, tmp_path, "--share-unallocated", "proportional").exit_code == 0
    folder, told = tmp_path / "2026-10", manifest(tmp_path)
    ledger = duckdb.sql(f"FROM '{folder / 'ledger.parquet'}'")
    for team in told["teams"]:
        sums = "sum(cost + shared_unallocated_cost), sum(cost), sum(idle_cost), sum(allocated_gpu_hours)"
        sql = f"SELECT {sums} FROM ledger WHERE team = $1"  # noqa: S608 - names of our own
        charge, cost, idle, hours = duckdb.execute(sql, [team["team"]]).fetchall()[0]
        assert (float(charge), float(cost), float(idle)) == pytest.approx(
            (team["charge"], team["cost"], team["idle_cost"]), abs=1e-9
        )
        assert hours == pytest.approx(team["allocated_gpu_hours"])
        report = json.loads((folder / f"{team['file']}.json").read_text())
        assert report["totals"]["cost"] == team["cost"]
        lines = list(csv.DictReader((folder / f"{team['file']}.csv").open()))
        assert {line["team"] for line in lines} == {team["team"]}
        assert float(sum(Decimal(line["cost"]) for line in lines)) == pytest.approx(team["cost"], abs=1e-9)
        for page in ("index.md", "index.html"):
            assert f"${team['charge']:,.2f}" in (folder / page).read_text()
        for page in (".md", ".html"):
            text = (folder / f"{team['file']}{page}").read_text()
            assert f"${team['cost']:,.2f}" in text and "UTC; estimate" in text
            assert "no bill was collected: prices are those of the price book" in text
            assert f"$0.00; ${team['cost']:,.2f} is an estimate until its bill is collected" in text
            assert "no bill of 2026-10 was collected, so nothing is reconciled" in text
        assert report["coverage"]["state"] == told["state"] == "estimate"
        assert report["coverage"]["reasons"] == told["reasons"]
        assert report["coverage"]["reconciliation"] == "no bill of 2026-10 was collected, so nothing is reconciled"
    whole = json.loads((folder / "all-teams.json").read_text())["totals"]
    assert told["totals"]["node_cost"] == whole["node_cost"]
    assert ledger.sum("cost").fetchall() == [(Decimal(str(whole["node_cost"])),)]
    focus = duckdb.read_parquet(str(folder / "focus.parquet")).sum("EffectiveCost").fetchall()[0][0]
    assert float(focus) == pytest.approx(whole["node_cost"], abs=1e-9)


def test_the_ledger_has_a_row_per_team_workload_day_model_and_capacity_type(made: Path) -> None:
    lines = list(csv.DictReader((made / "2026-10" / "ledger.csv").open()))
    keys = [
        (line["kind"], line["team"], line["workload"], line["day"], line["gpu_model"], line["capacity_type"]) for line in lines
    ]
    assert len(set(keys)) == len(keys)
    assert ("allocated", "product", "Deployment/serve", "2026-10-01", "A100", "on_demand") in keys
    assert {line["kind"] for line in lines} == {"allocated", "unallocated"}


def test_hostile_names_reach_no_other_place_and_run_nothing(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node(1, "n1", "A100", 16, "spot", "16")
    for number, team in enumerate(HOSTILE, 1):
        fleet.pod(number, 1, team, f"pod-{number}", f"Pod/{team}")
    for hour in range(3):
        fleet.cell(OCTOBER + hour * HOUR, 1, [(number, team, 1, 1.0, 0.5) for number, team in enumerate(HOSTILE, 1)])
    fleet.rows["collected"].append(("prod", OCTOBER, OCTOBER_END))
    fleet.write(tmp_path / "hostile.duckdb")
    out = tmp_path / "out"
    result = run(tmp_path / "hostile.duckdb", out)
    assert result.exit_code == 0, result.output
    assert {item.name for item in tmp_path.iterdir()} >= {"out", "hostile.duckdb"}
    names = [path.name for path in (out / "2026-10" / "teams").iterdir()]
    assert len(names) == len({name.lower() for name in names}) == 4 * len(HOSTILE)
    assert all(len(name) <= 90 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.") for name in names)
    for page in (out / "2026-10").rglob("*.html"):
        text = page.read_text()
        assert "<script>alert" not in text and "\u202e" not in text
        _Balanced(page.name == "index.html").feed(text)
    for table in (out / "2026-10").rglob("*.csv"):
        for row in csv.reader(table.open(newline="")):
            assert not [
                cell
                for cell in row
                if cell.startswith(("=", "+", "@", "\t", "\r")) or (cell.startswith("-") and not _is_number(cell))
            ]
    index = (out / "2026-10" / "index.md").read_text()
    rows = [line for line in index.splitlines() if line.startswith("| ") and "teams/" in line]
    assert len(rows) == len(HOSTILE)
    assert {line.replace("\\|", "").count("|") for line in rows} == {rows[0].replace("\\|", "").count("|")}
    told = duckdb.read_parquet(str(out / "2026-10" / "ledger.parquet")).select("team").fetchall()
    assert {team for (team,) in told if team is not None} == set(HOSTILE)


class _Balanced(HTMLParser):
    """Fails on a script in a page that should have none, and on an event handler anywhere."""

    def __init__(self, is_plain: bool) -> None:
        super().__init__()
        self.is_plain = is_plain

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not (self.is_plain and tag == "script")
        assert not [name for name, value in attrs if name.startswith("on") or (value or "").lower().startswith("javascript:")]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_file_names_are_unique_whatever_teams_are_called() -> None:
    names = file_names([*HOSTILE, "", "A", "a", "a-559aead0", "a" * 61, "a" * 60])
    assert len({name.lower() for name in names.values()}) == len(names)
    assert names["research"] == "research" and names["Research"].startswith("research-")
    assert file_names(["Research"])["Research"] == names["Research"]
    assert max(map(len, names.values())) <= 80


def test_a_final_month_over_an_estimated_one_shows_the_adjustment(store: Path, made: Path, tmp_path: Path) -> None:
    copytree(made, tmp_path, dirs_exist_ok=True)
    before = manifest(tmp_path)
    assert before["state"] == "estimate" and before["replaces"] is None
    with duckdb.connect(str(store)) as con:
        # what attribution makes of a bill that asks half
        bill(con, *({"key": f"i-{node}", "hour": 0, "length": 744.0, "cost": "10"} for node in (1, 2, 3, 4)))
        con.execute("UPDATE bills SET is_final = true")
        with cell_tables(con):
            for table in ("cost_hourly", "cost_daily"):
                halves = ", ".join(f"{name} = {name} / 2" for name in ("cost", "idle_cost", "unallocated_cost"))
                con.execute(f"UPDATE {table} SET {halves}, estimated_cost = 0")  # noqa: S608 - names of our own
            for table in ("node_hourly", "node_daily"):
                con.execute(f"UPDATE {table} SET node_cost = node_cost / 2, price_source = 'bill'")  # noqa: S608 - names of our own
    result = run(store, tmp_path)
    assert result.exit_code == 0, result.output
    after = manifest(tmp_path)
    assert (after["state"], after["reasons"]) == ("final", [])
    assert after["replaces"]["state"] == "estimate"
    changed = {one["team"]: one["adjustment"] for one in after["replaces"]["teams"]}
    assert changed == {
        team["team"]: pytest.approx(team["charge"] - was["charge"], abs=1e-8)
        for was in before["teams"]
        for team in after["teams"]
        if team["team"] == was["team"]
    }
    assert after["reconciliation"]["is_final"] is True
    index = (tmp_path / "2026-10" / "index.md").read_text()
    assert (
        "The bundle before it was an estimate. What changed in what it is made from:\n\n- bill of " in index
        and "-$" in index
        and "Reconciled: bill of aws (final" in index
    )
    sentence = after["reconciliation"]["sentence"]
    for team in (*after["teams"], {"file": "all-teams", "cost": after["totals"]["node_cost"]}):
        report = json.loads((tmp_path / "2026-10" / f"{team['file']}.json").read_text())["coverage"]
        assert (report["state"], report["reasons"], report["reconciliation"]) == ("final", [], sentence)
        for page in (".md", ".html"):
            text = (tmp_path / "2026-10" / f"{team['file']}{page}").read_text()
            assert f"all of it: ${team['cost']:,.2f}" in text and sentence in text
    bytes_before = contents(tmp_path / "2026-10")
    assert run(store, tmp_path).exit_code == 0
    assert contents(tmp_path / "2026-10") == bytes_before


def verify(store: Path, out: Path, *options: str) -> Result:
    words = ["chargeback", "verify", "--month", "2026-10", "--out", str(out), "--store", str(store), "--format", "json", *options]
    return CliRunner().invoke(app, words)


def found(result: Result) -> dict[str, str]:
    return {one["check"]: one["result"] for one in json.loads(result.stdout)}


def test_the_figures_of_a_closed_month_are_made_again_or_what_changed_is_said(store: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "out", tmp_path / "other.toml"
    config.write_text('[[teams]]\nname = "all"\nnamespaces = ["no-such"]\n')
    assert run(store, out).exit_code == 0
    state = store.read_bytes(), contents(out)
    result = verify(store, out)
    assert (result.exit_code, found(result)) == (0, {"files": "ok", "log": "ok", "figures": "ok"}), result.output
    assert "to the last digit" in result.stderr
    result = verify(store, out, "--config", str(config))
    assert (result.exit_code, found(result)["input"], found(result)["figures"]) == (0, "changed", "ok"), result.output
    assert "[teams] of the configuration" in result.stdout and "moved none" in result.stderr
    assert (store.read_bytes(), contents(out)) == state
    with duckdb.connect(str(store)) as con, cell_tables(con):
        con.execute("UPDATE cost_daily SET cost = cost + 0.000000001 WHERE team = 'research'")
        con.execute("UPDATE cost_hourly SET cost = cost + 0.000000001 WHERE team = 'research'")
    result = verify(store, out)
    assert (result.exit_code, found(result)["figures"]) == (1, "changed")
    assert "although nothing changed that was sealed" in result.stderr
    result = verify(store, out, "--config", str(config))
    assert result.exit_code == 1 and "cannot be made again: [teams] of the configuration" in result.stderr
    assert run(store, out, "--config", str(config)).exit_code == 0
    assert manifest(out)["replaces"]["reasons"] == ["[teams] of the configuration"]
    told = CliRunner().invoke(app, ["store", "log", "--store", str(store), "--format", "json"])
    last, before = json.loads(told.stdout)[:-3:-1]
    assert (before["what"], last["what"]) == ("seal", "restatement")
    assert last["detail"].endswith("; [teams] of the configuration") and " before" in last["detail"]


@pytest.mark.parametrize("what", ["ledger.csv", "teams/research.html", "index.json", "gone"])
def test_a_bundle_that_was_changed_is_not_what_was_sealed(what: str, store: Path, tmp_path: Path) -> None:
    assert run(store, tmp_path).exit_code == 0
    file = tmp_path / "2026-10" / ("ledger.parquet" if what == "gone" else what)
    if what == "gone":
        file.unlink()
    else:
        text = file.read_text()
        file.write_text(text.replace("research", "other", 1))
    result = verify(store, tmp_path)
    assert (result.exit_code, found(result)["files"]) == (1, "changed"), result.output
    assert f"is not what was sealed: {file.relative_to(tmp_path / '2026-10')}" in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.pop("files"),
        lambda index: index["seal"].pop("figures"),
        lambda index: index["seal"].update(inputs=[{"kind": 1}]),
        lambda index: index.update(files=[one for one in index["files"] if one["file"] != "ledger.csv"]),
    ],
    ids=["files", "figures", "inputs", "ledger"],
)
def test_an_index_that_lacks_something_is_not_what_was_sealed(
    change: Callable[[dict[str, Any]], object], store: Path, tmp_path: Path
) -> None:
    assert run(store, tmp_path).exit_code == 0
    index, told = tmp_path / "2026-10" / "index.json", manifest(tmp_path)
    change(told)
    index.write_text(json.dumps(told))
    (tmp_path / "2026-10" / "ledger.csv").unlink()
    result = verify(store, tmp_path)
    assert result.exit_code == 1 and "is not what was sealed: " in result.stderr, result.output


def test_bundles_that_share_otherwise_restate_nothing(store: Path, tmp_path: Path) -> None:
    for out, options in (("a", ()), ("b", ("--share-unallocated", "proportional")), ("a", ()), ("c", ())):
        assert run(store, tmp_path / out, *options).exit_code == 0
    told = CliRunner().invoke(app, ["store", "log", "--store", str(store), "--format", "json"])
    sealed = [one["what"] for one in json.loads(told.stdout) if one["what"] in ("seal", "restatement")]
    assert sealed == ["seal", "seal"]


def test_a_bundle_that_somebody_sealed_anew_is_not_in_the_log(store: Path, tmp_path: Path) -> None:
    assert run(store, tmp_path).exit_code == 0
    index = tmp_path / "2026-10" / "index.json"
    index.write_text(index.read_text().replace('"program": "', '"program": "9.'))
    result = verify(store, tmp_path)
    assert (result.exit_code, found(result)["log"]) == (1, "changed"), result.output


def test_figures_of_an_earlier_csv_are_those_of_today(tmp_path: Path) -> None:
    manifest = dict.fromkeys(chargeback._FIGURES)
    for ledger in ("team,cost\na;b,1\n", "team,estimated_api_cost,cost\na;b,0,1\n", 'team,cost\n"a;b",1\n'):
        (tmp_path / "ledger.csv").write_text(ledger)
        assert chargeback.figures_as_now(tmp_path, manifest) == chargeback.figures_digest(manifest, 'team,cost\n"a;b",1\n')


def forge_page(folder: Path) -> None:
    """Other words on a page, with its digest in the index."""
    index, page = folder / "index.json", folder / "all-teams.md"
    before = page.read_bytes()
    page.write_bytes(before.replace(b"research", b"somebody"))
    digests = [sha256(content).hexdigest() for content in (before, page.read_bytes())]
    text = index.read_text().replace(digests[0], digests[1])
    index.write_text(text.replace(f'"bytes": {len(before)},', f'"bytes": {page.stat().st_size},'))


@pytest.mark.parametrize("is_forged", [False, True])
@pytest.mark.parametrize("earlier", ["none", "other"])
def test_a_restored_store_tells_an_honest_bundle_from_a_forged_one(
    store: Path, tmp_path: Path, earlier: str, is_forged: bool
) -> None:
    """The copy was made before the seal, and knows no seal of the month or one of another bundle."""
    if earlier == "other":
        assert run(store, tmp_path, "--share-unallocated", "even").exit_code == 0
    copy = store.read_bytes()
    assert run(store, tmp_path).exit_code == 0
    store.write_bytes(copy)
    if is_forged:
        forge_page(tmp_path / "2026-10")
    result = verify(store, tmp_path)
    expected = (1, "changed", "not in the log; its files cannot be made again") if is_forged else (
        0, "ok", "not in the log; every file can be made again"
    )  # fmt: skip
    (log,) = [one for one in json.loads(result.stdout) if one["check"] == "log"]
    assert (result.exit_code, log["result"], log["detail"]) == expected, result.output
    assert found(result)["files"] == found(result)["figures"] == "ok"


def test_what_was_never_sealed_is_not_verified(store: Path, tmp_path: Path) -> None:
    result = verify(store, tmp_path)
    assert result.exit_code == 1 and "there is no bundle of 2026-10" in result.stderr and "gpucost chargeback" in result.stderr
    assert run(store, tmp_path).exit_code == 0
    index = tmp_path / "2026-10" / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"seal": None}))
    result = verify(store, tmp_path)
    assert result.exit_code == 1 and "was not sealed: an earlier gpucost wrote it" in result.stderr


def test_bundles_are_their_owners_alone_unless_asked_otherwise(store: Path, tmp_path: Path) -> None:
    def modes(out: Path) -> set[tuple[bool, str]]:
        return {(path.is_dir(), f"{path.stat().st_mode & 0o777:o}") for path in (out / "2026-10", *out.rglob("*/*"))}

    assert run(store, tmp_path / "own").exit_code == 0
    assert modes(tmp_path / "own") == {(True, "700"), (False, "600")}
    (tmp_path / "gpucost.toml").write_text('[store]\nmode = "0644"\n')
    mask = os.umask(0o027)
    try:
        assert run(store, tmp_path / "shared", "--config", str(tmp_path / "gpucost.toml")).exit_code == 0
    finally:
        os.umask(mask)
    assert modes(tmp_path / "shared") == {(True, "750"), (False, "640")}


def test_a_closed_month_that_was_not_collected_ends_with_4_and_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.duckdb"
    sample(hours=48).write(path)
    result = run(path, tmp_path / "out")
    assert result.exit_code == 4
    assert (
        "2026-10 is incomplete: 696.0 h of prod were not collected, 2026-10-03 00:00 to 2026-11-01 00:00: after its last sample"
        in result.stderr
    )
    out = tmp_path / "out"
    again = f"--month 2026-10 --out {out} --store {path}"
    assert result.stderr.endswith(f"fix: gpucost chargeback --collect {again}\n")
    assert "This month is incomplete" in (tmp_path / "out" / "2026-10" / "index.md").read_text()
    # what collecting did not bring is for the doctor
    monkeypatch.setattr("gpucost.collect.prices.public._ATTEMPTS", 1)
    (tmp_path / "gpucost.toml").write_text("prometheus = []")
    assert run(path, tmp_path / "out", "--collect").stderr.endswith(f"fix: gpucost doctor --store {path}\n")


@pytest.mark.slow
def test_the_index_names_what_stands_between_the_charge_and_the_invoice(store: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(store)) as con:
        bill(con, {"kind": "commitment_fee", "key": None, "cost": "0"}, {"kind": "tax", "key": None, "cost": "7"})
        change_bill_rows(con, "UPDATE bill_rows SET billed_cost = 50, charge_category = 'Purchase' WHERE kind <> 'tax'")
        con.execute("UPDATE cost_daily SET estimated_cost = cost / 4 WHERE kind = 'allocated'")
    assert run(store, tmp_path).exit_code == 0
    told = manifest(tmp_path)
    charged, estimated = told["totals"]["charge"], sum(team["estimated_cost"] for team in told["teams"])
    assert 0 < estimated < charged
    assert told["invoice"] == {
        "billed_cost": 57,
        "effective_cost": 7,
        "rows": 2,
        "difference": 0,
        "lines": [
            {"line": "charged", "rows": 0, "cost": charged},
            {"line": "estimated", "rows": None, "cost": pytest.approx(-estimated)},
            {"line": "other_bills", "rows": None, "cost": pytest.approx(estimated - charged)},
            {"line": "commitment_fees", "rows": 1, "cost": 0},
            {"line": "tax", "rows": 1, "cost": 7},
            {"line": "billed_less_effective", "rows": None, "cost": 50},
        ],
    }
    index = (tmp_path / "2026-10" / "index.md").read_text()
    for line in (
        f"| charged to teams | 0 | ${charged:,.2f} |",
        f"| of it, estimates: on no bill |  | -${estimated:,.2f} |",
        "| fees of commitments, spread over what they cover | 1 | $0.00 |",
        "| **Invoice** | **2** | **$57.00** |",
    ):
        assert line in index


def test_a_missing_bill_ends_with_4(store: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(store)) as con:
        bill(con, {"key": "i-1"}, period="2026-09")
    (tmp_path / "gpucost.toml").write_text('[gcp]\nexports = ["somewhere"]\n')
    result = run(store, tmp_path / "out")
    assert result.exit_code == 4
    assert "the bill of AWS is missing" in result.stderr and "the bill of Google Cloud is missing" in result.stderr


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (full, 1, "No space left on device; what was there before is kept"),
        (lambda *_: os.kill(os.getpid(), signal.SIGTERM), 143, ""),
    ],
)
def test_a_run_that_fails_or_is_ended_keeps_what_was_there_and_cleans_up(
    store: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Any, code: int, said: str
) -> None:
    out = Path(copytree(made, tmp_path / "out"))
    before = contents(out / "2026-10")
    monkeypatch.setattr(sys.modules["gpucost.publish.chargeback"], "to_parquet", end)
    result = run(store, out)
    assert result.exit_code == code and said in result.stderr
    assert contents(out / "2026-10") == before
    assert [item.name for item in out.iterdir()] == ["2026-10"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_and_files_of_others_stay(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".gpucost-run-killed").mkdir(parents=True)
    assert run(store, out).exit_code == 0
    (out / "2026-10" / "notes.txt").write_text("approved by finance")
    (out / "2026-10" / "teams" / "gone.md").write_text("mine")
    assert run(store, out).exit_code == 0
    assert (out / "2026-10" / "notes.txt").read_text() == "approved by finance"
    assert (out / "2026-10" / "teams" / "gone.md").exists()
    assert [item.name for item in out.iterdir()] == ["2026-10"]


def test_what_is_no_bundle_is_not_replaced_and_a_file_in_place_of_the_directory_is_wrong_usage(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "2026-10").mkdir()
    (tmp_path / "2026-10" / "precious.txt").write_text("x")
    result = run(store, tmp_path)
    assert result.exit_code == 1 and "was not written by gpucost chargeback" in result.stderr
    assert (tmp_path / "2026-10" / "precious.txt").read_text() == "x"
    (tmp_path / "out").write_text("x")
    result = run(store, tmp_path / "out")
    assert result.exit_code == 2 and "--out names a file" in result.stderr


@pytest.mark.slow
def test_a_killed_run_leaves_what_was_there_and_nothing_of_its_own_after_the_next(
    store: Path, made: Path, tmp_path: Path
) -> None:
    out = Path(copytree(made, tmp_path / "out"))
    before = contents(out / "2026-10")
    code = (
        "import os, sys, gpucost.publish.chargeback, gpucost.pipeline as p; from gpucost.cli.app import app;"
        "sys.modules['gpucost.publish.chargeback'].to_parquet = lambda *_: os.kill(os.getpid(), 9);"
        "p.attribute = lambda *_: None; p.attribution.is_current = lambda *_: True;"
        f"app(['chargeback', '--month', '2026-10', '--out', {str(out)!r}, '--store', {str(store)!r}])"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list(out.iterdir())) == 2 and contents(out / "2026-10") == before
    assert run(store, out).exit_code == 0
    assert contents(out / "2026-10") == before and len(list(out.iterdir())) == 1


def test_two_runs_do_not_write_at_once(store: Path, tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "out").mkdir()
    descriptor = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    result = run(store, tmp_path / "out")
    os.close(descriptor)
    assert result.exit_code == 1 and "another run is writing" in result.stderr


@pytest.mark.slow
def test_without_an_exchange_in_one_step_two_renames_do(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucost.publish.chargeback._exchange", lambda *_: False)
    assert run(store, tmp_path / "out").exit_code == 0
    before = contents(tmp_path / "out" / "2026-10")
    assert run(store, tmp_path / "out").exit_code == 0
    assert contents(tmp_path / "out" / "2026-10") == before
    assert [item.name for item in (tmp_path / "out").iterdir()] == ["2026-10"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--month", "2026-13"), 2, "is no month"),
        (("--month", "2025-01"), 4, "there is no data for"),
        (("--month", "2025-01"), 4, "--collect collects what the store lacks"),
        (("--month", "2999-01"), 2, "2999-01 has not begun"),
        (("--focus-version", "9"), 2, "9"),
    ],
)
def test_wrong_options(store: Path, tmp_path: Path, options: tuple[str, ...], code: int, said: str) -> None:
    result = CliRunner().invoke(app, ["chargeback", "--out", str(tmp_path / "a/b"), "--store", str(store), *options])
    assert result.exit_code == code and said in result.stderr
    assert not (tmp_path / "a").exists()
