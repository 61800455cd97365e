"""Labels through a real Prometheus: exact costs by label, as from the fleet's series."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucost.periods import from_ms, iso
from tests.replay.cases.words import BOOK, HEADER, at
from tests.replay.load import write_config
from tests.replay.scrape import write_openmetrics
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.unit.command import call
from tests.unit.test_labels import MAIN, NAME


def test_label_that_changes_and_labels_that_conflict(tmp_path: Path) -> None:
    """x holds 4 hours of $1.20 and y 2; b and c have their namespace's label."""
    require_prometheus()
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]))
    series = MAIN.scraped(MAIN.fleet)
    with prometheus_over_text(lambda out: write_openmetrics(series, out), tmp_path / "prometheus") as url:
        config = write_config(MAIN.fleet, tmp_path, tmp_path / "prices.csv", url)
        span = f"--config {config.path} --from {iso(from_ms(at(0) * 1000))} --to {iso(from_ms(at(6) * 1000))}"
        call("collect", "prometheus", *span.split())
        answer = json.loads(call("report", "--by", NAME, "--format", "json", *span.split())[0])
    costs = {row[NAME]: row["cost"] for row in answer["rows"] if row["kind"] == "allocated"}
    assert costs == pytest.approx({"x": 4.8, "y": 2.4, "z": 10.8, "unassigned": 1.8})
    assert "label_conflict" in {note["code"] for note in answer["coverage"]["warnings"]}
