"""What-ifs answered: by the stages, or by what fleets cost added up in plain Python, without their time, and held against it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif import cost
from gpucost.whatif.fleet import Costs, Fleet, Node, Scenario

_DIGITS = Decimal("1e-9")
T = TypeVar("T")


def ask(what_if: str, words: str) -> dict[str, Any]:
    """What `gpucost whatif …` answers, as JSON."""
    result = CliRunner().invoke(app, ["whatif", what_if, *shlex.split(words), "--format", "json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def assert_refused(what_if: str, words: str, message: str, exit_code: int = 2) -> None:
    """That `gpucost whatif …` fails, and with this in what it says."""
    result = CliRunner().invoke(app, ["whatif", what_if, *shlex.split(words)])
    assert (message in " ".join(result.output.split()), result.exit_code) == (True, exit_code), result.output


def stage_cost(fleet: Fleet) -> Costs:
    """What a fleet costs, by the stages."""
    return cost.costs_of(Config(), [fleet])[0]


def answered(scenario: Scenario[T], cost_of: Callable[[Fleet], Costs | None] = stage_cost) -> T:
    """What the scenario returns; the stages cost what `cost_of` cannot."""
    return cost.evaluate(
        lambda fleets: [cost_of(fleet) or stage_cost(fleet) for fleet in fleets], [scenario]
    )[0]


@contextmanager
def stages_at_once() -> Iterator[None]:
    """Until it ends, fleets cost what plain Python adds up; then the stages cost up to 50 of them together, and must agree."""
    by_zone: dict[str, tuple[Config, dict[Fleet, Costs]]] = {}
    run_stages = cost.costs_of

    def costs_of(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
        _, known = by_zone.setdefault(config.timezone, (config, {}))
        for fleet in fleets:
            if fleet not in known:
                known[fleet] = plain_cost(fleet) or run_stages(config, [fleet])[0]
        return [known[fleet] for fleet in fleets]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "costs_of", costs_of)
        yield
    for config, known in by_zone.values():
        fleets = [*known][:: len(known) // 50 + 1]
        for plain, stages in zip((known[fleet] for fleet in fleets), run_stages(config, fleets), strict=True):
            for name in (
                "node_cost",
                "cost",
                "unallocated_cost",
                "gpu_hours",
                "allocated_gpu_hours",
                "node_hours",
            ):
                assert float(getattr(plain, name)) == pytest.approx(
                    float(getattr(stages, name)), rel=1e-9, abs=1e-5
                ), name
            by_workload, expected = (
                {key: float(cost) for key, cost in one.by_workload.items() if cost} for one in (plain, stages)
            )
            assert by_workload == pytest.approx(expected, rel=1e-9, abs=1e-5)


def plain_cost(fleet: Fleet) -> Costs | None:
    """Pods cost their part of their node while they hold it; None where more is held of a node than there is."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    node_cost = {key: _price(node, node.from_ms, node.to_ms) for key, node in nodes.items()}
    changes: dict[tuple[str, str], list[tuple[int, float]]] = {}
    by_workload: dict[tuple[str, str, str], Decimal] = {}
    held_hours = 0.0
    for pod in fleet.pods:
        node = nodes[pod.cluster, pod.node]
        start, end = max(pod.from_ms, node.from_ms), min(pod.to_ms, node.to_ms)
        if end <= start:
            continue
        changes.setdefault((pod.cluster, pod.node), []).extend([(start, pod.gpus), (end, -pod.gpus)])
        cost = _price(node, start, end) * Decimal(repr(pod.gpus)) / Decimal(repr(node.gpus))
        key = (pod.cluster, pod.namespace, pod.workload)
        by_workload[key] = by_workload.get(key, Decimal(0)) + cost
        held_hours += pod.gpus * (end - start) / MS_PER_HOUR
    for place, steps in changes.items():
        held = 0.0
        for _, more in sorted(steps):
            held += more
            if held > nodes[place].gpus + 1e-9:
                return None
    total = sum(node_cost.values(), Decimal(0)).quantize(_DIGITS)
    held_cost = sum(by_workload.values(), Decimal(0)).quantize(_DIGITS)
    gpu_hours = sum(node.hours * node.gpus for node in fleet.nodes)
    node_hours = sum(node.hours for node in fleet.nodes)
    offered, held_of_it, up = (round(value, 9) for value in (gpu_hours, held_hours, node_hours))
    return Costs(total, held_cost, total - held_cost, offered, held_of_it, up, _parts(by_workload, held_cost))


def _parts(costs: dict[T, Decimal], total: Decimal) -> dict[T, Decimal]:
    """Costs in whole digits that add up to the total; the largest has what is left."""
    parts = {key: cost.quantize(_DIGITS) for key, cost in costs.items()}
    if parts:
        parts[max(parts, key=lambda key: parts[key])] += total - sum(parts.values())
    return parts


def _price(node: Node, start: int, end: int) -> Decimal:
    """What the node costs from `start` to `end`."""
    cost = Decimal(0)
    for price, after in zip(node.prices, [*node.prices[1:], None], strict=True):
        begin = start if price.from_ms is None else max(start, price.from_ms)
        until = end if after is None or after.from_ms is None else min(end, after.from_ms)
        if until > begin:
            cost += price.per_node_hour * (until - begin) / MS_PER_HOUR
    return cost
