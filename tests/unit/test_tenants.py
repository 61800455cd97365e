"""Tenants share the cost of a model by their tokens; their shares add up to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpucost.config.model import Serving
from gpucost.questions.units import document, reading as units
from gpucost.questions.units.query import UnitView
from tests.replay.fleet import Fleet
from tests.replay.work import asked, counter, put, stored
from tests.text_tables import table
from tests.unit.served import on_nodes
from tests.unit.whatif_costs import figures

MONEY = ["prompt_cost", "generation_cost", "unserved_cost", "cost", "idle_cost", "cache_saved_cost"]
COUNTS = ["prompt_tokens", "generation_tokens", "cached_tokens", "allocated_gpu_hours"]
ALL, TWO = [0, 1, 2, 3], [("llm-0", [0, 1]), ("other-0", [2, 3])]
#: Pods of Deployments by namespace, each on a $4 node of 4 L4s for two days.
PODS = {
    **{key: [("llm-0", ALL)] for key in ("share", "partly", "cached", "unserved", "absent")}, "workloads": TWO, "days": TWO,
    "pools": [("llm-prefill-0", [0]), ("llm-decode-0", [1, 2, 3])], "any": [("llm-0", [0, 1, 2]), ("other-0", [3])],
}  # fmt: skip
SPANS = {("any", "llm-0"): (0, 43.7), ("any", "other-0"): (1.3, 48)}


def served() -> Fleet:
    """The pods of each namespace on a node with its name, busy for the first half of their time."""
    pods = {
        space: [(name, gpus, *SPANS.get((space, name), (0, 48))) for name, gpus in held]
        for space, held in PODS.items()
    }
    return on_nodes(pods, 48, space="")


def engine(
    counts: dict[str, int], space: str, pod: str = "llm-0", tenant: str = "", day: int = 0, **labels: str
) -> list[Any]:
    """An engine's counters for a tenant: amounts by unit, at eight o'clock of a day."""
    return [
        (
            counter(unit, pod, space, model="Qwen/Qwen3", tenant=tenant, labels={"tenant": tenant, **labels}),
            [(24 * day, 0), (24 * day + 8, amount)],
        )
        for unit, amount in counts.items()
    ]


# Tokens by namespace, pod, tenant and day
COUNTED = """
    space     | pod           | tenant | day | prompt  | generation | cached
    share     | llm-0         | a      | 0   | 6000000 | 500000     |
    share     | llm-0         | b      | 0   | 2000000 | 1500000    |
    partly    | llm-0         | a      | 0   | 2000000 | 500000     |
    partly    | llm-0         |        | 0   | 6000000 | 1500000    |
    workloads | llm-0         | x      | 0   | 4000000 | 0          |
    workloads | llm-0         | y      | 0   | 4000000 | 0          |
    workloads | other-0       |        | 0   | 1000000 | 0          |
    cached    | llm-0         | a      | 0   | 4000000 | 0          | 4000000
    cached    | llm-0         | b      | 0   | 4000000 | 0          | 1
    days      | llm-0         | a      | 0   | 8       | 2          |
    days      | other-0       | b      | 1   | 8       | 2          |
    unserved  | llm-0         | a      | 0   | 0       | 0          |
    absent    | llm-0         |        | 0   | 8       | 2          |
    pools     | llm-prefill-0 | x      | 0   | 3       | 0          |
    pools     | llm-decode-0  | x      | 0   | 21      | 1          |
    pools     | llm-prefill-0 | y      | 0   | 1       | 0          |
    pools     | llm-decode-0  | y      | 0   | 7       | 2          |
"""


@pytest.fixture(scope="module")
def fleet_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    config, store = stored(served(), tmp_path_factory.mktemp("tenants"))
    series = []
    for row in table(COUNTED):
        counts = {
            f"{unit}_token": int(row[unit]) for unit in ("prompt", "generation", "cached") if unit in row
        }
        series += engine(counts, row["space"], row["pod"], row.get("tenant", ""), int(row["day"]))
    put(store, series, 48)
    with store.read():
        yield config, store


def by(
    both: tuple[Any, Any], namespace: str, *names: str, hours: float = 24, basis: str = "allocated"
) -> UnitView:
    return asked(*both, partial(units.tokens, by=names, basis=basis), (0, hours), namespaces=(namespace,))


# Each fleet costs $96 a day. Tenants share it by their tokens: in `share`, of 8 million prompt tokens and 2 million generated
# ones, at $48 for each kind. Tokens without a label have no tenant. Labels count within their workload. Cached prompts cost
# nothing. Days without tokens are split as the period, by their own workload. Unserved cost has no tenant. In pools, prompts
# count by tenants of prefill, and answers by tenants of decode.
SHARES = """
    space     | hours | by              | prompt, generation, cost
    share     | 24    | tenant          | a 36 12 48; b 12 36 48
    share     | 24    | model           | None 48 48 96
    partly    | 24    | tenant          | None 36 36 72; a 12 12 24
    workloads | 24    | workload tenant | Deployment/llm x 24 0 24; Deployment/llm y 24 0 24; Deployment/other None 48 0 48
    cached    | 48    | tenant day      | b 2026-03-10 96 0 96; b 2026-03-11 96 0 96
    days      | 48    | workload tenant | Deployment/llm a 48 48 96; Deployment/other b 48 48 96
    unserved  | 24    | tenant          | None 0 0 96
    absent    | 24    | tenant          | None 48 48 96
    pools     | 24    | tenant          | x 18 24 42; y 6 48 54
