"""The stores of all fleets, one of each kind; for who only reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.fleets import activity, coverage, exact, hosts, machines, settings, shares
from tests.fleets.figures import Figures, build
from tests.replay.cases.words import BOOK

USUAL = [one for module in (exact, machines, activity, shares, hosts, coverage) for one in module.CASES] + settings.USUAL
OTHERS = ["trn1.2xlarge,on_demand,1.34", "box.large,on_demand,2.00", "box-2,on_demand,4.00"]
OWN = [f"own-{gpus},on_demand,{gpus}.00" for gpus in (1, 2, 8)]
PRICES = [*BOOK, *(f",,,{row},USD," for row in (*OTHERS, *OWN))]
KINDS = {
    "usual": (USUAL, PRICES, ""),
    "bridges": (settings.BRIDGED, PRICES, settings.BRIDGES),
    "unseen": (settings.ALONE, PRICES, ""),
    "scad": (settings.SPLIT, settings.SCAD_BOOK, settings.SCAD),
}


@pytest.fixture(scope="session")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Figures]:
    """The attributed store of a kind of fleets, built when it is first asked for."""
    return cache(lambda kind: build(tmp_path_factory.mktemp("fleets"), *KINDS[kind]))
