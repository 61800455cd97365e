"""What was collected is what was seen: gaps are covered, bridged, not collected, off or signed, and bills tell of them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import inventory, pipeline, savings
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.config.model import Config, StoreSettings
from gpucost.engine import run_stage
from gpucost.periods import Period
from gpucost.report import Query
from gpucost.store.connection import Store
from tests.replay import bill_files
from tests.replay.billing import Charge, charges
from tests.replay.cases.words import BOOK, HEADER, MORNING, at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, revalue
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total, unpaid
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.side_by_side import Scene, Scenes
from tests.unit.bills import csv_text
from tests.unit.command import call
from tests.unit.test_collect_http import Fake, Question, Reply, fake, fakes

__all__ = ["fake", "fakes"]  # fixtures

DAY = 24.0
FOREVER = 9_223_372_036_854_775_807
SIGNED = (
    '[[coverage.accept]]\ncluster = "CLUSTER"\nfrom = "2026-03-10T06:00"\nto = "2026-03-10T15:00"\nwho = "Dana"\nwhy = "moved"\n'
)


def machines(*silences: tuple[float, float], ends: float = DAY, **more: Any) -> dict[str, Any]:
    """A node of eight GPUs for a day; `train` holds four of them all day, `early` two until 10:00, `late` two from 20:00."""
    pods = [
        pod("train", "n", [0, 1, 2, 3], 0, ends),
        pod("early", "n", [4, 5], 0, 10),
        pod("late", "n", [6, 7], 20, DAY),
    ]
    silent = [[at(start), at(end)] for start, end in silences]
    return fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], pods, {}, scrape=60, ksm_silent=silent, **more)


class Answers:
    """What an attributed store says of a cluster, or of all that its name matches."""

    def __init__(self, config: Config, store: Store, cluster: str = ".*") -> None:
        self.config, self.store, self.cluster = config, store, cluster

    def attribute(self) -> None:
        """Scenes are attributed together."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement in which $cluster may stand."""
        self.attribute()
        with self.store.read() as con:
            return con.execute(sql, {"cluster": self.cluster} if "$cluster" in sql else None).fetchall()

    def rows(self, columns: str, rest: str = "") -> list[tuple[Any, ...]]:
        """Columns of the cluster's stored gaps; `rest` goes on with AND or ORDER BY."""
        return self.query(f"SELECT {columns} FROM coverage_gaps WHERE cluster SIMILAR TO $cluster {rest}")  # noqa: S608

    def gaps(self, kind: str = "not_collected") -> list[tuple[float, float]]:
        """Gaps of a kind in hours since the morning, in full minutes."""
        rows = self.rows("from_ms, to_ms", f"AND kind = '{kind}' ORDER BY ALL")
        return [(_hour(start), _hour(end)) for start, end in rows]

    def within(self, kind: str = "not_collected") -> list[tuple[float, float]]:
        """Those that begin and end."""
        return [gap for gap in self.gaps(kind) if gap[0] >= 0 and gap[1] <= DAY]

    def warnings(self, code: str) -> list[str]:
        """The messages of stored warnings of a code."""
        query = f"SELECT message FROM warnings WHERE code = '{code}' AND cluster SIMILAR TO $cluster"  # noqa: S608
        return [message for (message,) in self.query(query)]

    def hours(self, name: str) -> float:
        self.attribute()
        held = by_pod(self.store, at(-1) * 1000, at(DAY + 1) * 1000, self.cluster)
        return round(float(sum(figures.allocated_gpu_hours for key, figures in held.items() if key[2] == name)), 2)

    def node_cost(self) -> float:
        self.attribute()
        return float(total(self.store, at(0) * 1000, at(DAY) * 1000, self.cluster).node_cost)

    def costs(self) -> dict[str, float]:
        """Cost by kind of row."""
        rows = self.query(
            """SELECT kind, sum(cost + unallocated_cost + not_collected_cost) FROM cost_hourly JOIN nodes USING (node_id)
            WHERE cluster SIMILAR TO $cluster GROUP BY ALL"""
        )
        return {kind: round(float(cost), 2) for kind, cost in rows}


