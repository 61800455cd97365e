"""Whom tokens were for: tenants share what a model cost by their tokens, and add up to it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.config.model import Serving
from gpucost.questions.units import document
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import UnitView
from tests.replay.cases.words import busy, fleet, node, pod
from tests.replay.work import asked, counter, put, stored

PARTS = ("prompt_cost", "generation_cost", "unserved_cost")
MONEY = (*PARTS, "cost", "idle_cost", "cache_saved_cost")
ALL, TWO = [0, 1, 2, 3], [("llm-0", [0, 1]), ("other-0", [2, 3])]
#: Pods of Deployments by their namespace, each on a $4 node of 4 L4s for two days.
PODS = {
    **{key: [("llm-0", ALL)] for key in ("share", "partly", "cached", "unserved", "nobody")}, "workloads": TWO, "days": TWO,
    "pools": [("llm-prefill-0", [0]), ("llm-decode-0", [1, 2, 3])], "any": [("llm-0", [0, 1, 2]), ("other-0", [3])],
}  # fmt: skip
SPANS = {("any", "llm-0"): (0, 43.7), ("any", "other-0"): (1.3, 48)}


def served() -> dict[str, Any]:
    """The fleet: every namespace's pods, busy for the first half of their time."""
    pods, util = [], {}
    for namespace, told in PODS.items():
        for name, gpus in told:
            start, end = SPANS.get((namespace, name), (0, 48))
            owner = ["Deployment", name.rsplit("-", 1)[0]]
            pods.append(pod(name, f"serve-{namespace}", gpus, start, end, namespace=namespace, owner=owner))
            util.update(busy(f"serve-{namespace}", gpus, start, (start + end) / 2))
    return fleet(
        48, [node(f"serve-{namespace}", "g6.12xlarge", 0, 48) for namespace in PODS], pods, util, scrape=600
    )


def engine(
    counts: dict[str, int], space: str, pod: str = "llm-0", tenant: str = "", day: int = 0, **labels: str
) -> list[Any]:
    """An engine's counters of a tenant: amounts by unit, at eight o'clock of a day."""
    return [
        (
            counter(unit, pod, space, model="Qwen/Qwen3", tenant=tenant, labels={"tenant": tenant, **labels}),
            [(24 * day, 0), (24 * day + 8, amount)],
        )
        for unit, amount in counts.items()
    ]


def tokens(prompt: int, generation: int, cached: int | None = None) -> dict[str, int]:
    counts = {"prompt_token": prompt, "generation_token": generation}
    return counts if cached is None else counts | {"cached_token": cached}


TOLD = [
    *engine(tokens(6_000_000, 500_000), "share", tenant="a"), *engine(tokens(2_000_000, 1_500_000), "share", tenant="b"),
    *engine(tokens(2_000_000, 500_000), "partly", tenant="a"), *engine(tokens(6_000_000, 1_500_000), "partly"),
    *engine(tokens(4_000_000, 0), "workloads", tenant="x"), *engine(tokens(4_000_000, 0), "workloads", tenant="y"),
    *engine(tokens(1_000_000, 0), "workloads", "other-0"),
    *engine(tokens(4_000_000, 0, 4_000_000), "cached", tenant="a"), *engine(tokens(4_000_000, 0, 1), "cached", tenant="b"),
    *engine(tokens(8, 2), "days", tenant="a"), *engine(tokens(8, 2), "days", "other-0", tenant="b", day=1),
    *engine(tokens(0, 0), "unserved", tenant="a"), *engine(tokens(8, 2), "nobody"),
    *(series for tenant, prompt, generated in (("x", 3, 1), ("y", 1, 2)) for series in (
        *engine(tokens(prompt, 0), "pools", "llm-prefill-0", tenant),
        *engine(tokens(prompt * 7, generated), "pools", "llm-decode-0", tenant))),
]  # fmt: skip


@pytest.fixture(scope="module")
def fleet_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    config, store = stored(served(), tmp_path_factory.mktemp("tenants"))
    put(store, TOLD, 48)
    with store.read():
        yield config, store


def by(
    both: tuple[Any, Any], namespace: str, *names: str, hours: float = 24, basis: str = "allocated"
) -> UnitView:
    return asked(*both, partial(units.tokens, by=names, basis=basis), (0, hours), namespaces=(namespace,))


def test_tenants_share_what_a_model_cost(fleet_of_all: tuple[Any, Any]) -> None:
    rows = {row["tenant"]: row for row in by(fleet_of_all, "share", "tenant").rows}
    # a quarter of 8 million and 2 million: half of $96 each
    assert {
        name: (row["prompt_cost"], row["generation_cost"], row["cost"]) for name, row in rows.items()
    } == {"a": (Decimal(36), Decimal(12), Decimal(48)), "b": (Decimal(12), Decimal(36), Decimal(48))}
    assert [rows["a"][f"{unit}_tokens"] for unit in ("prompt", "generation", "cached")] == [
        6_000_000,
        500_000,
        None,
    ]
    assert {row["cost_per_million_prompt_tokens"] for row in rows.values()} == {Decimal(6)}
    # without --by tenant nothing of it is worked out
    assert {row["tenant"] for row in by(fleet_of_all, "share", "model").rows} == {None}


