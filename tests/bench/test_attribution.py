"""Attribution beside a careful user's pandas: merge_asof of samples with pods, then a groupby. CPU seconds of one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from gpucost import attribute as attribution
from gpucost import pipeline
from gpucost.config.model import Config, Prices
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.bench.fleets import Fleet, window

pytestmark = pytest.mark.bench

FLEET = Fleet(gpus=4_000, days=7)
# The targets: so many times as fast as the peer from nothing, and attribution alone so many times a bare group by.
FROM_NOTHING, BARE = 10, 6
PRICE = {"on_demand": 32.0, "spot": 12.0}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Store]:
    home = tmp_path_factory.mktemp("bench")
    book = home / "prices.csv"
    book.write_text(
        "instance_type,purchase_option,price_per_hour,currency\n"
        + "".join(f"p4d.24xlarge,{k},{v},USD\n" for k, v in PRICE.items())
    )
    store = Store(home / "store.duckdb")
    with store.write() as con:
        load_window(con, window(FLEET, [FLEET.states(), FLEET.activity()[0]]))
    return Config(prices=Prices(book=book)), store


def by_merge_asof() -> pd.Series:
    """Idle cost per namespace, as a data frame user computes it."""
    answer, which = FLEET.activity()
    spans = FLEET.pods()
    pods = pd.DataFrame(
        {
            "gpu": [gpu for gpu, _, _ in spans],
            "start": [start * 1000 for _, start, _ in spans],
            "stop": [stop * 1000 for _, _, stop in spans],
            "namespace": [f"team-{gpu % 40}" for gpu, _, _ in spans],
            "price": [PRICE["spot" if gpu // 8 % 3 else "on_demand"] / 8 for gpu, _, _ in spans],
        }
    ).sort_values("start")
    gpu_of = np.array([gpu for gpu, _, _ in spans])
    samples = pd.DataFrame({"gpu": gpu_of[which], "at": answer.ts_ms, "value": answer.values})
    started = time.process_time()
    joined = pd.merge_asof(samples.sort_values("at"), pods, left_on="at", right_on="start", by="gpu")
    joined = joined[joined["at"] < joined["stop"]]
    joined["hour"] = joined["at"] // 3_600_000
    joined["cost"] = joined["price"] * FLEET.step_s / 3600
    joined["idle_cost"] = joined["cost"].where(joined["value"] < 5, 0.0)
    hourly = joined.groupby(["namespace", "gpu", "hour"])[["cost", "idle_cost"]].sum()
    result = hourly.groupby("namespace")["idle_cost"].sum()
    result.attrs["seconds"] = time.process_time() - started
    return result


class StageTime:
    """A function, and the CPU seconds that it took."""

    def __init__(self, stage: Callable[..., None]) -> None:
        self.stage, self.seconds = stage, 0.0

    def __call__(self, *args: object, **named: object) -> None:
        started = time.process_time()
        self.stage(*args, **named)
        self.seconds += time.process_time() - started


def test_attribution_beats_merge_asof(
    loaded: tuple[Config, Store], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = loaded
    peer = by_merge_asof()
    alone = StageTime(attribution.stage)
    monkeypatch.setattr(attribution, "stage", alone)
    started = time.process_time()
    pipeline.attribute(config, store)
    ours = time.process_time() - started
    stage = alone.seconds
    with store.read() as con:
        started = time.process_time()
        con.execute("CREATE TEMP TABLE bare AS SELECT series_id, hour, sum(samples), sum(value_sum) FROM blocks GROUP BY ALL")
        bare = time.process_time() - started
        idle = dict(
            con.execute(
                "SELECT namespace, sum(idle_cost)::DOUBLE FROM cost_hourly JOIN allocations USING (allocation_id) GROUP BY ALL"
            ).fetchall()
        )
    ratio = peer.attrs["seconds"] / ours
    millions = FLEET.samples / 1e6
    with capsys.disabled():
        print(
            f"\nattribution: {millions / ours:.1f} M samples/s, merge_asof {millions / peer.attrs['seconds']:.2f},"
            f" ratio {ratio:.1f}; of {ours:.2f} s of CPU attribution alone {stage:.2f}, {stage / bare:.1f} x the bare group by"
        )
    for namespace, value in peer.items():
        assert idle[namespace] == pytest.approx(value, rel=0.005)
    assert ratio >= FROM_NOTHING
    assert stage <= BARE * bare
