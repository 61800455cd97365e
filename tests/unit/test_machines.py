"""Which machines there are, what their GPUs are, and that each is paid for once: small fleets with figures worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.report.coverage import missed
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.side_by_side import Scene, Scenes

HOURS = 8
scene = Scenes()


class Answers:
    """What the store holds of a cluster, in hours and money."""

    def __init__(self, _: Config, store: Store, cluster: str) -> None:
        self._store, self._cluster = store, cluster

    def by(self, *keys: str) -> dict[Any, tuple[float, ...]]:
        """Allocated, unallocated and unavailable GPU-hours, and cost and unallocated cost, by one or two keys."""
        with self._store.read() as con:
            rows = con.execute(
                f"""SELECT {", ".join(keys)}, sum(allocated_gpu_ms) / 3600000, sum(unallocated_gpu_ms) / 3600000,
                    sum(unavailable_gpu_ms) / 3600000, sum(cost)::DOUBLE, sum(unallocated_cost)::DOUBLE
                FROM cost_daily JOIN nodes AS n USING (node_id) LEFT JOIN allocations AS a USING (allocation_id)
                WHERE n.cluster = $cluster GROUP BY {", ".join(keys)}""",  # noqa: S608
                {"cluster": self._cluster},
            ).fetchall()
        size = len(keys)
        return {row[0] if size == 1 else row[:size]: tuple(round(figure, 6) for figure in row[size:]) for row in rows}

    def is_complete(self) -> bool:
        """Whether nothing of the cluster's hours is missing."""
        period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, HOURS)))
        with self._store.read() as con:
            return not missed(con, period, period.end, UTC, [self._cluster])[0]  # type: ignore[arg-type]

    def warnings(self, code: str) -> list[str]:
        """The messages of the cluster's warnings of this kind."""
        with self._store.read() as con:
            found = con.execute("SELECT message FROM warnings WHERE code = $1 AND cluster = $2", [code, self._cluster])
            return [message for (message,) in found.fetchall()]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What scenes are sent: the answers for their cluster."""
    book = [*BOOK, ",,,own-2,on_demand,4.00,USD,", ",,,own-8,on_demand,8.00,USD,", ",,,own-1,on_demand,1.00,USD,"]
    with scene.start(tmp_path_factory.mktemp("machines"), Answers, book, HOURS) as answers:
        yield answers


def own(name: str, gpus: int, model: str = "NVIDIA A30", start: float = 0, **more: Any) -> dict[str, Any]:
    """A machine of no catalog with so many GPUs."""
    uuids = [f"GPU-{name}-{number}" for number in range(gpus)]
    facts = {"gpu_model": model, "gpus": uuids, "instance_type": f"own-{gpus}", "provider": "onprem"}
    return {**node(name, "g5.xlarge", start, HOURS), **facts, **more}


def scraped(described: Fleet) -> list[Series]:
    return scrape(described, lean=True)


@scene(("NVIDIA-A30",), ("NVIDIA-RTX-2000-Ada-Generation",), (None,))
def test_two_models_in_a_node(product: str | None) -> Scene:
    """An A30 in four slices beside an RTX 2000 Ada, $4 an hour, of which the label names one: a slice is a quarter of an A30."""
    machine = own("w", 2, mig={"GPU-w-0": [{"gi": gi, "profile": "1g.6gb"} for gi in (3, 4, 5, 6)]})
    slices = [pod(f"s{gi}", "w", [(0, gi)], 0, HOURS, resource="nvidia_com_mig_1g_6gb") for gi in (3, 4, 5)]
    described = fleet(HOURS, [machine], [*slices, pod("rtx", "w", [1], 0, HOURS / 2)], busy("w", [(0, 3), 1], 0, HOURS))
    series = relabel(scraped(described), "DCGM_.*", {"modelName": "NVIDIA RTX 2000 Ada Generation"}, {"UUID": "GPU-w-1"})
    answers = yield described, relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_product": product})
    rtx = "RTX-2000-Ada-Generation" if product and "RTX" in product else "RTX 2000 Ada Generation"
    assert answers.by("gpu_model", "pod") == {
        **{("A30", f"s{gi}"): (2, 0, 0, 4, 0) for gi in (3, 4, 5)},
        ("A30", None): (0, 2, 0, 0, 4),
        (rtx, "rtx"): (4, 0, 0, 8, 0),
        (rtx, None): (0, 4, 0, 0, 8),
    }


def gpus_from(series: list[Series], numbers: range, hour: float, name: str = "w") -> list[Series]:
    """Takes what DCGM measured of these GPUs before this hour away."""
    return drop(series, "DCGM_.*", {"UUID": f"GPU-{name}-({'|'.join(map(str, numbers))})"}, (0, hour))


@scene((True,), (False,))
def test_a_lost_gpu_is_unavailable(labeled: bool) -> Scene:
    """One of 8 falls off the bus at 02:00 and is missing after a reboot at 04:00, also in the labels: 8 are paid for.

    It is unavailable for 6 h.
    """
    described = fleet(HOURS, [own("w", 8)], [pod("a", "w", [0, 1, 2, 3, 4], 0, HOURS)], busy("w", [0], 0, HOURS))
    series = revalue(scraped(described), "kube_node_status_allocatable", 7, {"resource": "nvidia_com_gpu"}, (2, HOURS))
    series = revalue(series, "kube_node_status_capacity", 7, {"resource": "nvidia_com_gpu"}, (4, HOURS))
    series = drop(series, "DCGM_.*", {"UUID": "GPU-w-7"}, (2, HOURS))
    label = {"label_nvidia_com_gpu_count": "7"} if labeled else {"label_nvidia_com_gpu_count": None}
    answers = yield described, relabel(series, "kube_node_labels", label, None, (4 if labeled else 0, HOURS))
    assert answers.by("pod") == {"a": (40, 0, 0, 40, 0), None: (0, 24, 6, 0, 24)}


@scene(("label",), ("uuids",))
def test_gpus_added_at_noon(told: str) -> Scene:
    """A machine at $8 an hour has 4 GPUs until 04:00 and 8 from there on; one is held all along: 1/4 of it, then 1/8."""
    described = fleet(HOURS, [own("w", 8)], [pod("a", "w", [0], 0, HOURS)], busy("w", [0], 0, HOURS))
    series = revalue(
        gpus_from(scraped(described), range(4, 8), 4), "kube_node_status_.*", 4, {"resource": "nvidia_com_gpu"}, (0, 4)
    )
    if told == "label":
        series = relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_count": "4"}, None, (0, 4))
    else:
        series = relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_count": None})
    answers = yield described, series
    assert answers.by("pod", "gpu_count") == {
        ("a", 4): (4, 0, 0, 8, 0),
        (None, 4): (0, 12, 0, 0, 24),
        ("a", 8): (4, 0, 0, 4, 0),
        (None, 8): (0, 28, 0, 0, 28),
    }


@scene()
def test_an_instance_type_has_all_its_gpus_from_the_start() -> Scene:
    """Of a g6.12xlarge only two GPUs show until 04:00: it has four, and two of them are unavailable for 4 h."""
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], [], {})
    series = revalue(
        gpus_from(scraped(described), range(2, 4), 4), "kube_node_status_.*", 2, {"resource": "nvidia_com_gpu"}, (0, 4)
    )
    answers = yield described, relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_count": None})
    assert answers.by("gpu_count") == {4: (0, 32, 8, 0, 38.4)}


@scene()
def test_a_gpu_in_the_place_of_another_is_not_one_more() -> Scene:
    """One of two GPUs is replaced at 04:00 by one of another model: two GPUs at any time."""
    described = fleet(HOURS, [own("w", 2)], [], {})
    series = relabel(
        scraped(described), "DCGM_.*", {"UUID": "GPU-new", "modelName": "NVIDIA A10"}, {"UUID": "GPU-w-1"}, (4, HOURS)
    )
    answers = yield described, relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_count": None})
    assert answers.by("gpu_model", "gpu_count") == {("A30", 2): (0, 16, 0, 0, 32)}


@scene()
def test_slots_that_change_without_labels() -> Scene:
    """One GPU in four slots until 04:00, in two from there on, and no labels: a slot is a quarter, then a half."""
    pods = [pod("a", "w", [0], 0, 4), pod("b", "w", [0], 4, HOURS)]
    described = fleet(HOURS, [own("w", 1, replicas=4)], pods, busy("w", [0], 0, HOURS), node_labels=False)
    series = revalue(scraped(described), "kube_node_status_.*", 2, {"resource": "nvidia_com_gpu"}, (4, HOURS))
    answers = yield described, series
    assert answers.by("pod") == {"a": (1, 0, 0, 0, 0), "b": (2, 0, 0, 0, 0), None: (0, 5, 0, 0, 0)}


def twin(name: str, start: float, **more: Any) -> dict[str, Any]:
    """A Node object without an exporter."""
    return own(name, 1, start=start, dcgm=False, **more)


def uuid_of(series: list[Series], nodes: str, uuid: str) -> list[Series]:
    """Gives the machines of these nodes this system uuid, and no provider id."""
    return relabel(series, "kube_node_info", {"system_uuid": uuid, "provider_id": None}, {"node": nodes})


BOARD = "4c4c4544-0043-3010-8048-b4c04f503832"


@scene((True,), (False,))
def test_a_stale_node_object_is_not_paid(scraped_status: bool) -> Scene:
    """A machine registers again as `new` at 02:00; `old` stays listed, not ready: $8 for 8 hours."""
    nodes = [own("old", 1, not_ready=[[at(2), at(HOURS)]], dcgm=False), own("new", 1, start=2)]
    described = fleet(HOURS, nodes, [pod("a", "old", [0], 0, 2), pod("b", "new", [0], 3, HOURS)], busy("new", [0], 2, HOURS))
    series = uuid_of(scraped(described), "old|new", BOARD)
    answers = yield described, series if scraped_status else drop(series, "kube_node_status_condition")
    (said,) = answers.warnings("shared_machine")
    assert said.startswith("node old is the same machine as node new of cluster")
    assert answers.by("node", "pod") == {
        ("old", "a"): (2, 0, 0, 2, 0),
        ("new", "b"): (5, 0, 0, 5, 0),
        ("new", None): (0, 1, 0, 0, 1),
    }


@scene(
    ("00000000-0000-0000-0000-000000000000",),
    ("03000200-0400-0500-0006-000700080009",),
    ("Not-Settable-0123456789abcdef0123456789",),
)
def test_placeholder_uuids_prove_nothing(uuid: str) -> Scene:
    """Two machines whose mainboards have no uuid: both are paid for, also while one is not ready."""
    described = fleet(HOURS, [twin("x", 0, not_ready=[[at(2), at(HOURS)]]), twin("y", 2)], [], {})
    answers = yield described, uuid_of(scraped(described), "x|y", uuid)
    assert {name: figures[4] for name, figures in answers.by("node").items()} == {"x": 8, "y": 6}


@scene()
def test_one_uuid_of_two_ready_nodes_proves_nothing() -> Scene:
    """Two machines were made from one image, and both are ready for hours: both are paid for."""
    ready = [[at(7.5), at(HOURS)]]
    described = fleet(HOURS, [twin("x", 0, not_ready=ready), twin("y", 2, not_ready=ready)], [], {})
    answers = yield described, uuid_of(scraped(described), "x|y", BOARD)
    assert {name: figures[4] for name, figures in answers.by("node").items()} == {"x": 8, "y": 6}


@scene()
def test_other_gpus_are_another_machine() -> Scene:
    """One provider id, but each node's exporter measures a GPU of its own: both are paid for."""
    described = fleet(HOURS, [own("x", 1), own("y", 1)], [], {})
    answers = yield described, relabel(scraped(described), "kube_node_info", {"provider_id": "aws:///z/i-0123456789abcdef0"})
    assert {name: figures[4] for name, figures in answers.by("node").items()} == {"x": 8, "y": 8}


