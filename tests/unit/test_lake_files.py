"""Files of a lake in a folder: atomic writes, and errors for unsafe links, addresses, manifests and lost files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from gpucost.config.model import Config
from gpucost.errors import GpucostError, StoreError, UsageError
from gpucost.lake import manifest, reading, steps
from gpucost.lake.files import PARTS, LakeFiles, open_files
from gpucost.lake.manifest import LakeFile
from gpucost.lake.tables import RAW
from gpucost.periods import Period
from gpucost.store.connection import scratch_store
from tests.lakes import GrownLake, opened
from tests.text_tables import named_rows, text_rows
from tests.unit.command import call


@pytest.fixture
def files(tmp_path: Path) -> LakeFiles:
    return open_files(str(tmp_path / "lake"), Config())


def test_failed_write_leaves_the_old_file(files: LakeFiles) -> None:
    files.write("a/manifest.json", b"before")
    for name in ("a/manifest.json", "a/new.parquet"):
        with pytest.raises(StoreError, match="Input/output"):
            files.write(name, Path("/proc/self/mem"))
    assert files.names() == ["a/manifest.json"] and files.read("a/manifest.json") == b"before"


def test_missing_folder_is_empty_and_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    files = open_files(str(tmp_path / "lake"), Config())
    assert files.names() == [] and files.read("x") is None and files.delete(["x"]) is None  # type: ignore[func-returns-value]
    (tmp_path / "lake/_gpucost").mkdir(parents=True)
    (tmp_path / "lake" / PARTS).write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match=r"/lake/x: ") as caught:
        files.write("x", b"x")
    assert caught.value.fix


def test_names_outside_of_the_lake_are_refused(files: LakeFiles) -> None:
    with pytest.raises(StoreError, match="outside of the lake"):
        files.read("raw/../../secret")


def test_files_behind_a_link_out_of_the_lake_are_not_removed(files: LakeFiles, tmp_path: Path) -> None:
    """A file outside the lake is never deleted through a link; a file behind a link within the lake is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old.parquet").write_bytes(b"mine")
    os.utime(outside / "old.parquet", (0, 0))
    files.write("a/old.parquet", b"")
    (tmp_path / "lake/raw").symlink_to(outside)
    (tmp_path / "lake/inside").symlink_to(tmp_path / "lake/a")
    for remove in (lambda: files.remove_abandoned("raw", ()), lambda: files.delete(["raw/old.parquet"])):
        with pytest.raises(StoreError, match=r"raw/old\.parquet is outside of the lake"):
            remove()
    assert (outside / "old.parquet").read_bytes() == b"mine"
    files.delete(["inside/old.parquet"])
    assert files.read("a/old.parquet") is None


@pytest.mark.parametrize(
    "url",
    ["s3://key:hunter2@bucket/lake", "gs://hunter2@bucket/lake", "abfss://box:hunter2@account.dfs.core.windows.net/l",
     "s3://bucket/lake?access_key=hunter2", "gs://bucket/x?token=hunter2", "ftp://me:hunter2@host/lake", "s3:///lake", "abfss://account/x"],
)  # fmt: skip
def test_errors_of_invalid_addresses_contain_no_secret(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_files(url, Config())
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}" and caught.value.fix


CHANGES = """
"rows": 1 | "rows": "1"
"rows": 1 | "rows": true
"size": 2 | "size": 2.0
"sha256": "a" | "sha256": 5
"raw/x" | null
"writer": "me" | "writer": 7
[1, 2] | ["1", 2]"""


def test_invalid_manifest_is_named(files: LakeFiles) -> None:
    whole = b'{"format": 1, "schema": 1, "cluster": "prod", "writer": "me", "heard": [1, 2], "days": {"d": {"blocks": %b}}}'
    file = b'{"name": "raw/x", "rows": 1, "size": 2, "sha256": "a", "digest": "d"}'
    files.write("_gpucost/manifests/cluster=prod/me.json", whole % file)
    assert manifest.read(files).clusters == ["prod"]
    # types must match: numbers are not strings
    wrong = [
        b"[" * 100_000,
        b"{",
        b"[]",
        b'{"format": 1}',
        b'{"format": 1, "schema": 1, "days": []}',
        b"\xff",
    ]
    for old, new in text_rows(CHANGES):
        wrong.append((whole % file).replace(old.encode(), new.encode()))
    for content in wrong:
        files.write("_gpucost/manifests/cluster=prod/me.json", content)
        with pytest.raises(StoreError, match=r"cluster=prod/me\.json is not a manifest: ") as caught:
            manifest.read(files)
        assert "delete that file" in str(caught.value.fix), content[:200]
    files.write("_gpucost/manifests/cluster=prod/me.json", b'{"format": 99}')
    with pytest.raises(StoreError, match="newer gpucost"):
        manifest.read(files)


