"""True figures of described fleets (own and from ../shared), collected from a real Prometheus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.periods import Period, from_ms, iso
from gpucost.store.connection import Store
from tests.replay.check import (
    HOURS,
    MONEY,
    check_efficiency,
    check_failures,
    check_figures,
    check_queues,
    differences,
)
from tests.replay.fleet import all_cases, period_of, read_expected, read_fleet
from tests.replay.load import put_prices, write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop, write_blocks
from tests.replay.waste import check_waste
from tests.shared import SHARED, shared
from tests.unit.command import call

pytestmark = pytest.mark.services

# The exact calculation checks the samples of all fleets; a few show the effects of HTTP.
OWN = [
    pytest.param(
        case, id=case.name, marks=[] if number == 32 else pytest.mark.slow if number % 8 else pytest.mark.ci
    )
    for number, case in enumerate(all_cases())
]
OTHERS = [
    pytest.param(case, id=f"shared {case.name}", marks=[pytest.mark.shared, pytest.mark.ci])
    for case in sorted((SHARED / "replay/cases").glob("*"))
]


@pytest.mark.parametrize("case", [*OWN, *OTHERS])
def test_fleet_collected_over_http_has_its_true_figures(case: Path, tmp_path: Path) -> None:
    """Also by day, and with the warnings expected for a fleet of ../shared."""
    require_prometheus()
    fleet, expected, data, port = read_fleet(case), read_expected(case), tmp_path / "prometheus", free_port()
    is_shared = SHARED in case.parents
    if is_shared:
        load = [sys.executable, shared("replay/replay.py"), "load", case / "fleet.json", data]
        subprocess.run(load, check=True)
    else:
        write_blocks(lambda out: write_openmetrics(scrape(fleet), out), data)
    url, cluster = f"http://127.0.0.1:{port}", fleet["nodes"][0]["cluster"]
    config = write_config(fleet, tmp_path, case / "prices.csv", url, cluster=cluster)
    store = Store(config.store)
    put_prices(fleet, store)
    whole, period = (
        Period(*(from_ms(second * 1000) for second in span))
        for span in ((fleet["start"], fleet["end"]), period_of(fleet))
    )
    server = start_prometheus(data, port)
    try:
        results, errors = pipeline.collect(config, store, whole)
        if "epochs" in fleet:
            call(
                *f"collect progress --from {iso(whole.start)} --to {iso(whole.end)} --config {config.path}".split()
            )
    finally:
        stop(server)
    assert not errors and all(result.ok for result in results)
    span = f"--from {iso(period.start)} --to {iso(period.end)} --config {config.path}"
    report = json.loads(call(*f"report --by day,namespace --format json {span}".split())[0])
    warnings = str(report["coverage"]["warnings"])
    assert [word for word in fleet.get("expect_warnings", []) if word not in warnings] == []
    if any("uid" in rule[4] for rule in fleet.get("relabel", [])):  # only the names of its pods are known
        uids = [(pod["uid"], pod["name"]) for pod in fleet["pods"]]
        with store.write() as con:
            con.executemany("UPDATE allocations SET uid = $1 WHERE pod = $2", uids)
    check_figures(case, store)
    check_waste(config, store, period)
    if "efficiency" in expected:
        check_efficiency(case, json.loads(call(*f"report --efficiency --format json {span}".split())[0]))
    if "queues" in expected:
        check_queues(case, json.loads(call(*f"queue --format json {span}".split())[0]))
    if "failures" in expected:
        check_failures(case, json.loads(call(*f"failures --format json {span}".split())[0]))
    days, held = expected.get("by_day", {}), [row for row in report["rows"] if row["kind"] == "allocated"]
    if is_shared:
        days = {day["day"]: day for day in days}
    assert not days or {row["day"] for row in held} == set(days)
    for day, figures in days.items():
        measures = [name for name in (*HOURS, *MONEY) if name in figures]
        sums = {name: sum(row[name] for row in held if row["day"] == day) for name in measures}
        assert not differences(
            day, sums, figures, measures, dict.fromkeys(measures, 0.2 if is_shared else 0.05)
        )
