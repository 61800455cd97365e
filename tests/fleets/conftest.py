"""The stores of all fleets, one per kind, for tests that only read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.fleets import activity, coverage, coverage_bills, exact, hosts, machines, settings, shares
from tests.fleets.case import Case
from tests.fleets.figures import Figures, build
from tests.replay.cases.words import BOOK

MODULES = (exact, machines, activity, shares, hosts, coverage, coverage_bills)
USUAL = [one for module in MODULES for one in module.CASES] + settings.USUAL
OTHERS = ["trn1.2xlarge,on_demand,1.34", "box.large,on_demand,2.00", "box-2,on_demand,4.00"]
OWN = [f"own-{gpus},on_demand,{gpus}.00" for gpus in (1, 2, 8)]
PRICES = [*BOOK, *(f",,,{row},USD," for row in (*OTHERS, *OWN))]
KINDS = {
    "usual": (USUAL, PRICES, ""),
    "bridges": (settings.BRIDGED, PRICES, settings.BRIDGES),
    "unseen": (settings.ALONE, PRICES, ""),
    "scad": (settings.SPLIT, settings.SCAD_BOOK, settings.SCAD),
}
#: Kinds whose stages are compared with stored sums.
PROFILED = ("usual", "scad")


def _wanted(items: list[pytest.Item], cases: Sequence[Case]) -> list[Case]:
    """Return the cases of the collected tests; all cases if another collected test reads the whole store."""
    wanted = set()
    for item in items:
        if item.path.parent == Path(__file__).parent:
            if item.originalname != "test_fleet":
                return list(cases)
            wanted.add(item.callspec.params["case"].name)
    return [case for case in cases if case.name in wanted]


@pytest.fixture(scope="session")
def fleets(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Figures]:
    """Return the attributed store of a kind of fleets, built at its first use."""

    def built(kind: str) -> Figures:
        cases, book, settings = KINDS[kind]
        wanted = _wanted(request.session.items, cases)
        return build(tmp_path_factory.mktemp("fleets"), wanted, book, settings, profiled=kind in PROFILED)

    return cache(built)
