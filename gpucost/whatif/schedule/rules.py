"""What a schedule releases, and when: which parts of its time a pod keeps its GPUs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpucost.whatif.fleet import Pod
from gpucost.whatif.measured import NOTEBOOKS, Span, is_batch, is_notebook
from gpucost.whatif.schedule.hours import intersect, subtract

MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Minutes throughout; None: that rule does not hold. `notebooks` are globs on workloads and namespaces.

    `idle_minutes` releases any pod, `notebook_idle_minutes` notebooks (whichever is shorter for them). `office` are the open
    stretches of the period, which hold for all but batch work: that ends by itself.
    """

    idle_minutes: float | None = None
    notebook_idle_minutes: float | None = None
    notebooks: tuple[str, ...] = NOTEBOOKS
    office: tuple[Span, ...] | None = None
    empty_minutes: float = 10.0
    provision_minutes: float = 5.0
    restart_minutes: float = 2.0

    def patience_ms(self, pod: Pod) -> int | None:
        """How long the pod may be idle; None: as long as it likes."""
        limits = [self.idle_minutes]
        if is_notebook(pod, self.notebooks):
            limits.append(self.notebook_idle_minutes)
        given = [limit for limit in limits if limit is not None]
        return round(min(given) * MS_PER_MINUTE) if given else None

    @property
    def shortest_idle_ms(self) -> int:
        """Idle stretches under this change nothing."""
        given = [limit for limit in (self.idle_minutes, self.notebook_idle_minutes) if limit is not None]
        return round(min(given) * MS_PER_MINUTE) if given else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch in which a pod holds its GPUs; `returns` where it had them released before."""

    pod: Pod
    from_ms: int
    to_ms: int
    returns: bool


def pieces(pod: Pod, rules: Rules, idle: Collection[Span]) -> list[Piece]:
    """The stretches that the rules leave the pod; a whole one where none of them touches it."""
    spans: list[Span] = [(pod.from_ms, pod.to_ms)]
    if rules.office is not None and not is_batch(pod):
        spans = intersect(spans, list(rules.office))
    patience = rules.patience_ms(pod)
    if patience is not None:
        spans = subtract(spans, [(begin + patience, end) for begin, end in idle if end - begin > patience])
    return [Piece(pod, begin, end, begin > pod.from_ms) for begin, end in spans]
