"""Spot price history: from AWS and Azure, or from files that hold their answers."""

from __future__ import annotations

from gpucost.collect.spot.run import PROVIDERS, SpotResult, collect_spot, import_spot

__all__ = ["PROVIDERS", "SpotResult", "collect_spot", "import_spot"]
