"""Collect through a server that fails, report, collect again later, report: no figure is wrong and unsaid.

`pytest tests/faults --runs 1000` draws more of them; `--runs 1` with `-k` and a number draws one again.
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

from gpucost.config import Config
from gpucost.model import iso
from tests.faults.memory import peak_mib
from tests.faults.proxy import FAULTS, UNFELT, Plan, proxy
from tests.faults.worlds import FLEETS, Answer, World, collect, held, world
from tests.replay.server import require_prometheus

IN_MAKE_TEST = 8
MIB = 1000
#: What a run may take on a machine that does other things, besides what its limits allow.
SECONDS = 60.0
LIMITS = {"timeout_seconds": 1.0, "max_response_seconds": 1.5, "max_response_mib": 8}
#: How many samples next to a gap may be told otherwise than with those that lie in it.
EDGE_SCRAPES = 3

Worlds = Callable[[str], World]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        runs = metafunc.config.getoption("runs")
        slow = [pytest.mark.slow]
        metafunc.parametrize("seed", [pytest.param(n, marks=slow if n >= IN_MAKE_TEST else []) for n in range(runs)])


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """The world of a fleet by its case's name; its servers run until the module is through."""
    require_prometheus()
    with proxy() as one, ExitStack() as stack:
        known: dict[str, World] = {}

        def made(name: str) -> World:
            if name not in known:
                known[name] = stack.enter_context(world(name, one, tmp_path_factory.mktemp(name)))
            return known[name]

        yield made


@dataclass(frozen=True)
class Run:
    """What a seed draws: a fleet, clocks, and the plans of one or two collects that meet faults."""

    case: str
    plans: tuple[Plan, ...]
    moments: tuple[datetime, ...]
    lags: tuple[bool, ...]
    period: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def is_felt(self) -> bool:
        """Whether any of its faults may show."""
        return any(set(plan.kinds) - UNFELT for plan in self.plans)


def drawn(seed: int, worlds: Worlds) -> Run:
    """The run of a seed."""
    dice = random.Random(seed)
    case = list(FLEETS)[seed % len(FLEETS)]
    its = worlds(case)
    hours = (its.fleet["end"] - its.fleet["start"]) // 3600
    plans, moments, lags = [], [], []
    moment = its.at(0)
    for number in range(dice.choice((1, 1, 2))):
        kinds = tuple(dice.sample(sorted(FAULTS), dice.choice((1, 1, 2, 4))))
        plans.append(Plan(seed * 10 + number, kinds, dice.choice((0.01, 0.05, 0.2, 0.6))))
        lags.append(dice.random() < 0.3)
        since = (moment - its.at(0)) / timedelta(hours=1)
        moment = its.at(dice.choice((hours, hours + 1, dice.uniform(max(since, 0.5), hours + 1))))
        moments.append(moment)
    return Run(
        case,
        tuple(plans),
        tuple(moments),
        tuple(lags),
        ("--from", iso(its.at(0)), "--to", iso(its.end)) if dice.random() < 0.2 else (),
        {"max_samples": dice.choice((1000, 20_000, 2_000_000)), "partial_response": dice.choice(("refuse",) * 7 + ("accept",))},
    )