def test_tokens_without_a_label_have_no_tenant(fleet_of_all: tuple[Any, Any]) -> None:
    view = by(fleet_of_all, "partly", "tenant")
    assert {row["tenant"]: (row["prompt_cost"], row["generation_cost"]) for row in view.rows} == {
        "a": (Decimal(12), Decimal(12)),
        None: (Decimal(36), Decimal(36)),
    }
    assert [line.cells[0] for line in document(view).sections[0].lines] == ["unknown", "a"]


def test_labels_are_of_their_workload(fleet_of_all: tuple[Any, Any]) -> None:
    rows = {
        (row["workload"], row["tenant"]): row["cost"]
        for row in by(fleet_of_all, "workloads", "workload", "tenant").rows
    }
    expected = {("llm", "x"): 24, ("llm", "y"): 24, ("other", None): 48}
    assert rows == {
        (f"Deployment/{workload}", tenant): Decimal(cost) for (workload, tenant), cost in expected.items()
    }


def test_cached_prompts_cost_nothing_and_days_without_tokens_go_as_the_period(
    fleet_of_all: tuple[Any, Any],
) -> None:
    rows = {
        (row["tenant"], row["day"]): row for row in by(fleet_of_all, "cached", "tenant", "day", hours=48).rows
    }
    costs = {key: row["cost"] for key, row in rows.items() if row["cost"]}
    assert costs == {("b", "2026-03-10"): Decimal(96), ("b", "2026-03-11"): Decimal(96)}
    assert rows["a", "2026-03-10"]["cached_tokens"] == pytest.approx(4_000_000, rel=1e-6)


def test_a_day_without_tokens_goes_by_its_own_workload(fleet_of_all: tuple[Any, Any]) -> None:
    """The same model in another workload served that day, to another tenant."""
    rows = by(fleet_of_all, "days", "workload", "tenant", hours=48).rows
    found = {row["workload"]: (row["tenant"], row["cost"]) for row in rows}
    assert found == {"Deployment/llm": ("a", Decimal(96)), "Deployment/other": ("b", Decimal(96))}


def test_unserved_cost_has_no_tenant(fleet_of_all: tuple[Any, Any]) -> None:
    rows = by(fleet_of_all, "unserved", "tenant").rows
    assert sum(row["cost"] for row in rows) == 96
    assert [(row["tenant"], row["unserved_cost"]) for row in rows if row["cost"]] == [(None, Decimal(96))]


def test_pools_take_tenants_of_prompts_from_prefill_and_of_answers_from_decode(
    fleet_of_all: tuple[Any, Any],
) -> None:
    config, store = fleet_of_all
    config = config.model_copy(update={"serving": Serving(prefill=["*-prefill"], decode=["*-decode"])})
    rows = {
        row["tenant"]: (row["prompt_cost"], row["generation_cost"])
        for row in by((config, store), "pools", "tenant").rows
    }
    assert rows == {"x": (Decimal(18), Decimal(24)), "y": (Decimal(6), Decimal(48))}


def test_no_tenant_at_all_is_said(fleet_of_all: tuple[Any, Any]) -> None:
    view = by(fleet_of_all, "nobody", "tenant")
    assert [(row["tenant"], row["cost"]) for row in view.rows] == [(None, Decimal(96))]
    assert any("no tenant is known" in note for note in view.notes)


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
        told = []
        for number, (tenant, day, prompt, generated, cached) in enumerate(engines):
            counted = tokens(prompt, generated, None if cached is None else min(cached, prompt))
            pod = ("llm-0", "other-0")[number % 2]
            told += engine(counted, "any", pod, tenant if labeled else "", day, engine=str(number))
        put(both[1], told, 48)
        with both[1].read():
            whole = by(both, "any", "workload", "model", "day", hours=48, basis=basis).rows
            split = by(both, "any", "workload", "model", "day", "tenant", hours=48, basis=basis).rows
            tenants = by(both, "any", "tenant", hours=48, basis=basis).rows
    assert len({(row["workload"], row["day"], row["tenant"]) for row in split}) == len(split)
    for row in whole:
        mine = [one for one in split if (one["workload"], one["day"]) == (row["workload"], row["day"])]
        for name in MONEY:
            assert sum((one[name] or Decimal(0) for one in mine), Decimal(0)) == (row[name] or 0), name
            assert all((one[name] or 0) >= 0 for one in mine), name
        for name in ("prompt_tokens", "generation_tokens", "cached_tokens", "allocated_gpu_hours"):
            assert sum(one[name] or 0 for one in mine) == pytest.approx(row[name] or 0, rel=1e-6, abs=1e-5), (
                name
            )
    assert sum(one["cost"] for one in tenants) == sum(row["cost"] for row in whole)


test_many_more_tenants_sum_to_the_model = pytest.mark.slow(
    settings(max_examples=10)(
        given(*DRAWN)(test_tenants_sum_to_the_model_to_the_last_digit.hypothesis.inner_test)
    )  # type: ignore[attr-defined]
)