@scene()
def test_one_gpu_is_one_machine() -> Scene:
    """Two nodes without a common id whose exporters measure the same GPU: it is paid for once."""
    described = fleet(HOURS, [own("x", 1), own("y", 1)], [], {})
    series = relabel(scraped(described), "DCGM_.*", {"UUID": "GPU-of-both"})
    answers = yield described, relabel(series, "kube_node_info", {"system_uuid": None})
    assert sum(figures[4] for figures in answers.by("node").values()) == 8


@scene()
def test_two_machines_of_one_name_are_not_collected() -> Scene:
    """Two clusters without a label to tell them apart both have a node w: it is left out, v is not."""
    one = fleet(HOURS, [own("w", 1), own("v", 1)], [pod("a", "v", [0], 0, HOURS)], {})
    ids = [relabel(scraped(described), "kube_node_info", {"provider_id": f"aws:///z/i-{number}", "cluster_name": number},
        {"node": "w"}) for number, described in (("1", one), ("2", fleet(HOURS, [own("w", 1)], [], {})))]  # fmt: skip
    answers = yield one, [*ids[0], *(part for part in ids[1] if part.labels["__name__"] == "kube_node_info")]
    assert answers.by("node", "pod") == {("v", "a"): (8, 0, 0, 8, 0)}
    (said,) = answers.warnings("twofold_node")
    assert "node w is two machines" in said
    assert answers.is_complete() is False


