"""Files of a lake in a folder: whole or not there, and what is said where that cannot be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from gpucost.config.model import Config
from gpucost.errors import GpucostError, StoreError, UsageError
from gpucost.lake import manifest
from gpucost.lake.files import PARTS, LakeFiles, open_files
from tests.lakes import GrownLake, export, opened, stored


@pytest.fixture
def files(tmp_path: Path) -> LakeFiles:
    return open_files(str(tmp_path / "lake"), Config())


def test_what_breaks_off_leaves_what_was_there(files: LakeFiles) -> None:
    files.write("a/manifest.json", b"before")
    for name in ("a/manifest.json", "a/new.parquet"):
        with pytest.raises(StoreError, match="Input/output"):
            files.put(name, Path("/proc/self/mem"))
    assert files.names() == ["a/manifest.json"] and files.read("a/manifest.json") == b"before"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 KB."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)], capture_output=True
    ).returncode:
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_and_one_that_cannot_be_written(small: Path, tmp_path: Path) -> None:
    config, store = stored(tmp_path / "one")
    (small / "other").write_bytes(bytes(98 * 4096))
    for words, fix, free in (
        ("No space left", "make room", lambda: (small / "other").unlink()),
        ("Read-only", "writable", None),
    ):
        with pytest.raises(StoreError, match=f"{small}/lake.*: {words}") as caught:
            export(config, store, small / "lake")
        assert fix in str(caught.value.fix)
        for one in manifest.load(open_files(str(small / "lake"), config)).manifests:
            assert all(
                open_files(str(small / "lake"), config).is_whole(file)
                for file in one.days["2026-03-10"].values()
            )
        if free:
            free()
            export(config, store, small / "lake")
            with store.write() as con:
                con.execute("UPDATE loads SET loaded_at = loaded_at + INTERVAL 1 SECOND")
            subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)


def test_a_folder_that_is_gone_or_a_file(tmp_path: Path) -> None:
    files = open_files(str(tmp_path / "lake"), Config())
    assert files.names() == [] and files.read("x") is None and files.delete(["x"]) is None  # type: ignore[func-returns-value]
    (tmp_path / "lake/_gpucost").mkdir(parents=True)
    (tmp_path / "lake" / PARTS).write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match=r"/lake/x: ") as caught:
        files.write("x", b"x")
    assert caught.value.fix


def test_no_name_leads_out_of_the_lake(files: LakeFiles) -> None:
    with pytest.raises(StoreError, match="lies outside"):
        files.read("raw/../../secret")


def test_nothing_is_removed_where_a_link_leads_out_of_the_lake(files: LakeFiles, tmp_path: Path) -> None:
    """Folders of a lake that are links: a file of another folder stays, however it is named; one within the lake goes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old.parquet").write_bytes(b"mine")
    os.utime(outside / "old.parquet", (0, 0))
    files.write("a/old.parquet", b"")
    (tmp_path / "lake/raw").symlink_to(outside)
    (tmp_path / "lake/inside").symlink_to(tmp_path / "lake/a")
    for remove in (lambda: files.remove_abandoned("raw", ()), lambda: files.delete(["raw/old.parquet"])):
        with pytest.raises(StoreError, match=r"raw/old\.parquet lies outside of the lake"):
            remove()
    assert (outside / "old.parquet").read_bytes() == b"mine"
    files.delete(["inside/old.parquet"])
    assert files.read("a/old.parquet") is None


@pytest.mark.parametrize(
    "url",
    ["s3://key:hunter2@bucket/lake", "gs://hunter2@bucket/lake", "abfss://box:hunter2@account.dfs.core.windows.net/l",
     "s3://bucket/lake?access_key=hunter2", "gs://bucket/x?token=hunter2", "ftp://me:hunter2@host/lake", "s3:///lake", "abfss://account/x"],
)  # fmt: skip
def test_addresses_that_are_none_say_no_secret(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_files(url, Config())
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}" and caught.value.fix


