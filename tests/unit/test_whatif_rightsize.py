"""Other GPUs for the same work: time, memory and speed, and the cost per unit of work; what samples say of pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.errors import DataError, GpucostError
from gpucost.inventory import load_activity
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.price import load_offers
from gpucost.store.connection import scratch_store
from gpucost.store.usage import read_idle, read_levels
from gpucost.whatif import rightsize, share
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Level, Levels, Node, Pod, Price, Usage, is_batch, is_notebook
from gpucost.whatif.gpu_specs import Facts
from gpucost.whatif.rightsize import (
    Load,
    Margins,
    Offer,
    Speeds,
    catalog_speeds,
    fits,
    fleet_offers,
    list_offers,
    merge,
    read_speeds,
    time_factor,
)
from tests.unit.stage_tables import Tables
from tests.unit.whatif_costs import ask

H = MS_PER_HOUR
A100, H100, L4 = "A100-SXM4-40GB", "H100-80GB-HBM3", "L4"

pytestmark = pytest.mark.usefixtures("nowhere")


NODE = Node(
    "n", 8, 0, 100 * H, (Price(Decimal(24), "price_book"),), provider="aws", region="us-east-1", instance_type="box",
    gpu_model=A100,
)  # fmt: skip
OTHERS = f"--to-gpu-model {H100} --to-price 6"
TODAY = "--gpus 4 --on-demand-price 3 --price-per gpu"
OFFER = f"--gpu-model {A100} {TODAY} {OTHERS}"


def test_cost_per_unit_of_work_not_per_hour() -> None:
    """Twice the price per GPU-hour and half the GPUs, twice as fast each: the same per hour, the same time, the same per work."""
    answer = ask("rightsize", f"{OFFER} --to-gpus 2 --relative-speed 2 --hours 100")
    assert answer["today"]["cost"] == answer["scenario"]["cost"] == 1200
    assert answer["time_factor"] == 1 and answer["saving"] == 0
    # three times as fast: a third less time
    faster = ask("rightsize", f"{OFFER} --to-gpus 2 --relative-speed 3 --hours 100")
    assert faster["scenario"]["cost"] == pytest.approx(800)
    assert faster["cost_per_unit_of_work"] == pytest.approx(2)  # of 400 active GPU-hours
    assert faster["break_even_price_per_gpu_hour"] == pytest.approx(9)


def test_what_serves_keeps_its_hours_and_needs_fewer_gpus() -> None:
    answer = ask(
        "rightsize",
        f"{OFFER} --relative-speed 3 --serving --utilization-percent 60 --memory-per-gpu-mib 10000",
    )
    # 4 x 60 % x 1.1 / (3 x 0.8) = 1.1: two GPUs
    assert answer["scenario"]["gpus"] == 2 and answer["time_factor"] == 1


def offer(model: str, price: str, gpus: int = 8) -> Offer:
    return Offer(
        "aws", "us-east-1", f"{model}-box", model, gpus, "on_demand", Decimal(price), "catalog", "2026-07-20"
    )


def test_time_factor_of_batch_and_of_what_serves() -> None:
    batch = Load(A100, 4, 4, 0.8, 0.9, None, is_batch=True)
    assert time_factor(batch, 2, 2.0) == pytest.approx(1)
    assert time_factor(batch, 2, 4.0) == pytest.approx(0.2 + 0.4)
    assert time_factor(Load(A100, 4, 4, 0.8, 0.9, None, is_batch=False), 1, 9.0) == 1


def test_memory_decides(facts: Facts) -> None:
    speeds = catalog_speeds(facts)
    unknown = Load(A100, 1, 1, 0.1, 0.1, None, is_batch=False)
    small = Load(A100, 1, 1, 0.1, 0.1, 10_000, is_batch=False)
    assert fits(unknown, [offer(L4, "1")], facts, speeds, Margins()) == []  # 24 GiB for 40, even on two GPUs
    assert fits(small, [offer(L4, "1")], facts, speeds, Margins())[0].gpus == 1
    # of two GPUs' memory, as much in all
    pair = Load(A100, 2, 2, 0.1, 0.2, None, is_batch=False)
    assert fits(pair, [offer(L4, "1")], facts, speeds, Margins())[0].gpus == 4


def test_other_vendors_only_by_measured_speeds(facts: Facts) -> None:
    load = Load(A100, 1, 1, 0.1, 0.2, 1000, is_batch=False)
    assert fits(load, [offer("Inferentia2", "0.1")], facts, catalog_speeds(facts), Margins()) == []
    own = Speeds({A100: (1,), "Inferentia2": (0.5,)}, "speeds.csv", across_vendors=True)
    assert fits(load, [offer("Inferentia2", "0.1")], facts, own, Margins())


def test_no_batch_job_slower_than_allowed(facts: Facts) -> None:
    load = Load(A100, 4, 4, 1.0, 1.0, 1000, is_batch=True)
    fitting = fits(load, [offer(L4, "0.01", 16)], facts, catalog_speeds(facts), Margins(max_slowdown=2))
    assert fitting and all(fit.time_factor <= 2 for fit in fitting)


def test_the_slower_of_throughput_and_memory_is_the_estimate(facts: Facts) -> None:
    """989 and 312 TFLOPS, 3350 and 1555 GB/s: one H100 is 3.17 A100 by the one and 2.15 by the other."""
    speeds = catalog_speeds(facts)
    assert speeds.ratio(H100, A100) == pytest.approx(3350 / 1555)
    assert speeds.ratio(A100, H100) == pytest.approx(312 / 989)
    assert speeds.ratio("Inferentia", A100) is None


def test_speeds_of_a_table(facts: Facts, tmp_path: Path) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("gpu_model,relative_speed\nNVIDIA A100-SXM4-40GB,1\nH100-80GB-HBM3,2.2\n")
    assert read_speeds(file, facts).ratio(H100, A100) == pytest.approx(2.2)
    file.write_text("gpu_model,relative_speed\nA100-SXM4-40GB,fast\n")
    with pytest.raises(DataError, match="line 2: 'fast'"):
        read_speeds(file, facts)
    file.write_text("model,speed\nx,1\n")
    with pytest.raises(DataError, match="columns"):
        read_speeds(file, facts)
    with pytest.raises(DataError, match="cannot read"):
        read_speeds(tmp_path / "none.csv", facts)


def test_collected_prices_stand_beside_the_shipped_ones() -> None:
    with scratch_store() as con:
        load_offers(con, Config())
        before = {(o.region, o.instance_type, o.purchase_option): o for o in list_offers(con)}
        shipped = before["us-east-1", "p4d.24xlarge", "on_demand"]
        con.execute(
            "INSERT INTO list_prices VALUES ('aws', 'us-east-1', '', 'p4d.24xlarge', 'on_demand', 0, '', '', 16, 'USD', NULL,"
            " DATE '2026-11-01', 'test')"
        )
        load_offers(con, Config())
        after = {(o.region, o.instance_type, o.purchase_option): o for o in list_offers(con)}
    assert shipped.price_per_gpu_hour > 2
    # parts of GPUs are no offers
    assert min(o.gpus for o in before.values()) == 1
    # the fleet's own prices win over both
    own = fleet_offers([NODE])
    assert [o.price_per_gpu_hour for o in own] == [3]
    listed = [Offer("aws", "us-east-1", "box", A100, 8, "on_demand", Decimal(9), "catalog"), offer(H100, "6")]
    assert merge(own, listed) == [*own, listed[1]]
    assert after["us-east-1", "p4d.24xlarge", "on_demand"].price_per_gpu_hour == 2


def sized(
    facts: Facts,
    pods: tuple[Pod, ...],
    levels: Levels,
    *offers: Offer,
    other_models: bool = False,
    node: Node = NODE,
) -> Answer:
    usage, speeds = Usage(Fleet((node,), pods), "USD", "test", "all"), catalog_speeds(facts)
    return rightsize.answer(usage, Margins(), levels, facts, speeds, offers, other_models=other_models)


def test_gpus_never_used_are_given_back(facts: Facts) -> None:
    answer = sized(
        facts,
        (Pod("n", "Job/wide", 4, 0, 10 * H, uid="a"),),
        {("default", "a"): Level(4, 2, 9.9, 0.45, 0.95, None)},
    )
    assert answer.figures["workloads_with_unused_gpus"] == 1
    # half a node stays: its GPUs are freed, and no money leaves the bill
    assert (answer.today.cost, answer.saving, answer.figures["freed_capacity_cost"]) == (120, 0, 60)
    assert any("asks for 4 GPUs and never used more than 2" in finding for finding in answer.findings)


def test_cash_is_of_nodes_that_become_empty(facts: Facts) -> None:
    """A job that uses 4 of a node's 8 GPUs still needs a node; two of them fit on one; a type with 4 GPUs is half of it."""
    first, second = (replace(NODE, name=name, to_ms=10 * H) for name in "nm")
    pods = tuple(Pod(name, "Job/wide", 8, 0, 10 * H, uid=name) for name in "nm")
    levels = {pod.key: Level(8, 4, 9.9, 0.45, 0.95, None) for pod in pods}
    alone = sized(facts, pods[:1], levels)
    assert (alone.today.cost, alone.saving, alone.figures["freed_capacity_cost"]) == (240, 0, 120)
    usage, speeds = Usage(Fleet((first, second), pods), "USD", "test", "all"), catalog_speeds(facts)
    both = rightsize.answer(usage, Margins(), levels, facts, speeds, ())
    assert (both.today.cost, both.saving, both.figures["freed_capacity_cost"]) == (480, 240, 0)
    half = replace(offer(A100, "3", gpus=4), instance_type="half-box")
    bought = sized(facts, pods[:1], levels, half)
    assert (bought.saving, bought.figures["freed_capacity_cost"]) == (120, 0)
    # another pod keeps the second node: the job stays on it with 4 GPUs, and only the first one goes to a smaller instance
    others = (Pod("m", "Job/other", 0.5, 0, 10 * H, uid="o"),)
    held = usage._replace(is_narrowed=True, others=others)
    mixed = rightsize.answer(held, Margins(), levels, facts, speeds, (half,))
    assert (mixed.saving, mixed.figures["freed_capacity_cost"]) == (120, 120)


