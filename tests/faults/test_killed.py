"""`collect` and `report`, killed with kill -9 whenever that is: run again, their figures are those of undisturbed runs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.load import write_config
from tests.replay.server import prometheus_over, require_prometheus

pytestmark = [pytest.mark.services, pytest.mark.slow]

DAYS = 3


class Runs:
    """gpucost as a program, over a Prometheus that scraped three days of pods that come and go."""

    def __init__(self, folder: Path, url: str, described: dict[str, Any]) -> None:
        self.folder, self.store = folder, folder / "gpucost.duckdb"
        prices = folder / "prices.csv"
        prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
        write_config(described, folder, prices, url, cluster="main", max_samples=50_000)
        begun = time.monotonic()
        self.run(*self.collect)
        collected = time.monotonic()
        self.answer = self.run(*self.report)
        self.seconds = {self.collect: collected - begun, self.report: time.monotonic() - collected}

    collect = ("collect", "prometheus", "--from", "2026-03-10T00:00Z", "--to", f"2026-03-{10 + DAYS}T00:00Z")
    report = ("report", *collect[2:], "--by", "day,namespace,pod,uid", "--format", "json")

    def start(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gpucost", *words, "--config", str(self.folder / "gpucost.toml")]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment
        )

    def run(self, *words: str) -> str:
        process = self.start(words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return out

    def killed(self, words: tuple[str, ...], part: float) -> str:
        """Kills the command after this part of the time that it took undisturbed; says when that was."""
        process = self.start(words)
        seconds = part * self.seconds[words]
        time.sleep(seconds)
        process.kill()
        process.communicate()
        return f"{words[0]} killed after {seconds:.2f} s, ended with {process.returncode}"

    def check(self, seed: int) -> None:
        """From nothing: collect is killed once or twice, then report, at random moments; the answer is the same."""
        moments = random.Random(seed)
        for path in self.folder.glob(self.store.name + "*"):
            path.unlink()
        kills = [self.killed(self.collect, moments.uniform(0.2, 1.1)) for _ in range(moments.choice([1, 2]))]
        self.run(*self.collect)
        kills.append(self.killed(self.report, moments.uniform(0.2, 1.1)))
        answer = self.run(*self.report)
        print(f"seed {seed}: {'; '.join(kills)}")
        assert json.loads(answer) == json.loads(self.answer)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    require_prometheus()
    folder = tmp_path_factory.mktemp("killed")
    hours = 24 * DAYS
    nodes = [node("w", "g6.12xlarge", 0, hours), node("x", "p4de.24xlarge", 5.5, hours - 3, "spot")]
    pods = [pod(f"a{n}", "w", [n % 4], n, n + 3.7, namespace=f"team-{n % 3}") for n in range(0, hours - 4, 4)]
    pods += [pod(f"b{n}", "x", [n % 8, (n + 1) % 8], n + 0.2, n + 2.1) for n in range(6, hours - 6, 2)]
    util = {gpu: [[at(h), at(h) + 1800, 80] for h in range(hours)] for n in nodes for gpu in n["gpus"]}
    described = fleet(hours, nodes, pods, util)
    with prometheus_over(described, folder / "prometheus") as url:
        yield Runs(folder, url, described)


@pytest.mark.parametrize("seed", [0, *range(100, 106)])
def test_killed_at_some_moment(runs: Runs, seed: int) -> None:
    runs.check(seed)
