"""What a real Prometheus holds is enough for starting pods, images of notebooks, pods that wait, and used GPU memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Activity
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.load import write_config
from tests.replay.waste import anatomy, check_waste

pytestmark = pytest.mark.services


@pytest.mark.slow
def test_collected_waste(prometheus_server: Callable[[dict[str, Any]], str], tmp_path: Path) -> None:
    slow = pod("bert-0", "a", [0], 0, 4, owner=["PyTorchJob", "bert"], **{"from": at(1)})
    ann = pod("ann-0", "a", [1], 0, 4, "labs", owner=["StatefulSet", "ann"], image="quay.io/jupyter/base-notebook:latest")
    waits = pod("big", None, [], 0, 4, "queue", count=4, keep_until=at(4), owner=["Job", "big"])
    described = fleet(4, [node("a", "g6.12xlarge", 0, 4)], [slow, ann, waits], busy("a", [0], 1, 4, 50))
    prices = tmp_path / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, tmp_path, prices, prometheus_server(described))
    config = config.model_copy(update={"activity": Activity(memory=True)})
    store = Store(config.store)
    period = Period(*(datetime.fromtimestamp(described[key], UTC) for key in ("start", "end")))
    results, errors = pipeline.collect(config, store, period)
    assert not errors and results[0].ok
    pipeline.attribute(config, store, period)
    waste = anatomy(config, store, period)
    hours = {row.bucket: row.gpu_hours for row in waste.buckets if row.gpu_hours}
    assert hours == pytest.approx({"starting": 1.0, "active": 3.0, "user_away": 4.0, "fragmentation": 8.0}, abs=0.04)
    check_waste(config, store, period)
    works = {work.workload: work for work in waste.workloads}
    assert works["StatefulSet/ann"].workload_type == "development"
    # 400 MiB and 350 for each percent
    assert works["PyTorchJob/bert"].memory_mib_p95 == pytest.approx(17_900, rel=0.02)
    assert works["PyTorchJob/bert"].gpu_memory_mib == 24_576