def test_preallocated_memory_is_in_use_and_less_of_it_needs_work(facts: Facts) -> None:
    """Two GPUs that hold 37,000 of 40,960 MiB, one of them never busy: both are in use; one could do, with work."""
    pods = (Pod("n", "Deployment/llm", 2, 0, 10 * H, uid="a"),)
    level = Level(2, 2, 9.9, 0.3, 0.6, 37_000, busy_devices=1, has_fixed_memory=True)
    node = replace(NODE, gpus=2, prices=(Price(Decimal(6), "price_book"),))
    answer = sized(facts, pods, {("default", "a"): level}, node=node)
    assert (
        answer.saving,
        answer.figures["freed_capacity_cost"],
        answer.figures["workloads_with_unused_gpus"],
    ) == (0, 0, 0)
    assert not any("never used" in finding for finding in answer.findings)
    # one of two GPUs at 3 an hour for ten hours, on a node that stays
    with_work = (
        answer.figures["saving_by_suitability"]["needs_work"],
        answer.figures["needs_work_freed_capacity_cost"],
    )
    assert with_work == (0, 30) and answer.findings[0].startswith(
        "Needs work, not counted above: 0.00 USD more, and 30.00"
    )
    # memory that grows with the load is needed
    grows = sized(facts, pods, {("default", "a"): replace(level, has_fixed_memory=False)}, node=node)
    assert grows.figures["needs_work_freed_capacity_cost"] == 0
    # so is a part of the GPU that no server preallocates
    small = sized(facts, pods, {("default", "a"): replace(level, high_memory_mib=20_000)}, node=node)
    assert small.figures["needs_work_freed_capacity_cost"] == 0


