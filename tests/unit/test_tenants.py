"""Whom tokens were for: tenants share what a model cost by their tokens, and add up to it."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.cli.unit import document
from gpucost.config.model import Serving
from gpucost.report import units
from gpucost.report.units.query import UnitView
from tests.replay.work import asked, counter, put, stored
from tests.unit.test_unit_serving import serving

PARTS = ("prompt_cost", "generation_cost", "unserved_cost")
MONEY = (*PARTS, "cost", "idle_cost", "cache_saved_cost")


def engine(counts: dict[str, int], pod: str = "llm-0", tenant: str = "", day: int = 0, **labels: str) -> list[Any]:
    """An engine's counters of a tenant: amounts by unit, at eight o'clock of a day."""
    return [
        (
            counter(unit, pod, "chat", model="Qwen/Qwen3", tenant=tenant, labels={"tenant": tenant, **labels}),
            [(24 * day, 0), (24 * day + 8, amount)],
        )
        for unit, amount in counts.items()
    ]


def tokens(prompt: int, generation: int, cached: int | None = None) -> dict[str, int]:
    counts = {"prompt_token": prompt, "generation_token": generation}
    return counts if cached is None else counts | {"cached_token": cached}


def by(config: Any, store: Any, *names: str, hours: float = 24, basis: str = "allocated") -> UnitView:
    return asked(config, store, partial(units.tokens, by=names, basis=basis), (0, hours))


def test_tenants_share_what_a_model_cost(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(store, [*engine(tokens(6_000_000, 500_000), tenant="a"), *engine(tokens(2_000_000, 1_500_000), tenant="b")])
    rows = {row["tenant"]: row for row in by(config, store, "tenant").rows}
    # a quarter of 8 million and 2 million: half of $96 each
    assert {name: (row["prompt_cost"], row["generation_cost"], row["cost"]) for name, row in rows.items()} == {
        "a": (Decimal(36), Decimal(12), Decimal(48)),
        "b": (Decimal(12), Decimal(36), Decimal(48)),
    }
    assert [rows["a"][f"{unit}_tokens"] for unit in ("prompt", "generation", "cached")] == [6_000_000, 500_000, None]
    assert {row["cost_per_million_prompt_tokens"] for row in rows.values()} == {Decimal(6)}
    # without --by tenant nothing of it is worked out
    assert {row["tenant"] for row in by(config, store, "model").rows} == {None}


def test_tokens_without_a_label_have_no_tenant(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(store, [*engine(tokens(2_000_000, 500_000), tenant="a"), *engine(tokens(6_000_000, 1_500_000))])
    view = by(config, store, "tenant")
    assert {row["tenant"]: (row["prompt_cost"], row["generation_cost"]) for row in view.rows} == {
        "a": (Decimal(12), Decimal(12)),
        None: (Decimal(36), Decimal(36)),
    }
    assert [line.cells[0] for line in document(view).sections[0].lines] == ["unknown", "a"]


def test_labels_are_of_their_workload(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1], 0, 24), ("other-0", [2, 3], 0, 24)]), tmp_path)
    put(
        store,
        [
            *engine(tokens(4_000_000, 0), tenant="x"),
            *engine(tokens(4_000_000, 0), tenant="y"),
            *engine(tokens(1_000_000, 0), "other-0"),
        ],
    )
    rows = {(row["workload"], row["tenant"]): row["cost"] for row in by(config, store, "workload", "tenant").rows}
    assert rows == {
        ("Deployment/llm", "x"): Decimal(24),
        ("Deployment/llm", "y"): Decimal(24),
        ("Deployment/other", None): Decimal(48),
    }


def test_cached_prompts_cost_nothing_and_days_without_tokens_go_as_the_period(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 48)], 48), tmp_path)
    put(store, [*engine(tokens(4_000_000, 0, 4_000_000), tenant="a"), *engine(tokens(4_000_000, 0, 1), tenant="b")], 48)
    rows = {(row["tenant"], row["day"]): row for row in by(config, store, "tenant", "day", hours=48).rows}
    assert {key: row["cost"] for key, row in rows.items() if row["cost"]} == {
        ("b", "2026-03-10"): Decimal(96),
        ("b", "2026-03-11"): Decimal(96),
    }
    assert rows["a", "2026-03-10"]["cached_tokens"] == pytest.approx(4_000_000, rel=1e-6)


def test_a_day_without_tokens_goes_by_its_own_workload(tmp_path: Path) -> None:
    """The same model in another workload served that day, to another tenant."""
    config, store = stored(serving([("llm-0", [0, 1], 0, 48), ("other-0", [2, 3], 0, 48)], 48), tmp_path)
    put(store, [*engine(tokens(8, 2), tenant="a"), *engine(tokens(8, 2), "other-0", tenant="b", day=1)], 48)
    rows = by(config, store, "workload", "tenant", hours=48).rows
    assert {row["workload"]: (row["tenant"], row["cost"]) for row in rows} == {
        "Deployment/llm": ("a", Decimal(96)),
        "Deployment/other": ("b", Decimal(96)),
    }


def test_unserved_cost_has_no_tenant(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(store, engine(tokens(0, 0), tenant="a"))
    rows = by(config, store, "tenant").rows
    assert sum(row["cost"] for row in rows) == 96
    assert [(row["tenant"], row["unserved_cost"]) for row in rows if row["cost"]] == [(None, Decimal(96))]


def test_pools_take_tenants_of_prompts_from_prefill_and_of_answers_from_decode(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-prefill-0", [0], 0, 24), ("llm-decode-0", [1, 2, 3], 0, 24)]), tmp_path)
    config = config.model_copy(update={"serving": Serving(prefill=["*-prefill"], decode=["*-decode"])})
    told = []
    for tenant, prompt, generated in (("x", 3, 1), ("y", 1, 2)):
        told += engine(tokens(prompt, 0), "llm-prefill-0", tenant)
        told += engine(tokens(prompt * 7, generated), "llm-decode-0", tenant)
    put(store, told)
    rows = {row["tenant"]: (row["prompt_cost"], row["generation_cost"]) for row in by(config, store, "tenant").rows}
    assert rows == {"x": (Decimal(18), Decimal(24)), "y": (Decimal(6), Decimal(48))}


def test_no_tenant_at_all_is_said(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(store, engine(tokens(8, 2)))
    view = by(config, store, "tenant")
    assert [(row["tenant"], row["cost"]) for row in view.rows] == [(None, Decimal(96))]
    assert any("no tenant is known" in note for note in view.notes)


counts = st.one_of(st.just(0), st.integers(1, 10**9))
of_tenant = st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 1), counts, counts, st.one_of(st.none(), counts))


@settings(max_examples=4)
@given(
    st.lists(of_tenant, min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from(["allocated", "used"]),
)
def test_tenants_sum_to_the_model_to_the_last_digit(engines: list[Any], labeled: bool, basis: str) -> None:
    with TemporaryDirectory() as folder:
        config, store = stored(serving([("llm-0", [0, 1, 2], 0, 43.7), ("other-0", [3], 1.3, 48)], 48), Path(folder))
        told = []
        for number, (tenant, day, prompt, generated, cached) in enumerate(engines):
            pod = ("llm-0", "other-0")[number % 2]
            counted = tokens(prompt, generated, None if cached is None else min(cached, prompt))
            told += engine(counted, pod, tenant if labeled else "", day, engine=str(number))
        put(store, told, 48)
        whole = by(config, store, "workload", "model", "day", hours=48, basis=basis).rows
        split = by(config, store, "workload", "model", "day", "tenant", hours=48, basis=basis).rows
        assert len({(row["workload"], row["day"], row["tenant"]) for row in split}) == len(split)
        for row in whole:
            mine = [one for one in split if (one["workload"], one["day"]) == (row["workload"], row["day"])]
            for name in MONEY:
                assert sum((one[name] or Decimal(0) for one in mine), Decimal(0)) == (row[name] or 0), name
                assert all((one[name] or 0) >= 0 for one in mine), name
            for name in ("prompt_tokens", "generation_tokens", "cached_tokens", "allocated_gpu_hours"):
                assert sum(one[name] or 0 for one in mine) == pytest.approx(row[name] or 0, rel=1e-6, abs=1e-5), name
        assert sum(one["cost"] for one in by(config, store, "tenant", hours=48, basis=basis).rows) == sum(
            row["cost"] for row in whole
        )