@scene()
def test_a_name_of_two_machines_for_an_hour_leaves_out_that_hour() -> Scene:
    """From 05:00 to 06:00 a second machine is w, too: what its pod held before and after stays."""
    described = fleet(HOURS, [own("w", 1)], [pod("a", "w", [0], 0, HOURS)], {})
    series = relabel(scraped(described), "kube_node_info", {"provider_id": "aws:///z/i-1"})
    other = [
        part
        for part in relabel(series, "kube_node_info", {"provider_id": "aws:///z/i-2"})
        if part.labels["__name__"] == "kube_node_info"
    ]
    answers = yield described, [*series, *drop(drop(other, ".*", {}, (0, 5)), ".*", {}, (6, HOURS))]
    assert answers.by("node", "pod") == {("w", "a"): (7, 0, 0, 7, 0)}
    assert answers.is_complete() is False


@scene()
def test_numbers_of_devices_prove_nothing() -> Scene:
    """Neuron cores are numbered on each machine: i-1 and i-2 both have a core 0."""
    described = fleet(HOURS, [own("w", 1), own("v", 1)], [], {})
    series = relabel(scraped(described), "DCGM_.*", {"UUID": None, "neuroncore": "0", "__name__": "neuroncore_utilization_ratio"})
    answers = yield described, series
    assert answers.by("node") == {"v": (0, 8, 0, 0, 8), "w": (0, 8, 0, 0, 8)}
    assert answers.warnings("shared_machine") == []