def test_a_cheaper_model_stands_below_the_saving_and_only_where_it_is_asked_for(facts: Facts) -> None:
    pods = (Pod("n", "Deployment/api", 1, 0, 100 * H, uid="a"), Pod("n", "Job/x", 2, 0, 5 * H, uid="b"))
    levels = {("default", "a"): Level(1, 1, 100, 0.1, 0.1, 8000)}
    assert sized(facts, pods, levels, offer(L4, "0.80")).tables == ()
    answer = sized(facts, pods, levels, offer(L4, "0.80"), other_models=True)
    other = answer.tables[-1]
    assert (
        other.title
        == "Other models, not counted above: an estimate by dense FP16 throughput and memory bandwidth"
    )
    assert other.lines[0][4:6] == (300, 80) and answer.figures["other_models_saving"] == 220
    dear = sized(facts, pods, levels, offer(L4, "8"), other_models=True)
    assert dear.figures["other_models_saving"] == dear.figures["saving_by_fewer_gpus"] == 0
    assert dear.break_even == ("No workload needs fewer GPUs of its model than it has.",)
    with pytest.raises(GpucostError, match="measured"):
        sized(facts, pods, {})


def test_pods_that_fit_slices_of_one_gpu(facts: Facts) -> None:
    pods = tuple(Pod("n", "Deployment/api", 1, 0, 100 * H, uid=uid) for uid in ("a", "b"))
    levels = {pod.key: Level(1, 1, 100, 0.1, 0.2, 8000) for pod in pods}
    answer = sized(facts, pods, levels)
    assert (answer.today.cost, answer.saving, answer.figures["freed_capacity_cost"]) == (600, 0, 300)
    assert answer.figures["saving_by_mig_slices"] == 300 and answer.figures["pods_on_mig_slices"] == 2
    usage = Usage(Fleet((NODE,), pods), "USD", "t", "all")
    alone = share.answer(usage, share.Sizing(method=share.Method.mig), levels, facts)
    assert alone.figures["freed_capacity_cost"] == 300
    assert alone.scenario.gpu_hours == answer.scenario.gpu_hours
    # what they fill is not known: nothing is cut
    unknown = {pod.key: Level(1, 1, 100, 0.1, 0.2, None) for pod in pods}
    assert sized(facts, pods, unknown).saving == 0


