"""Actual usage moved from on demand to spot, or back."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.errors import UsageError
from gpucost.periods import to_ms
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value
from gpucost.whatif.fleet import GPUS_PER_NODE, HOURS_PER_MONTH, Costs, Fleet, Price, PricePer, Scenario, node_price, uniform
from gpucost.whatif.spot import simulate as formulas
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, find_instance, read_market, typical_rate
from gpucost.whatif.spot.simulate import (
    HOPELESS_RATIO,
    Makespans,
    Moved,
    Options,
    Question,
    Target,
    Work,
    base_name,
    edited,
    exact,
    expected_hours,
    gangs,
    movable,
    paid_share,
    rate_assumption,
    simulate,
    workload_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
_SWEEP = re.compile(r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid", re.IGNORECASE)
_PREPROCESSING = re.compile(r"preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert", re.IGNORECASE)
_BATCH = re.compile(r"batch|infer|eval|quanti|score|scoring|test|bench", re.IGNORECASE)
_SERVING_KINDS = {
    "deployment", "replicaset", "statefulset", "daemonset", "inferenceservice", "rayservice", "rollout", "llminferenceservice",
}  # fmt: skip
_BATCH_KINDS = {
    "job", "cronjob", "jobset", "pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob", "trainjob", "rayjob",
    "workflow", "cronworkflow", "sparkapplication", "trial", "experiment", "pipelinerun", "taskrun", "vcjob", "appwrapper",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Advice:
    """`suits` is `yes`, `no` or `risky`."""

    suits: str
    why: str


def advise(workload: str, namespace: str = "") -> Advice:
    """What a workload called `Kind/name` should do about spot."""
    kind, _, name = workload.partition("/")
    kind = kind.lower()
    if kind == "notebook" or _NOTEBOOK.search(name) or _NOTEBOOK.search(namespace):
        return Advice("risky", "a notebook: its state is lost when it is interrupted")
    if kind in _SERVING_KINDS:
        return Advice("no", "serving: requests fail while a replica is replaced")
    if kind in _BATCH_KINDS:
        if _SWEEP.search(name):
            return Advice("yes", "a sweep: one trial starts over, the others go on")
        if _PREPROCESSING.search(name):
            return Advice("yes", "preprocessing: only the piece at hand is done again")
        if _BATCH.search(name):
            return Advice("yes", "batch work: it is done again where it stopped")
        return Advice("yes", "a job: yes if it writes checkpoints and goes on from them")
    if kind == "pod":
        return Advice("risky", "a bare pod: nothing starts it again")
    return Advice("risky", f"gpucost does not know what a {kind or 'workload'} does when it is interrupted")


def no_discount(spot: float, on_demand: float) -> list[str]:
    """Says that spot is no cheaper, where it is not."""
    if spot > on_demand:
        return ["spot costs more than on demand here: there is no discount"]
    return ["spot costs as much as on demand here: there is no discount"] if spot == on_demand else []


def free_first_hours(work: Work, ratio: float, even: float | None) -> list[str]:
    """Says that more interruptions would cost less, where free first hours make it so, and why.

    `ratio` is the on-demand over the spot price, `even` the lowest rate at which both cost the same.
    """
    if exact(replace(work, per_hour=work.per_hour * 1.01)) >= exact(work):
        return []
    said = (
        f"more interruptions would cost less here, and take longer: {(1 - paid_share(work)) * 100:.1f} % of the time on spot"
        " lies in lives of under an hour, which --first-hour-free counts as not paid, and that outweighs the work they lose"
    )
    if even is not None and even < work.per_hour and exact(work) < ratio:
        said += "; beyond the break-even, spot costs less than on demand again"
    return [said]


def break_even_sentences(
    exact: float | None, first_order: float | None, rate: float, nodes: int, *, is_cheaper: bool
) -> tuple[str, ...]:
    """At which rate spot costs as much as on demand; `is_cheaper`: without any interruption it costs less."""
    if exact is None and is_cheaper:
        return ("spot costs less than on demand however often it is interrupted",)
    if exact is None:
        return ("spot costs as much as on demand even if nothing is interrupted: there is no break-even",)
    gang = f", which stops all {nodes} at once" if nodes > 1 else ""
    said = f"spot costs as much as on demand at {exact:,.4g} interruptions per node-hour{gang}: one in {_span(1 / exact)}"
    if rate:
        said += f", {exact / rate:,.1f} times what is assumed" if exact > rate else "; more are assumed"
    return (said, f"by first order at {first_order:,.4g}") if first_order is not None else (said,)


def time_sentences(makespan: dict[str, Any], optimum: float | None, unit: str = "h") -> tuple[str, ...]:
    """What interruptions do to time, and the interval that would cost least."""
    before, expected = makespan["without_interruptions"], makespan["expected"]
    longer = (expected / before - 1) * 100 if before else 0.0
    said = [f"{before:,.1f} {unit} of work take {expected:,.1f} {unit} on spot ({longer:.2f} % longer)"]
    if makespan["runs"]:
        half, most = makespan["p50"], makespan["p95"]
        said.append(f"of {makespan['runs']:,} simulated runs half end within {half:,.1f} {unit}, 95 % within {most:,.1f} {unit}")
    else:
        said.append("not simulated: it would practically never end")
    if optimum is not None:
        said.append(f"a checkpoint every {optimum:,.1f} minutes would cost least")
    return tuple(said)


def _span(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:,.1f} minutes"
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"


_DIGITS = 6
_PERCENTILES = (5, 50, 95)
# standard errors on either side that hold the true mean 99.9 % of the time
_NORMAL_999 = 3.29


def checkpoint_figures(work: Work) -> dict[str, float | None]:
    """The best intervals in minutes; None where checkpoints cost nothing, or nothing is lost."""
    best = formulas.best_checkpoints(work)
    return {
        "optimal_checkpoint_minutes": round(best.exact * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_young": round(best.young * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_daly": round(best.daly * 60, _DIGITS) if best else None,
    }


def per_interruption(work: Work, spot: float, on_demand: float) -> dict[str, float | None]:
    """Money per node, at prices per node-hour: what an interruption loses, and what was saved since the one before."""
    between = (on_demand - spot) / work.gang_rate if work.gang_rate else None
    return {
        "lost_per_interruption": round(spot * (work.lost + work.restart), _DIGITS),
        "saved_between_interruptions": None if between is None else round(between, _DIGITS),
    }


def makespan_figures(
    hours: float, expected: float, work: Work, wait: float, simulated: Makespans | None
) -> dict[str, float | int | None]:
    """Hours from start to end, waits for capacity among them: expected exactly, and as simulated."""
    interruptions = expected * work.gang_rate
    figures: dict[str, float | int | None] = {
        "without_interruptions": hours,
        "expected": round(expected + wait * interruptions, _DIGITS),
        "expected_paid": round(expected, _DIGITS),
        "expected_interruptions": round(interruptions, _DIGITS),
    }
    if simulated is None:
        return figures | {"runs": 0}
    import numpy as np

    mean, error = float(simulated.elapsed.mean()), float(simulated.elapsed.std(ddof=1)) / len(simulated.elapsed) ** 0.5
    figures |= {
        "runs": len(simulated.elapsed),
        "mean": round(mean, _DIGITS),
        "mean_low": round(mean - _NORMAL_999 * error, _DIGITS),
        "mean_high": round(mean + _NORMAL_999 * error, _DIGITS),
    }
    values = np.percentile(simulated.elapsed, _PERCENTILES)
    return figures | {f"p{at}": round(float(value), _DIGITS) for at, value in zip(_PERCENTILES, values, strict=True)}


_SHOWN = 20


def answer(options: Options, question: Question) -> Scenario[Answer]:
    """What moving the usage costs, by the exact effective price; first order beside it.

    A described fleet is one that moves to spot, and back by the same figures. Raises GpucostError where nothing can be moved.
    """
    is_back = question.is_described and options.to is Target.on_demand
    options = replace(options, to=Target.spot) if is_back else options
    moved, stays = movable(options, question)
    # of nodes that others hold, too, only the part asked for counts
    times = question.times
    weights = [(item, item.node.hours * times * (item.held_share if question.is_narrowed else 1)) for item in moved.values()]
    hours = sum(weight for _, weight in weights)
    gpu_hours = sum(weight * item.node.gpus for item, weight in weights)
    to_spot = options.to is Target.spot
    there = _weighted([(item.price, weight) for item, weight in weights])
    now = _weighted([(item.today_price, weight) for item, weight in weights])
    spot, on_demand = (there, now) if to_spot else (now, there)
    rate = _weighted([(item.rate.per_hour, weight) for item, weight in weights])
    gang = _typical_gang(moved)
    first, exact = (
        sum(
            (item.price if to_spot else item.today_price) * item.overhead(options, item.rate.per_hour, formula) * weight
            for item, weight in weights
        )
        / gpu_hours
        for formula in (formulas.first_order, formulas.exact)
    )
    gpus, share = (1.0, hours / gpu_hours) if question.price_per == "gpu" else (gpu_hours / hours, 1.0)
    work = options.work(rate, gang)
    ratio = on_demand / spot
    even = formulas.break_even_exact(work, ratio), formulas.break_even_first_order(work, ratio)
    # hours on spot hold what interruptions lost already: the work itself is less
    useful = hours / gang / (1 if to_spot else formulas.stretch(work))
    simulated = simulate(work, useful, options.wait_hours, options.runs, options.seed)
    expected = expected_hours(work, useful)
    makespan = makespan_figures(useful, expected, work, options.wait_hours, simulated)
    spans = _spans(options, question, moved, simulated, expected)
    costs_today, costs_then, costs_first, *ends = yield [
        question.fleet,
        edited(options, question, moved, formulas.exact),
        edited(options, question, moved, formulas.first_order),
        *(fleet for _, fleets in spans for fleet in fleets),
    ]
    currency = question.market.currency
    today = _position(question, costs_today)
    scenario = replace(_position(question, costs_then), more={"cost_first_order": _cost(question, costs_first)})
    figures: dict[str, Any] = {
        "price_per": question.price_per,
        "on_demand_price": round(on_demand * share, 9),
        "spot_price": round(spot * share, 9),
        "has_discount": spot < on_demand,
        "effective_price_first_order": round(first * gpus, _DIGITS),
        "effective_price_exact": round(exact * gpus, _DIGITS),
        "effective_price_per_gpu_hour_first_order": round(first, _DIGITS),
        "effective_price_per_gpu_hour_exact": round(exact, _DIGITS),
        "interruptions_per_hour": rate,
        "break_even_interruptions_per_hour": even[0],
        "break_even_interruptions_per_hour_first_order": even[1],
        **checkpoint_figures(work),
        **per_interruption(work, spot, on_demand),
        "makespan_hours": makespan,
    }
    findings = [
        *no_discount(spot, on_demand),
        *free_first_hours(work, ratio, even[0]),
        f"effective price: {first * gpus:,.4f} by first order, {exact * gpus:,.4f} exactly,"
        f" {currency} per useful {question.price_per}-hour",
    ]
    tables: tuple[Rows, ...] = ()
    if not question.is_described:
        savings, table = _by_workload(question, moved, costs_today, costs_then)
        figures |= {
            "moved_nodes": len(moved),
            "moved_node_hours": round(hours, _DIGITS),
            "moved_gpu_hours": round(gpu_hours, _DIGITS),
            "saving_by_suitability": savings,
        }
        findings += _findings(savings, stays, currency, to_spot)
        tables = (table,)
    amounts = [_cost(question, costs) for costs in ends]
    figure = "cost on spot" if question.is_described else "scenario cost"
    ranges = [
        Range(figure, min(pair), max(pair), currency, meaning)
        for (meaning, _), pair in zip(spans, zip(amounts[::2], amounts[1::2], strict=True), strict=True)
    ]
    unit = "h" if question.is_described else "node-hours" if gang == 1 else f"hours of {gang} nodes"
    return Answer(
        kind="spot",
        title=f"Usage of {question.scope_name}: {'on demand to spot' if to_spot and not is_back else 'spot to on demand'}",
        period=question.period_name,
        today=scenario if is_back else today,
        scenario=today if is_back else scenario,
        figures=figures,
        assumptions=(
            *(question.assumptions or _price_assumptions(moved, currency)),
            *_rate_assumptions(moved),
            *options.assumptions(),
        ),
        ranges=tuple(ranges),
        break_even=break_even_sentences(even[0], even[1], rate, gang, is_cheaper=formulas.exact(options.work(0.0)) < ratio),
        time=time_sentences(makespan, figures["optimal_checkpoint_minutes"], unit),
        findings=tuple(findings),
        tables=tables,
    )


def _weighted(values: Sequence[tuple[float, float]]) -> float:
    """Their mean by weight; of equal ones that one, to the last digit."""
    if len({value for value, _ in values}) == 1:
        return values[0][0]
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def _spans(
    options: Options, question: Question, moved: dict[tuple[str, str], Moved], simulated: Makespans | None, expected: float
) -> list[tuple[str, tuple[Fleet, Fleet]]]:
    """What is known of the spread of the scenario's cost: a meaning, and the fleets at both ends."""
    spans: list[tuple[str, tuple[Fleet, Fleet]]] = []
    if simulated is not None and expected:
        import numpy as np

        low, high = (float(value) / expected for value in np.percentile(simulated.paid, (5, 95)))
        ends = edited(options, question, moved, formulas.exact, low), edited(options, question, moved, formulas.exact, high)
        spans.append((f"5 % to 95 % of {options.runs:,} simulated runs", ends))
    if all(item.rate.low is not None and item.rate.high is not None for item in moved.values()):
        least = edited(options, question, moved, formulas.exact, rate_of=lambda rate: rate.low or 0.0)
        most = edited(options, question, moved, formulas.exact, rate_of=lambda rate: rate.high or 0.0)
        spans.append(("between the ends of what is known of interruptions", (least, most)))
    return spans


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