"""


@pytest.mark.parametrize("case", table(SHARES), ids=lambda case: f"{case['space']} by {case['by']}")
def test_tenants_share_the_cost_of_a_model(fleet_of_all: tuple[Any, Any], case: dict[str, str]) -> None:
    config, store = fleet_of_all
    config = config.model_copy(update={"serving": Serving(prefill=["*-prefill"], decode=["*-decode"])})
    by_names = case["by"].split()
    names = case["by"].replace("model", "tenant")
    view = by((config, store), case["space"], *by_names, hours=float(case["hours"]))
    costs = sorted(
        figures(row, f"{names} prompt_cost generation_cost cost") for row in view.rows if row["cost"]
    )
    assert costs == case["prompt, generation, cost"].split("; ")


def test_tokens_of_tenants_and_the_note_without_labels(fleet_of_all: tuple[Any, Any]) -> None:
    (row, _) = sorted(by(fleet_of_all, "share", "tenant").rows, key=lambda row: row["tenant"])
    units = "prompt_tokens generation_tokens cached_tokens cost_per_million_prompt_tokens"
    assert figures(row, units) == "6000000 500000 None 6"
    view = by(fleet_of_all, "partly", "tenant")
    assert [line.cells[0] for line in document(view).sections[0].lines] == ["unknown", "a"]
    cached = {row["tenant"]: row["cached_tokens"] for row in by(fleet_of_all, "cached", "tenant").rows}
    assert cached["a"] == pytest.approx(4_000_000, rel=1e-6)
    (unserved,) = (row for row in by(fleet_of_all, "unserved", "tenant").rows if row["cost"])
    assert unserved["unserved_cost"] == 96
    assert any("the tenant is unknown" in note for note in by(fleet_of_all, "absent", "tenant").notes)


counts = st.one_of(st.just(0), st.integers(1, 10**9))
of_tenant = st.tuples(
    st.sampled_from(["a", "b", "c", ""]), st.integers(0, 1), counts, counts, st.one_of(st.none(), counts)
)
DRAWN = (st.lists(of_tenant, min_size=2, max_size=8), st.booleans(), st.sampled_from(["allocated", "used"]))


@settings(max_examples=2)
@given(*DRAWN)
def test_tenants_sum_to_the_model_to_the_last_digit(engines: list[Any], labeled: bool, basis: str) -> None:
    with TemporaryDirectory() as folder:
        both = stored(served(), Path(folder))
        samples = []
        for number, (tenant, day, prompt, generated, cached) in enumerate(engines):
            counted = {"prompt_token": prompt, "generation_token": generated}
            if cached is not None:
                counted["cached_token"] = min(cached, prompt)
            pod = ("llm-0", "other-0")[number % 2]
            samples += engine(counted, "any", pod, tenant if labeled else "", day, engine=str(number))
        put(both[1], samples, 48)
        with both[1].read():
            whole = by(both, "any", "workload", "model", "day", hours=48, basis=basis).rows
            split = by(both, "any", "workload", "model", "day", "tenant", hours=48, basis=basis).rows
            tenants = by(both, "any", "tenant", hours=48, basis=basis).rows
    assert len({(row["workload"], row["day"], row["tenant"]) for row in split}) == len(split)
    for row in whole:
        mine = [one for one in split if (one["workload"], one["day"]) == (row["workload"], row["day"])]
        amounts = {name: [one[name] or 0 for one in mine] for name in MONEY + COUNTS}
        for name in MONEY:
            assert sum(amounts[name]) == (row[name] or 0) and min(amounts[name], default=0) >= 0, name
        for name in COUNTS:
            assert sum(amounts[name]) == pytest.approx(row[name] or 0, rel=1e-6, abs=1e-5), name
    assert sum(one["cost"] for one in tenants) == sum(row["cost"] for row in whole)