class OwnStore(Answers):
    """The fleet in a store of its own, as its samples tell it, with further settings."""

    def __init__(self, folder: Path, described: dict[str, Any], series: list[Series] | None = None, settings: str = "") -> None:
        (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
        self.folder, self.fleet, self.cluster = folder, described, ".*"
        self.config = write_config(described, folder, folder / "prices.csv")
        if settings:
            self.config.path.write_text(self.config.path.read_text() + settings)
            self.config = load_config(self.config.path, environ={}, cwd=folder)
        self.store = load(described, scrape(described, lean=True) if series is None else series, self.config)

    def attribute(self) -> None:
        pipeline.attribute(self.config, self.store)
        assert not unpaid(self.store)

    def copy(self, folder: Path) -> OwnStore:
        """The same in another folder, for who changes what is stored."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        other = copy(self)
        other.folder, other.store = folder, Store(folder / self.store.path.name)
        other.config = self.config.model_copy(update={"store_settings": StoreSettings(path=other.store.path)})
        return other

    def load_bill(self, text: str, name: str = "cur.csv") -> None:
        """In the place of the one of that name."""
        (self.folder / name).write_text(text)
        assert not collect_bills(self.store, [LocalTree(self.folder / name)], "aws", force=True).errors


def _hour(ms: int) -> float:
    return round((ms / 1000 - MORNING) / 3600, 2) if ms < FOREVER else FOREVER


scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Scene, Answers]]]:
    with scene.start(tmp_path_factory.mktemp("scenes"), Answers) as answers:
        yield answers


def scraped(described: dict[str, Any]) -> tuple[dict[str, Any], list[Series]]:
    return described, scrape(described, lean=True)


INSTANCES = count(1)


def own(described: dict[str, Any]) -> dict[str, Any]:
    """The fleet with machines of its own, for bills name them."""
    for one in described["nodes"]:
        if one["provider"] == "karpenter":
            one["provider_id"] = f"aws:///{one['zone']}/i-{next(INSTANCES):017x}"
    return described


def cur(
    described: dict[str, Any],
    keep: Callable[[Charge], bool] = lambda _charge: True,
    cells: Callable[[dict[str, str]], dict[str, str]] = lambda _row: {},
) -> str:
    """A bill of those hours of the fleet, `cells` of each row replaced."""
    billed = [one for one in charges(described, lambda _node, _hour: ("on_demand", Decimal("21.96"))) if keep(one)]
    rows = list(csv.DictReader(io.StringIO(bill_files.aws_cur(billed))))
    return csv_text([row | cells(row) for row in rows])


def outside(charge: Charge) -> bool:
    """The charge is not of the hours from 5:00 to 15:00."""
    return not at(5) <= charge.start < at(15)


@scene(
    ([(12, 12.05)], [], [], 4 * DAY, 20, 40 * DAY),  # a restart is no gap
    ([(9.5, 11)], [], [(9.5, 11)], 4 * DAY, 2 * 9.5, 40 * DAY),  # of two hours at most: `early` was seen last at 9:30
    ([(5, 15)], [(5, 15)], [], 4 * 14, 2 * 5, 40 * 14),
)
def test_silences_are_bridged_for_who_stands_at_both_ends_or_not_collected_and_cost_nothing(
    silences: list[tuple[float, float]], gaps: list[Any], bridged: list[Any], train: float, early: float, cost: float
) -> Scene:
    answers = yield scraped(machines(*silences))
    assert (answers.within(), answers.within("bridged")) == (gaps, bridged)
    assert (answers.hours("train"), answers.hours("early")) == pytest.approx((train, early), abs=0.1)
    assert answers.node_cost() == pytest.approx(cost, abs=1)


@scene()
def test_what_lies_before_the_first_and_after_the_last_sample_is_not_collected() -> Scene:
    answers = yield scraped(machines((0, 6), (18, DAY)))
    first, last = answers.gaps()
    assert first[1] == pytest.approx(6, abs=0.02)
    assert last == (18, FOREVER)


def test_max_bridge_is_a_setting(tmp_path: Path) -> None:
    answers = OwnStore(tmp_path, machines((5, 6), (10, 14)), settings='[coverage]\nmax_bridge = "30m"\n')
    assert answers.within() == [(5, 6), (10, 14)]


@scene()
def test_a_gap_is_covered_by_another_server() -> Scene:
    whole, holed = (scrape(machines(*silent), lean=True) for silent in ((), ((5, 15),)))
    other = relabel(drop(whole, "kube_.*", hours=(16, 99)), "kube_.*", {"prometheus": "b"})
    answers = yield machines(), [*holed, *other]
    assert answers.within() == []


@scene(("pods",), ("requests",), ("phases",), ("nodes",))
def test_one_family_that_falls_silent_is_a_gap(family: str) -> Scene:
    metrics = {
        "pods": "kube_pod_info",
        "requests": "kube_pod_container_resource_.*",
        "phases": "kube_pod_status_phase",
        "nodes": "kube_node_.*",
    }
    series = drop(scrape(machines(), lean=True), metrics[family], hours=(5, 9))
    answers = yield machines(), series
    assert answers.within() == [(5, 9)]
    assert answers.rows("families, reason", "AND from_ms > 0 AND to_ms < 9e18") == [
        ([family], f"kube-state-metrics reported no {family}")
    ]


@scene()
def test_a_family_that_ends_for_good_is_a_gap_where_others_show_that_there_was_something() -> Scene:
    series = drop(scrape(machines(), lean=True), "kube_pod_container_resource_.*", hours=(15, 99))
    answers = yield machines(), series
    assert answers.gaps()[-2:] == [(15, DAY), (DAY, FOREVER)]
    assert answers.rows("families", "AND to_ms > 0 ORDER BY from_ms")[-2] == (["requests"],)


@scene()
def test_all_of_pods_gone_is_no_gap_where_none_may_be_left() -> Scene:
    described = machines(ends=8)
    for one in described["pods"]:
        one["to"] = one["keep_until"] = min(one["to"], at(8))
    described["pods"] = [one for one in described["pods"] if one["scheduled"] < at(8)]
    answers = yield scraped(described)
    assert answers.within() == []


@scene()
def test_all_of_pods_gone_is_a_gap_where_an_exporter_names_them() -> Scene:
    answers = yield machines(), drop(scrape(machines(), lean=True), "kube_pod_.*", hours=(8, 99))
    assert answers.gaps()[-2:] == [(8, DAY), (DAY, FOREVER)]


@scene((0.5, 1, 0.25, 0.9), (0.1, 0.4, 0.15, 2))
def test_a_pod_that_an_exporter_names_while_all_else_is_silent_proves_no_more_than_that(
    since: float, until: float, start: float, end: float
) -> Scene:
    """It is gone before kube-state-metrics is heard again, or came after it was heard last."""
    pods = [pod("a", "n", [0, 1], start, end, keep_until=at(end))]
    nodes, silence = [node("n", "p4de.24xlarge", 0, 2)], [[at(since), at(until)]]
    described = fleet(2, nodes, pods, busy("n", [0, 1], start, end, 50), scrape=60, ksm_silent=silence)
    answers = yield scraped(described)
    assert answers.within("bridged") == [pytest.approx((since, until), abs=0.02)]
    assert answers.node_cost() == pytest.approx(2 * 40, rel=0.02)


@scene()
def test_one_dead_shard_of_two_is_a_gap() -> Scene:
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

    answers = yield machines(), [*series, *shard(0, (99, 99)), *shard(1, (4, 10))]
    assert answers.within() == [(4, 10)]
    assert answers.rows("families", "AND from_ms > 0 AND to_ms < 9e18") == [(["shard 2 of 2"],)]


def shards(takes_over: bool = False, end: float = DAY, names: str = "nop") -> tuple[dict[str, Any], list[Series]]:
    """Two targets, of which the second tells of two nodes and their pods, and dies at 10:00; at 15:00 it is back."""
    nodes = [node(name, "p4de.24xlarge", 0, DAY) for name in names]
    pods = [pod(f"pod-{name}", name, [0, 1], 0, DAY if name == "n" else end, keep_until=at(end)) for name in names]
    described = fleet(DAY, nodes, pods, {}, scrape=60)
    series = scrape(described, lean=True)
    for label in ({"node": "[op]"}, {"pod": "pod-[op]"}):
        series = relabel(series, "kube_.*", {"instance": "10.4.0.2:8080"}, label)
        if takes_over:
            series = relabel(series, "kube_.*", {"instance": "10.4.0.3:8080"}, label, (10, 99))
    return described, series if takes_over else drop(series, "kube_.*", {"instance": "10.4.0.2:8080"}, (10, 15))


@scene()
def test_dead_target_whose_objects_no_other_reports_is_a_gap() -> Scene:
    answers = yield shards()
    assert answers.within() == [(10, 15)]
    assert answers.rows("families, reason", "AND from_ms > 0 AND to_ms < 9e18") == [
        (["nodes", "pods"], "target kube-state-metrics 10.4.0.2:8080 was silent")
    ]


@scene((False,), (True,))
def test_dead_target_of_one_machine_is_a_gap_if_its_exporter_goes_on(ends: bool) -> Scene:
    described, series = shards(names="no")
    answers = yield described, drop(series, "DCGM.*", {"Hostname": "o"}, (10, 15)) if ends else series
    assert answers.within() == ([] if ends else [(10, 15)])


@scene()
def test_target_that_is_another_after_a_restart_is_no_gap() -> Scene:
    answers = yield shards(takes_over=True)
    assert answers.within() == answers.within("bridged") == []


@scene()
def test_one_of_two_that_report_the_same_may_end() -> Scene:
    described = machines(ksm_replicas=2)
    series = drop(scrape(described, lean=True), "kube_.*", {"instance": ".*31:8080"}, (10, 99))
    answers = yield described, series
    assert answers.within() == answers.within("bridged") == []


@scene()
def test_last_pod_of_a_small_target_may_end() -> Scene:
    """The target goes on with objects that are not collected."""
    described = machines()
    answers = yield described, relabel(scrape(described, lean=True), "kube_.*", {"instance": "10.4.0.2:8080"}, {"pod": "early"})
    assert answers.within() == answers.within("bridged") == []


@scene()
def test_what_is_signed_stays_not_collected_and_names_who() -> Scene:
    answers = yield *scraped(machines((5, 15))), SIGNED
    assert answers.within() == [(5, 6), (6, 15)]
    rows = answers.rows("accepted_by, accepted_why", "AND from_ms > 0 AND to_ms < 9e18 ORDER BY from_ms")
    assert rows == [(None, None), ("Dana", "moved")]


@scene()
def test_what_is_declared_off_is_no_gap() -> Scene:
    declared = '[[clusters]]\nname = "CLUSTER"\nfrom = 2026-03-10\nuntil = "2026-03-11T00:00"\nhours = ["15:00-05:00"]\n'
    answers = yield *scraped(machines((4.95, 15.05))), declared
    assert answers.gaps() == answers.warnings("off_but_billed") == []
    assert (5, 15) in [(round(a), round(b)) for a, b in answers.gaps("off")]


@scene()
def test_hours_before_a_declared_night_are_a_gap() -> Scene:
    answers = yield *scraped(machines((3.5, 15))), '[[clusters]]\nname = "CLUSTER"\nhours = ["15:00-05:00"]\n'
    assert answers.within() == [(3.5, 5)]


@scene()
def test_a_declared_cluster_that_was_never_met_is_missing() -> Scene:
    answers = yield *scraped(machines()), '[[clusters]]\nname = "other"\nfrom = 2026-03-10\n'
    rows = answers.query("SELECT from_ms, reason FROM coverage_gaps WHERE cluster = 'other' AND kind = 'not_collected'")
    assert rows == [(MORNING * 1000, "nothing was ever collected of it")]


@scene((15.0,), (DAY,))
def test_billed_hours_that_nobody_saw_cost_what_the_bill_says(end: float) -> Scene:
    described = own(machines((5, end)))
    answers = yield *scraped(described), "", cur(described)
    rows = answers.query(
        "SELECT kind, sum(cost + unallocated_cost), sum(not_collected_cost), sum(not_collected_gpu_ms) / 3600000 FROM cost_hourly"
        " JOIN nodes USING (node_id) WHERE cluster = $cluster GROUP BY ALL ORDER BY kind"
    )
    money = {kind: (float(seen), float(missed), hours) for kind, seen, missed, hours in rows}
    assert money["not_collected"] == pytest.approx((0, 21.96 * (end - 5), 8 * (end - 5)), abs=1)
    assert sum(seen + missed for seen, missed, _ in money.values()) == pytest.approx(21.96 * DAY, abs=1e-6)
    assert answers.hours("train") == pytest.approx(4 * (DAY - (end - 5)), abs=0.1)


@scene()
def test_hours_in_which_nothing_was_billed_are_off() -> Scene:
    described = own(machines((5, 15)))
    answers = yield *scraped(described), "", cur(described, outside)
    assert answers.within() == []
    assert answers.within("off") == [(5, 15)]


def _pair(kind: str) -> dict[str, Any]:
    """Two machines for a day, n of AWS and m of a kind, silent from 5:00 to 15:00."""
    nodes = [node("n", "p4de.24xlarge", 0, DAY), node("m", kind, 0, DAY)]
    return own(fleet(DAY, nodes, [pod("train", "n", [0], 0, DAY)], {}, scrape=60, ksm_silent=[[at(5), at(15)]]))


@scene()
def test_a_fee_or_tax_of_the_month_covers_none_of_its_hours() -> Scene:
    described = own(machines((5, DAY)))
    month = {"line_item_usage_start_date": "2026-03-01T00:00:00Z", "line_item_usage_end_date": "2026-04-01T00:00:00Z"}
    bill = cur(described, lambda one: one.start < at(5), lambda row: {} if row["line_item_line_item_type"] == "Usage" else month)
    answers = yield *scraped(described), "", bill
    assert answers.gaps()[-1] == (5, FOREVER)
    assert answers.gaps("off") == []
    assert answers.query("SELECT max(charge_period_end) > '2026-03-31' FROM bill_rows") == [(True,)]


def test_a_later_bill_of_one_account_does_not_stand_for_the_bill_of_another(tmp_path: Path) -> None:
    pair = _pair("p4de.24xlarge")
    answers = OwnStore(tmp_path, pair)
    first, second = {"line_item_usage_account_id": "111111111111"}, {"line_item_usage_account_id": "222222222222"}
    april = first | {"bill_billing_period_start_date": "2026-04-01T00:00:00Z"}
    answers.load_bill(cur(pair, lambda one: one.node["name"] == "n" and outside(one), lambda _row: first), "n.csv")
    answers.load_bill(cur(pair, lambda one: one.node["name"] == "m" and one.start < at(5), lambda _row: second), "m.csv")
    answers.load_bill(
        cur(pair, lambda one: one.node["name"] == "n" and one.start in (at(0), at(20)), lambda _row: april), "4.csv"
    )
    assert answers.within() == [(5, 15)]
    answers.load_bill(cur(pair, lambda one: one.node["name"] == "m" and outside(one), lambda _row: second), "m.csv")
    assert answers.within("off") == [(5, 15)]


@scene((0, DAY, False), (0, 5, False), (15, DAY, False), (18, DAY, True))
def test_a_node_on_no_bill_beside_a_gap_may_have_run_in_it(begins: float, ends: float, is_off: bool) -> Scene:
    described = _pair("metal-mi300x")
    described["nodes"][1] |= {"from": at(begins), "to": at(ends)}
    # what is signed in part is one gap
    signed = SIGNED.replace("15:00", "07:00")
    answers = yield *scraped(described), signed, cur(described, lambda one: one.node["name"] == "n" and outside(one))
    pieces = [(5, 6), (6, 7), (7, 15)]
    assert answers.within("off") == (pieces if is_off else [])
    assert answers.within() == ([] if is_off else pieces)


@scene((4, True), (6, False))
def test_minutes_of_machines_add_up(minutes: int, is_off: bool) -> Scene:
    pair = _pair("p4de.24xlarge")
    cut = {"line_item_usage_amount": str(minutes / 60)}
    bill = cur(
        pair,
        lambda one: outside(one) or one.start == at(8),
        lambda row: cut if "T08:" in row["line_item_usage_start_date"] and row["pricing_unit"] == "Hrs" else {},
    )
    answers = yield *scraped(pair), "", bill
    assert answers.within("off") == ([(5, 15)] if is_off else [(5, 8), (9, 15)])


def boots(series: list[Series], *moments: float, labels: dict[str, str | None]) -> list[Series]:
    """The moments in hours at which the node booted, as node_exporter tells them while kube-state-metrics is heard."""
    beat = next(one for one in series if one.labels["__name__"] == "kube_node_info")
    kept = {label: None for label in beat.labels if label not in ("__name__", "cluster")}
    exported = relabel([beat], ".*", {**kept, "__name__": "node_boot_time_seconds", "job": "node-exporter", **labels})
    for moment in moments:
        exported = revalue(exported, ".*", float(at(moment)), hours=(moment, FOREVER))
    return [*series, *exported]


@scene(({"instance": "n:9100"},), ({"instance": "10.0.0.1:9100"},), ({"instance": "x", "node": "n"},))
def test_a_node_that_booted_within_a_silence_did_not_run_before(labels: dict[str, str | None]) -> Scene:
    series = relabel(scrape(machines((9.5, 11)), lean=True), "kube_node_info", {"internal_ip": "10.0.0.1"})
    answers = yield machines(), boots(series, -100, 10.25, labels=labels)
    assert answers.within("bridged") == [(9.5, 11)]
    assert answers.hours("train") == pytest.approx(4 * (DAY - 0.75), abs=0.1)
    assert answers.costs() == pytest.approx({"allocated": 20 * 23.25 + 10 * 13.5, "unallocated": 20 * 23.25 - 10 * 13.5}, abs=1)
    (message,) = answers.warnings("stopped_node")
    assert message == (
        "0.8 h of node n are not charged: it was started again while nothing was collected, and nothing shows that it ran before"
    )


@scene()
def test_a_node_that_booted_while_it_was_seen_is_charged_on() -> Scene:
    answers = yield machines(), boots(scrape(machines((9.5, 11)), lean=True), -100, 6, 12, labels={"instance": "n"})
    assert answers.hours("train") == pytest.approx(4 * DAY, abs=0.1)
    assert answers.query("SELECT count(*) FROM node_stops JOIN nodes USING (node_id) WHERE cluster = $cluster") == [(0,)]


def test_where_activity_alone_is_collected_boots_are_no_state_metrics(tmp_path: Path) -> None:
    series = scrape(machines((0, DAY)), lean=True)
    nodes = relabel(scrape(machines(), lean=True), "kube_node_info", {"internal_ip": "10.0.0.1"})
    exporters = [one for one in boots(nodes, -100, labels={"instance": "n"}) if not one.labels["__name__"].startswith("kube_")]
    bare = [one for one in series if not one.labels["__name__"].startswith("kube_")]
    gaps = []
    for name, collected in (("exporters", exporters), ("bare", bare)):
        (tmp_path / name).mkdir()
        answers = OwnStore(tmp_path / name, machines(), collected)
        with answers.store.write() as con:
            inventory.coverage(con, answers.config)
            gaps.append(con.execute("FROM coverage_gaps ORDER BY ALL").fetchall())
    assert gaps[0] == gaps[1] != []


@scene()
def test_a_bridged_hour_that_the_bill_leaves_out_costs_nothing_and_one_that_it_has_is_charged() -> Scene:
    described = own(machines((9.5, 11)))
    series = boots(scrape(described, lean=True), -100, 10.25, labels={"instance": "n"})
    answers = yield described, series, "", cur(described, lambda one: one.start != at(10))
    assert sum(answers.costs().values()) == pytest.approx(21.96 * 23, abs=0.4)
    stops = answers.query(
        "SELECT s.from_ms, s.to_ms, reason FROM node_stops AS s JOIN nodes USING (node_id) WHERE cluster = $cluster"
    )
    assert stops == [(at(10) * 1000, at(11) * 1000, "bill")]
    assert answers.hours("train") == pytest.approx(4 * 23, abs=0.1)


@scene()
def test_a_bill_without_an_hour_in_which_the_node_was_seen_says_nothing_of_its_silence() -> Scene:
    described = own(machines((10.2, 10.7)))
    answers = yield *scraped(described), "", cur(described, lambda one: one.start != at(10))
    assert answers.hours("train") == pytest.approx(4 * DAY, abs=0.1)
    assert answers.query("SELECT count(*) FROM node_stops JOIN nodes USING (node_id) WHERE cluster = $cluster") == [(0,)]


@scene()
def test_of_a_bridged_hour_that_is_billed_in_part_that_part_ran() -> Scene:
    """Stopped at 10:05 and started at 11:54, within a silence from 10:04 to 11:56."""
    described = own(machines((10 + 4 / 60, 11 + 56 / 60)))
    series = boots(scrape(described, lean=True), -100, 11.9, labels={"instance": "n"})
    part = {at(10): 5 * 60, at(11): 6 * 60}
    whole = list(charges(described, lambda _node, _hour: ("on_demand", Decimal("60"))))
    billed = [replace(one, seconds=part.get(one.start, 3600), cost=Decimal(part.get(one.start, 3600)) / 60) for one in whole]
    answers = yield described, series, "", bill_files.aws_cur(billed)
    assert sum(answers.costs().values()) == pytest.approx(60 * 22 + 11, abs=3)
    assert answers.hours("train") == pytest.approx(4 * (22 + 11 / 60), abs=0.3)


def test_days_that_a_corrected_bill_no_longer_covers_cost_nothing(tmp_path: Path) -> None:
    described = machines((10, 48))
    described["end"] = described["nodes"][0]["to"] = at(48)
    answers = OwnStore(tmp_path, described)
    answers.load_bill(cur(described))
    assert sum(answers.costs().values()) == pytest.approx(21.96 * 48)
    answers.load_bill(cur(described, lambda one: one.start < at(20)))
    assert sum(answers.costs().values()) == pytest.approx(21.96 * 20)
    with answers.store.read() as con:
        for table in ("attributed_days", "node_runs", "cost_daily", "node_daily"):
            assert con.execute(f"SELECT max(from_ms) FROM {table}").fetchall()[0][0] < at(DAY) * 1000  # noqa: S608


@pytest.mark.parametrize(
    ("is_scale_set", "lives", "billed_hours"),
    [
        # one of two machines of a scale set ends when it is seen last
        (True, ((0, 4.95, 15), (0, 24, 24)), 28.95),
        # a machine is registered again while nothing is collected
        (False, ((0, 4.95, 10), (10, 24, 24)), 20.0),
        (False, ((0, 4.95, 15), (0, 24, 24)), 200.0),
    ],
)
@pytest.mark.parametrize("hours_at_one_price", [1, 7, 24])
def test_nodes_that_share_a_bill_cost_no_more_than_it(
    is_scale_set: bool, lives: tuple[tuple[int, float, int], ...], billed_hours: float, hours_at_one_price: int
) -> None:
    hour = 3_600_000
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE nodes (node_id UBIGINT, cluster VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT, gpu_count DOUBLE,
            machine_gpus DOUBLE);
        CREATE TABLE billed_nodes (instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN);
        CREATE TABLE billed_hours (instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE);
        CREATE TABLE node_prices (node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, price_per_hour DOUBLE, price_source VARCHAR,
            price_as_of DATE);
        CREATE TABLE collected (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT);
        CREATE TABLE coverage_gaps (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR)"""
    )
    con.execute("INSERT INTO billed_hours VALUES ('m', 0, $1, $2)", [24 * hour, billed_hours])
    con.execute("INSERT INTO collected VALUES ('c', 0, $1), ('c', $2, $3)", [5 * hour, 15 * hour, 24 * hour])
    con.execute("INSERT INTO coverage_gaps VALUES ('c', $1, $2, 'not_collected')", [5 * hour, 15 * hour])
    for node_id, (begins, ends, priced_until) in enumerate(lives):
        con.execute("INSERT INTO nodes VALUES ($1, 'c', $2, $3, 1, NULL)", [node_id, int(begins * hour), int(ends * hour)])
        con.execute("INSERT INTO billed_nodes VALUES ('m', $1, $2)", [node_id, is_scale_set])
        for start in range(begins, priced_until, hours_at_one_price):
            end = min(start + hours_at_one_price, priced_until)
            con.execute(
                "INSERT INTO node_prices VALUES ($1, $2, $3, $4, 'bill', NULL)", [node_id, start * hour, end * hour, start]
            )
    run_stage(con, "gpucost.attribute.days", "15_unseen_time")
    parts = con.execute("SELECT node_id, from_ms, to_ms, price_per_hour, up_ratio FROM unseen_time ORDER BY ALL").fetchall()
    unseen = sum((end - start) * ratio for _, start, end, _, ratio in parts) / hour
    seen = sum(min(ends, 5) - min(begins, 5) + max(ends, 15) - max(begins, 15) for begins, ends, _ in lives)
    in_gap = sum(min(until, 15) - max(begins, 5) for begins, _, until in lives)
    assert unseen == pytest.approx(min(billed_hours - seen, in_gap))
    assert {ratio for *_, ratio in parts} == {parts[0][-1]}
    for node_id, (begins, _, until) in enumerate(lives):
        # each of its hours once, at the price that began last
        pieces = [(start / hour, end / hour, price) for node, start, end, price, _ in parts if node == node_id]
        at_hour = {int(start) + i: price for start, end, price in pieces for i in range(int(end - start))}
        expected = range(max(begins, 5), min(until, 15))
        assert at_hour == {h: begins + (h - begins) // hours_at_one_price * hours_at_one_price for h in expected}
        assert sum(end - start for start, end, _ in pieces) == len(expected)


@scene()
def test_hours_that_are_declared_off_and_billed_cost_what_the_bill_says() -> Scene:
    described = own(machines((5, 15)))
    answers = yield *scraped(described), '[[clusters]]\nname = "CLUSTER"\nhours = ["15:00-05:00"]\n', cur(described)
    assert sum(answers.costs().values()) == pytest.approx(21.96 * DAY)
    assert answers.within("off") == [(5, 15)]
    (message,) = answers.warnings("off_but_billed")
    assert f"cluster {answers.cluster} was declared off, but billed: 10.0 hours of its machines and 219.60 USD" in message


@scene()
def test_machines_that_were_billed_only_while_nothing_was_collected_are_told() -> Scene:
    nodes = [node("n", "p4de.24xlarge", 0, DAY), node("x", "p4de.24xlarge", 6, 14)]
    described = own(fleet(DAY, nodes, [pod("train", "n", [0], 0, DAY)], {}, scrape=60, ksm_silent=[[at(5), at(15)]]))
    answers = yield *scraped(described), "", cur(described)
    (message,) = answers.warnings("billed_unseen")
    assert message.startswith(
        f"one machine with GPUs was billed only while nothing was collected of cluster {answers.cluster}: 8.0 hours and 175.68 "
    )


@scene()
def test_machines_that_metrics_would_have_shown_are_others() -> Scene:
    described = own(machines((5, 15)))
    stranger = own(fleet(DAY, [node("x", "p4de.24xlarge", 2, 14)], [], {}, scrape=60))
    answers = yield *scraped(described), "", cur(described | {"nodes": described["nodes"] + stranger["nodes"]})
    assert not answers.warnings("billed_unseen")


@scene(("kube_pod_container_resource_.*",), ("kube_pod_.*",))
def test_a_family_that_begins_late_is_missing_until_then(late: str) -> Scene:
    answers = yield machines(), drop(scrape(machines(), lean=True), late, hours=(-9, 12))
    assert answers.within() == [pytest.approx((0, 12), abs=0.02)]
    assert answers.within("bridged") == []
    assert answers.hours("train") == pytest.approx(4 * 12, abs=0.1)
    assert answers.hours("late") == pytest.approx(2 * 4, abs=0.1)


@scene()
def test_pods_that_were_seen_late_are_missing_since_they_were_bound() -> Scene:
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], [pod("a", "n", [0, 1], 6, DAY)], {}, scrape=60)
    # without an exporter that names them
    answers = yield described, drop(drop(scrape(described, lean=True), "kube_pod_.*", hours=(-9, 12)), "DCGM.*")
    assert answers.within() == [(6, 12)]


