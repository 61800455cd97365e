"""The fleets in ../shared, scraped by a real Prometheus: `collect` and `report` give their figures, and warn as they should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpucost.periods import from_ms, iso
from gpucost.store.connection import Store
from tests.replay.check import check_figures
from tests.replay.compare import HOURS, MONEY, differences
from tests.replay.fleet import read_expected, read_fleet
from tests.replay.load import write_config
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop
from tests.shared import SHARED, shared
from tests.unit.command import call

pytestmark = [pytest.mark.services, pytest.mark.shared, pytest.mark.ci]
# Fleets whose figures are not right yet, and why.
NOT_YET: dict[str, str] = {}


def _case(case: Path) -> Any:
    marks = [pytest.mark.xfail(reason=NOT_YET[case.name])] if case.name in NOT_YET else []
    return pytest.param(case, marks=marks, id=case.name)


@pytest.mark.parametrize("case", map(_case, sorted((SHARED / "replay/cases").glob("*"))))
def test_fleet_gives_its_figures(case: Path, tmp_path: Path) -> None:
    require_prometheus()
    data, port, fleet = tmp_path / "prometheus", free_port(), read_fleet(case)
    subprocess.run(
        [sys.executable, shared("replay/replay.py"), "load", case / "fleet.json", data], check=True
    )
    server = start_prometheus(data, port)
    config = write_config(
        fleet, tmp_path, case / "prices.csv", f"http://127.0.0.1:{port}", cluster=fleet["nodes"][0]["cluster"]
    )
    span = ["--from", iso(from_ms(fleet["start"] * 1000)), "--to", iso(from_ms(fleet["end"] * 1000))]

    def run(*words: str) -> str:
        return call(*words, *span, "--config", str(config.path))[0]

    try:
        run("collect", "prometheus")
    finally:
        stop(server)
    report: dict[str, Any] = json.loads(run("report", "--by", "day,namespace", "--format", "json"))
    warnings = [str(warning) for warning in report["coverage"]["warnings"]]
    assert [
        word for word in fleet.get("expect_warnings", []) if not any(word in warning for warning in warnings)
    ] == []
    store = Store(config.store)
    if any("uid" in rule[4] for rule in fleet.get("relabel", [])):  # names are all that is known of its pods
        with store.write() as con:
            con.executemany(
                "UPDATE allocations SET uid = $1 WHERE pod = $2",
                [(pod["uid"], pod["name"]) for pod in fleet["pods"]],
            )
    check_figures(case, store)
    measures = (*HOURS, *MONEY)
    for day in read_expected(case).get("by_day", []):
        rows = [row for row in report["rows"] if row["kind"] == "allocated" and row["day"] == day["day"]]
        sums = {measure: sum(row[measure] for row in rows) for measure in measures}
        assert not differences(day["day"], sums, day, measures, dict.fromkeys(measures, 0.2))
