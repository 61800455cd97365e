"""A schedule over real usage: today against the replayed timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows
from gpucost.whatif.fleet import CostOf, Fleet, Pod
from gpucost.whatif.measured import Idle, is_batch
from gpucost.whatif.schedule.hours import subtract, total_hours
from gpucost.whatif.schedule.replay import PAID_ANYWAY, Wait, replay, waits_by_workload
from gpucost.whatif.schedule.rules import Piece, Rules, pieces

_WORKLOADS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Options:
    """`is_narrowed`: only some of the nodes' pods are asked about, so that no node can be told to be empty."""

    rules: Rules
    currency: str
    period: str
    scope: str
    is_narrowed: bool = False
    given: frozenset[str] = field(default_factory=frozenset)


def answer(options: Options, fleet: Fleet, idle: Idle, cost_of: CostOf) -> Answer:
    """What the rules would have saved in the period, and whom they would have made wait."""
    rules = options.rules
    kept = [piece for pod in fleet.pods for piece in pieces(pod, rules, idle.get((pod.cluster, pod.uid), ()))]
    played = replay(fleet, kept, rules, remove_nodes=not options.is_narrowed)
    position: Callable[[Fleet], Position]
    if options.is_narrowed:
        position = lambda f: Position.held(cost_of(f), options.currency, f)  # noqa: E731
    else:
        position = lambda f: Position.of(cost_of(f), options.currency)  # noqa: E731
    today, scenario = position(fleet), position(played.fleet)
    hours = [wait.hours for wait in played.waits]
    released = _held_hours(fleet.pods) - sum((p.to_ms - p.from_ms) * p.pod.gpus for p in kept) / MS_PER_HOUR
    cut = _busy_hours_cut(fleet, rules, idle)
    figures = {
        "released_gpu_hours": round(released, 6),
        "removed_node_hours": None if options.is_narrowed else round(today.node_hours - scenario.node_hours, 6),
        "waits": len(hours),
        "wait_hours": round(sum(hours), 6),
        "longest_wait_minutes": round(max(hours, default=0.0) * 60, 6),
        "busy_gpu_hours_outside_office_hours": None if cut is None else round(cut, 6),
        "break_even_cost_per_wait_hour": _per_hour(today.cost - scenario.cost, sum(hours)),
    }
    return Answer(
        kind="schedule",
        title=f"A schedule for {options.scope}",
        period=options.period,
        today=today,
        scenario=scenario,
        figures=figures,
        assumptions=_assumptions(options),
        break_even=_break_even(today.cost - scenario.cost, sum(hours), options.currency),
        time=_time(played.waits, cut),
        findings=_findings(options, fleet, kept, idle),
        tables=tuple(_tables(fleet, kept, played.waits)),
    )


def _held_hours(pods: tuple[Pod, ...]) -> float:
    return sum((pod.to_ms - pod.from_ms) * pod.gpus for pod in pods) / MS_PER_HOUR


def _busy_hours_cut(fleet: Fleet, rules: Rules, idle: Idle) -> float | None:
    """GPU-hours outside of office hours in which pods were not idle: work that would move, or not be done."""
    if rules.office is None:
        return None
    closed = 0.0
    for pod in fleet.pods:
        if not is_batch(pod):
            outside = subtract([(pod.from_ms, pod.to_ms)], list(rules.office))
            closed += total_hours(subtract(outside, list(idle.get((pod.cluster, pod.uid), ())))) * pod.gpus
    return closed


def _per_hour(saving: Decimal, hours: float) -> Decimal | None:
    return round(saving / Decimal(str(hours)), 6) if hours > 0 and saving > 0 else None


def _break_even(saving: Decimal, hours: float, currency: str) -> tuple[str, ...]:
    if saving <= 0:
        return ("These rules save nothing here: nodes were not empty, and GPUs not idle, for long enough.",)
    each = _per_hour(saving, hours)
    if each is None:
        return ("Nobody would have waited: nothing but a change of usage breaks it.",)
    return (f"It pays as long as an hour that somebody waits is worth less than {each:,.2f} {currency}.",)