@scene((-30.0,), (0.0,), (9.0,))
def test_pods_that_begin_after_their_nodes_are_no_gap(start: float) -> Scene:
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], [pod("a", "n", [0, 1], start, DAY)], {}, scrape=900)
    answers = yield scraped(described)
    assert answers.gaps()[0][1] <= 0
    assert answers.within() == answers.within("bridged") == []


@scene(("Job", 90, [(5, 19)]), ("Job", 0, []), ("DaemonSet", 90, []))
def test_pods_on_busy_gpus_that_never_asked_for_one_show_that_requests_were_silent(
    kind: str, percent: float, gaps: list[tuple[float, float]]
) -> Scene:
    pods = [pod("a", "n", [0, 1], 0, 4.99, keep_until=at(5)), pod("b", "n", [0, 1], 6, 11), pod("e", "n", [0, 1], 19, DAY)]
    described = fleet(DAY, [node("n", "p4de.24xlarge", 0, DAY)], pods, busy("n", [0, 1], 6, 11, percent), scrape=60)
    series = drop(scrape(described, lean=True), "kube_pod_container_resource_.*", hours=(5.2, 18))
    answers = yield described, relabel(series, "kube_pod_info", {"created_by_kind": kind})
    assert answers.within() == gaps


def test_a_server_that_never_answered_is_missed_once_it_is_configured(tmp_path: Path) -> None:
    answers = OwnStore(tmp_path, machines())
    path = answers.config.path
    written = path.read_text()

    def missed(*servers: str) -> list[tuple[str]]:
        path.write_text(written + "".join(f'[[prometheus]]\nurl = "http://127.0.0.1:10"\n{one}\n' for one in servers))
        with answers.store.write() as con:
            inventory.coverage(con, load_config(path, environ={}, cwd=tmp_path))
            return con.execute("SELECT DISTINCT cluster FROM coverage_gaps WHERE cluster <> 'main'").fetchall()

    assert missed() == []
    assert missed('cluster = "b"') == [("b",)]
    assert missed('name = "c"') == []  # nor did any other that is configured answer
    assert missed('name = "replay"', 'name = "c"\ncluster = "main"') == [("http://127.0.0.1:9",)]


