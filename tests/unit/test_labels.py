"""Labels and trees of teams: exact figures of a fleet whose labels change, conflict or are missing."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpucost.api import Gpucost
from gpucost.config.model import Config, Labels, SharedCost, Team
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import Period
from gpucost.pipeline import inputs_of
from gpucost.publish.chargeback import ChargebackQuery, read_bundle
from gpucost.publish.seal import make
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report
from gpucost.questions.waste import waste_report
from gpucost.render.view import ReportView
from tests.fleets.case import alone, case, relabel
from tests.fleets.figures import Figures, build
from tests.replay.cases.words import BOOK, at, pod
from tests.unit.command import answer, call

L4 = "g6.12xlarge"  # four GPUs for $4.80 an hour
#: a: x until 3:30, then y; b and c: z from their namespace; d: two labels of one name.
MAIN = case(
    "main",
    alone(
        6,
        L4,
        pod("a", "w", [0], 0, 6, labels={"app_kubernetes_io_name": "x", "person": "ann"}),
        pod("b", "w", [1], 0, 6, "serve", labels={"cost_center": "own", "person": "bea"}),
        pod("c", "w", [2], 2, 5, "serve"),
        pod("d", "w", [3], 4.5, 6, labels={f"app_kubernetes_io_name_conflict{n}": f"d{n}" for n in (1, 2)}),
        of={"labels": {"label_pool": "p1", "label_cost_center": "shared"}},
        namespaces={"serve": {"app_kubernetes_io_name": "z", "cost_center": "cc", "person": "cee"}},
    ),
    "",
    relabel(
        "kube_pod_labels", {"label_app_kubernetes_io_name": "y", "label_person": "bob"}, "pod=a", (3.5, 99)
    ),
    relabel("kube_pod_info", {"priority_class": "high"}, "pod=a|b"),
)
#: No app.kubernetes.io/name is exported; kube-state-metrics of this cluster keeps capitals.
OTHER = case("other", alone(6, L4, pod("e", "w", [0], 0, 2, labels={"costCenter": "far"})), "")
#: The team train is below ai; ai and serve are below all.
SETTINGS = """
[labels]
user = "person"
[[teams]]
name = "train"
namespaces = ["train"]
parent = "ai"
[[teams]]
name = "serve"
namespaces = ["serve"]
parent = "all"
[[teams]]
name = "ai"
parent = "all"
"""
NAME, POOL = "label:app.kubernetes.io/name", "label:pool"
MARCH = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
SPAN = {"start": "2026-03-10", "end": "2026-03-11"}
DAY = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, 24)))


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return build(tmp_path_factory.mktemp("labels"), [MAIN, OTHER], BOOK, SETTINGS, profiled=False)


def asked(figures: Figures, *by: str, **more: Any) -> ReportView:
    given: dict[str, Any] = {"period": DAY, "period_name": "the day", "by": by, "with_sections": False}
    return report(figures.config, figures.store, Query(**given | more))


def costs(view: ReportView, kind: str = "allocated") -> dict[Any, Decimal]:
    """The cost by the values of the dimensions."""
    return {
        tuple(row.keys.values()) if len(row.keys) > 1 else next(iter(row.keys.values())): row.own_cost
        for row in view.rows
        if row.kind == kind
    }


def money(**amounts: str) -> dict[str | None, Decimal]:
    return {name if name != "none" else None: Decimal(text) for name, text in amounts.items()}


BY_NAME = money(x="4.8", y="2.4", z="10.8", unassigned="1.8", none="2.4")


def test_label_applies_as_of_the_start_of_each_hour(figures: Figures) -> None:
    """x holds 4 hours and y 2, because the label changes at 3:30; e has no label."""
    view = asked(figures, NAME)
    assert costs(view) == BY_NAME
    assert view.totals.cost == sum(BY_NAME.values())


@pytest.mark.parametrize("name", ["app_kubernetes_io_name", "label_app_kubernetes_io_name"])
def test_label_has_several_spellings(figures: Figures, name: str) -> None:
    assert costs(asked(figures, f"label:{name}")) == BY_NAME


def test_hours_by_label_add_up(figures: Figures) -> None:
    by_hour = costs(asked(figures, "hour", NAME))
    assert [by_hour[f"2026-03-10T0{hour}:00:00+00:00", name] for hour, name in ((3, "x"), (4, "y"))] == [
        Decimal("1.2")
    ] * 2
    assert sum(by_hour.values()) == sum(BY_NAME.values())


def test_node_label_covers_unallocated_gpus(figures: Figures) -> None:
    view = asked(figures, POOL)
    assert costs(view) == money(p1="19.8", none="2.4")
    assert costs(view, "unallocated") == money(p1="9", none="26.4")


def test_pod_label_decides_before_namespace_and_node(figures: Figures) -> None:
    view = asked(figures, "label:costCenter")
    assert costs(view) == money(own="7.2", cc="3.6", shared="9", far="2.4")


def test_priority_class_is_a_dimension(figures: Figures) -> None:
    assert costs(asked(figures, "priority_class")) == money(high="14.4", none="7.8")


def test_filter_selects_the_hours_with_the_label(figures: Figures) -> None:
    view = asked(figures, "workload", labels=("app.kubernetes.io/name=x", "app.kubernetes.io/name=z"))
    assert costs(view) == money(**{"Pod/a": "4.8", "Pod/b": "7.2", "Pod/c": "3.6"})
    assert view.node_totals is None
    assert view.coverage.final_cost + view.coverage.estimated_cost == Decimal("15.6")


def test_filters_of_two_labels_combine(figures: Figures) -> None:
    view = asked(figures, labels=("app.kubernetes.io/name=z", "cost_center=cc", "pool=p1"))
    assert costs(view) == money(**{"Pod/c": "3.6"})
    view = asked(figures, "workload", labels=("pool=p1",))
    assert {row.kind for row in view.rows} == {"allocated"}
    assert view.totals.cost == Decimal("19.8")


def test_charts_have_the_filtered_cost(figures: Figures) -> None:
    view = asked(figures, labels=("app.kubernetes.io/name=y",), with_series=True)
    assert view.series is not None
    assert {stack.total for stack in view.series.stacks} == {Decimal("2.4")}


def test_cluster_without_the_label_is_named(figures: Figures) -> None:
    (found,) = [note for note in asked(figures, NAME).coverage.warnings if note.code == "label_not_exported"]
    assert "app.kubernetes.io/name is not exported in other" in found.message
    assert "--metric-labels-allowlist=pods=[app.kubernetes.io/name]" in (found.fix or "")


def test_cluster_without_the_label_of_a_filter_is_named(figures: Figures) -> None:
    only = Query(DAY, "the day", labels=("app.kubernetes.io/name=x",), with_sections=False)
    view, _ = waste_report(figures.config, figures.store, replace(only, labels=()), only)
    for warned in (report(figures.config, figures.store, only), view):
        (found,) = [note for note in warned.coverage.warnings if note.code == "label_not_exported"]
        assert found.message.startswith("label app.kubernetes.io/name is not exported in other:")


def test_filter_leaves_out_cost_without_pods(figures: Figures) -> None:
    """The owner has no pods, so its row has no labels."""
    rule = SharedCost(name="serving", split="owner", of="namespaces", namespaces=["serve"], owner="finance")
    config = figures.config.model_copy(update={"shared_costs": [rule]})
    query = Query(DAY, "the day", with_sections=False)
    assert "shared" in {row.kind for row in report(config, figures.store, query).rows}
    only = report(config, figures.store, replace(query, labels=("app.kubernetes.io/name=x",)))
    assert {row.kind for row in only.rows} == {"allocated"}


def test_conflicting_labels_are_named(figures: Figures) -> None:
    (found,) = [note for note in asked(figures, NAME).coverage.warnings if note.code == "label_conflict"]
    names = "label_app_kubernetes_io_name_conflict1 and label_app_kubernetes_io_name_conflict2"
    assert f"{names} differ on 1 objects" in found.message


def test_label_that_is_not_exported_is_an_error(figures: Figures) -> None:
    with pytest.raises(GpucostError, match=r"label not exported: 'costcenter'.*cost_center") as error:
        asked(figures, "label:costcenter")
    assert "--metric-labels-allowlist=pods=[costcenter]" in str(error.value.fix)


def test_filter_without_usage_names_values(figures: Figures) -> None:
    with pytest.raises(GpucostError, match=r"no pod with label pool=p2 held GPUs") as error:
        asked(figures, labels=("pool=p2",))
    assert error.value.fix == "use an existing value: p1"


@pytest.mark.parametrize("text", ["app", "=x", "app="])
def test_filter_needs_a_name_and_a_value(figures: Figures, text: str) -> None:
    with pytest.raises(UsageError, match="invalid label"):
        asked(figures, labels=(text,))


def test_waste_by_label_adds_up(figures: Figures) -> None:
    query = partial(Query, period=DAY, period_name="the day", top=0, with_sections=False)
    _, found = waste_report(figures.config, figures.store, query(), query(by=(NAME,)), 0)
    by_name: dict[str | None, Decimal] = {}
    for row in found.rows:
        by_name[row.keys[NAME]] = by_name.get(row.keys[NAME], Decimal(0)) + row.cost
    assert by_name == BY_NAME | {None: BY_NAME[None] + Decimal("35.4")}
    _, only = waste_report(
        figures.config, figures.store, query(), query(labels=("app.kubernetes.io/name=x",)), 0
    )
    assert only.totals.cost == Decimal("4.8")


def test_shares_of_unallocated_cost_by_label_add_up(figures: Figures) -> None:
    """The $9 unallocated on w are shared by the $19.80 of its pods."""

    def shares(view: ReportView) -> dict[str | None, Decimal]:
        return {
            row.keys[NAME]: row.shared.unallocated_cost or Decimal(0)
            for row in view.rows
            if row.kind == "allocated" and row.shared
        }

    found = shares(asked(figures, NAME, share_unallocated="proportional"))
    assert found["x"] == Decimal("2.181818182")
    assert sum(found.values()) == Decimal("35.4")
    only = asked(figures, NAME, share_unallocated="proportional", labels=("app.kubernetes.io/name=x",))
    assert shares(only) == {"x": found["x"]}
    assert only.totals_shared is not None
    assert only.totals_shared.unallocated_cost == found["x"]


def test_api_takes_labels(figures: Figures) -> None:
    answer = Gpucost(figures.config.path).report(by=NAME, label="pool=p1", **SPAN)
    frame = answer.df()
    found = {name: float(cost) for name, cost in zip(frame[NAME], frame["cost"], strict=True)}
    assert found == {"x": 4.8, "y": 2.4, "z": 10.8, "unassigned": 1.8}


def test_user_is_a_configured_label_at_the_start_of_the_pod(figures: Figures) -> None:
    """Pod b has its own label, c its namespace's; a's changes later."""
    assert costs(asked(figures, "user")) == money(ann="7.2", bea="7.2", cee="3.6", none="4.2")
    view = asked(figures, users=("cee",))
    assert costs(view) == money(**{"Pod/c": "3.6"})


def test_cluster_without_the_label_of_users_is_named(figures: Figures) -> None:
    (found,) = [note for note in asked(figures).coverage.warnings if note.code == "user_label_not_exported"]
    assert found.message == "no pod or namespace of cluster other exports label_person: its users are unknown"
    assert found.fix == "kube-state-metrics --metric-labels-allowlist=pods=[person]"


def test_another_label_of_users_changes_the_inputs() -> None:
    inputs = {inputs_of(Config(labels=Labels(user=name))) for name in (None, "owner", "person")}
    assert len(inputs) == 3


def test_ledger_has_columns_of_labels_and_the_same_sum(figures: Figures, tmp_path: Path) -> None:
    config = figures.config.model_copy(update={"labels": Labels(user="person", ledger=["cost-center"])})
    query = ChargebackQuery("2026-03", MARCH, "March 2026", MARCH.end)
    read_bundle(config, figures.store, query, tmp_path)
    sums: dict[tuple[str, str], Decimal] = {}
    with (tmp_path / "ledger.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = row["kind"], row["label:cost-center"]
            sums[key] = sums.get(key, Decimal(0)) + Decimal(row["cost"])
    allocated = {name: float(cost) for (kind, name), cost in sums.items() if kind == "allocated"}
    assert allocated == {"own": 7.2, "cc": 3.6, "shared": 9.0, "": 2.4}
    assert sum(sums.values()) == Decimal("57.6")


def test_page_lists_labels_of_every_workload(figures: Figures) -> None:
    page = Gpucost(figures.config.path).report(month="2026-03", by=NAME, format="html").page("html")
    rows = re.findall("<td[^>]*>(?:<[^>]*>)*(unassigned|x|y|z|no label)<", page)
    assert {*rows} == {"unassigned", "x", "y", "z", "no label"}
    assert 'data-of="label:app.kubernetes.io/name"' in page.partition('id="search"')[2]


def test_labels_of_the_ledger_are_sealed() -> None:
    sealed = [make(Config(labels=Labels(ledger=names)), {}, (), "").configuration for names in ([], ["a"])]
    assert "[labels]" in sealed[1] and "[labels]" not in sealed[0]


@pytest.mark.parametrize(
    ("team", "expected"), [("ai", {"train": 11.4}), ("all", {"train": 11.4, "serve": 10.8})]
)
def test_filter_of_a_team_includes_the_teams_below_it_once(
    figures: Figures, team: str, expected: dict[str, float]
) -> None:
    frame = Gpucost(figures.config.path).report(by="team", team=[team, "train"], **SPAN).df()
    assert dict(zip(frame["team"], frame["cost"], strict=True)) == expected


def test_topmost_team_includes_the_teams_below_it(figures: Figures) -> None:
    frame = Gpucost(figures.config.path).report(by="top_team", **SPAN).df()
    rows = zip(frame["kind"], frame["top_team"], frame["cost"], strict=True)
    assert {name: cost for kind, name, cost in rows if kind == "allocated"} == {"all": pytest.approx(22.2)}


def test_waste_by_topmost_team(figures: Figures) -> None:
    rows = json.loads(Gpucost(figures.config.path).waste(by="top_team", team="all", **SPAN).json())["rows"]
    assert {row["top_team"] for row in rows} == {"all"}


def test_forecast_of_a_team_has_the_teams_below_it(figures: Figures) -> None:
    found = answer(f"forecast --team all --team train --month 2026-03 --config {figures.config.path}")
    assert {row["team"]: row["cost_to_date"] for row in found["rows"]} == {"train": 11.4, "serve": 10.8}


def test_team_without_usage_below_no_usage_is_an_error(figures: Figures) -> None:
    with pytest.raises(GpucostError, match="no team 'trian' held GPUs"):
        Gpucost(figures.config.path).report(team=["ai", "trian"], **SPAN)


def test_parents_change_no_inputs() -> None:
    teams = [[Team(name="a", namespaces=["n"], parent=parent)] for parent in (None, "b")]
    assert len({inputs_of(Config(teams=several)) for several in teams}) == 1


def test_bundle_has_each_parent_with_the_teams_below_it(figures: Figures, tmp_path: Path) -> None:
    words = f"chargeback --month 2026-03 --out {tmp_path} --config {figures.config.path}"
    call(*words.split(), code=4)
    folder = tmp_path / "2026-03"
    index = json.loads((folder / "index.json").read_text())
    assert {paid["team"]: paid["charge"] for paid in index["teams"]} == {"train": 11.4, "serve": 10.8}
    assert {paid["team"]: paid["charge"] for paid in index["parents"]} == {"ai": 11.4, "all": 22.2}
    assert index["totals"]["charge"] == 22.2
    for parent in index["parents"]:
        with (folder / f"{parent['file']}.csv").open(newline="") as file:
            rows = [*csv.DictReader(file)]
        assert float(sum(Decimal(row["cost"]) for row in rows)) == parent["charge"]
        assert {row["team"] for row in rows} == {"train", "serve"} - (
            {"serve"} if parent["team"] == "ai" else set()
        )
    assert "| ai with the teams below |" in (folder / "index.md").read_text()
