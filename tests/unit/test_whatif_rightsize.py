"""Fewer GPUs for the same work: activity, memory and cash; activity of pods from their samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpucost.config.load import load_config
from gpucost.config.model import Config, Prices
from gpucost.errors import GpucostError
from gpucost.inventory import load_activity
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.whatif.prices import list_prices
from gpucost.store.connection import Store, scratch_store
from gpucost.store.usage import read_idle, read_levels
from gpucost.whatif import rightsize
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Level, Node, Pod, Price, Usage, is_batch
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.rightsize import Limits, Load, Sizer, list_offers, merge, place_of
from tests.text_tables import table
from tests.unit.stage_tables import Tables
from tests.unit.whatif_costs import figures, fleet

H = MS_PER_HOUR
A100, H100 = "A100-SXM4-40GB", "H100-80GB-HBM3"

pytestmark = pytest.mark.usefixtures("nowhere")


def offer(model: str, per_gpu: str, gpus: int = 8, kind: str = "") -> Node:
    price = Price(Decimal(per_gpu) * gpus, "catalog", "2026-07-20")
    place = {"provider": "aws", "region": "us-east-1", "gpu_model": model}
    return Node("", gpus, 0, 0, (price,), instance_type=kind or f"{model}-box", **place)


def test_number_of_gpus_follows_activity_and_memory() -> None:
    there = on_nodes(
        "n | 8 | 0-100 | 24", "n | Job/batch | 4 | 0-100 | a\nn | Deployment/api | 4 | 0-100 | b"
    )
    job, service = (Load(there.nodes[0], 8, 4, 0.9, 10_000, (pod,), 100, Decimal(2400)) for pod in there.pods)
    big = offer(A100, "3", 8, "big-box")

    def gpus(load: Load, *offers: Node) -> int | None:
        usage = Usage(there, "USD", "test", "all")
        move = Sizer(usage, Limits(), facts_once(), {place_of(HALF): offers or [HALF]}).move(load)
        return move and move.gpus

    # batch work keeps its used GPUs at any utilization
    assert [gpus(job), gpus(replace(job, high=0.1))] == [4, 4]
    # 4 x 90 % x 1.1 / 0.8 = 4.95 GPUs do not fit a half box; 4 x 33,000 MiB plus the margin fill four
    assert [gpus(service), gpus(service, big), gpus(service, big, HALF)] == [None, 5, 5]
    assert gpus(replace(service, high=0.6)) == 4 and gpus(replace(service, high=0.3)) == 2
    quiet = replace(service, high=0.1)
    assert [gpus(replace(quiet, memory_mib=memory)) for memory in (33_000, None, 10_000)] == [4, 4, 2]


def test_collected_prices_replace_shipped_ones(tmp_path: Path) -> None:
    found, store = [], Store(tmp_path / "s.duckdb")
    discounts = [{"percent": 25, "purchase_option": "on_demand"}]
    for price, rules in ((None, []), ("16", []), (None, discounts)):
        with store.write() as con:
            con.execute(
                "INSERT INTO list_prices SELECT 'aws', 'us-east-1', '', 'p4d.24xlarge', 'on_demand', 0, '', '', $1, 'USD', NULL,"
                " DATE '2026-11-01', 'test' WHERE $1 IS NOT NULL",
                [price],
            )
        config = Config(store=store.path, prices=Prices.model_validate({"discounts": rules}))
        offers = list_offers(list_prices(config, None))
        found.append({(o.region, o.instance_type, o.capacity_type): o for o in offers})
    key = ("us-east-1", "p4d.24xlarge", "on_demand")
    prices = [offers[key].prices[0].per_node_hour for offers in found]
    assert prices[0] > 16 and prices[1:] == [16, 12]
    # parts of GPUs are not offered
    assert min(o.gpus for o in found[0].values()) == 1
    # the fleet's own prices have priority over both
    own = on_nodes("n | 8 | 0-100 | 24", "n | Job/x | 1 | 0-1 | a").nodes
    offers = [offer(A100, "9", kind="box"), offer(H100, "6")]
    assert merge(own, offers) == [*own, offers[1]]


def on_nodes(nodes: str, pods: str) -> Fleet:
    return fleet(
        f"name | gpus | hours | prices\n{nodes}", f"node | workload | gpus | hours | uid\n{pods}",
        instance_type="box", gpu_model=A100,
    )  # fmt: skip


def sized(there: Fleet, level: Level | None, *offers: Node, others: str = "") -> Answer:
    """The answer if all pods had this level; `others` hold GPUs of the same nodes."""
    held = on_nodes("x | 1 | 0-1 | 1", others).pods if others else ()
    usage = Usage(there, "USD", "test", "all", is_narrowed=bool(others), others=held)
    levels = {pod.key: level for pod in there.pods if level}
    return rightsize.answer(usage, Limits(), levels, facts_once(), offers)


facts_once = cache(load_facts)
HALF = offer(A100, "3", 4, "half-box")
# One job per node for ten hours, on nodes at 24 an hour; the smaller type has four GPUs at 12. A job that uses 4 of 8 GPUs
# still needs a node; two of them fit on one. Other pods stay: a job next to them has 4 GPUs, another moves to a smaller type
CASH = """
    nodes             | names | hours | gpus | used | offers | others | today, cash, freed
    half a node       | n     | 0-100 |    4 |    2 |        |        | 120 0 60
    a node that stays | n     | 0-100 |    8 |    4 |        |        | 240 0 120
    two on one        | n m   | 0-10  |    8 |    4 |        |        | 480 240 0
    a smaller type    | n     | 0-100 |    8 |    4 | half   |        | 240 120 0
    held by others    | n m   | 0-10  |    8 |    4 | half   | m      | 480 120 120
