"""Random fleets: buckets of waste add up to what each node cost in each hour, exactly, whatever runs there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.model import WasteSettings
from tests.property.fleets import RARELY_SLOW, books, by_basis, fleets, many, period, priced
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.waste import check_waste

OWNERS = st.sampled_from(["PyTorchJob", "CronJob", "ReplicaSet", "Notebook", "StatefulSet"])


@st.composite
def _typed(draw: st.DrawFn, fleet: Fleet) -> Fleet:
    """The same fleet with owners of every type, slow starts, and pods that wait."""
    pods = []
    for one in fleet["pods"]:
        owner = [draw(OWNERS), draw(st.sampled_from(["x", "y"]))]
        begins = draw(st.one_of(st.just(one["from"]), st.integers(one["scheduled"], one["to"])))
        pods.append({**one, "owner": owner, "from": begins})
    if pods and draw(st.booleans()):
        since = draw(st.integers(fleet["start"], fleet["end"] - 60))
        waits = {
            "name": "waits",
            "uid": "waits",
            "node": None,
            "devices": [],
            "count": draw(st.integers(1, 8)),
        }
        times = {
            "scheduled": fleet["end"], "created": since, "from": fleet["end"], "to": fleet["end"], "keep_until": fleet["end"],
        }  # fmt: skip
        alike = {key: value for key, value in pods[0].items() if key != "containers"}
        pods.append(
            {**alike, **waits, **times, "resource": "nvidia_com_gpu", "restarts": [], "completes": False}
        )
    return {**fleet, "pods": pods}


@pytest.mark.slow
@settings(RARELY_SLOW, max_examples=12)
@given(data=st.data(), fleet=fleets().flatmap(_typed), share=st.sampled_from([0.3, 0.7, 1.0]))
def test_buckets_add_up(data: st.DataObject, fleet: Fleet, share: float) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        config = config.model_copy(
            update={"waste": WasteSettings(forgotten_after="1h", target_utilization=share)}
        )
        store, span = load(fleet, scrape(fleet, lean=True), config), period(fleet["start"], fleet["end"])
        pipeline.attribute(config, store, span)
        check_waste(config, store, span)


OTHER_BASES = given(data=st.data(), fleet=fleets().flatmap(by_basis).flatmap(_typed), share=st.just(0.7))
test_buckets_add_up_by_every_other_cost_basis = many(test_buckets_add_up, OTHER_BASES, RARELY_SLOW, 8)