PERIOD = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, DAY)))


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> OwnStore:
    """Four GPUs are held for a day of which ten hours were not seen; two of them are never used."""
    described = fleet(
        DAY,
        [node("n", "p4de.24xlarge", 0, DAY)],
        [pod("train", "n", [0, 1, 2, 3], 0, DAY)],
        busy("n", [0, 1], 0, DAY),
        ksm_silent=[[at(5), at(15)]],
    )
    answers = OwnStore(tmp_path_factory.mktemp("fleet"), described, scrape(described))
    assert answers.within() == [(5, 15)]
    return answers


def test_gpus_never_used_were_held_as_long_as_was_seen(unseen: OwnStore) -> None:
    findings = [candidate.finding for candidate in pipeline.candidates(unseen.config, unseen.store, PERIOD)]
    (one,) = [finding for finding in findings if finding.kind == "over_requested"]
    assert (one.waste_gpu_hours, one.gpu_hours) == (pytest.approx(28, abs=0.1), pytest.approx(56, abs=0.2))
    assert one.saving == pytest.approx(one.cost / 2)
    assert "28.0 of 56.0 GPU-hours on GPUs never used" in one.evidence


def test_what_is_saved_a_month_is_of_the_hours_collected(unseen: OwnStore) -> None:
    findings = savings.findings(unseen.config, unseen.store, PERIOD).findings
    assert findings
    for one in findings:
        assert float(one.saving_per_month) == pytest.approx(float(one.saving) * 730 / 14, rel=0.01)


