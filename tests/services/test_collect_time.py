"""Servers that serve late: what is stored in the end is what a calm run stores. For clocks see unit/test_collect_windows.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.prometheus import collector
from gpucost.periods import from_ms
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.edits import drop
from tests.replay.load import write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop, write_blocks
from tests.services.test_collect_prometheus import QUICK, contents

pytestmark = [pytest.mark.services, pytest.mark.slow]

HOURS = 24
_COLLECT = collector.collect_prometheus
SOUTH = {"cluster": "south"}
#: A dead exporter whose samples come after all, one that is always three hours late, and an agent that sends its backlog last:
#: what is not served yet, and at which hours a run collects the rest.
LATE: dict[str, list[tuple[tuple[Any, ...] | None, tuple[float, ...]]]] = {
    "exporter-for-two-hours": [(("DCGM.*", {}, (10, 12)), (13.1,)), (None, (16.2, HOURS))],
    "always": [(("DCGM.*", {}, (5, 99)), (8, 9.2, 10.4)), (("DCGM.*", {}, (8, 99)), (11,)), (None, (HOURS,))],
    "backlog": [
        ((".*", SOUTH, (5, 99)), (8, 9.2, 10.4)),
        ((".*", SOUTH, (5, 12)), (13,)),
        (None, (14, HOURS)),
    ],
}


def described() -> Any:
    """Two clusters, in each a node of four GPUs: one held all along, one from the fifth hour to the ninth."""
    nodes, pods, util = [], [], {}
    for cluster in ("north", "south"):
        nodes.append(node(cluster, "g6.12xlarge", 0, HOURS, cluster=cluster))
        for number, (start, end) in enumerate(((0, HOURS), (5, 9))):
            pods.append(pod(f"work-{number}", cluster, [number], start, end, cluster=cluster))
            util |= busy(cluster, [number], start, end, 40 + 20 * number)
    return fleet(HOURS, nodes, pods, util, cluster_label=True)


@pytest.mark.parametrize("name", LATE)
def test_samples_that_a_server_gets_late_are_collected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_prometheus()
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    port, series, found = free_port(), scrape(described()), []
    for way, phases in (("late", LATE[name]), ("calm", [(None, (HOURS,))])):
        (tmp_path / way).mkdir()
        url = f"http://127.0.0.1:{port}"
        config = write_config(
            described(), tmp_path / way, tmp_path / "prices.csv", url, cluster_label="cluster"
        )
        store = Store(config.store)
        for number, (hidden, hours) in enumerate(phases):
            served = drop(series, *hidden) if hidden else series
            data = tmp_path / way / str(number)
            write_blocks(partial(write_openmetrics, served), data)
            process = start_prometheus(data, port)
            for hour in hours:
                collect = partial(_COLLECT, now=from_ms(at(hour) * 1000), retries=QUICK)
                monkeypatch.setattr(collector, "collect_prometheus", collect)
                (result,), errors = pipeline.collect(config, store, None)
                assert not errors and result.ok
                assert result.asked_again or not number or hour == HOURS
            stop(process)
        pipeline.attribute(config, store)
        money = store.query("SELECT * EXCLUDE (allocation_id) FROM cost_hourly ORDER BY ALL")[1]
        assert len(money) > HOURS
        found.append((contents(store), money))
    assert found[0] == found[1]
