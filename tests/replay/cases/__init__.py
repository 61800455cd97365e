"""The project's own cases, told in Python; `python -m tests.replay.build` writes their folders."""

from tests.replay.cases.bases import BASES
from tests.replay.cases.clocks import CLOCKS
from tests.replay.cases.edges import EDGES
from tests.replay.cases.holding import HOLDING
from tests.replay.cases.parts import PARTS
from tests.replay.cases.places import PLACES
from tests.replay.cases.sharing import SHARING

CASES_TOLD = [*HOLDING, *SHARING, *CLOCKS, *PLACES, *EDGES, *BASES, *PARTS]
