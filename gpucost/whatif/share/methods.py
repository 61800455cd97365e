"""What the ways to share a GPU keep apart, and what a GPU holds by each."""

from __future__ import annotations

from dataclasses import dataclass

from gpucost.whatif.answer import Assumption
from gpucost.whatif.facts import Model
from gpucost.whatif.measured import Level
from gpucost.whatif.share.method import Method
from gpucost.whatif.share.mig import layouts, profile_for
from gpucost.whatif.share.packing import Fits, Item, slots

ISOLATION = {
    Method.time_slicing: "Time slicing keeps nothing apart: pods see the whole GPU's memory, one that takes too much of it "
    "starves the others, and a fault can reach them all.",
    Method.mps: "MPS keeps address spaces apart and can limit memory and threads per pod, but a fault of one can end the others.",
    Method.mig: "MIG keeps compute, memory and faults apart in hardware; changing a layout needs the GPU empty.",
}

TIME = {
    Method.time_slicing: "Pods take turns: while several are busy at once, each is slower by as many as are busy.",
    Method.mps: "Pods run at once and share its units: each is slower while others are busy, by less than with time slicing.",
    Method.mig: "Each pod has the speed of its slice and no more: bursts above it take longer, steady work does not.",
}


@dataclass(frozen=True, slots=True)
class Sizing:
    """Percentages: `margin` is added to what was measured, `headroom` of the GPU stays free. `ways`: pods on one GPU at most."""

    method: Method = Method.time_slicing
    ways: int = 4
    margin_percent: float = 10.0
    headroom_percent: float = 20.0

    def need(self, level: Level) -> tuple[float, float]:
        """(share of activity 0-1, MiB of memory) that a pod of this level needs, margin included."""
        factor = 1 + self.margin_percent / 100
        return level.high * factor, (level.high_memory_mib or 0.0) * factor

    def fits(self, model: Model | None, *, with_memory: bool) -> Fits:
        """What a GPU of the model holds; None, a model unknown, has no memory to go by and cannot be cut."""
        if self.method is Method.mig:
            return layouts(model) if model is not None else _nothing
        free = 1 - self.headroom_percent / 100
        memory = model.memory_mib * free if with_memory and model is not None and model.memory_mib else None
        return slots(activity=free, memory_mib=memory, ways=self.ways)

    def item(self, item: Item) -> Item:
        """The item as `fits` wants it: for MIG the headroom is part of the slice, for slots it is part of the GPU."""
        if self.method is not Method.mig:
            return item
        free = 1 - self.headroom_percent / 100
        return Item(item.key, item.activity / free, item.memory_mib / free, item.from_ms, item.to_ms)

    def part(self, item: Item, model: Model | None) -> float:
        """The share of its GPU that an item is billed: its slice's, or one slot's."""
        if self.method is Method.mig and model is not None:
            profile = profile_for(model, item.activity, item.memory_mib)
            return profile.compute_slices / model.mig_slices if profile else 1.0
        return 1 / self.ways

    @property
    def highest_percent(self) -> float:
        """The activity of a pod above which no two of them share a GPU."""
        return (100 - self.headroom_percent) / 2 / (1 + self.margin_percent / 100)

    def assumptions(self, given: frozenset[str]) -> list[Assumption]:
        """What was assumed, and which of it was an option."""

        def source(name: str) -> str:
            return "option" if name in given else "default"

        told = [
            Assumption("sharing", self.method.value, "", source("method")),
            Assumption("added to what is measured", self.margin_percent, "percent", source("margin_percent")),
            Assumption("kept free", self.headroom_percent, "percent of a GPU or slice", source("headroom_percent")),
        ]
        if self.method is not Method.mig:
            told.append(Assumption("pods on one GPU at most", self.ways, "pods", source("ways")))
        return told


def _nothing(_: object) -> bool:
    return False
