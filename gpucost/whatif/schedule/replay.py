"""The real timeline once more, under a schedule: who waits for a GPU and how long, and which nodes are up when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.fleet import Fleet, Node, Pod
from gpucost.whatif.measured import is_batch
from gpucost.whatif.schedule.rules import MS_PER_MINUTE, Piece, Rules

# capacity that is paid whether its nodes are up or not
PAID_ANYWAY = ("reserved", "capacity_block")
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Wait:
    """How long somebody who needed a GPU had to wait for it."""

    pod: Pod
    at_ms: int
    hours: float


@dataclass(frozen=True, slots=True)
class Replay:
    """The fleet as the schedule leaves it, and the waits that it causes, in order of time."""

    fleet: Fleet
    waits: tuple[Wait, ...]


def replay(fleet: Fleet, kept: Iterable[Piece], rules: Rules, *, remove_nodes: bool) -> Replay:
    """What becomes of `fleet` when its pods hold GPUs only in the pieces kept.

    A node is removed after `empty_minutes` without a pod, and provisioned again, which is paid too, when the next piece begins.
    Batch work that waited ends so much later; everything else ends when it did. Pods return to the node they had.
    """
    by_node: dict[tuple[str, str], list[Piece]] = defaultdict(list)
    for piece in kept:
        by_node[piece.pod.cluster, piece.pod.node].append(piece)
    nodes: list[Node] = []
    pods: list[Pod] = []
    waits: list[Wait] = []
    for node in fleet.nodes:
        lives = _Lives(node, rules, removable=remove_nodes and node.capacity_type not in PAID_ANYWAY)
        for piece in sorted(by_node[node.cluster, node.name], key=lambda p: (p.from_ms, p.to_ms, p.pod.uid)):
            lives.place(piece)
        nodes += lives.nodes()
        pods += lives.pods
        waits += lives.waits
    return Replay(Fleet(tuple(nodes), tuple(pods)), tuple(sorted(waits, key=lambda wait: (wait.at_ms, wait.pod.uid))))


class _Lives:
    """One node's lives: stretches in which it is up."""

    def __init__(self, node: Node, rules: Rules, *, removable: bool) -> None:
        self.node = node
        self.removable = removable
        self.provision_ms = round(rules.provision_minutes * MS_PER_MINUTE)
        self.empty_ms = round(rules.empty_minutes * MS_PER_MINUTE)
        self.restart_ms = round(rules.restart_minutes * MS_PER_MINUTE)
        self.spans: list[list[int]] = [[node.from_ms, self._removed(node.from_ms)]]
        self.ready_ms = node.from_ms
        self.running: list[tuple[int, float]] = []  # (end, GPUs)
        self.ends: dict[str, int] = {}
        self.pods: list[Pod] = []
        self.waits: list[Wait] = []

    def place(self, piece: Piece) -> None:
        """Let the piece begin as soon as the node, its GPUs and the pod itself are there."""
        self.running = [held for held in self.running if held[0] > piece.from_ms]
        asked = max(piece.from_ms, self.ends.get(piece.pod.uid, 0))
        if self.removable and asked >= self.spans[-1][1]:
            self.spans.append([asked, asked])
            self.ready_ms = asked + self.provision_ms
        begin = self._free_at(max(asked, self.ready_ms), piece.pod.gpus)
        delay = begin - piece.from_ms + (self.restart_ms if piece.returns else 0)
        end = piece.to_ms + delay if is_batch(piece.pod) else max(piece.to_ms, begin)
        if delay > 0:
            self.waits.append(Wait(piece.pod, piece.from_ms, delay / MS_PER_HOUR))
        if begin < end:
            uid = piece.pod.uid if piece.from_ms == piece.pod.from_ms else f"{piece.pod.uid}@{piece.from_ms}"
            self.pods.append(replace(piece.pod, node=self._name(len(self.spans)), from_ms=begin, to_ms=end, uid=uid))
            self.running.append((end, piece.pod.gpus))
            self.ends[piece.pod.uid] = end
        self.spans[-1][1] = max(self.spans[-1][1], self._removed(max(end, begin)))

    def nodes(self) -> list[Node]:
        """The node's lives as nodes of their own."""
        return [
            replace(self.node, name=self._name(number), from_ms=begin, to_ms=end)
            for number, (begin, end) in enumerate(self.spans, start=1)
            if begin < end
        ]

    def _name(self, number: int) -> str:
        return self.node.name if number == 1 else f"{self.node.name}@{number}"

    def _removed(self, empty_from_ms: int) -> int:
        """When the node goes that is empty from then on: never later than it really did, unless work moved past that."""
        if not self.removable:
            return max(self.node.to_ms, empty_from_ms)
        return max(empty_from_ms, min(empty_from_ms + self.empty_ms, self.node.to_ms))

    def _free_at(self, begin: int, gpus: float) -> int:
        """The first moment from `begin` on with so many GPUs free. What was placed already holds its own until it ends."""
        # until something was put off nothing meets that did not: what held more than the node has goes on doing so
        if not self.waits:
            return begin
        ends = sorted(held for held in self.running if held[0] > begin)
        taken = sum(held for _, held in ends)
        for end, freed in ends:
            if taken + gpus <= self.node.gpus + _ROUNDING:
                break
            begin, taken = end, taken - freed
        return begin


def waits_by_workload(waits: Sequence[Wait]) -> dict[str, list[Wait]]:
    """The waits of each workload, those who waited longest in all first."""
    grouped: dict[str, list[Wait]] = defaultdict(list)
    for wait in waits:
        grouped[wait.pod.workload].append(wait)
    return dict(sorted(grouped.items(), key=lambda item: -sum(wait.hours for wait in item[1])))
