"""Actual usage moved from on demand to spot, or back."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from gpucost.errors import UsageError
from gpucost.periods import to_ms
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, priced
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, Option, OptionGroup, PricePer, node_price
from gpucost.whatif.fleet import Costs, Fleet, Price, Scenario, Usage, one_node
from gpucost.whatif.spot import simulate as formulas
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, find_instance, read_market, typical_rate
from gpucost.whatif.spot.simulate import (
    HOPELESS_RATIO,
    Makespans,
    Moved,
    Moves,
    SimulationOptions,
    SimulationQuery,
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
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
# what a batch workload's name says of it, the first that fits
_BATCH = {
    r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid": "a sweep: one trial starts over, the others go on",
    r"preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert": "preprocessing: only the piece at hand is done again",
    r"batch|infer|eval|quanti|score|scoring|test|bench": "batch work: it is done again where it stopped",
    r"": "a job: yes if it writes checkpoints and goes on from them",
}
_SERVING_KINDS = {
    "deployment", "replicaset", "statefulset", "daemonset", "inferenceservice", "rayservice", "rollout", "llminferenceservice",
}  # fmt: skip
_BATCH_KINDS = {
    "job", "cronjob", "jobset", "pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob", "trainjob", "rayjob",
    "workflow", "cronworkflow", "sparkapplication", "trial", "experiment", "pipelinerun", "taskrun", "vcjob", "appwrapper",
}  # fmt: skip


class Advice(NamedTuple):
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
        return Advice("yes", next(why for pattern, why in _BATCH.items() if re.search(pattern, name, re.IGNORECASE)))
    if kind == "pod":
        return Advice("risky", "a bare pod: nothing starts it again")
    return Advice("risky", f"gpucost does not know what a {kind or 'workload'} does when it is interrupted")


def free_first_hours(work: Work, ratio: float, even: float | None) -> list[str]:
    """Says that more interruptions would cost less, where free first hours make it so, and why.

    `ratio` is the on-demand over the spot price, `even` the lowest rate at which both cost the same.
    """
    if exact(replace(work, per_hour=work.per_hour * 1.01)) >= exact(work):
        return []
    message = (
        f"more interruptions would cost less here, and take longer: {(1 - paid_share(work)) * 100:.1f} % of the time on spot"
        " lies in lives of under an hour, which --first-hour-free counts as not paid, and that outweighs the work they lose"
    )
    if even is not None and even < work.per_hour and exact(work) < ratio:
        message += "; beyond the break-even, spot costs less than on demand again"
    return [message]


def break_even_sentences(
    exact: float | None, first_order: float | None, rate: float, nodes: int, *, is_cheaper: bool
) -> tuple[str, ...]:
    """At which rate spot costs as much as on demand; `is_cheaper`: without any interruption it costs less."""
    if exact is None and is_cheaper:
        return ("spot costs less than on demand however often it is interrupted",)
    if exact is None:
        return ("spot costs as much as on demand even if nothing is interrupted: there is no break-even",)
    gang = f", which stops all {nodes} at once" if nodes > 1 else ""
    hours = 1 / exact
    span = f"{hours * 60:,.1f} minutes" if hours < 1 else f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"
    message = f"spot costs as much as on demand at {exact:,.4g} interruptions per node-hour{gang}: one in {span}"
    if rate:
        message += f", {exact / rate:,.1f} times what is assumed" if exact > rate else "; more are assumed"
    return (message, f"by first order at {first_order:,.4g}") if first_order is not None else (message,)


def time_sentences(makespan: dict[str, Any], optimum: float | None, unit: str = "h") -> tuple[str, ...]:
    """What interruptions do to time, and the interval that would cost least."""
    before, expected = makespan["without_interruptions"], makespan["expected"]
    longer = (expected / before - 1) * 100 if before else 0.0
    sentences = [f"{before:,.1f} {unit} of work take {expected:,.1f} {unit} on spot ({longer:.2f} % longer)"]
    if makespan["runs"]:
        half, most = makespan["p50"], makespan["p95"]
        sentences.append(
            f"of {makespan['runs']:,} simulated runs half end within {half:,.1f} {unit}, 95 % within {most:,.1f} {unit}"
        )
    else:
        sentences.append("not simulated: it would practically never end")
    if optimum is not None:
        sentences.append(f"a checkpoint every {optimum:,.1f} minutes would cost least")
    return tuple(sentences)


_DIGITS = 6
# standard errors on either side that hold the true mean 99.9 % of the time
_NORMAL_999 = 3.29


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

    elapsed, runs = simulated.elapsed, len(simulated.elapsed)
    mean, error = float(elapsed.mean()), _NORMAL_999 * (float(elapsed.std(ddof=1)) / runs**0.5)
    values = {"mean": mean, "mean_low": mean - error, "mean_high": mean + error}
    values |= zip(("p5", "p50", "p95"), map(float, np.percentile(elapsed, (5, 50, 95))), strict=True)
    return figures | {"runs": runs} | {name: round(value, _DIGITS) for name, value in values.items()}


def answer(options: SimulationOptions, question: SimulationQuery) -> Scenario[Answer]:
    """What moving the usage costs, by the exact effective price; first order beside it.

    A described fleet is one that moves to spot, and back by the same figures. Raises GpucostError where nothing can be moved.
    """
    usage, per = question.usage, question.price_per
    fleet, is_described, currency = usage.fleet, usage.is_described, usage.currency
    is_back = is_described and options.to is Target.on_demand
    options = replace(options, to=Target.spot) if is_back else options
    to_spot = options.to is Target.spot
    moved, stays = movable(options, question)
    items = list(moved.values())
    hours = sum(item.hours for item in items)
    gpu_hours = sum(item.hours * item.node.gpus for item in items)

    def spot_price(item: Moved) -> float:
        return item.price if to_spot else item.today_price

    def mean(value: Callable[[Moved], float]) -> float:
        """By time; of equal values that one, to the last digit."""
        if len({value(item) for item in items}) == 1:
            return value(items[0])
        return sum(value(item) * item.hours for item in items) / hours

    def effective(formula: Callable[[Work], float]) -> float:
        """Per useful GPU-hour."""
        overheads = (item.overhead(options, item.rate.per_hour, formula) for item in items)
        costs = (spot_price(item) * overhead * item.hours for item, overhead in zip(items, overheads, strict=True))
        return sum(costs) / gpu_hours

    spot, on_demand = mean(spot_price), mean(lambda item: item.today_price if to_spot else item.price)
    rate, gang = mean(lambda item: item.rate.per_hour), _typical_gang(items)
    first, exactly = effective(formulas.first_order), effective(exact)
    gpus, share = (1.0, hours / gpu_hours) if per is PricePer.gpu else (gpu_hours / hours, 1.0)
    work, ratio = options.work(rate, gang), on_demand / spot
    even = formulas.break_even_exact(work, ratio)
    even_first = formulas.break_even_first_order(work, ratio)
    # hours on spot hold what interruptions lost already: the work itself is less
    useful = hours / gang / (1 if to_spot else formulas.stretch(work))
    simulated = simulate(work, useful, options.wait_hours, options.runs, options.seed)
    expected = expected_hours(work, useful)
    makespan = makespan_figures(useful, expected, work, options.wait_hours, simulated)
    best = formulas.best_checkpoints(work)
    spans = _spans(options, question, moved, simulated, expected)
    costs_today, costs_then, costs_first, *ends = yield [
        fleet,
        edited(options, question, moved, exact),
        edited(options, question, moved, formulas.first_order),
        *(end for fleets in spans.values() for end in fleets),
    ]

    def position(costs: Costs) -> Position:
        return Position.of(costs, currency, fleet if usage.is_narrowed else None) * usage.times

    today, scenario = position(costs_today), position(costs_then)
    scenario = replace(scenario, more={"cost_first_order": position(costs_first).cost})
    figures: dict[str, Any] = {
        "price_per": per,
        "on_demand_price": round(on_demand * share, 9),
        "spot_price": round(spot * share, 9),
        "has_discount": spot < on_demand,
        "effective_price_first_order": round(first * gpus, _DIGITS),
        "effective_price_exact": round(exactly * gpus, _DIGITS),
        "effective_price_per_gpu_hour_first_order": round(first, _DIGITS),
        "effective_price_per_gpu_hour_exact": round(exactly, _DIGITS),
        "interruptions_per_hour": rate,
        "break_even_interruptions_per_hour": even,
        "break_even_interruptions_per_hour_first_order": even_first,
        "optimal_checkpoint_minutes": round(best.exact * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_young": round(best.young * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_daly": round(best.daly * 60, _DIGITS) if best else None,
        # per node: what an interruption loses, and what was saved since the one before
        "lost_per_interruption": round(spot * (work.lost + work.restart), _DIGITS),
        "saved_between_interruptions": round((on_demand - spot) / work.gang_rate, _DIGITS) if work.gang_rate else None,
        "makespan_hours": makespan,
    }
    findings = []
    if spot >= on_demand:
        dearer = "more than on demand" if spot > on_demand else "as much as on demand"
        findings.append(f"spot costs {dearer} here: there is no discount")
    findings += free_first_hours(work, ratio, even)
    findings.append(
        f"effective price: {first * gpus:,.4f} by first order, {exactly * gpus:,.4f} exactly, {currency} per useful {per}-hour"
    )
    tables: tuple[Rows, ...] = ()
    if not is_described:
        savings, tables = _by_workload(usage, moved, costs_today, costs_then)
        figures |= {
            "moved_nodes": len(moved),
            "moved_node_hours": round(hours, _DIGITS),
            "moved_gpu_hours": round(gpu_hours, _DIGITS),
            "saving_by_suitability": savings,
        }
        if to_spot:
            findings += [
                text.format(f"{savings[suits]:,.2f} {currency}")
                for suits, text in _SAVED.items()
                if suits == "yes" or savings.get(suits)
            ]
        findings += [f"{count} node(s) stay as they are: {why}" for why, count in sorted(stays.items())]
    amounts = iter([position(costs).cost for costs in ends])
    ranges = []
    for meaning, pair in zip(spans, zip(amounts, amounts, strict=True), strict=True):
        figure = "cost on spot" if is_described else "scenario cost"
        ranges.append(Range(figure, min(pair), max(pair), currency, meaning))
    unit = "h" if is_described else "node-hours" if gang == 1 else f"hours of {gang} nodes"
    return Answer(
        kind="spot",
        title=f"Usage of {usage.scope_name}: {'on demand to spot' if to_spot and not is_back else 'spot to on demand'}",
        period=usage.period_name,
        today=scenario if is_back else today,
        scenario=today if is_back else scenario,
        figures=figures,
        assumptions=(
            *(usage.assumptions or _price_assumptions(items, currency)),
            *_rate_assumptions(items),
            *options.assumptions(),
        ),
        ranges=tuple(ranges),
        break_even=break_even_sentences(even, even_first, rate, gang, is_cheaper=exact(options.work(0.0)) < ratio),
        time=time_sentences(makespan, figures["optimal_checkpoint_minutes"], unit),
        findings=tuple(findings),
        tables=tables,
    )


_SAVED = {
    "yes": "of the saving, {} is of workloads that suit spot; move these first",
    "no": "{} is of serving, which should stay on demand",
    "unallocated": "{} is of GPUs that nobody held",
    "risky": "{} is of notebooks and bare pods, which lose their state",
}


def _spans(
    options: SimulationOptions, question: SimulationQuery, moved: Moves, simulated: Makespans | None, expected: float
) -> dict[str, list[Fleet]]:
    """What is known of the spread of the scenario's cost: by what it means, the fleets at both ends."""
    spans = {}
    if simulated is not None and expected:
        import numpy as np

        spans[f"5 % to 95 % of {options.runs:,} simulated runs"] = [
            edited(options, question, moved, exact, float(value) / expected) for value in np.percentile(simulated.paid, (5, 95))
        ]
    if all(item.rate.low is not None and item.rate.high is not None for item in moved.values()):
        least = edited(options, question, moved, exact, rate_of=lambda rate: rate.low or 0.0)
        most = edited(options, question, moved, exact, rate_of=lambda rate: rate.high or 0.0)
        spans["between the ends of what is known of interruptions"] = [least, most]
    return spans


