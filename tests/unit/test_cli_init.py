"""`gpucost init` detects settings, prompts for the rest, and writes a valid configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucost import discover
from gpucost.config.load import load_config
from tests.unit.command import call
from tests.unit.fake_server import Fake, Question, Reply

PAGES: dict[str, object] = {
    "/api/v1/query": {"resultType": "scalar", "result": [1, "1"]},
    "/api/v1/status/buildinfo": {"version": "3.1.0"},
    "/api/v1/status/runtimeinfo": {"storageRetention": "15d"},
}


def serve(fake: Fake, pages: dict[str, object], status: int = 200) -> str:
    def page(question: Question) -> Reply:
        requested = question.path.partition("?")[0]
        data = next((data for path, data in pages.items() if requested.endswith(path)), None)
        return Reply(status if data else 404, {"status": "success", "data": data})

    fake.trick = page
    return fake.url


@pytest.fixture
def work(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.delenv("PROMETHEUS_URL", raising=False)
    monkeypatch.setattr(discover, "LOCAL", "http://127.0.0.1:1")
    return nowhere


def test_detected_settings_are_written(work: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus = serve(fake, PAGES)
    monkeypatch.setenv("PROMETHEUS_URL", prometheus + "/")
    out, err = call("init")
    assert out == "wrote gpucost.toml\n"
    assert f"found {prometheus}, version 3.1.0" in err
    assert "deletes data after 15d" in err
    assert f"collect prometheus -q --config {work}/gpucost.toml" in err
    config = load_config(environ={}, cwd=work)
    assert config.path == work / "gpucost.toml"
    assert config.prometheus[0].url == prometheus
    assert config.timezone == "Europe/Berlin"
    assert config.store == work / "gpucost.duckdb"


def test_server_stays_a_comment_if_none_is_found(work: Path) -> None:
    _, err = call("init", "--yes")
    assert "found no Prometheus on this machine: set url under [prometheus]" in err
    assert "by default after 15 days" in err and "answers at" not in err
    text = (work / "gpucost.toml").read_text()
    assert f'\n# [prometheus]\n# url = "{discover.LOCAL}"\n' in text and "@url@" not in text
    assert load_config(environ={}, cwd=work).timezone == "Europe/Berlin"


def test_given_url_store_and_file_are_written(work: Path) -> None:
    odd = ("--store", 'odd "name".duckdb', "--config", "etc/costs.toml")
    call("init", "--url", "https://prometheus.example.invalid/", *odd)
    config = load_config(Path("etc/costs.toml"), environ={}, cwd=work)
    assert config.prometheus[0].url == "https://prometheus.example.invalid"
    assert config.store == work / "etc" / 'odd "name".duckdb'


def test_server_with_a_login_is_found_and_another_service_is_not(work: Path, fake: Fake) -> None:
    assert "needs a login" in call("init", "--url", serve(fake, PAGES, 401))[1]
    assert discover.probe(serve(fake, {"/api/v1/query": "hello"})) is None


def test_existing_file_is_kept_without_force(work: Path) -> None:
    (work / "gpucost.toml").write_text("# mine")
    assert "--force" in call("init", "--yes", code=1)[1]
    assert (work / "gpucost.toml").read_text() == "# mine"
    call("init", "--yes", "--force")
    assert (work / "gpucost.toml").read_text() != "# mine"


def test_invalid_url_is_refused_without_showing_the_password(work: Path) -> None:
    assert "http://" in call("init", "--url", "prometheus:9090", code=1)[1]
    assert not (work / "gpucost.toml").exists()
    out, err = call("init", "--url", "http://user:sek/r@et@127.0.0.1:1", code=1)
    assert "invalid URL http://***@127.0.0.1:1" in err
    assert "sek" not in out + err and "r@et" not in out + err


def test_candidates_and_time_zone_come_from_the_environment(tmp_path: Path) -> None:
    found = discover.candidates({"PROMETHEUS_URL": "prom:9090/", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found[:2] == ["http://prom:9090", discover.LOCAL]
    assert set(discover.IN_CLUSTER) < set(found)
    assert discover.candidates({}) == [discover.LOCAL]
    assert discover.timezone({"TZ": ":Asia/Tokyo"}, tmp_path) == "Asia/Tokyo"
    assert discover.timezone({"TZ": "CET-1CEST"}, tmp_path) == "UTC"
    (tmp_path / "timezone").write_text("Europe/Paris\n")
    assert discover.timezone({}, tmp_path) == "Europe/Paris"
