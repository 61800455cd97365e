"""What-ifs about workloads by name, as people type them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.fleet import Scope, read_fleet
from tests.replay.cases.words import at
from tests.replay.work import asked, stored, training

DAY = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))


def test_a_workload_is_known_by_its_name_and_an_unknown_one_brings_those_like_it(tmp_path: Path) -> None:
    config, store = stored(training([(0, 20)]), tmp_path)
    asked(config, store)  # attributes
    with store.read() as con:
        for name in ("Job/run-a", "run-a", "run-*"):
            assert sum(pod.to_ms - pod.from_ms for pod in read_fleet(con, DAY, Scope(workloads=(name,))).pods) == 20 * MS_PER_HOUR
        with pytest.raises(GpucostError, match="no workload 'run-b' held GPUs") as error:
            read_fleet(con, DAY, Scope(workloads=("run-b",)))
        assert error.value.fix == "name one that did: Job/run-a"
        with pytest.raises(GpucostError, match="no team 'nobody' held GPUs"):
            read_fleet(con, DAY, Scope(workloads=("run-a",), teams=("nobody",)))
        later = Period(datetime.fromtimestamp(at(4800), UTC), datetime.fromtimestamp(at(4824), UTC))
        with pytest.raises(GpucostError, match="nothing held GPUs in") as error:
            read_fleet(con, later, Scope())
        assert error.value.fix == "gpucost report shows the newest month with data"