def _by_workload(usage: Usage, moved: Moves, today: Costs, then: Costs) -> tuple[dict[str, Decimal], tuple[Rows, ...]]:
    """Savings by suitability, and the workloads that hold moved nodes, dearest first; runs of one name together."""
    fleet = usage.fleet
    gang_of, team_of = gangs(fleet), {pod.owner: pod.team for pod in fleet.pods}
    rows: dict[tuple[str, str, str], list[Any]] = {}
    savings: dict[str, Decimal] = {"yes": Decimal(0), "no": Decimal(0), "risky": Decimal(0)}
    for key in sorted({pod.owner for pod in fleet.pods if pod.place in moved}):
        _, namespace, workload = key
        before, after = today.by_workload.get(key, Decimal(0)), then.by_workload.get(key, Decimal(0))
        advice = advise(workload, namespace)
        savings[advice.suits] += before - after
        row = rows.setdefault((team_of[key], namespace, base_name(workload)), [advice, 0, Decimal(0), Decimal(0)])
        row[1:] = [max(row[1], gang_of[key]), row[2] + before, row[3] + after]
    if not usage.is_narrowed:
        savings["unallocated"] = today.unallocated_cost - then.unallocated_cost
    lines = [
        (namespace, workload, advice.suits, gang, round(before, 2), round(after, 2), round(before - after, 2), advice.why)
        for (_, namespace, workload), (advice, gang, before, after) in sorted(
            rows.items(), key=lambda item: (-item[1][2], item[0])
        )
    ]
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    if not lines:
        return savings, (Rows("Workloads on nodes that move", columns, ()),)
    return savings, Rows.top("Workloads on nodes that move", columns, lines, "and {} more")