def test_no_figure_is_wrong_and_unsaid(seed: int, worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = drawn(seed, worlds)
    its = worlds(chosen.case)
    config = its.config(tmp_path, **LIMITS, **chosen.settings)
    for plan, moment, lags in zip(chosen.plans, chosen.moments, chosen.lags, strict=True):
        its.proxy.begin(its.behind if lags else its.full, plan)
        began = time.monotonic()
        with peak_mib() as peak:
            answer = collect(monkeypatch, config, moment, *chosen.period)
        taken = time.monotonic() - began
        what = f"{plan} at {moment} of {'the one behind' if lags else 'the full one'}: {dict(its.proxy.met)}\n{answer}"
        assert answer.code in (0, 1, 4), what
        slow = its.proxy.met["drip"] + its.proxy.met["bomb"]
        assert taken < SECONDS + slow * 2 * LIMITS["max_response_seconds"], f"{taken:.1f} s: {what}"
        assert peak.mib < MIB, f"{peak.mib} MiB: {what}"
        if not set(its.proxy.met) - UNFELT:
            assert answer.code in (0, 4), what
    _check_said(its, config, its.report(config), answer, what)
    _check_repaired(its, config, tmp_path, chosen, monkeypatch)


def _check_said(its: World, config: Config, report: Answer, collected: Answer, what: str) -> None:
    """What the report claims to know is true, and what it does not know it names."""
    assert report.code in (0, 1, 4), (report, what)
    if report.code == 1:
        assert collected.code != 0 or collected.err, f"nothing was collected, and nobody said so: {what}"
        return
    coverage = report.json()["coverage"]
    missing = _hours_of(its, coverage["not_collected"])
    partial = _hours_of(its, coverage.get("partial", []))
    assert bool(missing) == (coverage["not_collected_hours"] > 0), (coverage, what)
    assert not missing or coverage["warnings"], (coverage, what)
    assert report.code == (4 if missing else 0), (report.err, coverage, what)
    figures, truth = held(config, its), held(its.calm, its)
    wrong: list[str] = []
    for hour in range((its.fleet["end"] - its.fleet["start"]) // 3600):
        for cluster in sorted({node["cluster"] for node in its.fleet["nodes"]}):
            told, true = ({key: row for key, row in rows.get(hour, {}).items() if key[1] == cluster} for rows in (figures, truth))
            unknown = missing.get(cluster, missing.get("", set())) | partial.get(cluster, partial.get("", set()))
            near = {hour - 1, hour + 1} & unknown
            wrong += [f"hour {hour} of {cluster}: {text}" for text in _wrong(its, told, true, hour in unknown, bool(near))]
    assert not wrong, "\n".join([*wrong, str(coverage), what])


def _hours_of(its: World, gaps: list[dict[str, str]]) -> dict[str, set[int]]:
    """The hours of the fleet that gaps touch, by cluster; under "" those of any."""
    found: dict[str, set[int]] = {}
    for gap in gaps:
        start, end = ((datetime.fromisoformat(gap[edge]) - its.at(0)) / timedelta(hours=1) for edge in ("from", "to"))
        hours = {hour for hour in range(-1, 100) if hour < end and hour + 1 > start}
        for name in (gap["cluster"], ""):
            found.setdefault(name, set()).update(hours)
    return found


def _wrong(its: World, told: dict[Any, Any], true: dict[Any, Any], is_unknown: bool, is_near: bool) -> Iterator[str]:
    """What of an hour's rows is not true: to the last digit where all of it and around it was seen."""
    slack = EDGE_SCRAPES * its.fleet["scrape"] / 3600
    for measure in ("allocated", "unallocated", "cost", "unallocated_cost", "active", "idle"):
        one, other = (sum(row[measure] for row in rows.values()) for rows in (told, true))
        whole = sum(row["cost"] + row["unallocated_cost"] if "cost" in measure else row["allocated"] + row["unallocated"]
                    for row in true.values())  # fmt: skip
        near = slack * whole + 1e-6
        if one > other + (near if is_near or is_unknown else 1e-6 + (slack if measure in ("active", "idle") else 0)):
            # what an hour that was seen in part lacks of its holders it may call unallocated only in what was seen
            yield f"{measure} is {one}, more than {other}"
        if measure not in ("active", "idle") and not is_unknown and one < other - (near if is_near else 1e-6):
            yield f"{measure} is {one}, less than {other}"
    if not is_unknown and not is_near:
        for key in told.keys() | true.keys():
            for measure in ("allocated", "cost", "unallocated", "unallocated_cost"):
                one, other = (rows.get(key, {}).get(measure, 0.0) for rows in (told, true))
                if abs(one - other) > 1e-6:
                    yield f"{measure} of {key} is {one}, not {other}"


def _check_repaired(its: World, config: Config, folder: Path, chosen: Run, patch: pytest.MonkeyPatch) -> None:
    """Collected again later, from a server that has it all: as if nothing had ever been."""
    config = its.config(folder)
    its.proxy.begin(its.full)
    answer = collect(patch, config, its.repair, *chosen.period)
    assert answer.code == 0, (answer, chosen)
    again = its.report(config)
    assert again.code == 0, (again, chosen)
    told = again.json()
    different = {name: (told[name], its.truth[name]) for name in its.truth if told[name] != its.truth[name]}
    assert not different, (different, chosen)