def test_a_manifest_of_no_sense_is_named(files: LakeFiles) -> None:
    whole = b'{"format": 1, "schema": 1, "cluster": "prod", "writer": "me", "heard": [1, 2], "days": {"d": {"blocks": %b}}}'
    file = b'{"name": "raw/x", "rows": 1, "size": 2, "sha256": "a", "digest": "d"}'
    files.write("_gpucost/manifests/cluster=prod/me.json", whole % file)
    assert manifest.read(files).clusters == ["prod"]
    # numbers are numbers, and texts are texts
    changes = ((b"1,", b'"1",'), (b"1,", b"true,"), (b"2,", b"2.0,"), (b'"a"', b"5"), (b'"raw/x"', b"null"))
    wrong = [whole % file.replace(*one) for one in changes]
    wrong += [
        whole.replace(b'"me"', b"7") % file,
        whole.replace(b"[1, 2]", b'["1", 2]') % file,
        b"[" * 100_000,
    ]
    for content in (
        *wrong,
        b"{",
        b"[]",
        b'{"format": 1}',
        b'{"format": 1, "schema": 1, "days": []}',
        b"\xff",
    ):
        files.write("_gpucost/manifests/cluster=prod/me.json", content)
        try:
            refused = str(manifest.read(files))
        except StoreError as error:
            refused = f"{error.message}; {error.fix}"
        assert "cluster=prod/me.json is no manifest: " in refused and "delete that file" in refused, content[
            :200
        ]
    files.write("_gpucost/manifests/cluster=prod/me.json", b'{"format": 99}')
    with pytest.raises(StoreError, match="newer gpucost"):
        manifest.read(files)


HARMS = pytest.mark.parametrize(
    ("harm", "words"),
    [(Path.unlink, "missing"), (lambda path: path.write_bytes(b"PAR1"), "not what")],
    ids=["gone", "broken"],
)


@HARMS
def test_a_file_that_is_lost_is_named(
    harm: Callable[[Path], object], words: str, files: LakeFiles, tmp_path: Path
) -> None:
    files.write("raw/x.parquet", b"rows")
    digest = sha256(b"rows").hexdigest()
    assert files.local("raw/x.parquet", tmp_path, 4, digest).read_bytes() == b"rows"
    # another file of that length, and one of another
    for size in (4, 5):
        with pytest.raises(StoreError, match=r"raw/x\.parquet is not what"):
            files.local("raw/x.parquet", tmp_path, size, sha256(b"sowr").hexdigest() if size == 4 else digest)
    harm(tmp_path / "lake/raw/x.parquet")
    with pytest.raises(StoreError, match=rf"raw/x\.parquet is {words}"):
        files.local("raw/x.parquet", tmp_path, 4, digest)


@pytest.mark.ci
@HARMS
def test_a_file_of_figures_that_is_lost_is_named(
    harm: Callable[[Path], object], words: str, grown_lake: GrownLake, tmp_path: Path
) -> None:
    lake = grown_lake.copy(tmp_path / "copy")
    harm(next((lake.url / "attributed/cost_runs").rglob("*.parquet")))
    with pytest.raises(GpucostError, match=f"cost_runs.*is {words}") as caught, opened(lake.config, lake.url):
        pass
    assert "gpucost lake attribute" in str(caught.value.fix)


_EXPORT = """
import sys
from pathlib import Path
from gpucost.config.load import load_config
from gpucost.lake.export import export
from gpucost.lake.files import open_files
from gpucost.store.connection import Store
print("ready", flush=True)
config = load_config(Path(sys.argv[1]), environ={}, cwd=Path(sys.argv[1]).parent)
export(config, Store(config.store), open_files(sys.argv[2], config))
"""


@pytest.mark.slow
def test_an_export_that_is_killed_again_and_again_ends_as_one_that_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = stored(tmp_path / "one", "node-name-reused")
    whole, url = tmp_path / "whole", tmp_path / "lake"
    began = time.monotonic()
    export(config, store, whole)
    lasts = time.monotonic() - began
    random.seed(17)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", _EXPORT, str(config.path), str(url)], stdout=subprocess.PIPE
        )
        assert process.stdout and process.stdout.readline()
        time.sleep(random.uniform(0.1, 0.4 + lasts))
        process.send_signal(signal.SIGKILL)
        process.wait()
        files = open_files(str(url), config)
        if (url / "_gpucost/manifests").exists():
            for one in manifest.load(files).manifests:
                assert all(files.is_whole(file) for tables in one.days.values() for file in tables.values())
    monkeypatch.setattr("gpucost.lake.files.YOUNG_SECONDS", -60)
    export(config, store, url)
    lakes = [open_files(str(path), config) for path in (whole, url)]
    days = [
        {(one.cluster, day): {name: file.digest for name, file in tables.items()} for one in manifest.read(lake).manifests
         for day, tables in one.days.items()}
        for lake in lakes
    ]  # fmt: skip
    assert days[0] == days[1]
    named = {
        file.name
        for one in manifest.read(lakes[1]).manifests
        for tables in one.days.values()
        for file in tables.values()
    }
    assert set(lakes[1].names("raw")) == named and not lakes[1].names(PARTS)
