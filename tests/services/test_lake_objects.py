"""A lake in real object stores' servers: moto's S3, also as Cloud Storage's XML API, Azurite."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.errors import NoDataError, StoreError
from gpucost.lake import manifest, steps
from gpucost.lake.export import _short, writer_name
from gpucost.lake.files import open_files
from gpucost.objects import CONNECTION
from gpucost.store.connection import Store
from tests.lakes import attribute, differences, export, opened, stored
from tests.programs import listening
from tests.replay.server import free_port
from tests.services.test_bill_azure_blobs import ACCOUNT, KEY, azurite  # noqa: F401 - a fixture
from tests.services.test_bill_gcp_storage import buckets
from tests.services.test_bill_gcp_storage import endpoint as gcs  # noqa: F401 - a fixture

#: A cluster's name that no folder can be called as it stands, and what Hive calls a partition of none.
ODD, HIVE = "a b/ü%=x", "__HIVE_DEFAULT_PARTITION__"


@dataclass
class Place:
    """An object store: `url` is an address in it that holds nothing yet, `gone` one in a bucket that is not there."""

    url: str
    gone: str
    settings: dict[str, dict[str, str]]
    bucket: Any

    def set(self, config: Config) -> Config:
        """The configuration that names the server."""
        sections = {
            name: getattr(config, name).model_copy(update=values) for name, values in self.settings.items()
        }
        return config.model_copy(update=sections)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program, port = str(Path(sys.executable).with_name("moto_server")), free_port()
    with listening(
        [program, "-H", "127.0.0.1", "-p", str(port)], port, tmp_path_factory.mktemp("moto") / "log"
    ) as url:
        yield url


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody is logged in."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nobody"))


#: What is the same of a folder is held against that in every run, and against buckets in the slower suite.
BUCKETS = ("s3", "gs", "abfss")
SLOW_BUCKETS = [pytest.param(name, marks=pytest.mark.slow) for name in BUCKETS]


@pytest.fixture(params=["folder", *SLOW_BUCKETS])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "folder":
        return Place(str(tmp_path / "deep" / "lake"), "", {}, None)
    name = tmp_path.name.replace("_", "-")[:40].strip("-") + f"-{time.time_ns() % 10**8}"
    if request.param == "s3":
        import boto3

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        server = request.getfixturevalue("moto")
        boto3.client("s3", endpoint_url=server, region_name="us-east-1").create_bucket(Bucket=name)
        bucket = boto3.resource("s3", endpoint_url=server, region_name="us-east-1").Bucket(name)
        return Place(f"s3://{name}/deep/lake", "s3://nowhere/lake", {"aws": {"endpoint_url": server}}, bucket)
    if request.param == "gs":
        server = request.getfixturevalue("gcs")
        bucket = buckets(server).create_bucket(Bucket=name)
        return Place(
            f"gs://{name}/deep/lake", "gs://nowhere/lake", {"gcp": {"storage_endpoint": server}}, bucket
        )
    from azure.storage.blob import ContainerClient

    server = request.getfixturevalue("azurite")
    monkeypatch.setenv(
        CONNECTION,
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={server};",
    )
    bucket = ContainerClient.from_connection_string(os.environ[CONNECTION], name)
    bucket.create_container()
    host = f"{ACCOUNT}.dfs.core.windows.net"
    return Place(f"abfss://{name}@{host}/deep/lake", f"abfss://nowhere@{host}/lake", {}, bucket)


def put(place: Place, key: str, content: bytes) -> None:
    """An object that gpucost did not write."""
    if place.url.startswith("abfss"):
        place.bucket.upload_blob(key, content, overwrite=True)
    else:
        place.bucket.put_object(Key=key, Body=content)


@pytest.mark.ci
def test_export_attribute_and_read(place: Place, tmp_path: Path) -> None:
    config, store = stored(tmp_path / "one", cluster=ODD)
    config = place.set(config)
    other_config, other = stored(tmp_path / "two", "node-name-reused", cluster=HIVE, source="other")
    for settings, one in ((config, store), (place.set(other_config), other)):
        assert export(settings, one, place.url).files
        again = export(settings, one, place.url)
        assert (again.files, again.partitions) == ([], 0)
    lake = manifest.read(open_files(place.url, config))
    assert lake.clusters == sorted([ODD, HIVE])
    assert attribute(config, place.url).days
    with opened(config, place.url) as seen:
        assert set(seen.query("SELECT DISTINCT cluster FROM nodes")[1]) == {(ODD,), (HIVE,)}
        assert seen.query("SELECT sum(samples) FROM blocks")[1] == [
            (sum(samples(one) for one in (store, other)),)
        ]
    # without the manifest of one, the figures are those of the other's store
    lake.files.delete([lake.of(HIVE)[0].place])
    assert attribute(config, place.url).days == 0
    assert attribute(config, place.url).done["attribute"] == 0
    pipeline.attribute(config, store)
    with opened(config, place.url) as seen:
        assert not differences(store.path, seen.path)


def samples(store: Store) -> int:
    return int(str(store.query("SELECT sum(samples) FROM blocks")[1][0][0]))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["s3", "gs"], indirect=True)
def test_the_address_may_name_the_server(place: Place, tmp_path: Path) -> None:
    server = next(url for section in place.settings.values() for url in section.values()).removeprefix(
        "http://"
    )
    config, store = stored(tmp_path / "one")
    url = f"{place.url}?endpoint_override={server}&scheme=http"
    assert export(config, store, url).files
    assert attribute(config, url).days
    files = open_files(url, config)
    assert files.url == place.url and not any(
        server.encode() in (files.read(name) or b"") for name in files.names("_gpucost")
    )


@pytest.mark.ci
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("s3", 12),
        pytest.param("s3", 1_005, marks=pytest.mark.slow),
        *(pytest.param(name, 12, marks=[pytest.mark.ci]) for name in ("gs", "abfss")),
    ],
    indirect=["place"],
)
def test_more_files_than_a_page_lists_markers_of_folders_and_neighbors(
    place: Place, count: int, tmp_path: Path
) -> None:
    files = open_files(place.url, place.set(Config(store=tmp_path / "none.duckdb")))
    assert files.names() == [] and files.read("none") is None
    files.delete(["none"])
    with pytest.raises(NoDataError, match="there is no lake"):
        manifest.read(files)
    names = [f"raw/{number:04}.bin" for number in range(count)]
    files.each(lambda name: files.write(name, b"x"), names)
    for key in ("deep/lake/raw/", "deep/lake/raw"):
        put(place, key, b"")
    put(place, "deep/lake2/raw/other.bin", b"x")
    assert files.names("raw") == files.names() == names
    odd = (
        "raw/t/" + manifest.partition("cluster", ODD) + "/" + manifest.partition("cluster", HIVE) + "/x y.bin"
    )
    files.write(odd, b"odd")
    assert odd in files.names("raw/t") and files.read(odd) == b"odd"
    files.delete([*names, odd])
    assert files.names("raw") == []


@pytest.mark.ci
@pytest.mark.parametrize("place", ["s3", *SLOW_BUCKETS[1:]], indirect=True)
def test_an_upload_that_breaks_off_leaves_nothing(place: Place, tmp_path: Path) -> None:
    files = open_files(place.url, place.set(Config(store=tmp_path / "none.duckdb")))
    files.write("manifest.json", b"before")

    class Broken:
        """A file of 24 MB whose disk fails half way."""

        def __init__(self) -> None:
            self.at = 0

        def tell(self) -> int:
            return self.at

        def seek(self, offset: int, whence: int = 0) -> int:
            self.at = (0, self.at, 24 * 2**20)[whence] + offset
            return self.at

        def read(self, size: int = -1) -> bytes:
            if self.at > 12 * 2**20:
                raise KeyboardInterrupt
            size = min(size if size and size > 0 else 24 * 2**20, 4 * 2**20)
            self.at += size
            return bytes(size)

    for name in ("raw/part.parquet", "manifest.json"):
        with pytest.raises((KeyboardInterrupt, Exception)):
            files._bucket.put(files._key(name), Broken())  # type: ignore[arg-type]
    assert files.names() == ["manifest.json"] and files.read("manifest.json") == b"before"


@pytest.mark.slow
@pytest.mark.parametrize("place", BUCKETS, indirect=True)
def test_what_is_wrong_is_said(place: Place, tmp_path: Path) -> None:
    config, store = stored(tmp_path / "one")
    config = place.set(config)
    for wrong in (lambda: export(config, store, place.gone), lambda: attribute(config, place.gone)):
        with pytest.raises(StoreError, match=r"there is no (bucket|container) .*nowhere") as caught:
            wrong()
        assert "create it: " in str(caught.value.fix)
    export(config, store, place.url)
    files = open_files(place.url, config)
    lake = manifest.read(files)
    table, file = next((name, found[0]) for name, found in lake.tables("main").items() if name == "states")
    content = files.read(file.name) or b""
    for change, words in (
        (content[:-9], "is not what"),
        (bytes(len(content)), "is not what"),
        (None, "is missing"),
    ):
        files.delete([file.name]) if change is None else files.write(file.name, change)
        with pytest.raises(steps.TaskError, match=f"^inventory, cluster=main: .*{words}") as failed:
            attribute(config, place.url)
        assert file.name in failed.value.message and "export --all" in str(failed.value.fix)
    assert table == "states"
    assert export(config, store, place.url, everything=True).files[0].name.startswith("raw/states/")
    assert attribute(config, place.url).days


@pytest.mark.slow
@pytest.mark.parametrize("place", ["abfss"], indirect=True)
def test_a_wrong_key_and_a_token_in_the_address_stay_secret(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = stored(tmp_path / "one")
    wrong = "d3Jvbmcga2V5"
    monkeypatch.setenv(CONNECTION, os.environ[CONNECTION].replace(KEY, wrong))
    monkeypatch.chdir(config.path.parent if config.path else tmp_path)
    result = CliRunner().invoke(app, ["lake", "export", place.url])
    assert result.exit_code == 1 and "refused" in result.output, result.output
    assert wrong not in result.output
    signature = "sv=2021-08-06&sig=c2VjcmV0&se=2020-01-01"
    for command in ("info", "attribute"):
        result = CliRunner().invoke(app, ["lake", command, f"{place.url}?{signature}"])
        assert result.exit_code == 1 and "c2VjcmV0" not in result.output, result.output


@pytest.mark.ci
def test_leftovers_of_another_writer_stay(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = stored(tmp_path / "one")
    config = place.set(config)
    files = open_files(place.url, config)
    with store.read() as con:
        writer = writer_name(con, config, store)
    folder = "raw/states/cluster=main/day=2026-03-01"
    own, strange = f"{folder}/{_short(writer)}-0.parquet", f"{folder}/deadbeef-0.parquet"
    for name in (own, strange):
        files.write(name, b"left behind")
    export(config, store, place.url)
    assert own in files.names("raw")  # young: an export that runs may name it
    monkeypatch.setattr("gpucost.lake.files.YOUNG_SECONDS", -60)
    export(config, store, place.url)
    assert own not in files.names("raw") and strange in files.names("raw")
    lake = manifest.read(files)
    named = {file.name for one in lake.manifests for tables in one.days.values() for file in tables.values()}
    assert named == {*files.names("raw")} - {strange}
