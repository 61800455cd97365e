"""`gpucost waste` and `gpucost report --waste`: the same figures in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from tests.replay.cases.words import BOOK, HEADER, busy, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.unit.test_waste import SLEEP, TRAIN, four, one

DAY = ("--from", "2026-03-10", "--to", "2026-03-10T04:00Z")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waste")
    described = four(4, one(0, 4, TRAIN), pod("n", "a", [1], 0, 4, "labs", owner=SLEEP), util=busy("a", [0], 0, 3))
    prices = path / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, path, prices)
    pipeline.attribute(config, load(described, scrape(described, lean=True), config))
    return path


def run(folder: Path, *words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--config", str(folder / "gpucost.toml")])


def test_a_table_of_buckets_and_workloads(folder: Path) -> None:
    lines = run(folder, "waste", *DAY).stdout.splitlines()
    assert lines[0] == "GPU waste: all teams, 2026-03-10 00:00 to 2026-03-10 04:00"
    found = [line.split() for line in lines]
    assert ["Active", "held", "3.0", "$3.60", "18.8", "%"] in [
        words[:2] + words[-4:] for words in found if words[:1] == ["Active"]
    ]
    assert any(words[:2] == ["Between", "jobs"] and "8.0" in words for words in found)
    assert any(words[:1] == ["Wasted"] and "$15.60" in words for words in found)
    assert any(words[:1] == ["StatefulSet/ann-notebook"] and "$4.80" in words for words in found)


def test_json_has_every_bucket(folder: Path) -> None:
    told = json.loads(run(folder, "waste", *DAY, "--by", "team,workload_type", "--format", "json").stdout)
    assert (told["schema"], told["currency"], told["by"]) == ("gpucost.waste/1", "USD", ["team", "workload_type"])
    assert len(told["buckets"]) == 15
    assert {row["bucket"]: row["gpu_hours"] for row in told["buckets"] if row["gpu_hours"]} == {
        "active": 3.0,
        "data_stall": 1.0,
        "user_away": 4.0,
        "between_jobs": 8.0,
    }
    assert told["totals"] == {
        "gpu_hours": 16.0,
        "cost": 19.2,
        "wasted_gpu_hours": 13.0,
        "wasted_cost": 15.6,
        "waste_ratio": 0.8125,
    }
    assert {"bucket": "user_away", "team": "labs", "workload_type": "development", "gpu_hours": 4.0, "cost": 4.8} in told["rows"]
    assert [work["workload"] for work in told["workloads"]] == ["StatefulSet/ann-notebook", "PyTorchJob/bert"]
    assert told["coverage"]["measured_ratio"] == 1.0


def test_csv_and_files(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(folder, "waste", *DAY, "--by", "namespace", "--format", "csv").stdout)))
    assert {(row["bucket"], row["namespace"], float(row["cost"])) for row in rows} == {
        ("active", "train", 3.6),
        ("data_stall", "train", 1.2),
        ("user_away", "labs", 4.8),
        ("between_jobs", "", 9.6),
    }
    target = folder / "waste.md"
    assert run(folder, "waste", *DAY, "--format", "markdown", "-o", str(target)).exit_code == 0
    assert "| User away | development | idle until it is forgotten | 4.0 | $4.80 | 25.0 % |" in target.read_text()


def test_filters(folder: Path) -> None:
    told = json.loads(run(folder, "waste", *DAY, "--workload", "bert", "--format", "json").stdout)
    assert told["totals"]["gpu_hours"] == 4.0
    told = json.loads(run(folder, "waste", *DAY, "--namespace", "labs", "--format", "json").stdout)
    assert told["totals"]["cost"] == 4.8
    wrong = run(folder, "waste", *DAY, "--workload", "nothing")
    assert wrong.exit_code == 1 and "no workload 'nothing' held GPUs" in wrong.stderr and "name one that did: " in wrong.stderr
    wrong = run(folder, "waste", *DAY, "--team", "nobody")
    assert wrong.exit_code == 1 and "no team 'nobody' held GPUs" in wrong.stderr


def test_a_report_with_waste(folder: Path) -> None:
    told = json.loads(run(folder, "report", *DAY, "--waste", "--format", "json").stdout)
    alone = json.loads(run(folder, "waste", *DAY, "--format", "json").stdout)
    assert told["schema"] == "gpucost.report/1"
    assert told["waste"] == {key: alone[key] for key in ("by", "buckets", "rows", "totals", "workloads")}
    assert told["waste"]["totals"]["cost"] == told["totals"]["node_cost"]
    text = run(folder, "report", *DAY, "--waste").stdout
    assert "Cost by team" in text and "Where GPU time went" in text and "Workloads that waste most" in text
    assert "waste" not in json.loads(run(folder, "report", *DAY, "--format", "json").stdout)
    wrong = run(folder, "report", *DAY, "--waste", "--format", "csv")
    assert wrong.exit_code == 2 and "gpucost waste --format csv" in wrong.stderr
