"""A lake in object store servers: moto's S3, also as Cloud Storage's XML API, and Azurite."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Aws, Config, Gcp
from gpucost.errors import NoDataError, StoreError
from gpucost.lake import manifest
from gpucost.lake.files import open_files
from gpucost.objects import CONNECTION
from gpucost.store.connection import Store
from tests.lakes import attribute, differences, export, opened, stored
from tests.services.test_bill_buckets import ACCOUNT, KEY, azurite, buckets, gcs, moto  # noqa: F401 - fixtures
from tests.unit.command import call

#: A cluster name that must be encoded for a folder, and Hive's name of a null partition.
ODD, HIVE = "a b/ü%=x", "__HIVE_DEFAULT_PARTITION__"


@dataclass
class Place:
    """An object store: `url` is an empty address in it, `gone` an address in a missing bucket."""

    url: str
    gone: str
    settings: dict[str, Any]
    bucket: Any

    def set(self, config: Config) -> Config:
        """Return the configuration with the server."""
        return config.model_copy(update=self.settings)


@pytest.fixture(params=["s3", "gs", "abfss"])
def place(request: pytest.FixtureRequest, aws_login: None, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Make a new bucket, with the only login."""
    name = f"lake-{time.time_ns()}"
    server = request.getfixturevalue({"s3": "moto", "gs": "gcs", "abfss": "azurite"}[request.param])
    if request.param == "abfss":
        from azure.storage.blob import ContainerClient

        login = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={server};"
        monkeypatch.setenv(CONNECTION, login)
        container = ContainerClient.from_connection_string(login, name)
        container.create_container()
        host = f"{ACCOUNT}.dfs.core.windows.net"
        return Place(f"abfss://{name}@{host}/deep/lake", f"abfss://nowhere@{host}/lake", {}, container)
    settings = (
        {"aws": Aws(endpoint_url=server)} if request.param == "s3" else {"gcp": Gcp(storage_endpoint=server)}
    )
    url, gone = f"{request.param}://{name}/deep/lake", f"{request.param}://nowhere/lake"
    return Place(url, gone, settings, buckets(server).create_bucket(Bucket=name))


def put(place: Place, key: str, content: bytes) -> None:
    """Add an object that gpucost did not write."""
    if place.url.startswith("abfss"):
        place.bucket.upload_blob(key, content, overwrite=True)
    else:
        place.bucket.put_object(Key=key, Body=content)


@pytest.mark.ci
def test_lake_is_exported_attributed_and_read(place: Place, tmp_path: Path) -> None:
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
        assert samples(seen) == samples(store) + samples(other)
    # without the manifest of one store, the figures equal the other store's
    lake.files.delete([lake.manifests_of(HIVE)[0].place])
    assert attribute(config, place.url).days == 0
    assert attribute(config, place.url).done["attribute"] == 0
    pipeline.attribute(config, store)
    with opened(config, place.url) as seen:
        assert not differences(store.path, seen.path)


def samples(store: Store) -> int:
    return int(str(store.query("SELECT sum(samples) FROM blocks")[1][0][0]))


@pytest.mark.ci
def test_many_files_folder_markers_and_neighbors_are_handled(place: Place, tmp_path: Path) -> None:
    count = 1_005 if place.url.startswith("s3") else 12
    files = open_files(place.url, place.set(Config(store=tmp_path / "none.duckdb")))
    assert files.names() == [] and files.read("none") is None
    files.delete(["none"])
    with pytest.raises(NoDataError, match="lake not found"):
        manifest.read(files)
    names = [f"raw/{number:04}.bin" for number in range(count)]
    files.each(lambda name: files.write(name, b"x"), names)
    for key in ("deep/lake/raw/", "deep/lake/raw"):
        put(place, key, b"")
    put(place, "deep/lake2/raw/other.bin", b"x")
    assert files.names("raw") == files.names() == names
    parts = (manifest.partition("cluster", name) for name in (ODD, HIVE))
    odd = "/".join(["raw/t", *parts, "x y.bin"])
    files.write(odd, b"odd")
    assert odd in files.names("raw/t") and files.read(odd) == b"odd"
    files.delete([*names, odd])
    assert files.names("raw") == []


@pytest.mark.ci
def test_interrupted_upload_leaves_no_object(place: Place, tmp_path: Path) -> None:
    files = open_files(place.url, place.set(Config(store=tmp_path / "none.duckdb")))
    files.write("manifest.json", b"before")

    class Broken(BytesIO):
        """A file whose disk fails half-way."""

        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 12 * 2**20:
                raise KeyboardInterrupt
            return super().read(min(size if size and size > 0 else 2**30, 4 * 2**20))

    for name in ("raw/part.parquet", "manifest.json"):
        with pytest.raises((KeyboardInterrupt, Exception)):
            files._bucket.put(files._key(name), Broken(bytes(24 * 2**20)))
    assert files.names() == ["manifest.json"] and files.read("manifest.json") == b"before"


@pytest.mark.ci
def test_missing_bucket_is_named(place: Place, tmp_path: Path) -> None:
    config, store = stored(tmp_path / "one")
    config = place.set(config)
    for wrong in (lambda: export(config, store, place.gone), lambda: attribute(config, place.gone)):
        with pytest.raises(StoreError, match=r"bucket .*nowhere.* not found") as caught:
            wrong()
        assert "create it: " in str(caught.value.fix)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["abfss"], indirect=True)
def test_wrong_key_and_address_token_stay_secret(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, signature = "d3Jvbmcga2V5", "sv=2021-08-06&sig=c2VjcmV0&se=2020-01-01"
    monkeypatch.setenv(CONNECTION, os.environ[CONNECTION].replace(KEY, wrong))
    output = "".join(call("lake", "info", place.url, code=1))
    assert "refused" in output and wrong not in output
    for command in ("info", "attribute"):
        assert "c2VjcmV0" not in "".join(call("lake", command, f"{place.url}?{signature}", code=1))
