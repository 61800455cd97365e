"""Collecting straight into a lake: from a real Prometheus in parts, with files of Slurm and a bill beside it, as into a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.lake import manifest, transfer
from gpucost.lake.files import open_files
from gpucost.periods import from_ms, iso
from gpucost.store.connection import Store
from tests.lakes import RAW, differences
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.load import write_config

pytestmark = pytest.mark.services
CASE = CASES / "same-name-twice"
JOBS = """JobID|JobIDRaw|Cluster|Account|User|State|Submit|Start|End|AllocTRES|NodeList
1|1|hpc|nlp|ada|COMPLETED|{0}|{0}|{1}|cpu=1,gres/gpu=2,node=1|n1
2|2|hpc|cv|bob|{2}|{0}|{0}|{3}|cpu=1,gres/gpu=1,node=1|n1
"""


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def served(prometheus_server: Callable[[dict[str, Any]], str], tmp_path: Path) -> tuple[Fleet, list[str]]:
    """A fleet that a Prometheus has, and the words that name its configuration."""
    fleet = read_fleet(CASE)
    cluster = fleet["nodes"][0]["cluster"]
    config = write_config(fleet, tmp_path, CASE / "prices.csv", prometheus_server(fleet), cluster=cluster)
    return fleet, ["--config", str(config.path)]


def test_what_is_collected_in_parts_is_what_a_store_has(
    served: tuple[Fleet, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fleet, named), url = served, str(tmp_path / "lake")
    whole = [iso(from_ms(fleet[end] * 1000)) for end in ("start", "end")]
    middle = iso(from_ms((fleet["start"] + fleet["end"]) // 7200 * 3600 * 1000))
    refused = run("collect", "prometheus", "--lake", url, *named, code=1)
    assert "name for who writes" in refused and "GPUCOST_LAKE__WRITER" in refused
    monkeypatch.setenv("GPUCOST_LAKE__WRITER", "collector")
    for start, end in ((whole[0], middle), (middle, whole[1])):
        run("collect", "prometheus", "--from", start, "--to", end, "--lake", url, *named)
        run("collect", "prometheus", "--from", start, "--to", end, *named)
    jobs = [tmp_path / "running.psv", tmp_path / "ended.psv"]
    first, last = fleet["start"], fleet["end"] - fleet["end"] % 3600
    jobs[0].write_text(JOBS.format(first, first + 3600, "RUNNING", "Unknown"))
    jobs[1].write_text(JOBS.format(first, first + 3600, "COMPLETED", last))
    for file in jobs:
        for more in (["--lake", url], []):
            run("collect", "slurm", str(file), "--from", whole[0], "--to", iso(from_ms(last * 1000)), *more, *named)
    config = load_config(Path(named[1]))
    other = Store(tmp_path / "other.duckdb")
    transfer.import_lake(other, manifest.read(open_files(url, config)))
    own = {
        "loads": "SELECT kind, source, from_ms, to_ms FROM {0}.loads",
        "asked_hours": "SELECT source, hour, samples FROM {0}.asked_hours",
    }
    assert not differences(config.store, other.path, {**RAW, **own})
    run("lake", "attribute", url, *named)
    call = ["report", "--from", whole[0], "--to", whole[1], "--by", "cluster,namespace", "--format", "json", *named]
    told, truth = (json.loads(run(*call, *more)) for more in (["--lake", url], []))
    assert told["coverage"] == truth["coverage"]
    assert told == truth


@pytest.mark.slow
def test_what_was_brought_before_a_server_died_is_kept(
    served: tuple[Fleet, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fleet, named), url = served, str(tmp_path / "lake")
    monkeypatch.setenv("GPUCOST_LAKE__WRITER", "collector")
    span = ["--from", iso(from_ms(fleet["start"] * 1000)), "--to", iso(from_ms(fleet["end"] * 1000))]
    run("collect", "prometheus", *span, "--lake", url, *named)
    before = sorted(Path(url).rglob("*.parquet"))
    dead = tmp_path / "dead.toml"
    config = load_config(Path(named[1]))
    text = Path(named[1]).read_text().replace(config.prometheus[0].url, "http://127.0.0.1:9")
    dead.write_text(text)
    run("collect", "prometheus", *span, "--lake", url, "--config", str(dead), code=1)
    assert sorted(Path(url).rglob("*.parquet")) == before
