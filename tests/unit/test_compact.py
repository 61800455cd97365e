"""A compacted store: smaller, with the same figures, and refusing answers that need dropped samples."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.model import Config, StoreSettings
from gpucost.errors import StoreError, UsageError
from gpucost.inventory import load_activity
from gpucost.periods import Period, from_ms
from gpucost.store import upkeep
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from gpucost.store.usage import read_idle, read_levels
from tests.property.fleets import ONE, books, fleets
from tests.replay.cases.words import HEADER, at
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import text_rows
from tests.unit.command import call
from tests.unit.four_days import DAYS, FIRST, configured, copied, figures

FLEET = Period(from_ms(at(0) * 1000), from_ms(at(DAYS * 24) * 1000))
Both = tuple[Config, Store]
#: At this time, only the last of the fleet's four days is younger than two days.
NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)


def compacted(config: Config, store: Store, days: int = 2, now: datetime = NOW) -> None:
    """Compact a store that drops samples after some days."""
    settings = StoreSettings(path=config.store, raw_retention_days=days)
    pipeline.compact(config.model_copy(update={"store_settings": settings}), store, now)


def rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    tables = [table.name for table in store.info().tables if table.name != "compactions"]
    with store.read() as con:
        return {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in tables}


def hidden(store: Store) -> list[str]:
    return [path.name for path in store.path.parent.iterdir() if path.name.startswith(".")]


@pytest.fixture(scope="module")
def sealed_file(four_days: Path, module_path: Path) -> Path:
    config, store = copied(four_days, module_path)
    compacted(config, store)
    return store.path


@pytest.fixture
def sealed(tmp_path: Path, sealed_file: Path) -> Both:
    return copied(sealed_file, tmp_path / "sealed")


@pytest.mark.ci
def test_compacted_store_has_the_same_rows_in_less_space(whole: Both, loads: list[Any]) -> None:
    config, store = whole
    before = rows(store)
    store.path.chmod(0o640)
    with store.write() as con:  # replaced rows leave holes
        con.execute("INSERT INTO cuts SELECT hash(i) // 4 FROM range(500_000) AS t (i)")
    with store.write() as con:
        con.execute("DELETE FROM cuts")
    was, now = pipeline.compact(config, store, NOW)
    assert now < was
    assert (rows(store), store.path.stat().st_mode & 0o777) == (before, 0o640)
    assert hidden(store) == []
    # it can be written as before
    with store.write() as con:
        load_window(con, loads[-1])
    assert rows(store)["blocks"] == before["blocks"]


@pytest.mark.ci
def test_unneeded_samples_are_dropped_from_older_days_only(sealed: Both) -> None:
    _, store = sealed
    day = f"(hour * 3600 - {at(0)}) // 86400"
    assert store.query(f"SELECT DISTINCT {day}, vals IS NULL FROM blocks ORDER BY ALL")[1] == [  # noqa: S608
        (0, True), (1, True), (2, False), (3, False)
    ]  # fmt: skip


@pytest.mark.slow
@settings(ONE, max_examples=5)
@given(data=st.data(), fleet=fleets(), zone=st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_figures_of_any_sealed_fleet_can_be_reproduced(data: st.DataObject, fleet: Fleet, zone: str) -> None:
    with TemporaryDirectory() as folder:
        book = Path(folder) / "prices.csv"
        book.write_text("\n".join([HEADER, *data.draw(books(fleet))]) + "\n")
        config = write_config(fleet | {"timezone": zone}, Path(folder), book)
        store = load(fleet, scrape(fleet, lean=True), config)
        pipeline.attribute(config, store)
        copy = Store(Path(folder) / "copy.duckdb")
        shutil.copyfile(store.path, copy.path)
        before, old_book = figures(copy), book.read_text()
        compacted(config, store, 1, datetime(2126, 1, 1, tzinfo=UTC))
        assert figures(store) == before
        mig = config.mig.model_copy(update={"share": "max_compute_memory"})
        other = config.model_copy(update={"teams": [], "mig": mig})
        book.write_text("\n".join([HEADER, *data.draw(books(fleet))]) + "\n")
        pipeline.attribute(other, copy)
        try:
            pipeline.attribute(other, store)
        except StoreError as error:
            # a price change within an hour needs dropped samples; after undoing it, the figures are as before
            assert "the samples of" in str(error)  # noqa: PT017
            book.write_text(old_book)
            pipeline.attribute(config, store)
            assert figures(store) == before
        else:
            assert figures(store) == figures(copy)


def test_figures_of_sealed_days_follow_teams_prices_and_mig_shares(
    sealed: Both, whole: Both, tmp_path: Path
) -> None:
    teams = (("one", "t*"), ("two", "serve"))
    changes = {"teams": teams, "step": "2026-03-12", "mig_share": "max_compute_memory"}
    config = configured(tmp_path / "a", FIRST | changes)
    _, store = sealed
    _, unsealed = whole
    for one in (store, unsealed):
        pipeline.attribute(config, one)
    assert figures(store) == figures(unsealed)
    sql = "SELECT DISTINCT team FROM cost_daily WHERE team IS NOT NULL ORDER BY ALL"
    assert store.query(sql)[1] == [("one",), ("two",)]


@pytest.mark.ci
def test_upgrade_with_other_figures_can_read_sealed_days(
    sealed: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = sealed
    before = figures(store)
    for stage in pipeline.ALGORITHM:
        monkeypatch.setitem(pipeline.ALGORITHM, stage, 99)
    # one day at a time, as in a large store; after changed teams or prices, all days are done at once
    monkeypatch.setattr("gpucost.attribute._ROWS_AT_ONCE", 1)
    pipeline.attribute(config, store)
    assert figures(store) == before


@pytest.mark.ci
def test_change_that_needs_dropped_samples_is_refused_with_its_days(sealed: Both, tmp_path: Path) -> None:
    config, store = sealed
    before = figures(store)
    days = "the samples of 2026-03-10 to 2026-03-11 are gone"
    for change, refused in (
        ({"threshold": 60}, f"{days}.* idle threshold.* cannot change"),
        ({"timezone": "Asia/Kolkata"}, f"{days}.* cannot be attributed"),
        ({"step": "2026-03-10T10:22:30Z"}, "2026-03-10 are gone.* cannot be attributed"),
    ):
        with pytest.raises(StoreError, match=refused):
            pipeline.attribute(configured(tmp_path / "a", FIRST | change), store)
    configured(tmp_path / "a", FIRST)
    odd = Period(from_ms(at(10.5) * 1000), FLEET.end)
    with pytest.raises(StoreError, match=r"2026-03-10 are gone.* on the hour"):
        pipeline.attribute(config, store, odd)
    # it has no effect
    assert figures(store) == before
    with store.read() as con:
        load_activity(con, config.activity)
        for read in (lambda: read_levels(con, FLEET), lambda: read_idle(con, FLEET, 3_600_000)):
            with pytest.raises(StoreError, match="samples before 2026-03-1") as caught:
                read()
            assert caught.value.fix == "name a period from 2026-03-12T00:00:00Z on"
        assert read_levels(con, Period(from_ms(at(48) * 1000), FLEET.end))


@pytest.mark.ci
def test_samples_loaded_again_are_kept_until_the_next_compaction(
    sealed: Both, loads: list[Any], tmp_path: Path
) -> None:
    config, store = sealed
    lists = "SELECT count(vals), count(*) FROM blocks"
    sealed_lists = store.query(lists)[1]
    with store.write() as con:
        for window in loads:
            load_window(con, window)
    ((has, count),) = store.query(lists)[1]
    assert has == count
    pipeline.attribute(configured(tmp_path / "a", FIRST | {"threshold": 60}), store)
    compacted(config, store)
    assert store.query(lists)[1] == sealed_lists


@pytest.mark.ci
def test_failed_run_leaves_the_store_unchanged(whole: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    config, store = whole
    before = store.path.read_bytes()
    left = store.path.with_name(".gpucost-run-killed")
    left.mkdir()
    (left / "store").write_bytes(b"half")
    digests, copy = iter(range(1000)), upkeep._copy
    for what, fake, refused in (
        ("gpucost.store.upkeep._digest", lambda *_: next(digests), "was not copied completely"),
        ("shutil.disk_usage", lambda _: SimpleNamespace(free=1000), "has room for 1,000"),
        ("gpucost.store.upkeep._copy", lambda *both: copy(*both) + 1, "was replaced meanwhile"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(what, fake)
            with pytest.raises(StoreError, match=refused):
                pipeline.compact(config, store, NOW)
    assert store.path.read_bytes() == before
    assert hidden(store) == []


def test_large_store_is_compacted_once_after_a_month_closes(
    whole: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = whole
    march, april = datetime(2026, 3, 31, 23, tzinfo=UTC), datetime(2026, 4, 2, tzinfo=UTC)
    assert pipeline.compact_closed_month(config, store, april) is None  # it is small
    monkeypatch.setattr(upkeep, "_LEAST_BYTES", 1)
    done = [pipeline.compact_closed_month(config, store, now) is not None for now in (march, april, april)]
    assert done == [False, True, False]


def test_failed_compaction_is_a_warning_of_collect(
    whole: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A month has closed without room for a second file.

    The collected data is kept and the run succeeds.
    """
    _, store = whole
    before = store.path.read_bytes()
    (tmp_path / "c.toml").write_text('[prometheus]\nurl = "http://127.0.0.1:9"\n')
    monkeypatch.setattr(upkeep, "_LEAST_BYTES", 1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    monkeypatch.setattr(pipeline, "collect", lambda *_: ([SimpleNamespace(ok=True, incomplete=[])], []))
    monkeypatch.setattr("gpucost.cli.runs._print_run", lambda *_: None)
    words = ("-q", "--config", str(tmp_path / "c.toml"), "--store", str(store.path))
    _, err = call("collect", "prometheus", *words)
    assert "warning: the store was not compacted: cannot compact" in err and "has room for 1,000" in err
    assert store.path.read_bytes() == before


def check(store: Store, *words: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    command = ("store", "check", "--store", str(store.path), "--format", "json")
    out, err = call(*command, *words, code=code)
    return json.loads(out or "[]"), err


DAMAGES = text_rows("""
UPDATE blocks SET value_sum = value_sum + 1 WHERE hour % 7 = 0 | each hourly block is consistent
INSERT INTO blocks FROM blocks LIMIT 1 | a series has one block an hour
INSERT INTO series FROM series LIMIT 1 | each series is stored once
DELETE FROM series WHERE metric = 'kube_pod_info' | samples belong to known series
UPDATE states SET last_ms = first_ms - 1 | states do not overlap
UPDATE node_runs SET node_cost = node_cost + 0.000000001 | a node-hour's charges equal its cost, exactly
UPDATE activity_hours SET idle_gpu_ms = measured_gpu_ms + 1 | measured time is within allocated time
UPDATE cost_daily SET cost = cost + 0.000000001 | days are the sums of their hours, exactly
DELETE FROM allocations | costs belong to known nodes and pods""")


def test_check_names_the_damage(whole: Both) -> None:
    _, store = whole
    found = []
    with store.write() as con:
        for damage, _ in DAMAGES:
            con.execute(damage)
            found += [(damage, one.what) for one in upkeep.check(con) if one.wrong and one.example]
            con.execute("ROLLBACK; BEGIN")
    assert found == DAMAGES
    with store.write() as con:
        con.execute("DELETE FROM allocations")
    (wrong,), error = check(store, "-q", code=1)
    assert "1 of 11 checks of the store" in error
    assert wrong["check"] == "costs belong to known nodes and pods" and wrong["wrong_rows"] and wrong["first"]


def test_check_reads_every_page(whole: Both) -> None:
    _, store = whole
    checks, _ = check(store)
    assert {one["result"] for one in checks} == {"ok"}
    data = bytearray(store.path.read_bytes())
    blocks = range(3 * 4096, len(data), 262_144)
    for start in blocks[len(blocks) // 2 :]:
        data[start + 2000] ^= 1
    store.path.write_bytes(data)
    assert "damaged" in check(store, code=1)[1]


def test_check_of_a_store_in_use_is_reported_as_not_made(whole: Both) -> None:
    config, store = whole
    with store.read():
        *checks, last = pipeline.check(config, replace(store, wait_seconds=0))
    assert len(checks) == 11 and all(one.is_made and not one.wrong for one in checks)
    assert not last.is_made and last.example is not None and "in use by this process" in last.example


def test_backup_replaces_only_regular_files(whole: Both, tmp_path: Path) -> None:
    _, store = whole
    pipe, copy, log = (tmp_path / name for name in ("pipe", "copy.duckdb", "copy.duckdb.wal"))
    os.mkfifo(pipe)
    targets = {"not a regular file": pipe, "a directory": tmp_path, "the store itself": store.path}
    for what, target in targets.items():
        with pytest.raises(UsageError, match=f"is {what}"):
            upkeep.backup(store, target)
    log.write_bytes(b"left over from another store")
    upkeep.backup(store, copy)
    assert not log.exists() and Store(copy).info().samples == store.info().samples


def test_missing_store_is_not_compacted() -> None:
    call("store", "compact", "--store", "none.duckdb", code=1)
    assert not Path("none.duckdb").exists()