def _price_assumptions(moved: Sequence[Moved], currency: str) -> tuple[Assumption, ...]:
    """One price per instance type: the mean over its nodes' hours."""
    alike: dict[tuple[str, str, str | None], list[Moved]] = defaultdict(list)
    for item in moved:
        alike[item.node.instance_type or "nodes", item.prices[0].source, item.prices[0].as_of].append(item)
    assumptions = []
    for (name, source, as_of), items in sorted(alike.items(), key=lambda entry: str(entry[0])):
        price = sum(item.price * item.node.hours for item in items) / sum(item.node.hours for item in items)
        unit = f"{currency} per node-hour"
        assumptions.append(Assumption(f"price of {name} there", round(price, _DIGITS), unit, source, as_of))
    return tuple(assumptions)


def _rate_assumptions(moved: Sequence[Moved]) -> tuple[Assumption, ...]:
    rates = {(item.node.instance_type or "nodes", item.node.region): item.rate for item in moved}
    if len(set(rates.values())) == 1:
        return (rate_assumption(moved[0].rate),)
    return tuple(rate_assumption(rate, f"interruptions of {name}") for (name, _), rate in sorted(rates.items(), key=str))


def _typical_gang(moved: Sequence[Moved]) -> int:
    """The gang size, weighted by node time, that figures of one job stand for."""
    held = [(gang, share * item.node.hours) for item in moved for gang, share in item.shares.items()]
    total = sum(hours for _, hours in held)
    return max(1, round(sum(gang * hours for gang, hours in held) / total)) if total else 1


