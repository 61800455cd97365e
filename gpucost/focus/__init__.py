"""The FOCUS export: the bill's charges of GPU machines, split among those who held them; see docs/focus.md."""

from gpucost.focus.build import FocusTotals, prepare, save
from gpucost.focus.columns import DEFAULT_VERSION, VERSIONS

__all__ = ["DEFAULT_VERSION", "VERSIONS", "FocusTotals", "prepare", "save"]
