"""What changed between two periods, and why: price, volume, mix, idle, new and gone workloads, unallocated GPUs."""

from gpucost.diff.build import CELL, Diff, DiffRow, Side, diff
from gpucost.diff.effects import PARTS, Cell, Parts, Use, parts_of

__all__ = ["CELL", "PARTS", "Cell", "Diff", "DiffRow", "Parts", "Side", "Use", "diff", "parts_of"]