def _position(question: Question, costs: Costs) -> Position:
    currency = question.market.currency
    held = Position.held(costs, currency, question.fleet) if question.is_narrowed else Position.of(costs, currency)
    return held * question.times


def _cost(question: Question, costs: Costs) -> Decimal:
    return (costs.cost if question.is_narrowed else costs.node_cost) * question.times


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"))


@dataclass(frozen=True, slots=True)
class Described:
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: Decimal | None = None
    spot_price: Decimal | None = None
    price_per: PricePer = PricePer.node
    instance_type: str | None = None
    region: str | None = None
    zone: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    hours: float | None = None


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    instance = find_instance(con, fleet.instance_type or "", None)
    if instance.gpus != int(instance.gpus):
        raise UsageError(f"{instance.name} holds {instance.gpus:g} of a GPU", "give prices and --gpus instead of --instance-type")
    if fleet.gpus not in (None, instance.gpus):
        raise UsageError(f"{instance.name} has {instance.gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(instance.name, instance.provider, fleet.region, fleet.zone), int(instance.gpus)


def described(con: DuckDBPyConnection, settings: Config, options: Options, fleet: Described, rate: Rate | None) -> Question:
    """One of the nodes that options describe, moved to spot: its prices from options first, else of the store and the catalog.

    Raises UsageError where a price is missing, the checkpoint interval is longer than the job, or it would never end.
    """
    gpus, market, place = fleet.gpus or GPUS_PER_NODE, None, None
    if fleet.instance_type is not None:
        place, gpus = find_place(con, fleet)
        market = read_market(con, [fleet.instance_type], settings.currency, settings.prices.stale_after_days)
        rate = rate or market.band(place)
    elif fleet.region or fleet.zone:
        raise UsageError("--region and --zone say where an --instance-type is", "give --instance-type, or leave them out")
    rate = rate or typical_rate(con)
    found: dict[str, Price] = {}
    for option, price in (("on_demand", fleet.on_demand_price), ("spot", fleet.spot_price)):
        if price is not None:
            found[option] = Price(node_price(price, fleet.price_per, gpus), "option")
        elif market is not None and place is not None:
            found[option] = known_price(market, place, option)
        else:
            name = f"--{option.replace('_', '-')}-price"
            raise UsageError(f"{name} is missing", f"give {name}, or --instance-type and --region to look it up")
    nodes, hours, unit = fleet.nodes or 1, fleet.hours or HOURS_PER_MONTH, f"{settings.currency} per node-hour"
    options.check(hours)
    if formulas.exact(options.work(rate.per_hour, nodes)) > HOPELESS_RATIO:
        raise UsageError(
            "interrupted so often, this work would practically never end", "more checkpoints, or fewer interruptions per hour"
        )
    name = f"{place.instance_type}{f' in {place.region}' if place.region else ''}" if place else "described nodes"
    return Question(
        fleet=uniform("Job/work", nodes=1, gpus_per_node=gpus, hours=hours, price=found["on_demand"]),
        period_name=f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        scope_name=name,
        is_narrowed=False,
        market=Market(settings.currency),
        typical=rate,
        price=found["spot"].per_node_hour / (gpus if fleet.price_per is PricePer.gpu else 1),
        price_per=fleet.price_per.value,
        times=nodes,
        assumptions=tuple(
            Assumption(f"{option.replace('_', '-')} price", price.per_node_hour, unit, price.source, price.as_of)
            for option, price in found.items()
        ),
    )


def known_price(market: Market, place: Place, option: str) -> Price:
    """The price of the place: spot history that is not stale before list prices. Raises UsageError where none is known."""

    now_ms = to_ms(datetime.now(UTC))
    price = (market.latest_spot(place, now_ms) if option == "spot" else None) or market.list_price(place, option)
    if price is not None:
        return price
    where = f" in {place.zone or place.region}" if place.zone or place.region else ""
    words = option.replace("_", "-")
    raise UsageError(
        f"no {words} price of {place.instance_type}{where} in {market.currency} is known",
        f"give --{words}-price" + ("" if place.region else ", or --region: prices differ between regions"),
    )
