"""Random fleets: buckets of waste add up to what each node cost in each hour, exactly, whatever runs there."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.model import WasteSettings
from gpucost.periods import Period
from tests.property.fleets import books, by_basis, fleets
from tests.replay.cases.words import HEADER
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.waste import check_waste

SETTINGS = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
OWNERS = st.sampled_from(["PyTorchJob", "CronJob", "ReplicaSet", "Notebook", "StatefulSet"])


@st.composite
def _typed(draw: st.DrawFn, fleet: Fleet) -> Fleet:
    """The same fleet with owners of every type, slow starts, and pods that wait."""
    pods: list[dict[str, Any]] = []
    for one in fleet["pods"]:
        owner = [draw(OWNERS), draw(st.sampled_from(["x", "y"]))]
        begins = draw(st.one_of(st.just(one["from"]), st.integers(one["scheduled"], one["to"])))
        pods.append({**one, "owner": owner, "from": begins})
    if pods and draw(st.booleans()):
        since = draw(st.integers(fleet["start"], fleet["end"] - 60))
        waits = {"name": "waits", "uid": "waits", "node": None, "devices": [], "count": draw(st.integers(1, 8))}
        times = {
            "scheduled": fleet["end"],
            "created": since,
            "from": fleet["end"],
            "to": fleet["end"],
            "keep_until": fleet["end"],
        }
        alike = {key: value for key, value in pods[0].items() if key != "containers"}
        pods.append({**alike, **waits, **times, "resource": "nvidia_com_gpu", "restarts": [], "completes": False})
    return {**fleet, "pods": pods}


@pytest.mark.slow
@settings(SETTINGS, max_examples=20)
@given(data=st.data(), fleet=fleets().flatmap(by_basis).flatmap(_typed))
def test_buckets_add_up_by_every_other_cost_basis(data: st.DataObject, fleet: Fleet) -> None:
    _check(data, fleet, 0.7)


@pytest.mark.slow
@settings(SETTINGS, max_examples=60)
@given(data=st.data(), fleet=fleets().flatmap(_typed), share=st.sampled_from([0.3, 0.7, 1.0]))
def test_buckets_add_up(data: st.DataObject, fleet: Fleet, share: float) -> None:
    _check(data, fleet, share)


def _check(data: st.DataObject, fleet: Fleet, share: float) -> None:
    folder = Path(tempfile.mkdtemp(prefix="waste-"))
    try:
        prices = folder / "prices.csv"
        prices.write_text("\n".join([HEADER, *data.draw(books(fleet))]) + "\n")
        config = write_config(fleet, folder, prices)
        config = config.model_copy(update={"waste": WasteSettings(forgotten_after="1h", target_utilization=share)})
        store = load(fleet, scrape(fleet, lean=True), config)
        period = Period(*(datetime.fromtimestamp(second, UTC) for second in (fleet["start"], fleet["end"])))
        pipeline.attribute(config, store, period)
        check_waste(config, store, period)
    finally:
        shutil.rmtree(folder)