def test_time_slices_stand_beside_the_saving(facts: Facts) -> None:
    """Four pods on four L4, which MIG cannot cut: two on each of two would do, at $80 less."""
    node = replace(NODE, gpus=4, gpu_model=L4, prices=(Price(Decimal("1.6"), "price_book"),))
    pods = tuple(Pod("n", f"Deployment/api-{name}", 1, 0, 100 * H, uid=name) for name in "abcd")
    levels = {pod.key: Level(1, 1, 100, 0.1, 0.3, 8000) for pod in pods}
    answer = sized(facts, pods, levels, node=node)
    assert (answer.saving, answer.figures["time_slices_saving"]) == (0, 80)
    assert any(
        "4 pods could take turns on GPUs without MIG: 80.00 more, not counted" in finding
        for finding in answer.findings
    )


MINUTE = 60_000
METRICS = load_config(None).activity
PERIOD = Period(datetime.fromtimestamp(360_000, UTC), datetime.fromtimestamp(367_200, UTC))


def _insert(
    con: Any,
    series: int,
    metric: str,
    labels: dict[str, str],
    hour: int,
    values: list[float],
    threshold: float,
) -> None:
    """An hour of one sample a minute."""
    if labels:
        con.execute("INSERT INTO series VALUES ($1, $1, 's', 'c', $2, $3)", [series, metric, labels])
    idle = sum(value < threshold for value in values[:-1])
    con.execute(
        "INSERT INTO blocks VALUES ($1, $2, $3, $4, $5, $6, 0, 60000, NULL, 60000, $7, $8, $9)",
        [
            series,
            hour,
            len(values),
            sum(values),
            idle,
            threshold,
            (len(values) - 1) * MINUTE,
            values[-1],
            values,
        ],
    )