def _time(waits: tuple[Wait, ...], cut: float | None) -> tuple[str, ...]:
    hours = [wait.hours for wait in waits]
    if hours:
        told = [f"{len(hours):,} waits of {sum(hours):,.1f} hours in all, the longest {max(hours) * 60:,.1f} minutes."]
        if any(is_batch(wait.pod) for wait in waits):
            told.append("Batch work that waited ends so much later; its later end is counted in the cost.")
    else:
        told = ["Nobody would have waited."]
    if cut is not None:
        told.append(f"{cut:,.1f} GPU-hours outside of office hours were busy or not measured: that work would have to move.")
    return tuple(told)


def _findings(options: Options, fleet: Fleet, kept: list[Piece], idle: Idle) -> tuple[str, ...]:
    told = []
    if options.is_narrowed:
        told.append(
            "Counted are the GPUs of these pods alone, at their share of their nodes: money is saved once others use what is "
            "released, or the nodes go. Empty nodes are removed in the question about the whole fleet or a cluster."
        )
    batch = {piece.pod.uid for piece in kept if piece.returns and is_batch(piece.pod)}
    if batch:
        told.append(f"{len(batch)} batch pods would lose their GPUs while idle: they need checkpoints to go on from.")
    judged = [pod for pod in fleet.pods if options.rules.patience_ms(pod) is not None]
    if judged and not any((pod.cluster, pod.uid) in idle for pod in judged):
        told.append(
            "None of these pods was measured idle for so long; GPUs that no exporter labels with their pod are never released."
        )
    reserved = sum(node.capacity_type in PAID_ANYWAY for node in fleet.nodes)
    if reserved and not options.is_narrowed:
        told.append(f"{reserved} nodes in reservations or capacity blocks stay: they are paid whether they are up or not.")
    return tuple(told)


def _assumptions(options: Options) -> tuple[Assumption, ...]:
    rules = options.rules

    def told(name: str, option: str, value: float | None) -> list[Assumption]:
        source = "option" if option in options.given else "default"
        return [] if value is None else [Assumption(name, value, "minutes", source)]

    lines = [
        *told("a GPU is released when idle for", "idle_minutes", rules.idle_minutes),
        *told("a notebook's GPU is released when idle for", "notebook_idle_minutes", rules.notebook_idle_minutes),
        *told("a released pod comes back in", "restart_minutes", rules.restart_minutes),
    ]
    if not options.is_narrowed:
        lines += told("a node is removed when empty for", "empty_minutes", rules.empty_minutes)
        lines += told("a node is provisioned in", "provision_minutes", rules.provision_minutes)
    if rules.office is not None:
        lines.append(Assumption("office hours in the period", round(total_hours(list(rules.office)), 2), "hours", "option"))
    lines += [
        Assumption("notebooks", ", ".join(rules.notebooks), "globs", "option" if "notebooks" in options.given else "default"),
        Assumption("usage, idleness and prices", options.period, "", "store"),
    ]
    return tuple(lines)


def _tables(fleet: Fleet, kept: list[Piece], waits: tuple[Wait, ...]) -> list[Rows]:
    held: dict[str, float] = {}
    for pod in fleet.pods:
        held[pod.workload] = held.get(pod.workload, 0.0) + (pod.to_ms - pod.from_ms) * pod.gpus / MS_PER_HOUR
    left = dict.fromkeys(held, 0.0)
    for piece in kept:
        left[piece.pod.workload] += (piece.to_ms - piece.from_ms) * piece.pod.gpus / MS_PER_HOUR
    waited = waits_by_workload(waits)
    lines = [
        (
            workload,
            round(hours, 2),
            round(hours - left[workload], 2),
            len(waited.get(workload, [])),
            round(max((wait.hours for wait in waited.get(workload, [])), default=0.0) * 60, 1),
        )
        for workload, hours in held.items()
        if hours - left[workload] > 0 or workload in waited
    ]
    lines.sort(key=lambda line: (-line[2], -line[3], line[0]))
    hidden = len(lines) - _WORKLOADS_SHOWN
    if not lines:
        return []
    columns = ("workload", "held_gpu_hours", "released_gpu_hours", "waits", "longest_wait_minutes")
    note = f"{hidden} more workloads are touched." if hidden > 0 else None
    return [Rows("Whom it touches", columns, tuple(lines[:_WORKLOADS_SHOWN]), note)]