def test_prices_are_of_the_hours_collected(unseen: OwnStore) -> None:
    query = Query(period=PERIOD, period_name="the day", namespaces=("train",))
    (one,) = pipeline.explain_cost(unseen.config, unseen.store, query, 0).nodes
    hours = [(price.end - price.start).total_seconds() / 3600 for price in one.prices]
    assert hours == [pytest.approx(5, abs=0.05), pytest.approx(9, abs=0.05)]
    assert sum(Decimal(hour) * price.price_per_hour for hour, price in zip(hours, one.prices, strict=True)) == pytest.approx(
        one.node_cost
    )


def test_a_bill_prices_hours_that_nobody_saw(unseen: OwnStore, tmp_path: Path) -> None:
    billed = unseen.copy(tmp_path)
    billed.load_bill(cur(billed.fleet))
    query = Query(period=PERIOD, period_name="the day", namespaces=("train",))
    (one,) = pipeline.explain_cost(billed.config, billed.store, query, 0).nodes
    assert float(one.not_collected_cost) == pytest.approx(219.6, abs=1)
    assert sum((price.end - price.start).total_seconds() for price in one.prices) == DAY * 3600
    (missed,) = billed.store.query("SELECT sum(not_collected_cost) FROM cost_hourly")[1][0]
    account = pipeline.reconcile(billed.config, billed.store, "2026-03", ("node",))
    assert account.lines["not_collected"] == missed == sum(row.cost for row in account.rows if row.line == "not_collected")
    assert account.problems == () and abs(account.lines["outside_node_life"]) < Decimal("0.005")
    path = tmp_path / "focus.parquet"
    pipeline.focus_file(billed.config, billed.store, "2026-03", "1.2", "parquet", path)
    sums = dict(duckdb.sql(f"SELECT x_gpucost_kind, sum(EffectiveCost) FROM '{path}' GROUP BY ALL").fetchall())  # noqa: S608
    assert float(sums["not_collected"]) == pytest.approx(float(missed), abs=1e-6)
    assert float(sums["allocated"]) == pytest.approx(float(account.lines["attributed"]), abs=1e-6)


@pytest.mark.slow
def test_a_collect_that_brings_nothing_erases_no_warning(fake: Fake, tmp_path: Path) -> None:
    def nothing(question: Question) -> Reply:
        rows = {"resultType": "matrix" if question.is_range else "vector", "result": []}
        return Reply(200, {"status": "success", "data": [] if question.query.startswith("label/") else rows})

    fake.trick = nothing
    answers = OwnStore(tmp_path, machines((5, 15)))
    answers.config.path.write_text(answers.config.path.read_text().replace("http://127.0.0.1:9", fake.url))
    words = ["chargeback", "--month", "2026-03", "--out", str(tmp_path / "out"), "--config", str(answers.config.path)]
    told = []
    for more in ([], ["--collect"]):
        call(*words, *more, code=4)
        index = json.loads((tmp_path / "out" / "2026-03" / "index.json").read_text())
        told.append([index["state"], index["missing"], index["coverage"]["not_collected"], index["totals"]])
    assert told[0] == told[1] and "10.0 h of main were not collected" in told[0][1][0]
