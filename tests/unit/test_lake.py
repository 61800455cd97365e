"""A lake: rows and figures equal to its store, one writer per day, and errors that name the fault."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import duckdb
import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.errors import NoDataError, StoreError, UsageError
from gpucost.lake import manifest, reading, steps
from gpucost.lake.files import open_files
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from tests.lakes import (
    RAW as RAW_QUERIES,
    GrownLake,
    attribute,
    differences,
    export,
    opened,
    stored,
    stored_together,
    unlike_the_store,
)
from tests.oracle.test_exact import Together, name_of, together
from tests.replay.cases.words import at
from tests.text_tables import text_rows
from tests.unit.command import call
from tests.unit.four_days import DAYS, copied

pytestmark = pytest.mark.ci


def less_idle(config: Config) -> Config:
    """A config with another idle threshold."""
    return config.model_copy(update={"idle": config.idle.model_copy(update={"threshold_percent": 50})})


@pytest.fixture
def lake(grown_lake: GrownLake, tmp_path: Path) -> GrownLake:
    """A copy that tests may change."""
    return grown_lake.copy(tmp_path / "copy")


def test_rows_and_figures_of_a_lake_match_the_store(grown_lake: GrownLake) -> None:
    with opened(grown_lake.config, grown_lake.url) as seen:
        assert not differences(grown_lake.store.path, seen.path)
        assert not differences(grown_lake.store.path, seen.path, RAW_QUERIES)
        sources = seen.query("SELECT DISTINCT price_source FROM node_prices ORDER BY ALL")[1]
    assert sources == [("bill",), ("price_book",)]


def test_only_the_fourth_day_is_written_and_attributed(grown_lake: GrownLake) -> None:
    first, second = grown_lake.exports
    days = [set(re.findall("main/day=2026-03-([0-9]+)", f"{one.files}")) for one in (first, second)]
    # runs of equal values continue from the end of the third day
    assert days == [{"10", "11", "12"}, {"12", "13"}]
    # two more partitions contain the bill
    assert (first.partitions, second.partitions, second.unchanged) == (5, 2, 4)
    # tasks that touch these days or the five hours next to them, two days in a task
    done = {"inventory": 2, "price": 1, "days": 1, "attribute": 2, "warnings": 1}
    assert [(run.days, run.unchanged, run.done) for run in grown_lake.runs] == [(3, 0, done), (3, 1, done)]
    assert "newer data than its figures" in "".join(grown_lake.notes)
    files = open_files(str(grown_lake.url), grown_lake.config)
    named = {file.name for one in manifest.read(files).manifests for file in one.files}
    assert set(files.names("raw")) == named


def test_repeated_export_and_attribution_leave_the_lake_unchanged(lake: GrownLake) -> None:
    again = export(lake.config, lake.store, lake.url)
    assert (again.files, again.partitions, again.unchanged) == ([], 0, 6)
    done = attribute(lake.config, lake.url)
    assert sum(done.done.values()) == done.done["days"] == 1 and (done.days, done.unchanged) == (0, 4)


def test_full_export_writes_a_missing_file_again(lake: GrownLake) -> None:
    lost = sorted((lake.url / "raw/states").rglob("*.parquet"))[0]
    lost.unlink()
    assert export(lake.config, lake.store, lake.url).files == []
    again = export(lake.config, lake.store, lake.url, everything=True)
    assert [file.name for file in again.files] == [str(lost.relative_to(lake.url))] and lost.is_file()


def test_samples_deleted_from_the_store_stay_in_the_lake(lake: GrownLake) -> None:
    before = manifest.read(open_files(str(lake.url), lake.config)).tables("main")
    with lake.store.write() as con:
        con.execute("UPDATE blocks SET vals = NULL")
    for everything in (False, True):
        assert export(lake.config, lake.store, lake.url, everything=everything).files == []
    assert manifest.read(open_files(str(lake.url), lake.config)).tables("main") == before


def test_second_writer_of_a_day_is_refused_and_both_are_named(four_days: Path, tmp_path: Path) -> None:
    url = tmp_path / "lake"
    config, store = copied(four_days, tmp_path / "one")
    export(config, store, url)
    before = sorted(path.relative_to(url) for path in url.rglob("*.*"))
    other_config, other = copied(four_days, tmp_path / "two")
    with pytest.raises(StoreError) as caught:
        export(other_config, other, url)
    assert str(store.path) in caught.value.message and str(other.path) in caught.value.message
    assert "day=2026" in caught.value.message and "[lake] writer" in str(caught.value.fix)
    assert sorted(path.relative_to(url) for path in url.rglob("*.*")) == before


def test_concurrent_exports_are_refused_until_one_manifest_is_deleted(
    four_days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tmp_path / "lake"
    config, store = copied(four_days, tmp_path / "one")
    other_config, other = copied(four_days, tmp_path / "two")
    check = manifest.refuse_clash

    def overtaken(*args: object) -> None:
        check(*args)  # type: ignore[arg-type]
        monkeypatch.undo()
        export(config, store, url)

    monkeypatch.setattr(manifest, "refuse_clash", overtaken)
    export(other_config, other, url)
    files = open_files(str(url), config)
    with pytest.raises(StoreError, match="two writers have") as caught:
        manifest.read(files)
    place = re.search(r"delete (\S+\.json)", str(caught.value.fix))
    assert place and call("lake", "info", str(url))[0].count("main") == 2
    Path(place[1]).unlink()
    assert manifest.read(files).clusters == ["main"]


# commands and their exit codes
COMMANDS = """
report --month 2026-03 | 0
report --by workload,day --format csv | 0
report --from 2026-03-12 --to 2026-03-13 --format json | 0
findings --month 2026-03 --format json | 0
report --month 2020-02 | 1
report --month 2035-02 | 1"""


@pytest.mark.parametrize(("words", "code"), text_rows(COMMANDS))
def test_commands_print_the_same_for_a_lake_and_its_store(
    words: str, code: str, grown_lake: GrownLake
) -> None:
    ask = partial(
        call, *words.split(), "--config", str(grown_lake.folder / "gpucost.toml"), "-q", code=int(code)
    )
    assert ask("--lake", str(grown_lake.url)) == ask()


def test_lake_files_have_the_mode_of_the_store(four_days: Path, tmp_path: Path) -> None:
    config, _ = copied(four_days, tmp_path / "one")
    assert config.path is not None
    text = config.path.read_text().replace('store = "', '# store = "')
    config.path.write_text(f'{text}\n[store]\npath = "{config.store}"\nmode = "0660"\n')
    mask = os.umask(0o007)
    try:
        call("lake", "export", str(tmp_path / "lake"), "--config", str(config.path))
    finally:
        os.umask(mask)
    modes = {(path.is_dir(), f"{path.stat().st_mode & 0o777:o}") for path in (tmp_path / "lake").rglob("*")}
    assert modes == {(True, "770"), (False, "660")}


def test_days_that_are_not_read_are_not_collected(
    grown_lake: GrownLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BEFORE_DAYS", 1)
    third, end = at(48) * 1000, at(72) * 1000
    with opened(grown_lake.config, grown_lake.url, period=Period(from_ms(third), from_ms(end))) as store:
        days = store.query("SELECT DISTINCT from_ms FROM node_daily ORDER BY ALL")[1]
        assert days == [(at(hour) * 1000,) for hour in (0, 24, 48)]
        gaps = "SELECT from_ms, to_ms, kind FROM coverage_gaps WHERE reason = 'not read from the lake'"
        assert store.query(gaps)[1] == [(end, at(DAYS * 24) * 1000, "not_collected")]
        assert store.query("SELECT min(from_ms), max(to_ms) FROM collected")[1] == [(at(0) * 1000, end)]
        assert not store.query(f"SELECT hour FROM blocks WHERE hour >= {end} // 3600000")[1]  # noqa: S608


def test_figures_of_other_settings_are_refused_and_kept_after_a_failed_task(lake: GrownLake) -> None:
    current = lake.url / "_gpucost/current.json"
    before = current.read_bytes()
    other = less_idle(lake.config)
    with pytest.raises(StoreError, match="another configuration"), opened(other, lake.url):
        pass
    sorted((lake.url / "raw/blocks").rglob("*.parquet"))[0].unlink()
    with pytest.raises(steps.TaskError, match=r"^inventory, cluster=main: .*is missing"):
        attribute(other, lake.url)
    assert current.read_bytes() == before
    current.unlink()
    with pytest.raises(NoDataError, match="has no figures"), opened(lake.config, lake.url):
        pass


def test_newer_lake_broken_manifest_and_missing_lake_are_errors(lake: GrownLake, tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="lake not found"):
        manifest.read(open_files(str(tmp_path / "none"), Config()))
    files = open_files(str(lake.url), lake.config)
    file = next((lake.url / "_gpucost/manifests").rglob("*.json"))
    content = json.loads(file.read_text())
    newer = [json.dumps({**content, name: content[name] + 1}) for name in ("format", "schema")]
    for text, refused in ((newer[0], "newer gpucost"), (newer[1], "newer gpucost"), ("{", "not a manifest")):
        file.write_text(text)
        with pytest.raises(StoreError, match=refused):
            manifest.read(files)
        with pytest.raises(StoreError, match=refused):
            export(lake.config, lake.store, lake.url)
    with pytest.raises(UsageError, match="not the address of a bucket"):
        open_files("ftp://somewhere/lake", lake.config)
    with pytest.raises(UsageError, match="is a file"):
        open_files(str(file), lake.config)


def test_raw_layout_is_readable_with_hive_partitioning(grown_lake: GrownLake) -> None:
    """Read Hive partitions, as Spark SQL, Trino or DuckDB do."""
    what = "count(DISTINCT {}), sum(samples), sum(hash(vals, offsets_ms))"
    rows = duckdb.sql(
        f"SELECT cluster, {what.format('day')} "  # noqa: S608
        f"FROM read_parquet('{grown_lake.url}/raw/blocks/**/*.parquet', hive_partitioning = true) GROUP BY ALL"
    ).fetchall()
    truth = Store(grown_lake.store.path).query(f"SELECT 'main', {what.format('hour // 24')} FROM blocks")[1]  # noqa: S608
    assert rows == truth


@pytest.mark.slow
@pytest.mark.parametrize("group", together(), ids=name_of)
def test_figures_of_all_cases_match_the_store(group: Together, tmp_path: Path) -> None:
    """Many clusters in one lake."""
    wrong = unlike_the_store(*stored_together(group, tmp_path), pairs=2_000)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_two_clusters_in_a_lake_report_the_same_as_separate_stores(tmp_path: Path) -> None:
    """Both have the same server name, nodes and pods; only the cluster name differs."""
    url = tmp_path / "lake"
    alone = {}
    by_cluster = ["report", "--by", "cluster,namespace", "--format", "json"]
    for name in ("east", "west"):
        config, store = stored(tmp_path / name, cluster=name)
        alone[name] = json.loads(call(*by_cluster, "--config", str(config.path))[0])
        export(config, store, url)
    attribute(config, url)
    both = json.loads(call(*by_cluster, "--config", str(config.path), "--lake", str(url))[0])
    for name, report in alone.items():
        assert [row for row in both["rows"] if row["cluster"] == name] == report["rows"]
    assert both["totals"]["cost"] == sum(report["totals"]["cost"] for report in alone.values())


@pytest.mark.slow
def test_figures_after_changed_settings_match_the_store(lake: GrownLake) -> None:
    other = less_idle(lake.config)
    next((lake.url / "attributed/cost_runs").rglob("*.parquet")).unlink()  # a lost file is written again
    pipeline.attribute(other, lake.store)
    attribute(other, lake.url)
    with opened(other, lake.url) as seen:
        assert not differences(lake.store.path, seen.path)
