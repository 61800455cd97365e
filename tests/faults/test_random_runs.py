"""Collect through a failing server, report, collect again later, report: every wrong figure is flagged.

`pytest tests/faults --runs 1000` tries more runs. A run depends only on its number.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checks import check_said, check_undisturbed
from tests.faults.memory import peak_mib
from tests.faults.proxy import FAULTS, UNFELT, Plan, proxy
from tests.faults.worlds import FLEETS, World, collect, world
from tests.replay.server import require_prometheus

pytestmark = [pytest.mark.services, pytest.mark.slow]

MANY = 10  # runs for each 40 of other tests
MIB = 1000
#: Seconds that a run may take on a busy machine in addition to its limits.
SECONDS = 60.0
LIMITS = {"timeout_seconds": 1.0, "max_response_seconds": 1.5, "max_response_mib": 8}

Worlds = Callable[[str], World]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        runs = metafunc.config.getoption("runs")
        runs = runs if runs > 40 else min(runs, MANY)
        metafunc.parametrize("seed", range(runs))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Yield the world of a fleet by its case's name; its servers run until the module ends."""
    require_prometheus()
    with proxy() as one, ExitStack() as stack:
        known = {}

        def made(name: str) -> World:
            if name not in known:
                known[name] = stack.enter_context(world(name, one, tmp_path_factory.mktemp(name)))
            return known[name]

        yield made


@dataclass(frozen=True)
class Run:
    """A run drawn from a seed: a fleet, clocks, and the plans of one or two disturbed collects."""

    case: str
    plans: tuple[Plan, ...]
    moments: tuple[datetime, ...]
    lags: tuple[bool, ...]
    words: tuple[str, ...]
    settings: dict[str, Any]


def drawn(seed: int, worlds: Worlds) -> Run:
    """Return the run of a seed."""
    dice = random.Random(seed)
    case = list(FLEETS)[seed % len(FLEETS)]
    its = worlds(case)
    plans, moments, lags = [], [], []
    moment = its.at(0)
    for number in range(dice.choice((1, 1, 2))):
        kinds = tuple(dice.sample(sorted(FAULTS), dice.choice((1, 1, 2, 4))))
        plans.append(Plan(seed * 10 + number, kinds, dice.choice((0.01, 0.05, 0.2, 0.6))))
        lags.append(dice.random() < 0.3)
        since = (moment - its.at(0)) / timedelta(hours=1)
        moment = its.at(dice.choice((its.hours, its.hours + 1, dice.uniform(max(since, 0.5), its.hours + 1))))
        moments.append(moment)
    return Run(
        case,
        tuple(plans),
        tuple(moments),
        tuple(lags),
        (*(its.span if dice.random() < 0.2 else ()), *(("-q",) if dice.random() < 0.2 else ())),
        {
            "max_samples": dice.choice((1000, 20_000, 2_000_000)),
            "partial_response": dice.choice(("refuse",) * 7 + ("accept",)),
        },
    )


def test_wrong_figures_are_flagged(
    seed: int, worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = drawn(seed, worlds)
    its = worlds(chosen.case)
    config = its.config(tmp_path, **LIMITS, **chosen.settings)
    for plan, moment, lags in zip(chosen.plans, chosen.moments, chosen.lags, strict=True):
        its.proxy.begin(its.behind if lags else its.full, plan)
        began = time.monotonic()
        with peak_mib() as peak:
            answer = collect(monkeypatch, config, moment, *chosen.words)
        taken = time.monotonic() - began
        what = f"{plan} at {moment} of {'the lagging server' if lags else 'the full server'}: {dict(its.proxy.met)}\n{answer}"
        assert answer.code in (0, 1, 4), what
        slow = its.proxy.met["drip"] + its.proxy.met["bomb"]
        assert taken < SECONDS + slow * 2 * LIMITS["max_response_seconds"], f"{taken:.1f} s: {what}"
        assert peak.mib < MIB, f"{peak.mib} MiB: {what}"
        if not set(its.proxy.met) - UNFELT:
            assert answer.code in (0, 4), what
    report = its.report(config)
    if report.code == 1:
        assert answer.code or answer.err, ("the store is empty, and collect did not report it", report, what)
    else:
        missing = check_said(its, config, report, what)
        newest = min(moment, its.at(min(its.lag.kube, its.lag.dcgm))) if lags else moment
        lost = {hour for hour in missing if its.at(hour + 1) <= newest}
        assert not lost or answer.code or chosen.settings["partial_response"] == "accept", (lost, what)
        assert not any(its.at(hour + 1) <= moment for hour in missing) or answer.err, (missing, what)
    config = its.config(tmp_path)
    its.proxy.begin(its.full)
    answer = collect(monkeypatch, config, its.repair, *chosen.words)
    assert answer.code == 0, (answer, what)
    check_undisturbed(its, its.report(config), (answer, what))
