"""A lake: raw data there and back, one writer a day, figures that are the store's, and what is said where something is wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.errors import GpucostError, NoDataError, StoreError, UsageError
from gpucost.lake import attribution, manifest, steps, transfer
from gpucost.lake.files import open_files
from gpucost.lake.tables import RAW
from gpucost.store.connection import Store, scratch_store
from tests.lakes import RAW as RAW_QUERIES
from tests.lakes import attribute, differences, export, opened, stored_together, unlike_the_store
from tests.oracle.shared_cases import replayed, shared_cases
from tests.oracle.test_exact import Together, name_of, together
from tests.replay.edits import relabel
from tests.replay.fleet import read_fleet
from tests.replay.load import load, windows, write_config
from tests.replay.scrape import scrape
from tests.shared import shared

CASE = Path(__file__).parents[1] / "replay/cases"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample fleet, attributed, and a lake of it beside the store."""
    folder = tmp_path_factory.mktemp("demo")
    run("demo", "--keep", str(folder), "-q")
    run("lake", "export", str(folder / "lake"), "--config", str(folder / "gpucost.toml"))
    run("lake", "attribute", str(folder / "lake"), "--config", str(folder / "gpucost.toml"))
    return folder


def run(*words: str, code: int = 0) -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def stored(folder: Path, case: str = "whole-gpus", cluster: str = "", source: str = "replay") -> tuple[Config, Store]:
    """A store of a case below `folder`, its cluster called so."""
    folder.mkdir(exist_ok=True)
    fleet = read_fleet(CASE / case)
    config = write_config(fleet, folder, CASE / case / "prices.csv")
    series = scrape(fleet, lean=True)
    if cluster:
        series = relabel(series, ".*", {"cluster": None})
        fleet["nodes"] = [{**node, "cluster": cluster} for node in fleet["nodes"]]
    store = Store(config.store)
    with store.write() as con:
        for window in windows(fleet, series, config, 6, source):
            transfer_window(con, window)
    return config, store


def transfer_window(con: object, window: object) -> None:
    from gpucost.store.metrics import load_window

    load_window(con, window)  # type: ignore[arg-type]


# neither the one group of most cases, nor those of one or two, which cost as much as more
GROUPS = [pytest.param(one, marks=[] if 3 <= len(one.cases) < 10 else [pytest.mark.slow]) for one in together()]


@pytest.mark.parametrize("group", GROUPS, ids=name_of)
def test_figures_of_all_cases_are_those_of_the_store(group: Together, tmp_path: Path) -> None:
    """Many clusters in one lake."""
    wrong = unlike_the_store(*stored_together(group, tmp_path), pairs=2_000)
    assert not wrong, "\n".join(wrong)


@pytest.mark.shared
@pytest.mark.slow
# all of them are attributed with Spark (tests/services/test_lake_spark.py)
@pytest.mark.parametrize("name", shared_cases()[::4] or ["none"])
def test_figures_of_shared_fleets_are_those_of_the_store(name: str, tmp_path: Path) -> None:
    case = shared(f"replay/cases/{name}")
    fleet = read_fleet(case)
    config = write_config(fleet, tmp_path, case / "prices.csv")
    wrong = unlike_the_store(config, load(fleet, replayed(fleet), config))
    assert not wrong, "\n".join(wrong)


def test_what_is_written_comes_back_row_by_row_and_only_once(demo: Path, tmp_path: Path) -> None:
    config = load_config(demo / "gpucost.toml")
    other = Store(tmp_path / "other.duckdb")
    lake = manifest.read(open_files(str(demo / "lake"), config))
    for _ in range(2):
        transfer.import_lake(other, lake)
        assert not differences(config.store, other.path, RAW_QUERIES)
    again = export(config, Store(config.store), demo / "lake")
    assert (again.files, again.partitions) == (0, 0)


def test_what_a_load_changed_is_written_alone(tmp_path: Path) -> None:
    fleet = read_fleet(CASE / "whole-gpus")
    config = write_config(fleet, tmp_path, CASE / "whole-gpus/prices.csv")
    store, url = Store(config.store), tmp_path / "lake"
    all_windows = list(windows(fleet, scrape(fleet, lean=True), config, 6))
    for number, window in enumerate(all_windows):
        with store.write() as con:
            transfer_window(con, window)
        if number % 2:
            export(config, store, url)
            attribute(config, url)
    pipeline.attribute(config, store)
    export(config, store, url)
    done = attribute(config, url)
    with opened(config, url) as other:
        assert not differences(store.path, other.path)
    again = attribute(config, url)
    assert done.done["inventory"] <= 2 and sum(again.done.values()) == again.done["days"] == 1
    named = {
        file.name
        for one in manifest.read(open_files(str(url), config)).manifests
        for day in one.days.values()
        for file in day.values()
    }
    assert {str(path.relative_to(url)) for path in (url / "raw").rglob("*.parquet")} == named


