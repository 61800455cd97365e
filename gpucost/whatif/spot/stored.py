"""Actual usage moved from on demand to spot, or back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value
from gpucost.whatif.fleet import CostOf, Costs
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.advice import advise
from gpucost.whatif.spot.calculator import checkpoint_figures, makespan_figures, per_interruption
from gpucost.whatif.spot.gangs import base_name, gangs, workload_of
from gpucost.whatif.spot.moving import Moved, Question, edited, movable
from gpucost.whatif.spot.options import Options, Target, rate_assumption
from gpucost.whatif.spot.rates import Rate
from gpucost.whatif.spot.simulate import expected_hours, simulate
from gpucost.whatif.spot.words import break_even_sentences, free_first_hours, no_discount, time_sentences

_DIGITS = 6
_SHOWN = 20


def answer(options: Options, question: Question, cost_of: CostOf) -> Answer:
    """What moving the usage costs. Raises GpucostError where nothing can be moved."""
    moved, stays = movable(options, question)
    costs_today = cost_of(question.fleet)
    costs_then = cost_of(edited(options, question, moved, formulas.exact))
    first = cost_of(edited(options, question, moved, formulas.first_order))
    today = _position(question, costs_today)
    scenario = _position(question, costs_then, cost_first_order=_cost(question, first))
    # of nodes that others hold, too, only the part asked for counts
    weights = [(item, item.node.hours * (item.held_share if question.is_narrowed else 1)) for item in moved.values()]
    hours = sum(weight for _, weight in weights)
    gpu_hours = sum(weight * item.node.gpus for item, weight in weights)
    to_spot = options.to is Target.spot
    spot = sum((item.price if to_spot else item.today_price) * weight for item, weight in weights) / hours
    on_demand = sum((item.today_price if to_spot else item.price) * weight for item, weight in weights) / hours
    rate = sum(item.rate.per_hour * weight for item, weight in weights) / hours
    gang = _typical_gang(moved)
    effective = {
        name: sum(
            (item.price if to_spot else item.today_price) * item.overhead(options, item.rate.per_hour, formula) * weight
            for item, weight in weights
        )
        / gpu_hours
        for name, formula in (("exact", formulas.exact), ("first_order", formulas.first_order))
    }
    unit = hours / gpu_hours if question.price_per == "gpu" else 1.0
    per_unit = 1.0 if question.price_per == "gpu" else gpu_hours / hours
    work = options.work(rate, gang)
    even = formulas.break_even_exact(work, on_demand / spot), formulas.break_even_first_order(work, on_demand / spot)
    # hours on spot hold what interruptions lost already: the work itself is less
    useful = hours / gang / (1 if to_spot else formulas.stretch(work))
    simulated = simulate(work, useful, options.wait_hours, options.runs, options.seed)
    makespan = makespan_figures(useful, expected_hours(work, useful), work, options.wait_hours, simulated)
    by_suitability, table = _by_workload(question, moved, costs_today, costs_then)
    figures: dict[str, Any] = {
        "price_per": question.price_per,
        "on_demand_price": round(on_demand * unit, _DIGITS),
        "spot_price": round(spot * unit, _DIGITS),
        "has_discount": spot < on_demand,
        "effective_price_first_order": round(effective["first_order"] * per_unit, _DIGITS),
        "effective_price_exact": round(effective["exact"] * per_unit, _DIGITS),
        "effective_price_per_gpu_hour_first_order": round(effective["first_order"], _DIGITS),
        "effective_price_per_gpu_hour_exact": round(effective["exact"], _DIGITS),
        "interruptions_per_hour": rate,
        "break_even_interruptions_per_hour": even[0],
        "break_even_interruptions_per_hour_first_order": even[1],
        **checkpoint_figures(work),
        **per_interruption(work, spot, on_demand),
        "makespan_hours": makespan,
        "moved_nodes": len(moved),
        "moved_node_hours": round(hours, _DIGITS),
        "moved_gpu_hours": round(gpu_hours, _DIGITS),
        "saving_by_suitability": by_suitability,
    }
    currency = question.market.currency
    return Answer(
        kind="spot",
        title=f"Usage of {question.scope_name}: {'on demand to spot' if to_spot else 'spot to on demand'}",
        period=question.period_name,
        today=today,
        scenario=scenario,
        figures=figures,
        assumptions=(*_price_assumptions(moved, currency), *_rate_assumptions(moved), *options.assumptions()),
        ranges=_ranges(options, question, moved, simulated, makespan, cost_of),
        break_even=break_even_sentences(
            even[0], even[1], rate, gang, is_cheaper=formulas.exact(options.work(0.0)) < on_demand / spot
        ),
        time=time_sentences(
            makespan, figures["optimal_checkpoint_minutes"], "node-hours" if gang == 1 else f"hours of {gang} nodes"
        ),
        findings=(
            *no_discount(spot, on_demand),
            *free_first_hours(work, on_demand / spot, even[0]),
            *_findings(by_suitability, stays, currency, to_spot),
        ),
        tables=(table,),
    )


def _ranges(
    options: Options,
    question: Question,
    moved: dict[tuple[str, str], Moved],
    simulated: Any,
    makespan: dict[str, Any],
    cost_of: CostOf,
) -> tuple[Range, ...]:
    spans = []
    currency = question.market.currency
    if simulated is not None and makespan["expected_paid"]:
        import numpy as np

        factors = [float(value) / makespan["expected_paid"] for value in np.percentile(simulated.paid, (5, 95))]
        ends = [_cost(question, cost_of(edited(options, question, moved, formulas.exact, factor))) for factor in factors]
        spans.append(Range("scenario cost", min(ends), max(ends), currency, f"5 % to 95 % of {options.runs:,} simulated runs"))
    if all(item.rate.low is not None and item.rate.high is not None for item in moved.values()):
        rates: tuple[Callable[[Rate], float], ...] = (lambda rate: rate.low or 0.0, lambda rate: rate.high or 0.0)
        ends = [_cost(question, cost_of(edited(options, question, moved, formulas.exact, rate_of=at))) for at in rates]
        spans.append(Range("scenario cost", min(ends), max(ends), currency, "between the ends of what is known of interruptions"))
    return tuple(spans)


def _by_workload(
    question: Question, moved: dict[tuple[str, str], Moved], today: Costs, then: Costs
) -> tuple[dict[str, Decimal], Rows]:
    """Savings by suitability, and the workloads that hold moved nodes, dearest first; runs of one name together."""
    fleet = question.fleet
    on_moved = {workload_of(pod) for pod in fleet.pods if (pod.cluster, pod.node) in moved}
    gang_of = gangs(fleet)
    team_of = {workload_of(pod): pod.team for pod in fleet.pods}
    rows: dict[tuple[str, str, str], list[Any]] = {}
    savings: dict[str, Decimal] = {"yes": Decimal(0), "no": Decimal(0), "risky": Decimal(0)}
    for key in sorted(on_moved):
        _, namespace, workload = key
        before, after = today.by_workload.get(key, Decimal(0)), then.by_workload.get(key, Decimal(0))
        advice = advise(workload, namespace)
        savings[advice.suits] += before - after
        row = rows.setdefault((team_of[key], namespace, base_name(workload)), [advice, 0, Decimal(0), Decimal(0)])
        row[1:] = [max(row[1], gang_of[key]), row[2] + before, row[3] + after]
    if not question.is_narrowed:
        savings["unallocated"] = today.unallocated_cost - then.unallocated_cost
    ordered = sorted(rows.items(), key=lambda item: (-item[1][2], item[0]))
    lines: list[tuple[Value, ...]] = [
        (namespace, workload, advice.suits, gang, _cents(before), _cents(after), _cents(before - after), advice.why)
        for (_, namespace, workload), (advice, gang, before, after) in ordered[:_SHOWN]
    ]
    left = len(ordered) - len(lines)
    return savings, Rows(
        "Workloads on nodes that move",
        ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why"),
        tuple(lines),
        f"and {left} more" if left > 0 else None,
    )


def _findings(savings: dict[str, Decimal], stays: Counter[str], currency: str, to_spot: bool) -> tuple[str, ...]:
    said = []
    if to_spot:
        said.append(f"of the saving, {savings['yes']:,.2f} {currency} is of workloads that suit spot; move these first")
        if savings["no"]:
            said.append(f"{savings['no']:,.2f} {currency} is of serving, which should stay on demand")
        if savings.get("unallocated"):
            said.append(f"{savings['unallocated']:,.2f} {currency} is of GPUs that nobody held")
        if savings["risky"]:
            said.append(f"{savings['risky']:,.2f} {currency} is of notebooks and bare pods, which lose their state")
    return (*said, *(f"{count} node(s) stay as they are: {why}" for why, count in sorted(stays.items())))


def _price_assumptions(moved: dict[tuple[str, str], Moved], currency: str) -> tuple[Assumption, ...]:
    """One price per instance type: the mean over its nodes' hours."""
    found: dict[tuple[str, str, str | None], list[Moved]] = defaultdict(list)
    for item in moved.values():
        found[item.node.instance_type or "nodes", item.prices[0].source, item.prices[0].as_of].append(item)
    return tuple(
        Assumption(
            f"price of {name} there",
            round(sum(item.price * item.node.hours for item in items) / sum(item.node.hours for item in items), _DIGITS),
            f"{currency} per node-hour",
            source,
            as_of,
        )
        for (name, source, as_of), items in sorted(found.items(), key=lambda entry: str(entry[0]))
    )


def _rate_assumptions(moved: dict[tuple[str, str], Moved]) -> tuple[Assumption, ...]:
    rates = {(item.node.instance_type or "nodes", item.node.region): item.rate for item in moved.values()}
    if len(set(rates.values())) == 1:
        return (rate_assumption(next(iter(rates.values()))),)
    return tuple(rate_assumption(rate, f"interruptions of {name}") for (name, _), rate in sorted(rates.items(), key=str))


def _typical_gang(moved: dict[tuple[str, str], Moved]) -> int:
    """The gang size, weighted by node time, that figures of one job stand for."""
    total = sum(share * item.node.hours for item in moved.values() for share in item.shares.values())
    if not total:
        return 1
    sized = sum(gang * share * item.node.hours for item in moved.values() for gang, share in item.shares.items())
    return max(1, round(sized / total))


def _position(question: Question, costs: Costs, **more: Value) -> Position:
    if question.is_narrowed:
        return Position.held(costs, question.market.currency, question.fleet, **more)
    return Position.of(costs, question.market.currency, **more)


def _cost(question: Question, costs: Costs) -> Decimal:
    return costs.cost if question.is_narrowed else costs.node_cost


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"))