@record
class Described(OptionGroup):
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: flags.OnDemandPrice | None = None
    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    instance_type: Annotated[str | None, Option("Look prices, GPUs and interruptions of it up.", "TYPE")] = None
    region: Annotated[str | None, Option("Of --instance-type.", "REGION")] = None
    zone: Annotated[str | None, Option("Of --instance-type.", "ZONE")] = None
    nodes: flags.Nodes = 1
    gpus: flags.Gpus | None = None
    hours: flags.Hours | None = None
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days | None = None


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    provider, name, gpus = find_instance(con, fleet.instance_type or "")
    if gpus != int(gpus):
        raise UsageError(f"{name} holds {gpus:g} of a GPU", "give prices and --gpus instead of --instance-type")
    if fleet.gpus not in (None, gpus):
        raise UsageError(f"{name} has {gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(name, provider, fleet.region, fleet.zone), int(gpus)


def described(
    con: DuckDBPyConnection, settings: Config, options: SimulationOptions, fleet: Described, rate: Rate | None
) -> SimulationQuery:
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
    prices: dict[Target, Price] = {}
    for target, price in ((Target.on_demand, fleet.on_demand_price), (Target.spot, fleet.spot_price)):
        if price is not None:
            prices[target] = Price(node_price(price, fleet.price_per, gpus), "option")
        elif market is not None and place is not None:
            prices[target] = known_price(market, place, target)
        else:
            name = f"--{target}-price"
            raise UsageError(f"{name} is missing", f"give {name}, or --instance-type and --region to look it up")
    nodes, hours, unit = fleet.nodes, fleet.hours or HOURS_PER_MONTH, f"{settings.currency} per node-hour"
    options.check(hours)
    if formulas.exact(options.work(rate.per_hour, nodes)) > HOPELESS_RATIO:
        raise UsageError(
            "interrupted so often, this work would practically never end", "more checkpoints, or fewer interruptions per hour"
        )
    name = f"{place.instance_type}{f' in {place.region}' if place.region else ''}" if place else "described nodes"
    usage = Usage(
        one_node("Job/work", gpus, hours, prices[Target.on_demand]),
        settings.currency,
        f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        name,
        times=nodes,
        assumptions=tuple(priced(f"{target} price", price, unit) for target, price in prices.items()),
    )
    amount = prices[Target.spot].per_node_hour / (gpus if fleet.price_per is PricePer.gpu else 1)
    return SimulationQuery(usage, Market(settings.currency), rate, price=amount, price_per=fleet.price_per)


def known_price(market: Market, place: Place, target: Target) -> Price:
    """The price of the place: spot history that is not stale before list prices. Raises UsageError where none is known."""
    latest = market.latest_spot(place, to_ms(datetime.now(UTC))) if target is Target.spot else None
    price = latest or market.list_price(place, target.capacity_type)
    if price is not None:
        return price
    where = f" in {place.zone or place.region}" if place.zone or place.region else ""
    raise UsageError(
        f"no {target} price of {place.instance_type}{where} in {market.currency} is known",
        f"give --{target}-price" + ("" if place.region else ", or --region: prices differ between regions"),
    )