@scene()
def test_the_newer_of_two_live_objects_keeps_the_machine() -> Scene:
    """Both `old` and, from 02:00, `new` measure one GPU: the pod on `new` pays its 4 of 8 hours."""
    described = fleet(HOURS, [own("old", 1), own("new", 1, start=2)], [pod("a", "new", [0], 4, HOURS)], {})
    answers = yield described, relabel(scraped(described), "DCGM_.*", {"UUID": "GPU-of-both"})
    assert answers.by("node", "pod") == {
        ("old", None): (0, 2, 0, 0, 2),
        ("new", "a"): (4, 0, 0, 4, 0),
        ("new", None): (0, 2, 0, 0, 2),
    }


@scene()
def test_a_node_created_again_is_one_machine_after_the_other() -> Scene:
    """The node w is deleted at 03:00 and another machine is w from then on: both are paid for."""
    described = fleet(HOURS, [own("w", 1)], [], {})
    series = relabel(scraped(described), "kube_node_info", {"provider_id": "aws:///z/i-1"}, None, (0, 3))
    answers = yield described, relabel(series, "kube_node_info", {"provider_id": "aws:///z/i-2"}, None, (3, HOURS))
    assert answers.by("node") == {"w": (0, 8, 0, 0, 8)}
    assert answers.warnings("twofold_node") == []


def test_a_cluster_label_lost_for_an_hour_is_paid_once(tmp_path: Path) -> None:
    """From 03:00 to 04:00 series have no cluster label, and stand in the server's own cluster: 8 h of $1, held by one pod."""
    described = fleet(HOURS, [own("w", 1)], [pod("a", "w", [0], 0, HOURS)], busy("w", [0], 0, HOURS))
    series = relabel(scraped(described), "kube_node_info", {"provider_id": "aws:///z/i-1"})
    series = relabel(relabel(series, ".*", {"cluster": "prod"}), ".*", {"cluster": "replay"}, None, (3, 4))
    (tmp_path / "prices.csv").write_text(f"{HEADER}\n,,,own-1,on_demand,1.00,USD,\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    store = load(described, series, config)
    pipeline.attribute(config, store)
    both = [Answers(config, store, cluster) for cluster in ("prod", "replay")]
    assert [answers.by("pod") for answers in both] == [{"a": (8, 0, 0, 8, 0)}, {}]
    (said,) = both[1].warnings("shared_machine")
    assert "the same machine as node w of cluster prod" in said
    with store.read() as con:
        assert con.execute("SELECT DISTINCT cluster FROM coverage_gaps").fetchall() == [("prod",)]