@pytest.fixture
def pod() -> Iterator[Any]:
    """A pod with two GPUs for two hours: one idle from minute 10 to 40 of the first hour, the other from 20 on."""
    with scratch_store() as con:
        begin, end = 100 * 3_600_000, 102 * 3_600_000
        con.execute(
            "INSERT INTO allocations"
            " SELECT 1, 'c', 'ns', 'p', 'u', 1, 'nvidia_com_gpu', 2, 2, $1, $2, 'Job', 'Job/p', NULL, NULL, NULL, NULL",
            [begin, end],
        )
        labels = {"exported_namespace": "ns", "exported_pod": "p"}
        one = [0.0 if 10 <= minute < 40 else 90.0 for minute in range(60)]
        two = [0.0 if minute >= 20 else 50.0 for minute in range(60)]
        _insert(con, 1, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g1"}, 100, one, 5)
        _insert(con, 2, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g2"}, 100, two, 5)
        _insert(
            con,
            3,
            "DCGM_FI_DEV_FB_USED",
            {**labels, "UUID": "g1"},
            100,
            [1000.0 + minute for minute in range(60)],
            0,
        )
        yield con


def _idle(con: Any, period: Period, at_least_ms: int) -> list[dict[str, Any]]:
    load_activity(con, METRICS)
    return read_idle(con, period, at_least_ms)


def test_a_pod_is_idle_while_all_its_gpus_are(pod: Any) -> None:
    (row,) = _idle(pod, PERIOD, 0)
    assert [(row[end] - 360_000_000) / MINUTE for end in ("from_ms", "to_ms")] == [20, 40]
    assert _idle(pod, PERIOD, 21 * MINUTE) == []


def test_a_sample_speaks_until_the_next_or_for_one_interval_where_that_is_far(pod: Any) -> None:
    pod.execute(
        "INSERT INTO allocations BY NAME"
        " SELECT * REPLACE (2 AS allocation_id, 'q' AS pod, 'v' AS uid, 1 AS gpus, 1 AS units) FROM allocations"
    )
    _insert(
        pod,
        4,
        "DCGM_FI_DEV_GPU_UTIL",
        {"exported_namespace": "ns", "exported_pod": "q", "UUID": "g3"},
        100,
        [0.0] * 20,
        5,
    )
    _insert(pod, 4, "DCGM_FI_DEV_GPU_UTIL", {}, 101, [0.0] * 60, 5)
    spans = [
        (row["from_ms"] - 360_000_000, row["to_ms"] - 360_000_000)
        for row in _idle(pod, PERIOD, 0)
        if row["uid"] == "v"
    ]
    assert [(start / MINUTE, end / MINUTE) for start, end in spans] == [(0, 20), (60, 120)]


def test_a_pod_of_which_a_gpu_is_not_measured_is_never_idle(pod: Any) -> None:
    pod.execute("UPDATE allocations SET gpus = 3, units = 3")
    assert _idle(pod, PERIOD, 0) == []


def test_a_pod_with_all_gpus_of_its_node_needs_no_label(pod: Any) -> None:
    pod.execute("UPDATE series SET labels = MAP {'UUID': labels['UUID'], 'Hostname': 'node-1'}")
    assert _idle(pod, PERIOD, 0) == []
    pod.execute(
        "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'node-1' AS node, 0 AS up_from_ms, 999999999 AS up_to_ms,"
        " 'on_demand' AS capacity_type, 2 AS gpu_count"
    )
    assert len(_idle(pod, PERIOD, 0)) == 1
    pod.execute("UPDATE nodes SET gpu_count = 8")
    assert _idle(pod, PERIOD, 0) == []


def test_levels_with_memory(pod: Any) -> None:
    load_activity(pod, METRICS)
    (row,) = read_levels(pod, PERIOD)
    assert (row["devices"], row["active_devices"]) == (2, 2)
    assert row["mean"] == pytest.approx((0.9 * 0.5 + 0.5 / 3) / 2)
    assert row["high"] == pytest.approx(0.9)
    assert row["high_memory_mib"] == pytest.approx(1059)  # its maximum
    assert row["hours"] and max(high for _, high in row["hours"]) == row["high"]


def test_what_a_notebook_is() -> None:
    assert is_notebook(Pod("n", "StatefulSet/Jupyter-eve", 1, 0, 1))
    assert is_notebook(Pod("n", "Pod/x", 1, 0, 1, namespace="notebooks"))
    assert not is_notebook(Pod("n", "Job/train", 1, 0, 1))
    assert is_batch(Pod("n", "PyTorchJob/x", 1, 0, 1)) and not is_batch(Pod("n", "Deployment/x", 1, 0, 1))


def levels_of(tables: Tables) -> list[dict[str, Any]]:
    tables.run("store/sql/activity_use")
    return tables.answers("store/sql/activity_levels")


def test_a_gpu_that_holds_a_model_in_memory_is_in_use(tables: Tables) -> None:
    """Two GPUs of 37,000 MiB, one of them at 3 %: both hold the model. A third has no more than while no pod held it."""
    tables.add("allocations: allocation_id, cluster, uid", "1, 'c', 'u'")
    device = (
        "allocation_id INT, series_id INT, device VARCHAR, kind VARCHAR, scale DOUBLE, held_from_ms BIGINT"
    )
    tables.make(
        f"activity_devices: {device}, held_to_ms BIGINT, empty_mib DOUBLE",
        *(f"1, {series}, 'g{series % 3}', 'activity', 0.01, 0, 3600000, NULL" for series in (0, 1, 2)),
        *(
            f"1, {series}, 'g{series % 3}', 'memory', 1, 0, 3600000, {empty}"
            for series, empty in ((3, 1024), (4, 1024), (5, 564))
        ),
    )
    values = {0: (90, 80), 1: (3, 3), 2: (0, 0), 3: (37000, 20000), 4: (0, 37000), 5: (500, 500)}
    tables.add(
        "blocks: series_id, hour, samples, value_sum, idle_samples, last_value, idle_threshold, first_offset_ms, step_ms, vals",
        *(
            f"{series}, 0, 2, {sum(both)}, {int(both[0] < 5)}, {both[1]}, 5, 0, 60000, {list(both)}"
            for series, both in values.items()
        ),
    )
    (row,) = levels_of(tables)
    assert (row["devices"], row["active_devices"], row["high_memory_mib"]) == (3, 2, 37_000)
    assert (row["busy_devices"], row["has_fixed_memory"]) == (1, False)
    # 85 % in the first 5 minutes
    assert row["hours"] == [(0, pytest.approx(0.85))]
    tables.con.execute("UPDATE activity_devices SET empty_mib = 400 WHERE device = 'g2'")
    tables.con.execute("UPDATE blocks SET vals = [36900, 37000] WHERE series_id IN (3, 4)")
    (row,) = levels_of(tables)
    assert (row["active_devices"], row["has_fixed_memory"]) == (3, True)
