"""kill -9 while metrics are collected and attributed: no report is untrue, and going on ends as if nothing had been."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucost.config import Config
from tests.faults.checks import check_said, check_undisturbed
from tests.faults.proxy import proxy
from tests.faults.worlds import World, collect, world
from tests.replay.server import require_prometheus

IN_MAKE_TEST = 1
KILLS = 2

_COLLECT_AND_REPORT = """
import sys
import duckdb, numpy, requests
from gpucost.cli.app import app
print("ready", flush=True)
for command in ("collect prometheus", "report"):
    try:
        app([*command.split(), *sys.argv[1:]])
    except SystemExit as ended:
        if ended.code:
            raise
"""


@pytest.fixture(scope="module")
def its(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    require_prometheus()
    with proxy() as one, world("whole-gpus", one, tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module")
def seconds(its: World, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long it takes undisturbed."""
    with started(its, its.config(tmp_path_factory.mktemp("whole"), max_samples=5000)) as process:
        began = time.monotonic()
        assert process.wait() == 0
    return time.monotonic() - began


def started(its: World, config: Config) -> subprocess.Popen[str]:
    """A process that is about to collect and to report."""
    file = str(config.store.parent / "gpucost.toml")
    command = [sys.executable, "-c", _COLLECT_AND_REPORT, *its.span, "--config", file]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= IN_MAKE_TEST else []) for n in range(8)])
def test_killed_and_gone_on(seed: int, its: World, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    config = its.config(tmp_path, max_samples=5000)
    for number in range(KILLS):
        with started(its, config) as process:
            time.sleep(dice.uniform(0, seconds))
            process.kill()
        if config.store.exists() and (report := its.report(config)).code != 1:
            check_said(its, config, report, number)
    assert collect(monkeypatch, config, its.repair, *its.span).code == 0
    check_undisturbed(its, its.report(config), seed)