"""


@pytest.mark.parametrize("case", table(CASH), ids=lambda case: case["nodes"])
def test_cash_comes_only_from_empty_nodes(case: dict[str, str]) -> None:
    names, gpus, used = case["names"].split(), int(case["gpus"]), int(case["used"])
    there = on_nodes(
        "\n".join(f"{name} | 8 | {case['hours']} | 24" for name in names),
        "\n".join(f"{name} | Job/wide | {gpus} | 0-10 | {name}" for name in names),
    )
    others = f"{case['others']} | Job/other | 0.5 | 0-10 | o" if "others" in case else ""
    level = Level(gpus, used, 9.9, 0.45, 0.95, None)
    answer = sized(there, level, *[HALF] * ("offers" in case), others=others)
    assert figures(answer, "today saving freed_capacity_cost") == case["today, cash, freed"]
    assert f"requests {gpus} GPUs and never used more than {used}" in " ".join(answer.findings)


def test_never_busy_gpus_are_removed_if_the_others_are_always_busy() -> None:
    there = on_nodes("n | 8 | 0-100 | 24", "n | Job/wide | 4 | 0-10 | n")
    answer = sized(there, Level(4, 2, 9.9, 0.5, 1.0, None))
    assert figures(answer, "today saving freed_capacity_cost") == "120 0 60"


def test_preallocated_memory_is_in_use_and_reducing_it_needs_work() -> None:
    """Two GPUs with 37,000 of 40,960 MiB in use, one of them never busy: one would be enough, with some work."""
    there = on_nodes("n | 2 | 0-100 | 6", "n | Deployment/llm | 2 | 0-10 | a")
    level = Level(2, 2, 9.9, 0.3, 0.6, 37_000, busy_devices=1, has_fixed_memory=True)
    answer = sized(there, level)
    # one of two GPUs at 3 an hour for ten hours, on a node that stays
    names = "saving freed_capacity_cost saving_by_suitability.needs_work"
    assert figures(answer, f"{names} needs_work_freed_capacity_cost") == "0 0 0 30"
    assert not any("never used" in finding for finding in answer.findings)
    assert answer.findings[0].startswith("Needs work, not counted above: 0.00 USD more, and 30.00")
    # memory that grows with the load is needed, and so is a fraction that no server preallocates
    for other in (replace(level, has_fixed_memory=False), replace(level, high_memory_mib=20_000)):
        assert sized(there, other).figures["needs_work_freed_capacity_cost"] == 0


def test_unmeasured_pods_are_refused() -> None:
    with pytest.raises(GpucostError, match="measured"):
        sized(on_nodes("n | 8 | 0-100 | 24", "n | Deployment/api | 1 | 0-100 | a"), None)


MINUTE = 60_000
PERIOD = Period(datetime.fromtimestamp(360_000, UTC), datetime.fromtimestamp(367_200, UTC))


def _insert(con: Any, series: int, metric: str, gpu: str, values: list[float]) -> None:
    """One hour with one sample a minute."""
    labels = {"exported_namespace": "ns", "exported_pod": "p", "UUID": gpu}
    con.execute("INSERT INTO series VALUES ($1, $1, 's', 'c', $2, $3)", [series, metric, labels])
    _block(con, series, 100, values)


def _block(con: Any, series: int, hour: int, values: list[float]) -> None:
    idle, last = sum(value < 5 for value in values[:-1]), (len(values) - 1) * MINUTE
    con.execute(
        "INSERT INTO blocks VALUES ($1, $2, $3, $4, $5, 5, 0, 60000, NULL, 60000, $6, $7, $8, NULL, NULL, NULL)",
        [series, hour, len(values), sum(values), idle, last, values[-1], values],
    )


@pytest.fixture
def pod() -> Iterator[Any]:
    """A pod with two GPUs for two hours: one idle from minute 10 to 40 of the first hour, the other from minute 20."""
    with scratch_store() as con:
        con.execute(
            "INSERT INTO allocations"
            " SELECT 1, 'c', 'ns', 'p', 'u', 1, 'nvidia_com_gpu', 2, 2, $1, $2, 'Job', 'Job/p', NULL, NULL, NULL, NULL",
            [100 * H, 102 * H],
        )
        util = "DCGM_FI_DEV_GPU_UTIL"
        _insert(con, 1, util, "g1", [0.0 if 10 <= minute < 40 else 90.0 for minute in range(60)])
        _insert(con, 2, util, "g2", [0.0 if minute >= 20 else 50.0 for minute in range(60)])
        _insert(con, 3, "DCGM_FI_DEV_FB_USED", "g1", [1000.0 + minute for minute in range(60)])
        yield con


def _idle(con: Any, at_least_ms: int = 0) -> list[tuple[float, float]]:
    """Minutes since the start of the pod."""
    load_activity(con, load_config(None).activity)
    rows = read_idle(con, PERIOD, at_least_ms)
    return [((row["from_ms"] - 100 * H) / MINUTE, (row["to_ms"] - 100 * H) / MINUTE) for row in rows]


def test_pod_is_idle_while_all_its_gpus_are(pod: Any) -> None:
    assert (_idle(pod), _idle(pod, 21 * MINUTE)) == ([(20, 40)], [])
    # not idle if one of three is not measured
    pod.execute("UPDATE allocations SET gpus = 3, units = 3")
    assert _idle(pod) == []
    # the series of a pod with all GPUs of its node need no pod label
    pod.execute(
        "UPDATE allocations SET gpus = 2, units = 2;"
        " UPDATE series SET labels = MAP {'UUID': labels['UUID'], 'Hostname': 'node-1'}"
    )
    assert _idle(pod) == []
    pod.execute(
        "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'node-1' AS node, 0 AS up_from_ms, 999999999 AS up_to_ms,"
        " 'on_demand' AS capacity_type, 2 AS gpu_count"
    )
    assert len(_idle(pod)) == 1
    pod.execute("UPDATE nodes SET gpu_count = 8")
    assert _idle(pod) == []


def test_sample_is_valid_until_the_next_or_for_one_interval(pod: Any) -> None:
    pod.execute(
        "UPDATE allocations SET gpus = 1, units = 1; DELETE FROM blocks; DELETE FROM series WHERE series_id > 1"
    )
    for hour, samples in ((100, 20), (101, 60)):
        _block(pod, 1, hour, [0.0] * samples)
    assert _idle(pod) == [(0, 20), (60, 120)]


def test_levels_with_memory(pod: Any) -> None:
    load_activity(pod, load_config(None).activity)
    (row,) = read_levels(pod, PERIOD)
    # the maximum of memory
    assert figures(row, "devices active_devices high_memory_mib") == "2 2 1059"
    assert row["mean"] == pytest.approx((0.9 * 0.5 + 0.5 / 3) / 2)
    assert row["high"] == pytest.approx(0.9) == max(high for _, high in row["hours"])


def test_only_jobs_are_batch_work() -> None:
    names = ("StatefulSet/jupyter-eve", "Job/x", "PyTorchJob/x", "Deployment/x")
    assert [is_batch(Pod("n", name, 1, 0, 1)) for name in names] == [False, True, True, False]


def test_gpu_with_a_model_in_memory_is_in_use(tables: Tables) -> None:
    """Two GPUs with 37,000 MiB, one of them at 3 %: both have the model. A third uses no more than its empty baseline."""
    tables.add("allocations: allocation_id, cluster, uid", "1, 'c', 'u'")
    device = (
        "allocation_id INT, series_id INT, device VARCHAR, kind VARCHAR, scale DOUBLE, held_from_ms BIGINT"
    )
    series = table("""
        series | device | kind     | scale | empty | first | last
        0      | g0     | activity | 0.01  | NULL  | 90    | 80
        1      | g1     | activity | 0.01  | NULL  | 3     | 3
        2      | g2     | activity | 0.01  | NULL  | 0     | 0
        3      | g0     | memory   | 1     | 1024  | 37000 | 20000
        4      | g1     | memory   | 1     | 1024  | 0     | 37000
        5      | g2     | memory   | 1     | 564   | 500   | 500""")
    tables.make(
        f"activity_devices: {device}, held_to_ms BIGINT, empty_mib DOUBLE",
        *("1, {series}, '{device}', '{kind}', {scale}, 0, 3600000, {empty}".format(**row) for row in series),
    )
    tables.add(
        "blocks: series_id, hour, samples, value_sum, idle_samples, last_value, idle_threshold, first_offset_ms, step_ms, vals",
        *(
            "{series}, 0, 2, {first} + {last}, ({first} < 5)::INT, {last}, 5, 0, 60000, [{first}, {last}]".format(
                **row
            )
            for row in series
        ),
    )
    names = "devices active_devices high_memory_mib busy_devices has_fixed_memory"
    tables.run("store/sql/activity_use")
    (row,) = tables.answers("store/sql/activity_levels", owners=None)
    assert figures(row, names) == "3 2 37000 1 False"
    # 85 % in the first 5 minutes
    assert row["hours"] == [(0, pytest.approx(0.85))]
    tables.con.execute("UPDATE activity_devices SET empty_mib = 400 WHERE device = 'g2'")
    tables.con.execute("UPDATE blocks SET vals = [36900, 37000] WHERE series_id IN (3, 4)")
    tables.run("store/sql/activity_use")
    (row,) = tables.answers("store/sql/activity_levels", owners=None)
    assert figures(row, names) == "3 3 37000 1 True"
    # the second sample is of the next pod
    tables.con.execute("UPDATE activity_devices SET held_to_ms = 60000")
    (row,) = tables.answers("store/sql/activity_levels", owners=None)
    assert row["hours"] == [(0, pytest.approx(0.9))]
