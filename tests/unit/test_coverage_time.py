"""What was collected is what was seen: gaps are covered, bridged, not collected, off or signed, and bills tell of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.trees import LocalTree
from gpucost.config import Config, load_config
from gpucost.config.coverage import ClusterHours, hours_off
from gpucost.store import Store
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.replay.cases.words import BOOK, HEADER, MORNING, at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, revalue
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total, unpaid
from tests.replay.scrape import scrape
from tests.replay.series import Series

DAY = 24.0
FOREVER = 9_223_372_036_854_775_807
PRICE = Decimal(40)


def machines(*silences: tuple[float, float], ends: float = DAY, **more: Any) -> dict[str, Any]:
    """A node of eight GPUs for a day; `train` holds four of them all day, `early` two until 10:00, `late` two from 20:00."""
    pods = [
        pod("train", "n", [0, 1, 2, 3], 0, ends),
        pod("early", "n", [4, 5], 0, 10),
        pod("late", "n", [6, 7], 20, DAY),
    ]
    silent = [[at(start), at(end)] for start, end in silences]
    return fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], pods, {}, scrape=60, ksm_silent=silent, **more)


class Told:
    """The fleet in a store, as its samples tell it, with further settings."""

    def __init__(self, folder: Path, described: dict[str, Any], series: list[Series] | None = None, settings: str = "") -> None:
        (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
        self.folder, self.fleet = folder, described
        written = write_config(described, folder, folder / "prices.csv")
        self.config: Config = written
        if settings:
            assert written.path is not None
            written.path.write_text(written.path.read_text() + settings)
            self.config = load_config(written.path, environ={}, cwd=folder)
        self.store: Store = load(described, scrape(described, lean=True) if series is None else series, self.config)

    def gaps(self, kind: str = "not_collected") -> list[tuple[float, float]]:
        """Gaps of a kind in hours since the morning, in full minutes."""
        pipeline.attribute(self.config, self.store)
        assert not unpaid(self.store)
        rows = self.store.query("SELECT kind, from_ms, to_ms FROM coverage_gaps ORDER BY ALL")[1]
        return [(_hour(start), _hour(end)) for told, start, end in rows if told == kind]

    def within(self, kind: str = "not_collected") -> list[tuple[float, float]]:
        """Those that begin and end."""
        return [gap for gap in self.gaps(kind) if gap[0] >= 0 and gap[1] <= DAY]

    def hours(self, name: str) -> float:
        pipeline.attribute(self.config, self.store)
        held = by_pod(self.store, at(-1) * 1000, at(DAY + 1) * 1000)
        return round(float(sum(figures.allocated_gpu_hours for key, figures in held.items() if key[2] == name)), 2)


def _hour(ms: int) -> float:
    return round((ms / 1000 - MORNING) / 3600, 2) if ms < FOREVER else FOREVER


def test_a_restart_of_three_minutes_is_no_gap(tmp_path: Path) -> None:
    told = Told(tmp_path, machines((12, 12.05)))
    assert told.within() == told.within("bridged") == []
    assert told.hours("train") == pytest.approx(4 * DAY, abs=0.1)


def test_silences_of_up_to_two_hours_are_bridged_for_who_stands_at_both_ends(tmp_path: Path) -> None:
    told = Told(tmp_path, machines((9.5, 11)))
    assert told.within("bridged") == [(9.5, 11)]
    assert told.within() == []
    assert told.hours("train") == pytest.approx(4 * DAY, abs=0.1)
    assert told.hours("early") == pytest.approx(2 * 9.5, abs=0.1)  # seen last at 9:30
    everything = total(told.store, at(0) * 1000, at(DAY) * 1000)
    assert float(everything.node_cost) == pytest.approx(40 * DAY, abs=1)


def test_longer_silences_are_not_collected_and_cost_nothing(tmp_path: Path) -> None:
    told = Told(tmp_path, machines((5, 15)))
    assert told.within() == [(5, 15)]
    assert told.hours("train") == pytest.approx(4 * 14, abs=0.1)
    assert told.hours("early") == pytest.approx(2 * 5, abs=0.1)
    assert float(total(told.store, at(0) * 1000, at(DAY) * 1000).node_cost) == pytest.approx(40 * 14, abs=1)


def test_what_lies_before_the_first_and_after_the_last_sample_is_not_collected(tmp_path: Path) -> None:
    told = Told(tmp_path, machines((0, 6), (18, DAY)))
    first, last = told.gaps()
    assert first[1] == pytest.approx(6, abs=0.02)
    assert last == (18, FOREVER)


def test_max_bridge_is_a_setting(tmp_path: Path) -> None:
    told = Told(tmp_path, machines((5, 6), (10, 14)), settings='[coverage]\nmax_bridge = "30m"\n')
    assert told.within() == [(5, 6), (10, 14)]


def test_a_gap_is_covered_by_another_server(tmp_path: Path) -> None:
    whole, holed = (scrape(machines(*silent), lean=True) for silent in ((), ((5, 15),)))
    other = relabel(drop(whole, "kube_.*", hours=(16, 99)), "kube_.*", {"prometheus": "b"})
    assert Told(tmp_path, machines(), [*holed, *other]).within() == []


@pytest.mark.parametrize("family", ["pods", "requests", "phases", "nodes"])
def test_one_family_that_falls_silent_is_a_gap(family: str, tmp_path: Path) -> None:
    metrics = {
        "pods": "kube_pod_info",
        "requests": "kube_pod_container_resource_.*",
        "phases": "kube_pod_status_phase",
        "nodes": "kube_node_.*",
    }
    series = drop(scrape(machines(), lean=True), metrics[family], hours=(5, 9))
    told = Told(tmp_path, machines(), series)
    assert told.within() == [(5, 9)]
    assert told.store.query("SELECT families, reason FROM coverage_gaps WHERE from_ms > 0 AND to_ms < 9e18")[1] == [
        ([family], f"kube-state-metrics told nothing of {family}")
    ]


def test_a_family_that_ends_for_good_is_a_gap_where_others_show_that_there_was_something(tmp_path: Path) -> None:
    series = drop(scrape(machines(), lean=True), "kube_pod_container_resource_.*", hours=(15, 99))
    assert Told(tmp_path, machines(), series).gaps()[-1] == (15, FOREVER)


def test_all_of_pods_gone_is_no_gap_where_none_may_be_left_and_one_where_an_exporter_names_them(tmp_path: Path) -> None:
    described = machines(ends=8)
    for one in described["pods"]:
        one["to"] = one["keep_until"] = min(one["to"], at(8))
    described["pods"] = [one for one in described["pods"] if one["scheduled"] < at(8)]
    (tmp_path / "a").mkdir()
    assert Told(tmp_path / "a", described).within() == []
    (tmp_path / "b").mkdir()
    series = drop(scrape(machines(), lean=True), "kube_pod_.*", hours=(8, 99))
    assert Told(tmp_path / "b", machines(), series).gaps()[-1] == (8, FOREVER)


def test_one_dead_shard_of_two_is_a_gap(tmp_path: Path) -> None:
    series = scrape(machines(), lean=True)
    beat = next(one for one in series if one.labels["__name__"] == "kube_node_info")

    def shard(ordinal: int, hours: tuple[float, float]) -> list[Series]:
        names = {"kube_state_metrics_total_shards": 2.0, "kube_state_metrics_shard_ordinal": float(ordinal)}
        copies = [
            relabel([beat], ".*", {"__name__": name, "instance": f"shard-{ordinal}:8081", "node": None}, None)[0]
            for name in names
        ]
        return drop(
            [revalue([copy], ".*", value)[0] for copy, value in zip(copies, names.values(), strict=True)], ".*", hours=hours
        )

    told = Told(tmp_path, machines(), [*series, *shard(0, (99, 99)), *shard(1, (4, 10))])
    assert told.within() == [(4, 10)]
    assert told.store.query("SELECT families FROM coverage_gaps WHERE from_ms > 0 AND to_ms < 9e18")[1] == [(["shard 2 of 2"],)]


def test_what_is_signed_stays_not_collected_and_names_who(tmp_path: Path) -> None:
    signed = '[[coverage.accept]]\nfrom = "2026-03-10T06:00"\nto = "2026-03-10T15:00"\nwho = "Dana"\nwhy = "moved"\n'
    told = Told(tmp_path, machines((5, 15)), settings=signed)
    assert told.within() == [(5, 6), (6, 15)]
    rows = told.store.query(
        "SELECT accepted_by, accepted_why FROM coverage_gaps WHERE from_ms > 0 AND to_ms < 9e18 ORDER BY from_ms"
    )[1]
    assert rows == [(None, None), ("Dana", "moved")]


def test_what_is_declared_off_is_no_gap(tmp_path: Path) -> None:
    declared = '[[clusters]]\nname = "main"\nfrom = 2026-03-10\nuntil = "2026-03-11T00:00"\nhours = ["15:00-05:00"]\n'
    told = Told(tmp_path, machines((4.95, 15.05)), settings=declared)
    assert told.gaps() == []
    assert (5, 15) in [(round(a), round(b)) for a, b in told.gaps("off")]


def test_hours_before_a_declared_night_are_a_gap(tmp_path: Path) -> None:
    declared = '[[clusters]]\nname = "main"\nhours = ["15:00-05:00"]\n'
    assert Told(tmp_path, machines((3.5, 15)), settings=declared).within() == [(3.5, 5)]


def test_a_declared_cluster_that_was_never_met_is_missing(tmp_path: Path) -> None:
    told = Told(tmp_path, machines(), settings='[[clusters]]\nname = "other"\nfrom = 2026-03-10\n')
    told.gaps()
    rows = told.store.query("SELECT from_ms, reason FROM coverage_gaps WHERE cluster = 'other' AND kind = 'not_collected'")[1]
    assert rows == [(MORNING * 1000, "nothing was ever collected of it")]


@pytest.mark.parametrize("end", [15.0, DAY])
def test_billed_hours_that_nobody_saw_cost_what_the_bill_says(end: float, tmp_path: Path) -> None:
    described = machines((5, end))
    told = Told(tmp_path, described)
    billed = list(charges(described, lambda _node, _hour: ("on_demand", Decimal("21.96"))))
    (tmp_path / "cur.csv").write_text(bill_files.aws_cur(billed))
    assert not collect_bills(told.store, [LocalTree(tmp_path / "cur.csv")], "aws").errors
    assert told.gaps()
    rows = told.store.query(
        "SELECT kind, sum(cost + unallocated_cost), sum(not_collected_cost), sum(not_collected_gpu_ms) / 3600000 FROM cost_hourly"
        " GROUP BY ALL ORDER BY kind"
    )[1]
    money = {kind: (float(seen), float(missed), hours) for kind, seen, missed, hours in rows}
    assert money["not_collected"] == pytest.approx((0, 21.96 * (end - 5), 8 * (end - 5)), abs=1)
    assert sum(seen + missed for seen, missed, _ in money.values()) == pytest.approx(21.96 * DAY, abs=1e-6)
    assert told.hours("train") == pytest.approx(4 * (DAY - (end - 5)), abs=0.1)


def test_hours_in_which_nothing_was_billed_are_off(tmp_path: Path) -> None:
    described = machines((5, 15))
    told = Told(tmp_path, described)
    billed = [
        charge
        for charge in charges(described, lambda _node, _hour: ("on_demand", Decimal("21.96")))
        if not at(5) <= charge.start < at(15)
    ]
    (tmp_path / "cur.csv").write_text(bill_files.aws_cur(billed))
    assert not collect_bills(told.store, [LocalTree(tmp_path / "cur.csv")], "aws").errors
    assert told.within() == []
    assert told.within("off") == [(5, 15)]


def test_weekly_hours_are_local_and_cross_midnight() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    cluster = ClusterHours(name="c", hours=["Fri 20:00-06:00"])
    noon = (MORNING + 12 * 3600) * 1000
    off = hours_off(cluster, berlin, (noon, noon))
    # 2026-03-13 is a Friday: on from 19:00Z until Saturday 05:00Z
    assert any(end == at(3 * 24 + 19) * 1000 for _, end in off)
    assert any(start == at(4 * 24 + 5) * 1000 for start, _ in off)


@pytest.mark.parametrize("late", ["kube_pod_container_resource_.*", "kube_pod_.*"])
def test_a_family_that_begins_late_is_missing_until_then(late: str, tmp_path: Path) -> None:
    told = Told(tmp_path, machines(), drop(scrape(machines(), lean=True), late, hours=(-9, 12)))
    assert told.gaps()[0][1] == pytest.approx(12, abs=0.02)
    assert told.within("bridged") == []
    assert told.hours("train") == pytest.approx(4 * 12, abs=0.1)
    assert told.hours("late") == pytest.approx(2 * 4, abs=0.1)


def test_pods_that_were_seen_late_are_missing_since_they_were_bound(tmp_path: Path) -> None:
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], [pod("a", "n", [0, 1], 6, DAY)], {}, scrape=60)
    # without an exporter that names them
    told = Told(tmp_path, described, drop(drop(scrape(described, lean=True), "kube_pod_.*", hours=(-9, 12)), "DCGM.*"))
    assert told.within() == [(6, 12)]


@pytest.mark.parametrize("start", [-30.0, 0.0, 9.0])
def test_pods_that_begin_after_their_nodes_are_no_gap(start: float, tmp_path: Path) -> None:
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], [pod("a", "n", [0, 1], start, DAY)], {}, scrape=900)
    told = Told(tmp_path, described)
    assert told.gaps()[0][1] <= 0
    assert told.within() == told.within("bridged") == []


@pytest.mark.parametrize(("kind", "percent", "gaps"), [("Job", 90, [(5, 19)]), ("Job", 0, []), ("DaemonSet", 90, [])])
def test_pods_on_busy_gpus_that_never_asked_for_one_show_that_requests_were_silent(
    kind: str, percent: float, gaps: list[tuple[float, float]], tmp_path: Path
) -> None:
    pods = [pod("a", "n", [0, 1], 0, 4.99, keep_until=at(5)), pod("b", "n", [0, 1], 6, 11), pod("e", "n", [0, 1], 19, DAY)]
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], pods, busy("n", [0, 1], 6, 11, percent), scrape=60)
    series = drop(scrape(described, lean=True), "kube_pod_container_resource_.*", hours=(5.2, 18))
    told = Told(tmp_path, described, relabel(series, "kube_pod_info", {"created_by_kind": kind}))
    assert told.within() == gaps


def test_a_server_that_never_answered_is_missed_once_it_is_configured(tmp_path: Path) -> None:
    told = Told(tmp_path, machines())
    path = told.config.path
    assert path is not None
    written = path.read_text()

    def missed(*servers: str) -> list[tuple[str]]:
        path.write_text(written + "".join(f'[[prometheus]]\nurl = "http://127.0.0.1:10"\n{one}\n' for one in servers))
        pipeline.attribute(load_config(path, environ={}, cwd=tmp_path), told.store)
        return told.store.query("SELECT DISTINCT cluster FROM coverage_gaps WHERE cluster <> 'main'")[1]

    assert missed() == []
    assert missed('cluster = "b"') == [("b",)]
    assert missed('name = "c"') == []  # nor did any other that is configured answer
    assert missed('name = "replay"', 'name = "c"\ncluster = "main"') == [("http://127.0.0.1:9",)]