def test_a_collector_without_the_old_samples_leaves_their_series(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    config = config.model_copy(update={"lake": config.lake.model_copy(update={"writer": "collector"})})
    export(config, store, url)
    lake = manifest.read(open_files(str(url), config))
    short = Store(tmp_path / "short.duckdb")
    transfer.import_lake(short, lake, since="9999-12-31")
    assert short.query("SELECT count(*) FROM blocks")[1] == [(0,)] != short.query("SELECT count(*) FROM loads")[1]
    transfer.export(config, short, open_files(str(url), config), since="9999-12-31")
    assert manifest.read(open_files(str(url), config)).tables("main") == lake.tables("main")


def test_lists_that_a_store_let_go_stay_in_the_lake(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    before = manifest.read(open_files(str(url), config)).tables("main")
    with store.write() as con:
        con.execute("UPDATE blocks SET vals = NULL")
    assert (
        export(config, store, url).files
        == transfer.export(config, store, open_files(str(url), config), everything=True).files
        == 0
    )
    assert manifest.read(open_files(str(url), config)).tables("main") == before


def test_two_stores_of_two_clusters_report_what_each_reported_alone(tmp_path: Path) -> None:
    """They come from servers of one name, with the same nodes and pods: only the cluster tells them apart."""
    url = tmp_path / "lake"
    alone = {}
    for name in ("east", "west"):
        config, store = stored(tmp_path / name, cluster=name)
        alone[name] = json.loads(run("report", "--by", "cluster,namespace", "--format", "json", "--config", str(config.path)))
        export(config, store, url)
    attribute(config, url)
    both = json.loads(
        run("report", "--by", "cluster,namespace", "--format", "json", "--config", str(config.path), "--lake", str(url))
    )
    for name, told in alone.items():
        assert [row for row in both["rows"] if row["cluster"] == name] == told["rows"]
    assert both["totals"]["cost"] == sum(told["totals"]["cost"] for told in alone.values())
    with pytest.raises(StoreError, match=r"clusters (east and west|west and east)"):
        transfer.import_lake(Store(tmp_path / "both.duckdb"), manifest.read(open_files(str(url), config)))
    one = Store(tmp_path / "one.duckdb")
    transfer.import_lake(one, manifest.read(open_files(str(url), config)), ["west"])
    assert not differences(tmp_path / "west/gpucost.duckdb", one.path, RAW_QUERIES)


def test_a_day_has_one_writer_and_both_are_named(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    before = sorted(path.relative_to(url) for path in url.rglob("*.*"))
    other_config, other = stored(tmp_path / "two")
    with pytest.raises(StoreError) as caught:
        export(other_config, other, url)
    assert str(store.path) in caught.value.message and str(other.path) in caught.value.message
    assert "day=2026" in caught.value.message and "lake drop" in str(caught.value.fix)
    assert sorted(path.relative_to(url) for path in url.rglob("*.*")) == before
    with store.read() as con:
        writer = transfer.writer_name(con, config, store)
    assert transfer.drop(open_files(str(url), config), writer) >= 1
    export(other_config, other, url)
    assert manifest.read(open_files(str(url), config)).clusters


def test_two_that_come_at_the_same_moment_see_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    other_config, other = stored(tmp_path / "two")
    looked = transfer._refuse_clash

    def look(*args: object) -> None:
        looked(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(transfer, "_refuse_clash", looked)
        export(config, store, url)

    monkeypatch.setattr(transfer, "_refuse_clash", look)
    with pytest.raises(StoreError, match="two writers hold"):
        export(other_config, other, url)
    monkeypatch.undo()
    pipeline.attribute(config, store)
    attribute(config, url)
    with opened(config, url) as seen:
        assert not differences(store.path, seen.path)


COMMANDS = (
    "report --month {}", "report --by workload,day --format csv", "report --waste --format json",
    "report --compare previous --format json", "waste --format json", "findings --format json", "unit epoch", "unit tokens",
    "whatif spot --format json", "whatif reserve", "whatif schedule", "whatif share", "whatif rightsize",
)  # fmt: skip


@pytest.mark.parametrize("words", [*COMMANDS[:2], *(pytest.param(words, marks=pytest.mark.slow) for words in COMMANDS[2:])])
def test_commands_say_of_a_lake_what_they_say_of_the_store(words: str, demo: Path) -> None:
    config = load_config(demo / "gpucost.toml")
    with Store(config.store).read() as con:
        month = con.execute("SELECT strftime(epoch_ms(max(from_ms)), '%Y-%m') FROM node_daily").fetchall()[0][0]
    call = [*words.format(month).split(), "--config", str(config.path), "-q"]
    # between the two the clock may come to another minute, which a month that is not over names
    assert any(run(*call, "--lake", str(demo / "lake")) == run(*call) for _ in range(2))


def test_files_of_a_lake_have_the_mode_of_a_store(tmp_path: Path) -> None:
    config, _ = stored(tmp_path)
    assert config.path is not None
    text = config.path.read_text().replace('store = "', '# store = "')
    config.path.write_text(f'{text}\n[store]\npath = "{config.store}"\nmode = "0660"\n')
    mask = os.umask(0o007)
    try:
        for step in ("export", "attribute"):
            run("lake", step, str(tmp_path / "lake"), "--config", str(config.path))
    finally:
        os.umask(mask)
    modes = {(path.is_dir(), f"{path.stat().st_mode & 0o777:o}") for path in (tmp_path / "lake").rglob("*")}
    assert modes == {(True, "770"), (False, "660")}


@pytest.mark.parametrize("month", ["2020-02", pytest.param("2035-02", marks=pytest.mark.slow)])
def test_a_month_before_and_after_all_data_is_said_as_of_a_store(month: str, demo: Path) -> None:
    call = ["report", "--month", month, "--format", "json", "--config", str(demo / "gpucost.toml")]
    told = [CliRunner().invoke(app, [*call, *more]) for more in (["--lake", str(demo / "lake")], [])]
    assert told[0].exit_code == told[1].exit_code and told[0].exception.__class__ is told[1].exception.__class__
    assert told[0].stdout == told[1].stdout


@pytest.mark.slow
def test_a_bundle_is_the_same_of_a_lake(demo: Path, tmp_path: Path) -> None:
    for name, more in (("store", []), ("lake", ["--lake", str(demo / "lake")])):
        run("chargeback", "--out", str(tmp_path / name), "--config", str(demo / "gpucost.toml"), "-q", *more, code=4)
    ledgers = [sorted((tmp_path / name).rglob("*.csv")) for name in ("store", "lake")]
    assert [one.name for one in ledgers[0]] == [one.name for one in ledgers[1]] != []
    assert [one.read_text() for one in ledgers[0]] == [one.read_text() for one in ledgers[1]]


def test_days_that_are_not_read_are_not_free(demo: Path) -> None:
    config = load_config(demo / "gpucost.toml")
    with Store(config.store).read() as con:
        last = con.execute("SELECT max(to_ms) FROM node_daily").fetchall()[0][0]
    from gpucost.periods import Period, from_ms

    period = Period(from_ms(last - 86_400_000), from_ms(last))
    with opened(config, demo / "lake", period=period) as store:
        days, first = store.query("SELECT count(DISTINCT from_ms), min(from_ms) FROM node_daily")[1][0]
        assert days == 33
        gaps = store.query("SELECT to_ms FROM coverage_gaps WHERE reason = 'not read from the lake'")[1]
        assert set(gaps) == {(first,)}
        assert store.query("SELECT min(from_ms) FROM collected")[1] == [(first,)]


def test_what_is_newer_than_the_figures_is_said(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    with pytest.raises(NoDataError, match="nothing is attributed"), opened(config, url):
        pass
    attribute(config, url)
    with store.write() as con:
        con.execute(
            "UPDATE blocks SET vals = list_transform(vals, lambda v: 0), value_sum = 0, last_value = 0 WHERE hour % 24 = 12"
        )
        con.execute("UPDATE loads SET loaded_at = loaded_at + INTERVAL 1 SECOND")
    export(config, store, url)
    output = run("report", "--lake", str(url), "--config", str(config.path))
    assert "data that is newer than its figures" in output


def test_other_settings_are_refused_until_they_are_attributed(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    attribute(config, url)
    other = config.model_copy(update={"idle": config.idle.model_copy(update={"threshold_percent": 50})})
    with pytest.raises(StoreError, match="another configuration"), opened(other, url):
        pass
    pipeline.attribute(other, store)
    attribute(other, url)
    with opened(other, url) as seen:
        assert not differences(store.path, seen.path)


def test_what_is_wrong_is_said_and_the_figures_from_before_stay(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    attribute(config, url)
    current = (url / "_gpucost/current.json").read_bytes()
    gone = sorted((url / "raw/blocks").rglob("*.parquet"))[0]
    gone.rename(tmp_path / "kept.parquet")
    other = config.model_copy(update={"idle": config.idle.model_copy(update={"threshold_percent": 50})})
    with pytest.raises(steps.TaskError, match=r"^inventory, cluster=main: .*is missing"):
        attribute(other, url)
    assert (url / "_gpucost/current.json").read_bytes() == current
    (tmp_path / "kept.parquet").rename(gone)
    attribute(other, url)


def test_a_lake_of_a_newer_version_a_broken_manifest_and_no_lake(tmp_path: Path) -> None:
    config, store = stored(tmp_path / "one")
    url = tmp_path / "lake"
    files = open_files(str(url), config)
    with pytest.raises(NoDataError, match="there is no lake"):
        manifest.read(files)
    export(config, store, url)
    file = next((url / "_gpucost/manifests").rglob("*.json"))
    told = json.loads(file.read_text())
    for name in ("format", "schema"):
        file.write_text(json.dumps({**told, name: told[name] + 1}))
        with pytest.raises(StoreError, match="newer gpucost"):
            manifest.read(files)
        with pytest.raises(StoreError, match="newer gpucost"):
            export(config, store, url)
    file.write_text("{")
    with pytest.raises(StoreError, match="no manifest"):
        manifest.read(files)
    with pytest.raises(UsageError, match="not the address of a bucket"):
        open_files("ftp://somewhere/lake", config)
    with pytest.raises(UsageError, match="is a file"):
        open_files(str(file), config)


def test_importing_loses_nothing_that_the_lake_does_not_have(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    lake = manifest.read(open_files(str(url), config))
    with store.write() as con:
        con.execute(
            "INSERT INTO loads "
            "SELECT max(load_id) + 1, 1, 'prometheus', 'replay', max(to_ms), max(to_ms) + 3600000, 1, 0, now() FROM loads"
        )
    with pytest.raises(StoreError, match="that the lake does not have"):
        transfer.import_lake(store, lake)
    with pytest.raises(NoDataError, match="no cluster nowhere"):
        transfer.import_lake(store, lake, ["nowhere"])


def test_periods_within_an_hour_are_refused(tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one")
    export(config, store, url)
    attribute(config, url)
    call = ["report", "--from", "2026-10-01T00:30", "--to", "2026-10-01T05:00", "--lake", str(url), "--config", str(config.path)]
    assert "whole hours" in run(*call, code=2)


def test_others_read_the_raw_layout(demo: Path) -> None:
    """As Spark SQL, Trino or DuckDB itself would: by Hive's folders."""
    import duckdb

    rows = duckdb.sql(
        "SELECT cluster, count(DISTINCT day), sum(samples) "  # noqa: S608
        f"FROM read_parquet('{demo}/lake/raw/blocks/**/*.parquet', hive_partitioning = true) GROUP BY ALL"
    ).fetchall()
    config = load_config(demo / "gpucost.toml")
    truth = Store(config.store).query("SELECT 'demo', count(DISTINCT hour // 24), sum(samples) FROM blocks")[1]
    assert rows == truth


def test_every_table_of_a_store_is_raw_or_made_of_it() -> None:
    own = {"schema_version", "seals", "collect_runs", "compactions", "cuts", "attribution_state", "attributed_days"}
    with scratch_store() as con:
        tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()}
    raw = {"bill_lines", "bill_details", *(table.name for table in RAW)} - {"bill_rows"}
    assert tables - own - raw == {name.split("/")[1] for step in steps.STEPS.values() for name in step.writes} & tables
    for step in steps.STEPS.values():
        assert {name.removeprefix("raw/") for name in step.reads if name.startswith("raw/")} <= {table.name for table in RAW}


def test_docs_show_the_tables_and_the_steps() -> None:
    text = (Path(__file__).parents[2] / "docs/lake.md").read_text()
    for table in RAW:
        assert f"| `{table.name}` | {table.day} |" in text
    for name, step in steps.STEPS.items():
        assert f"| {name} | {step.per} | `{step.stages}` |" in text


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one", "node-name-reused")
    export(config, store, url)
    monkeypatch.setattr(attribution, "_PAIRS_AT_ONCE", 24)
    work, calls = attribution.work, []

    def killed(*args: str) -> str:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return work(*args)

    monkeypatch.setattr(attribution, "work", killed)
    with pytest.raises(KeyboardInterrupt):
        attribute(config, url)
    monkeypatch.setattr(attribution, "work", work)
    done = attribute(config, url)
    assert done.unchanged["inventory"] == 2 and done.unchanged["price"] == 1
    pipeline.attribute(config, store)
    with opened(config, url) as seen:
        assert not differences(store.path, seen.path)
    shutil.rmtree(url / "_gpucost/attributed")
    with pytest.raises(GpucostError), opened(config, url):
        pass
