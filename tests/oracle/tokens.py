"""Token costs by the formulas of docs/units.md in exact fractions, without a store and without SQL.

A serving workload's cost comes from the bill; its models share each day's cost by the weight of their tokens. Money is
rounded to nine decimals at cumulative ends of shares, so the parts add up to the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.oracle.calculation import Bill
from tests.oracle.exact.states import ZERO
from tests.replay.tokens import Work

Money = Fraction
NANO = 10**9
TOKENS = ("prompt_token", "cached_token", "generation_token")


def cut(money: Fraction) -> Fraction:
    """Round to nine decimals, halves away from zero."""
    return Fraction((abs(money) * NANO * 2 + 1) // 2, NANO) * (1 if money >= 0 else -1)


@dataclass
class Row:
    """A model of a workload on a day; `work` lacks the units that its engine does not count."""

    workload: str
    namespace: str
    model: str
    day: str
    cost: Money
    idle_cost: Money
    work: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    prompt_weight: Fraction = ZERO  # for the prompt tokens that were computed
    cached_weight: Fraction = ZERO
    prefill_cost: Money | None = (
        None  # the cost of the prefill pool, without idle cost if that is listed separately
    )

    @property
    def weight(self) -> Fraction:
        return self.prompt_weight + self.work.get("generation_token", ZERO)


def increases(
    works: Iterable[Work], held_from: dict[str, int], start: int, end: int, collected: int
) -> list[tuple[Work, int, int]]:
    """Return (counter, moment, amount) for each increase observed in [start, end).

    A first value counts if collection began ten minutes earlier and the pod (bound at `held_from`) is at most one hour old.
    A value below the previous one is an increase from 0.
    """
    found = []
    for work in works:
        before = None
        for second, value in work.samples():
            if before is None:
                bound = held_from.get(work.pod)
                amount = (
                    value if bound is not None and second - 600 >= collected and second - 3600 <= bound else 0
                )
            else:
                amount = value - before if value >= before else value
            before = value
            if start <= second < end and amount:
                found.append((work, second, amount))
    return found


def rows_of(
    works: Sequence[Work],
    known: list[tuple[Work, int, int]],
    days: list[tuple[str, int, int, Bill]],
    pools: dict[str, str],
    keeps_idle: bool,
) -> list[Row]:
    """Return the rows of `unit tokens` for days (name, from, to, bill); `pools` maps workloads to prefill or decode.

    With `keeps_idle`, prefill_cost excludes idle cost.
    """
    rows = []
    for day, start, end, bill in days:
        cost = defaultdict(lambda: [ZERO, ZERO])
        for (_, namespace, pod, _), figures in bill.pods.items():
            if figures.allocated_gpu_hours:
                cost[namespace, workload_of(pod)][0] += figures.cost
                cost[namespace, workload_of(pod)][1] += figures.idle_cost
        for (namespace, workload), (money, idle) in cost.items():
            mine = sorted(
                {
                    work.model
                    for work in works
                    if (work.namespace, workload_of(work.pod)) == (namespace, workload)
                }
            )
            # an observed counter without an increase is known, not missing
            seen = [
                (work, 0, 0)
                for work in works
                if work.samples()[0][0] < end and work.samples()[-1][0] >= start
            ]
            served = [*seen, *(one for one in known if start <= one[1] < end)]
            models = [_served(namespace, workload, model, day, served) for model in mine]
            _share(models, money, idle)
            rows += models
    return _joined(rows, pools, keeps_idle)


def workload_of(pod: str) -> str:
    """Return the Deployment of a pod."""
    return "Deployment/" + pod.rsplit("-", 1)[0]


def _served(namespace: str, workload: str, model: str, day: str, known: list[tuple[Work, int, int]]) -> Row:
    row = Row(workload, namespace, model, day, ZERO, ZERO)
    weight = ZERO
    for work, _, amount in known:
        if (work.namespace, workload_of(work.pod), work.model) == (namespace, workload, model):
            row.work[work.unit] += amount
            if work.unit == "prompt_token":
                weight = Fraction(work.weight)
    cached = min(row.work.get("cached_token", ZERO), row.work.get("prompt_token", ZERO))
    row.prompt_weight = weight * (row.work.get("prompt_token", ZERO) - cached)
    row.cached_weight = weight * cached
    return row


def _share(models: list[Row], cost: Money, idle: Money) -> None:
    """Cut a workload's day at the ends of its models' shares."""
    total, end = sum((row.weight for row in models), ZERO), ZERO
    cost_before = idle_before = ZERO
    for row in models:
        end += row.weight / total if total else Fraction(1, len(models))
        row.cost, row.idle_cost = cut(cost * end) - cost_before, cut(idle * end) - idle_before
        cost_before, idle_before = cost_before + row.cost, idle_before + row.idle_cost


def _joined(rows: list[Row], pools: dict[str, str], keeps_idle: bool) -> list[Row]:
    """Merge the two pools of a model: prompts and cache from the prefill pool, generated tokens from the decode pool."""
    found = [row for row in rows if row.workload not in pools]
    apart = defaultdict(dict)
    for row in rows:
        if row.workload in pools:
            apart[row.namespace, row.model, row.day][pools[row.workload]] = row
    for (namespace, model, day), phases in apart.items():
        first, second = phases["prefill"], phases["decode"]
        both = Row(
            f"{first.workload} + {second.workload}",
            namespace,
            model,
            day,
            first.cost + second.cost,
            first.idle_cost + second.idle_cost,
        )
        both.work = {unit: first.work[unit] for unit in ("prompt_token", "cached_token")}
        both.work["generation_token"] = second.work["generation_token"]
        both.prompt_weight, both.cached_weight = first.prompt_weight, first.cached_weight
        both.prefill_cost = first.cost - (first.idle_cost if keeps_idle else 0)
        found.append(both)
    return found


def figures(rows: list[Row], keeps_idle: bool) -> list[dict[str, Any]]:
    """Return each row as in the answer, by column name."""
    answers = []
    for row in rows:
        period = [
            one
            for one in rows
            if (one.workload, one.namespace, one.model) == (row.workload, row.namespace, row.model)
        ]
        spent = row.cost - (row.idle_cost if keeps_idle else 0)
        # a day without work is split like the whole period
        split = [row] if row.weight else period
        weight = sum((one.weight for one in split), ZERO)
        share = sum((one.prompt_weight for one in split), ZERO) / weight if weight else None
        prompt = (
            ZERO if share is None else cut(spent * share) if row.prefill_cost is None else row.prefill_cost
        )
        saved = None
        if "cached_token" in row.work:
            base, of = (
                (spent, row.weight) if row.prefill_cost is None else (row.prefill_cost, row.prompt_weight)
            )
            saved = cut(base * row.cached_weight / of) if of else ZERO
        answers.append(
            {
                "namespace": row.namespace, "workload": row.workload, "model": row.model, "day": row.day,
                "cost": row.cost, "idle_cost": row.idle_cost,
                "prompt_tokens": row.work.get("prompt_token", 0), "cached_tokens": row.work.get("cached_token"),
                "generation_tokens": row.work.get("generation_token", 0),
                "prompt_cost": prompt,
                "generation_cost": ZERO if share is None else spent - prompt,
                "unserved_cost": spent if share is None else ZERO,
                "cache_saved_cost": saved,
            }
        )  # fmt: skip
    return answers


def prices(answer: dict[str, Any]) -> dict[str, Decimal | None]:
    """Return the cost of a million tokens of a row, a model or all models."""
    both = answer["prompt_tokens"] + answer["generation_tokens"]
    return {
        f"cost_per_million_{name}": Decimal(round(Fraction(cost) * 10**6 / Fraction(tokens) * NANO)).scaleb(
            -9
        )
        if tokens
        else None
        for name, cost, tokens in (
            ("tokens", sum(answer[f"{part}_cost"] for part in ("prompt", "generation", "unserved")), both),
            ("prompt_tokens", answer["prompt_cost"], answer["prompt_tokens"]),
            ("generation_tokens", answer["generation_cost"], answer["generation_tokens"]),
        )
    }
