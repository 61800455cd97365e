"""`gpucost init` finds out what it can, asks for the rest, and writes a file that loads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpucost import discover
from gpucost.config.load import load_config
from tests.unit.command import call

PAGES: dict[str, object] = {
    "/api/v1/query": {"resultType": "scalar", "result": [1, "1"]},
    "/api/v1/status/buildinfo": {"version": "3.1.0"},
    "/api/v1/status/runtimeinfo": {"storageRetention": "15d"},
}


def serve(pages: dict[str, object], status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            self.send_response(status if path in pages else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": pages.get(path)}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def prometheus() -> Iterator[str]:
    yield from serve(PAGES)


@pytest.fixture
def locked() -> Iterator[str]:
    yield from serve(PAGES, 401)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.delenv("PROMETHEUS_URL", raising=False)
    monkeypatch.setattr(discover, "LOCAL", "http://127.0.0.1:1")
    return tmp_path


def test_what_is_found_is_written(work: Path, prometheus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_URL", prometheus + "/")
    out, err = call("init")
    assert out == "wrote gpucost.toml\n"
    assert f"found {prometheus}, version 3.1.0" in err
    assert "forgets after 15d" in err
    assert f"collect prometheus -q --config {work}/gpucost.toml" in err
    config = load_config(environ={}, cwd=work)
    assert config.path == work / "gpucost.toml"
    assert config.prometheus[0].url == prometheus
    assert config.timezone == "Europe/Berlin"
    assert config.store == work / "gpucost.duckdb"


def test_yes_takes_the_default_where_nothing_is_found(work: Path) -> None:
    _, err = call("init", "--yes")
    assert "found no Prometheus" in err
    assert "by default after 15 days" in err
    assert load_config(environ={}, cwd=work).prometheus[0].url == discover.LOCAL


def test_a_given_url_and_store_and_file(work: Path) -> None:
    call("init", "--url", "https://prometheus.example.invalid/", "--store", 'odd "name".duckdb', "--config", "etc/costs.toml")
    config = load_config(Path("etc/costs.toml"), environ={}, cwd=work)
    assert config.prometheus[0].url == "https://prometheus.example.invalid"
    assert config.store == work / "etc" / 'odd "name".duckdb'


def test_a_server_that_wants_a_login_counts_as_found(work: Path, locked: str) -> None:
    assert "wants a login" in call("init", "--url", locked)[1]


def test_nothing_is_overwritten_without_force(work: Path) -> None:
    (work / "gpucost.toml").write_text("# mine")
    assert "--force" in call("init", "--yes", code=1)[1]
    assert (work / "gpucost.toml").read_text() == "# mine"
    call("init", "--yes", "--force")
    assert (work / "gpucost.toml").read_text() != "# mine"


def test_a_url_that_cannot_be_used_is_refused(work: Path) -> None:
    assert "http://" in call("init", "--url", "prometheus:9090", code=1)[1]
    assert not (work / "gpucost.toml").exists()


def test_a_password_in_the_url_is_not_told(work: Path) -> None:
    out, err = call("init", "--url", "http://user:sek/r@et@127.0.0.1:1", code=1)
    assert "http://***@127.0.0.1:1 cannot be used" in err
    assert "sek" not in out + err and "r@et" not in out + err


def test_candidates() -> None:
    found = discover.candidates({"PROMETHEUS_URL": "prom:9090/", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found[:2] == ["http://prom:9090", discover.LOCAL]
    assert set(discover.IN_CLUSTER) < set(found)
    assert discover.candidates({}) == [discover.LOCAL]


def test_something_else_on_the_port_is_no_prometheus() -> None:
    for url in serve({"/api/v1/query": "hello"}):
        assert discover.probe(url) is None


def test_timezone(tmp_path: Path) -> None:
    assert discover.timezone({"TZ": ":Asia/Tokyo"}, tmp_path) == "Asia/Tokyo"
    assert discover.timezone({"TZ": "CET-1CEST"}, tmp_path) == "UTC"
    (tmp_path / "timezone").write_text("Europe/Paris\n")
    assert discover.timezone({}, tmp_path) == "Europe/Paris"
