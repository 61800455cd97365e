"""Reports filtered by workload or user: the same rows, to the last digit, as in the full report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpucost.api import Gpucost
from gpucost.config.model import Config
from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.questions.waste import waste_report
from gpucost.store.connection import Store

OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
ALL = Query(OCTOBER, "October 2026", with_sections=False)


@pytest.mark.parametrize(
    ("by", "names"), [("workload", "Deployment/chat-api Job/debug"), ("user", "priya mira")]
)
def test_filtered_report_has_rows_of_full_report(demo: Config, by: str, names: str) -> None:
    store = Store(demo.store)
    chosen: Any = {f"{by}s": tuple(names.split())}
    whole = reading.report(demo, store, replace(ALL, by=(by,)))
    some = reading.report(demo, store, replace(ALL, by=(by,), **chosen))
    theirs = [row for row in whole.rows if row.keys[by] in names.split() and row.kind == "allocated"]
    assert len(theirs) == 2 and list(some.rows) == theirs
    assert some.totals.cost == sum(row.measures.cost for row in theirs)
    # unallocated GPUs are not part of it
    assert some.node_totals is None
    _, waste = waste_report(demo, store, ALL, replace(ALL, **chosen))
    assert waste.totals.cost == some.totals.cost


def test_workload_name_without_kind_is_accepted(demo: Config) -> None:
    store = Store(demo.store)
    named, bare = (
        reading.report(demo, store, replace(ALL, workloads=(name,)))
        for name in ("Deployment/chat-api", "chat-api")
    )
    assert named.rows == bare.rows and named.rows
    assert [row.keys for row in bare.rows] == [{"workload": "Deployment/chat-api"}]


@pytest.mark.parametrize(
    ("by", "name", "near"), [("workload", "chat", "chat-api"), ("user", "prija", "priya")]
)
def test_unknown_name_is_refused_with_similar_names(demo: Config, by: str, name: str, near: str) -> None:
    message = f"no {by} '{name}' held GPUs in October 2026"
    chosen: Any = {f"{by}s": (name,)}
    with pytest.raises(GpucostError, match=message) as raised:
        reading.report(demo, Store(demo.store), replace(ALL, **chosen))
    assert near in str(raised.value.fix)


QUESTIONS = "report waste efficiency findings policy_check unit_epoch unit_tokens whatif_spot whatif_schedule whatif_reserve diff"


@pytest.mark.parametrize("name", QUESTIONS.split())
def test_each_unknown_name_is_refused_by_every_question(demo: Config, name: str) -> None:
    client = Gpucost(demo.path, demo.store)
    words = ("2026-09", "2026-10") if name == "diff" else ()
    month = {} if name == "diff" else {"month": "2026-10"}
    for chosen in ({"team": ("research", "visoin")}, {"cluster": ("demo", "visoin")}):
        (kind,) = chosen
        with pytest.raises(GpucostError, match=f"no {kind} 'visoin' held GPUs in .*October 2026") as raised:
            client.ask(name.replace("_", " "), *words, **month, **chosen)
        assert ("vision" if kind == "team" else "hpc") in str(raised.value.fix)
    with pytest.raises(GpucostError, match="no cluster 'visoin' held GPUs"):
        client.ask("queue", month="2026-10", cluster="visoin")
