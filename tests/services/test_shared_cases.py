"""The fleets in ../shared, scraped by a real Prometheus: `collect` and `report` give their figures, and warn as they should."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.replay.check import slack_of_nodes
from tests.replay.compare import FLEET_HOURS, FLEET_MONEY, HOURS, MONEY, differences, slack_of_pods
from tests.replay.fleet import Fleet, is_on, read_expected, read_fleet
from tests.replay.load import write_config
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop
from tests.shared import SHARED, shared

pytestmark = [pytest.mark.services, pytest.mark.shared, pytest.mark.slow]

KEYS = {"by_namespace": ("cluster", "namespace"), "by_pod": ("cluster", "namespace", "pod", "uid"), "by_day": ("day",)}


class Asked:
    """A case's fleet as `gpucost` reads it from a Prometheus, once it was collected."""

    def __init__(self, case: Path, folder: Path, url: str) -> None:
        self.fleet, self.expected = read_fleet(case), read_expected(case)
        self.slacks = slacks(self.fleet, self.expected)
        write_config(self.fleet, folder, case / "prices.csv", url, cluster=self.fleet["nodes"][0]["cluster"])
        self.words = [
            "--config", str(folder / "gpucost.toml"), "--from", iso(self.fleet["start"]), "--to", iso(self.fleet["end"]),
        ]  # fmt: skip
        self.run("collect", "prometheus")

    def run(self, *words: str) -> str:
        result = CliRunner().invoke(app, [*words, *self.words])
        assert result.exit_code == 0, result.output
        return result.stdout

    def wrong(self, part: str) -> list[str]:
        """One line per figure by namespace, pod or day that is not the expected one."""
        keys = KEYS[part]
        if part == "by_pod" and any("uid" in rule[4] for rule in self.fleet.get("relabel", [])):
            keys = keys[:-1]
        rows = json.loads(self.run("report", "--by", ",".join(keys), "--format", "json"))["rows"]
        found = {tuple(row[key] for key in keys): row for row in rows if row["kind"] == "allocated"}
        wrong = []
        for case_fleet in self.expected.get(part, []):
            key = tuple(case_fleet[key] for key in keys)
            wrong += differences(
                f"{part} {key}", found.pop(key, {}), case_fleet, (*HOURS, *MONEY), self.slack_of(part, case_fleet)
            )
        return wrong + [f"{part} {key}: was not there, and has {row}" for key, row in found.items() if row["allocated_gpu_hours"]]

    def slack_of(self, part: str, case_fleet: dict[str, Any]) -> dict[str, float]:
        if part == "by_day":
            day = datetime.fromisoformat(case_fleet["day"]).replace(tzinfo=ZoneInfo(self.fleet["timezone"]))
            start, end = day.timestamp(), (day + timedelta(days=1)).timestamp()
            return slack_of_pods(self.fleet, [s for pod, s in self.slacks if pod["scheduled"] < end and start < pod["to"]])
        names = [name for name in ("cluster", "namespace", "uid") if name in case_fleet]
        return slack_of_pods(self.fleet, [s for pod, s in self.slacks if all(pod[name] == case_fleet[name] for name in names)])

    def wrong_in_total(self) -> tuple[list[str], list[str]]:
        """One line per total that is not the expected one, and one per word that no warning has."""
        report = json.loads(self.run("report", "--by", "cluster", "--format", "json"))
        slack = slack_of_pods(self.fleet, [slack for _, slack in self.slacks])
        slack |= slack_of_nodes(self.fleet, self.expected, slack)
        measures = (*HOURS, *MONEY, *FLEET_HOURS, *FLEET_MONEY)
        warnings = [str(warning) for warning in report["coverage"]["warnings"]]
        return differences("total", report["totals"], self.expected["total"], measures, slack), [
            f"no warning says {word!r}: {warnings}"
            for word in self.fleet.get("expect_warnings", [])
            if not any(word in warning for warning in warnings)
        ]


def iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def slacks(fleet: Fleet, expected: dict[str, Any]) -> list[tuple[dict[str, Any], tuple[float, float, int]]]:
    """By pod what scraping cannot know of it: its GPUs, their price, and whether a scrape alone tells when it ended."""
    found = []
    for pod in fleet["pods"]:
        case_fleet = next(
            (one for one in expected["by_pod"] if one["uid"] == pod["uid"] and one["cluster"] == pod["cluster"]), None
        )
        if case_fleet and case_fleet.get("allocated_gpu_hours"):
            node = next(n for n in fleet["nodes"] if is_on(pod, n))
            held = min(pod["to"], node["to"], fleet["end"]) - max(pod["scheduled"], fleet["start"])
            listed = min(pod["keep_until"], fleet["end"])
            ends_known = pod["to"] >= fleet["end"] or (listed - pod["to"] > 2 * fleet["scrape"] and pod["to"] < node["to"])
            hours = case_fleet["allocated_gpu_hours"]
            found.append((pod, (hours / (held / 3600), case_fleet.get("cost", 0) / hours, int(not ends_known))))
    return found


@pytest.mark.parametrize("case", sorted((SHARED / "replay/cases").glob("*")), ids=lambda case: case.name)
def test_fleet_gives_its_figures(case: Path, tmp_path: Path) -> None:
    require_prometheus()
    data, port = tmp_path / "prometheus", free_port()
    subprocess.run([sys.executable, shared("replay/replay.py"), "load", case / "fleet.json", data], check=True)
    server = start_prometheus(data, port)
    try:
        span = Asked(case, tmp_path, f"http://127.0.0.1:{port}")
        wrong, unsaid = span.wrong_in_total()
        for part in KEYS:
            if part in span.expected:
                wrong += span.wrong(part)
        assert not wrong + unsaid, "\n".join(wrong + unsaid)
    finally:
        stop(server)