HARMS = pytest.mark.parametrize(
    ("harm", "words"),
    [(Path.unlink, "is missing"), (lambda path: path.write_bytes(b"PAR1"), "differs from")],
    ids=["gone", "broken"],
)


@HARMS
def test_lost_file_is_named(
    harm: Callable[[Path], object], words: str, files: LakeFiles, tmp_path: Path
) -> None:
    files.write("raw/x.parquet", b"rows")
    file = LakeFile("raw/x.parquet", 1, 4, sha256(b"rows").hexdigest(), "")
    assert files.local(file, tmp_path).read_bytes() == b"rows"
    # another file of the same length, and a file of another length
    for other in (replace(file, sha256=sha256(b"sowr").hexdigest()), replace(file, size=5)):
        with pytest.raises(StoreError, match=r"raw/x\.parquet differs from"):
            files.local(other, tmp_path)
    harm(tmp_path / "lake/raw/x.parquet")
    with pytest.raises(StoreError, match=rf"raw/x\.parquet {words}"):
        files.local(file, tmp_path)


@pytest.mark.ci
@HARMS
def test_lost_file_of_figures_is_named(
    harm: Callable[[Path], object], words: str, grown_lake: GrownLake, tmp_path: Path
) -> None:
    lake = grown_lake.copy(tmp_path / "copy")
    harm(next((lake.url / "attributed/cost_runs").rglob("*.parquet")))
    with pytest.raises(GpucostError, match=f"cost_runs.*{words}") as caught, opened(lake.config, lake.url):
        pass
    assert "gpucost lake attribute" in str(caught.value.fix)


KNOWN = [str(date.fromordinal(date(2026, 5, 10).toordinal() + day)) for day in range(150)]  # up to 2026-10-06


READ = """
the newest three months | | 2026-08-01 2026-10-06
31 days more, for comparisons, and one more | 2026-09-01 2026-09-03 | 2026-07-31 2026-09-02
a period of equal length if that is more | 2026-08-01 2026-10-01 | 2026-05-31 2026-09-30
not before the first day | 2026-06-01 2026-07-01 | 2026-05-10 2026-06-30
up to the last day | 2026-10-01 2026-11-01 | 2026-08-30 2026-10-06
one day, before all data | 2020-02-01 2020-03-01 | 2026-05-10 2026-05-10
one day, after all data | 2035-02-01 2035-03-01 | 2026-10-06 2026-10-06"""


@pytest.mark.parametrize(("days", "read"), named_rows(READ))
def test_days_read_for_a_period(days: str, read: str) -> None:
    edges = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in days.split()]
    period = Period(*edges) if edges else None
    assert reading._days_to_read(Config(timezone="UTC"), period, KNOWN) == tuple(read.split())
    assert reading._days_to_read(Config(timezone="UTC"), period, []) == ("", "")


def test_periods_within_an_hour_are_refused(tmp_path: Path) -> None:
    period = ("--from", "2026-10-01T00:30", "--to", "2026-10-01T05:00")
    assert "whole hours" in call("report", *period, "--lake", str(tmp_path), code=2)[1]


def test_each_table_of_a_store_is_raw_or_derived() -> None:
    own = "schema_version seals collect_runs compactions cuts attribution_state attributed_days health_events"
    with scratch_store() as con:
        names = con.execute("SELECT list(table_name) FROM duckdb_tables() WHERE NOT temporary").fetchall()
    tables, raw = set(names[0][0]), {table.name for table in RAW}
    made = {name.split("/")[1] for step in steps.STEPS.values() for name in step.writes}
    kept = raw - {"bill_rows"} | {"bill_lines", "bill_details"}
    assert tables - {*own.split()} - kept == made & tables
    read = {name for step in steps.STEPS.values() for name in step.reads if name.startswith("raw/")}
    assert {name.removeprefix("raw/") for name in read} <= raw


def test_docs_show_the_tables_and_the_steps() -> None:
    text = (Path(__file__).parents[2] / "docs/lake.md").read_text()
    for table in RAW:
        assert f"| `{table.name}` | {table.day} |" in text
    for name, step in steps.STEPS.items():
        assert f"| {name} | {step.per} | `{step.stages}` |" in text
