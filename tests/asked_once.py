"""Findings computed once: what-ifs take seconds and give the same answer for every format and page."""

from __future__ import annotations

from typing import Any

import pytest

from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions import findings as of_findings
from gpucost.questions.findings.kinds import Findings
from gpucost.store.connection import Store


def ask_findings_once(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` ends, compute findings once for each store and period."""
    known = {}
    ask = of_findings.read_findings

    def cached(config: Config, store: Store, period: Period, tell: Any = None) -> Findings:
        key = (store.path, period)
        if key not in known:
            known[key] = ask(config, store, period)
        return known[key]

    patch.setattr(of_findings, "read_findings", cached)
