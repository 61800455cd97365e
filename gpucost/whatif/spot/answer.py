"""Actual usage moved from on demand to spot, or back."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR, from_ms, to_ms
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import (
    Answer,
    Assumption,
    Line,
    Position,
    Range,
    Rows,
    Value,
    old_prices,
    priced,
    today_of,
)
from gpucost.whatif.cost import fleet_costs, kept
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, PricePer, node_price
from gpucost.whatif.fleet import Fleet, Pod, Price, Usage, Workload, one_node
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.formulas import Work, exact, expected_hours, paid_share
from gpucost.whatif.spot.interruptions import Rate, measured_rate
from gpucost.whatif.spot.market import Market, Place, find_instance, read_market
from gpucost.whatif.spot.moves import (
    Formula,
    Moved,
    Moves,
    SpotOptions,
    SpotQuery,
    Target,
    base_name,
    gangs,
    movable,
    rate_assumption,
    weights,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
_AGAIN = "batch work: an interrupted run is done again"
# what a job's name says of it, the first that fits
_BATCH = {
    r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid": "a sweep: one trial starts over, the others go on",
    r"preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert": "preprocessing: an interrupted run is done again",
    r"batch|infer|eval|quanti|score|scoring|test|bench": _AGAIN,
}
_SERVING_KINDS = {
    "deployment", "replicaset", "statefulset", "daemonset", "inferenceservice", "rayservice", "rollout", "llminferenceservice",
}  # fmt: skip
_TRAINING_KINDS = {
    "pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob", "trainjob", "rayjob", "jobset",
}  # fmt: skip
_BATCH_KINDS = {
    "job", "cronjob", "workflow", "cronworkflow", "sparkapplication", "trial", "experiment", "pipelinerun", "taskrun", "vcjob",
    "appwrapper",
}  # fmt: skip

SAFE, NEEDS_WORK, NOT = "safe", "needs_work", "not"
_FREE = "GPUs that nobody held: better not there at all"
_DEAR = "interrupted so often, it would cost as much as on demand, or more"
_RERUN = (
    "batch work: doing interrupted runs again would cost more than spot saves; with checkpoints it could move"
)


class Advice(NamedTuple):
    """`suits` is SAFE, NEEDS_WORK or NOT; `starts_over`: no checkpoint of it is known, an interruption costs a whole run."""

    suits: str
    why: str
    starts_over: bool = False


def advise(workload: str, namespace: str = "", workload_type: str = "", checkpoints: str = "") -> Advice:
    """What a workload called `Kind/name`, of the type that inventory takes it for, should do about spot.

    `checkpoints` says how it is known to go on after an interruption, if it is.
    """
    kind, _, name = workload.partition("/")
    kind = kind.lower()
    if (
        workload_type == "development"
        or kind == "notebook"
        or _NOTEBOOK.search(name)
        or _NOTEBOOK.search(namespace)
    ):
        return Advice(NOT, "a notebook: its state is lost when it is interrupted")
    if workload_type == "inference" or kind in _SERVING_KINDS:
        return Advice(NOT, "serving: requests fail while a replica is replaced")
    if kind in _BATCH_KINDS:
        batch = next(
            (why for pattern, why in _BATCH.items() if re.search(pattern, name, re.IGNORECASE)), None
        )
        if batch or workload_type == "batch":
            if checkpoints:
                return Advice(SAFE, f"batch work with checkpoints: {checkpoints}")
            return Advice(SAFE, batch or _AGAIN, starts_over=True)
    if kind in _BATCH_KINDS | _TRAINING_KINDS:
        if checkpoints:
            return Advice(SAFE, f"training with checkpoints: {checkpoints}")
        return Advice(NEEDS_WORK, "training without known checkpoints: it would start over")
    if kind == "pod":
        return Advice(NEEDS_WORK, "a bare pod: nothing starts it again")
    return Advice(
        NEEDS_WORK, f"gpucost does not know what a {kind or 'workload'} does when it is interrupted"
    )


def suitability(options: SpotOptions, question: SpotQuery) -> dict[Workload, Advice]:
    """What each workload should do. All of it moves to on demand, and all of what options describe moves to spot."""
    pods = {pod.owner: pod for pod in question.usage.fleet.pods}
    if question.usage.is_described or options.to is not Target.spot:
        return dict.fromkeys(pods, Advice(SAFE, ""))
    resumed = {pod.owner for pod in question.usage.fleet.pods if pod.resumes}
    advices = {}
    for owner, pod in pods.items():
        names = (pod.workload, pod.workload.partition("/")[2])
        if any(fnmatchcase(name, glob) for glob in question.interruptible for name in names):
            advices[owner] = Advice(SAFE, "goes on after an interruption, as [spot] interruptible says")
            continue
        seen = "it went on from one before" if owner in resumed else ""
        given = "--checkpoint-minutes says so" if "checkpoint_minutes" in options.given else ""
        advices[owner] = advise(pod.workload, pod.namespace, pod.workload_type, seen or given)
    return advices


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
    span = (
        f"{hours * 60:,.1f} minutes"
        if hours < 1
        else f"{hours:,.1f} h"
        if hours < 48
        else f"{hours / 24:,.1f} days"
    )
    message = (
        f"spot costs as much as on demand at {exact:,.4g} interruptions per node-hour{gang}: one in {span}"
    )
    if rate:
        message += f", {exact / rate:,.1f} times what is assumed" if exact > rate else "; more are assumed"
    return (message, f"by first order at {first_order:,.4g}") if first_order is not None else (message,)


def time_sentences(
    before: float, expected: float, optimum: float | None, unit: str, *, ends: bool
) -> tuple[str, ...]:
    """What interruptions do to time, and the interval that would cost least; `ends`: the work is ever done."""
    longer = (expected / before - 1) * 100 if before else 0.0
    sentences = [f"{before:,.1f} {unit} of work take {expected:,.1f} {unit} on spot ({longer:.2f} % longer)"]
    if not ends:
        sentences.append("it would practically never end")
    if optimum is not None:
        sentences.append(f"a checkpoint every {optimum:,.1f} minutes would cost least")
    return tuple(sentences)


_DIGITS = 6
# Above this factor of time work practically never ends; above this factor of paid hours it has no cost.
_ENDLESS, _ENDLESS_COST = 1e3, 1e9


# a workload, how often its nodes are interrupted, and their provider
PartKey = tuple[Workload, Rate, str | None]


@record
class Part:
    """What one workload (None: nobody) held of nodes that are interrupted alike: node-hours, and their cost before and there.

    `run_hours` is how long its pods are there, each counted as long as it is: what an interruption may cost. `asked` are the
    options that were given.
    """

    owner: Workload | None
    rate: Rate
    provider: str | None
    advice: Advice
    gang: int
    hours: float
    today: Decimal
    there: Decimal
    asked: SpotOptions
    run_hours: float = 0.0

    @property
    def options(self) -> SpotOptions:
        """The options as they hold for it: what starts over loses all of a run, and no notice helps it."""
        if not self.advice.starts_over:
            return self.asked
        return replace(
            self.asked,
            checkpoint_minutes=self.run_hours * 60,
            checkpoint_write_minutes=0.0,
            notice_seconds=0.0,
        )

    def interrupted(self, per_hour: float | None) -> Part:
        """Return the same part with this rate."""
        return replace(self, rate=replace(self.rate, per_hour=per_hour or 0.0))

    def cost(self, formula: Formula = exact) -> Decimal | None:
        """What it costs there; None where it would never end."""
        if self.owner is None:
            return self.there
        on_demand, spot = weights(self.options, self.rate.per_hour, self.gang, self.provider, formula)
        if on_demand + spot > _ENDLESS_COST:
            return None
        if self.asked.to is Target.spot:
            return kept(float(self.today) * on_demand + float(self.there) * spot)
        return kept(float(self.there) / spot)


def _labelled(moved: Moves, usage: Usage) -> tuple[dict[PartKey, str], tuple[Pod, ...]]:
    """Split each workload on nodes that move by the interruptions of its nodes: the name of each part, and the renamed pods."""
    names: dict[PartKey, str] = {}
    pods = []
    for pod in usage.fleet.pods:
        if item := moved.get(pod.place):
            name = names.setdefault((pod.owner, item.rate, item.node.provider), f"part-{len(names)}")
            pods.append(replace(pod, workload=name, namespace="default"))
    return names, tuple(pods)


def answer(options: SpotOptions, question: SpotQuery) -> Answer:
    """What moving the usage costs, by the exact effective price; first order beside it. Only what suits spot moves.

    A described fleet is one that moves to spot, and back by the same figures. Raises GpucostError where nothing can be moved.
    """
    usage, per = question.usage, question.price_per
    fleet, is_described, currency = usage.fleet, usage.is_described, usage.currency
    is_back = is_described and options.to is Target.on_demand
    options = replace(options, to=Target.spot) if is_back else options
    to_spot = options.to is Target.spot
    if to_spot and options.kept_on_demand >= 1:
        raise UsageError(
            "--on-demand-share 1 keeps everything on demand: nothing would move",
            "give a part of 1, such as 0.3",
        )
    moved, stays = movable(options, question)
    names, pods = _labelled(moved, usage)
    before = Fleet(tuple(item.node for item in moved.values()), pods)
    there = before.with_nodes(
        lambda node: replace(node, prices=moved[node.key].prices, capacity_type=options.to.capacity_type)
    )
    costs_today, costs_before, costs_there = (fleet_costs(each) for each in (fleet, before, there))
    today = today_of(usage, costs_today, is_held=usage.is_narrowed)

    gang_of, advices, hours_of, runs = (
        gangs(fleet),
        suitability(options, question),
        _hours_by_part(moved),
        _run_hours(fleet),
    )
    parts = []
    for (owner, rate, provider), name in names.items():
        label, gang = (owner[0], "default", name), gang_of[owner] * usage.times
        was, then = (
            (one.by_workload.get(label) or Decimal(0)) * usage.times for one in (costs_before, costs_there)
        )
        hours = hours_of[owner, rate, provider]
        part = Part(owner, rate, provider, advices[owner], gang, hours, was, then, options, runs[owner])
        cost = part.cost()
        if cost is None and not to_spot:
            raise GpucostError(
                "interrupted so often, this work would practically never end",
                "more checkpoints, or a lower rate",
            )
        if (
            not is_described
            and to_spot
            and part.advice.suits != NOT
            and (cost is None or cost >= part.today > 0)
        ):
            part = replace(
                part, advice=Advice(NEEDS_WORK, _RERUN) if part.advice.starts_over else Advice(NOT, _DEAR)
            )
        parts.append(part)
    if not usage.is_narrowed and any(None in item.hours for item in moved.values()):
        was, then = (one.unallocated_cost * usage.times for one in (costs_before, costs_there))
        hours = sum(item.hours.get(None, 0.0) for item in moved.values())
        first = next(iter(moved.values()))
        parts.append(
            Part(
                None, first.rate, None, Advice(NOT if to_spot else SAFE, _FREE), 1, hours, was, then, options
            )
        )
    safe = [part for part in parts if part.advice.suits == SAFE]
    # where nothing suits spot, figures are those of what does not
    shown = [part for part in safe if part.owner] or [part for part in parts if part.owner] or parts

    means = _Means.of(moved, shown)
    spot, on_demand, per_hour, gang = means.spot, means.on_demand, means.rate, means.gang
    gpus, share = (1.0, 1 / means.gpus) if per is PricePer.gpu else (means.gpus, 1.0)
    work = _mean_options(shown).work(per_hour, gang, shown[0].provider)
    # where a gang keeps a part on demand, it pays for both, and is interrupted less often
    exposed = options.exposed(gang)
    ratio = on_demand / ((1 - exposed) * on_demand + exposed * spot)
    even, even_first = (
        None if rate_there is None else rate_there / exposed
        for rate_there in (
            formulas.break_even_exact(work, ratio),
            formulas.break_even_first_order(work, ratio),
        )
    )
    # hours on spot hold what interruptions lost already: the work itself is less
    useful = means.hours / gang / (1 if to_spot else formulas.stretch(work))
    paid = expected_hours(work, useful)
    interruptions = paid * work.gang_rate
    elapsed = paid + options.wait_hours * interruptions
    best = formulas.best_checkpoints(work)
    cost = _moved_cost(today, safe)
    first_order: dict[str, Value] = {"cost_first_order": _moved_cost(today, safe, formulas.first_order)}
    scenario = replace(today, cost=today.cost if cost is None else cost, more=first_order)
    figures: dict[str, Any] = {
        "price_per": per,
        "on_demand_price": round(on_demand * share, 9),
        "spot_price": round(spot * share, 9),
        "has_discount": spot < on_demand,
        "effective_price_first_order": round(means.first_order * gpus, _DIGITS),
        "effective_price_exact": round(means.exact * gpus, _DIGITS),
        "effective_price_per_gpu_hour_first_order": round(means.first_order, _DIGITS),
        "effective_price_per_gpu_hour_exact": round(means.exact, _DIGITS),
        "interruptions_per_hour": per_hour,
        "break_even_interruptions_per_hour": even,
        "break_even_interruptions_per_hour_first_order": even_first,
        "optimal_checkpoint_minutes": round(best.exact * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_young": round(best.young * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_daly": round(best.daly * 60, _DIGITS) if best else None,
        # per node: what an interruption loses, and what was saved since the one before
        "lost_per_interruption": round(spot * (work.lost + work.restart), _DIGITS),
        "saved_between_interruptions": round((on_demand - spot) / work.gang_rate, _DIGITS)
        if work.gang_rate
        else None,
        "makespan_hours": {
            "without_interruptions": useful,
            "expected": round(elapsed, _DIGITS),
            "expected_paid": round(paid, _DIGITS),
            "expected_interruptions": round(interruptions, _DIGITS),
        },
    }
    findings = []
    if spot >= on_demand:
        dearer = "more than on demand" if spot > on_demand else "as much as on demand"
        findings.append(f"spot costs {dearer} here: there is no discount")
    findings += free_first_hours(work, ratio, even)
    prices = f"{means.first_order * gpus:,.4f} by first order, {means.exact * gpus:,.4f} exactly"
    findings.append(f"effective price: {prices}, {currency} per useful {per}-hour")
    tables: tuple[Rows, ...] = ()
    ranges: list[Range] = []
    if to_spot and safe:
        cases = _cases(options, safe, today)
        tables = (cases,)
        if len(cases.lines) > 1:
            least, *_, most = (line[2] for line in cases.lines)
            if most is None:
                findings.append(
                    "interrupted as often as the high end says, this work would practically never end"
                )
            else:
                figure = "cost on spot" if is_described else "scenario cost"
                ranges.append(
                    Range(figure, least, most, currency, "between the ends of what is known of interruptions")
                )
    if not is_described:
        savings, more = _by_workload(parts, usage)
        tables += more
        goes = sum(part.hours for part in safe) * (1 - options.kept_on_demand if to_spot else 1)
        figures |= {
            "moved_nodes": len(moved),
            "moved_node_hours": round(goes, _DIGITS),
            "moved_gpu_hours": round(goes * means.gpus, _DIGITS),
            "saving_by_suitability": savings,
        }
        if to_spot:
            if not safe:
                findings.append("nothing here is both safe to move and cheaper on spot: no saving is counted")
            findings += [
                f"{text}: {savings[suits]:,.2f} {currency}, not counted above"
                for suits, text in _MORE.items()
                if savings[suits] > 0
            ]
        findings += [f"{count} node(s) stay as they are: {why}" for why, count in sorted(stays.items())]
    unit = "h" if is_described else "node-hours" if gang == 1 else f"hours of {gang} nodes"
    title = f"Usage of {usage.scope_name}: {'on demand to spot' if to_spot and not is_back else 'spot to on demand'}"
    owners = {part.owner for part in shown}
    used = [item for item in moved.values() if owners & item.hours.keys()]
    at = datetime.now(UTC) if is_described else from_ms(max(item.node.to_ms for item in used))
    dated = (
        (item.node.instance_type or "nodes", price)
        for item in used
        for price in (*item.prices, *item.node.prices)
    )
    return Answer(
        kind="spot",
        title=title + old_prices(dated, at.date(), question.stale_after_days),
        period=usage.period_name,
        today=scenario if is_back else today,
        scenario=today if is_back else scenario,
        figures=figures,
        assumptions=(
            *(usage.assumptions or _price_assumptions(list(moved.values()), currency)),
            *_rate_assumptions(list(moved.values())),
            *options.assumptions(dict.fromkeys(item.node.provider for item in moved.values())),
            *_starting_over(shown),
        ),
        ranges=tuple(ranges),
        break_even=break_even_sentences(
            even, even_first, per_hour, gang, is_cheaper=exact(replace(work, per_hour=0.0)) < ratio
        ),
        time=time_sentences(
            useful, elapsed, best.exact * 60 if best else None, unit, ends=formulas.stretch(work) < _ENDLESS
        ),
        findings=tuple(findings),
        tables=tables,
    )


_MORE = {NEEDS_WORK: "with work, more could move", NOT: "what should not move would save"}


def _moved_cost(today: Position, parts: Sequence[Part], formula: Formula = exact) -> Decimal | None:
    """Return today's cost with these parts moved; None where one of them would never end."""
    cost = today.cost
    for part in parts:
        there = part.cost(formula)
        if there is None:
            return None
        cost += there - part.today
    return cost


def _run_hours(fleet: Fleet) -> dict[Workload, float]:
    """How long each workload's pods are there, weighed by that: a long one loses more, and is hit more often."""
    lengths: dict[Workload, list[int]] = defaultdict(list)
    for pod in fleet.pods:
        lengths[pod.owner].append(pod.length_ms)
    return {owner: sum(ms * ms for ms in own) / sum(own) / MS_PER_HOUR for owner, own in lengths.items()}


def _starting_over(parts: Sequence[Part]) -> Iterator[Assumption]:
    """How much work an interruption costs what has no checkpoints."""
    over = [part for part in parts if part.advice.starts_over]
    if over:
        mean = sum(part.run_hours * part.hours for part in over) / sum(part.hours for part in over)
        yield Assumption(
            "without known checkpoints a run starts over: its length", round(mean, 2), "hours", "store, mean"
        )


def _hours_by_part(moved: Moves) -> dict[PartKey, float]:
    hours: dict[PartKey, float] = defaultdict(float)
    for item in moved.values():
        for owner, held in item.hours.items():
            if owner:
                hours[owner, item.rate, item.node.provider] += held
    return hours


class _Means(NamedTuple):
    """Means over node-hours of some parts: prices and rate per node-hour, effective prices per useful GPU-hour."""

    hours: float
    gpus: float
    spot: float
    on_demand: float
    rate: float
    gang: int
    first_order: float
    exact: float

    @classmethod
    def of(cls, moved: Moves, parts: Sequence[Part]) -> _Means:
        part_of = {part.owner: part for part in parts}
        to_spot = parts[0].asked.to is Target.spot
        held = [
            (item, part_of[owner], time)
            for item in moved.values()
            for owner, time in item.hours.items()
            if owner in part_of
        ]
        hours = sum(time for _, _, time in held)

        def mean(value: Callable[[Moved], float]) -> float:
            """By time; of equal values that one, to the last digit."""
            if len({value(item) for item, _, _ in held}) == 1:
                return value(held[0][0])
            return sum(value(item) * time for item, _, time in held) / hours

        def spot(item: Moved) -> float:
            return item.price if to_spot else item.today_price

        def on_demand(item: Moved) -> float:
            return item.today_price if to_spot else item.price

        def effective(formula: Formula) -> float:
            cost = 0.0
            for item, part, time in held:
                there = (0.0, 1.0)
                if part.owner:
                    there = weights(part.options, item.rate.per_hour, part.gang, item.node.provider, formula)
                cost += (on_demand(item) * there[0] + spot(item) * there[1]) * time
            return cost / sum(time * item.node.gpus for item, _, time in held)

        gang = max(1, round(sum(part.gang * time for _, part, time in held) / hours))
        return cls(
            hours, mean(lambda item: item.node.gpus), mean(spot), mean(on_demand), mean(lambda item: item.rate.per_hour), gang,
            effective(formulas.first_order), effective(exact),
        )  # fmt: skip


def _mean_options(parts: Sequence[Part]) -> SpotOptions:
    """Options with the mean interval between checkpoints, and what writing one takes, weighed by hours."""
    asked, over = parts[0].asked, [part.advice.starts_over for part in parts]
    if not any(over):
        return asked
    hours = sum(part.hours for part in parts)
    names = ("checkpoint_minutes", "checkpoint_write_minutes")
    means = {name: sum(getattr(part.options, name) * part.hours for part in parts) / hours for name in names}
    return replace(asked, **means, notice_seconds=0.0 if all(over) else asked.notice_seconds)


def _cases(options: SpotOptions, safe: Sequence[Part], today: Position) -> Rows:
    """What moves, at the low end, the middle and the high end of what is known of interruptions: its cost and its time."""
    ends = {"as given": safe}
    if all(part.rate.low is not None and part.rate.high is not None for part in safe):
        low, high = (
            [part.interrupted(part.rate.low) for part in safe],
            [part.interrupted(part.rate.high) for part in safe],
        )
        ends = {"low": low, "middle": safe, "high": high}
    hours = sum(part.hours for part in safe)
    lines: list[Line] = []
    for name, parts in ends.items():
        up = longer = rates = 0.0
        for part in parts:
            rate = part.rate.per_hour
            work = part.options.work(rate, part.gang, part.provider)
            times = formulas.stretch(work)
            # of nodes that don't need each other, those kept on demand take no longer
            moves = part.hours * (1.0 if part.gang > 1 else 1 - options.kept_on_demand)
            up += part.hours + moves * (times - 1)
            longer += part.hours * (times - 1)
            longer += part.hours * times * work.gang_rate * options.wait_hours
            rates += rate * part.hours
        cost = _moved_cost(today, parts)
        if cost is None or up > hours * _ENDLESS:
            lines.append((name, rates / hours, None, None, None, None))
        else:
            lines.append(
                (name, rates / hours, cost, today.cost - cost, round(up, 1), round(longer / hours * 100, 2))
            )
    columns = ("interruptions", "per node-hour", "cost", "saving", "node-hours", "% longer")
    return Rows(
        "What moves, by how often it is interrupted", columns, tuple(lines), "Time holds waits for capacity."
    )


def _by_workload(parts: Sequence[Part], usage: Usage) -> tuple[dict[str, Decimal], tuple[Rows, ...]]:
    """Savings by suitability; why what does not move stays; the workloads on nodes that could move. Runs of one name together."""
    team_of = {pod.owner: pod.team for pod in usage.fleet.pods}
    rows: dict[tuple[str, str, str, Advice], list[Any]] = defaultdict(lambda: [0, Decimal(0), Decimal(0)])
    left: dict[Advice, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    savings = {SAFE: Decimal(0), NEEDS_WORK: Decimal(0), NOT: Decimal(0)}
    for part in parts:
        cost = part.cost()
        after = part.today if cost is None else cost
        savings[part.advice.suits] += part.today - after
        if part.advice.suits != SAFE:
            sums = left[part.advice]
            sums[:] = sums[0] + part.today, sums[1] + part.today - after
        if part.owner:
            _, namespace, workload = part.owner
            row = rows[team_of[part.owner], namespace, base_name(workload), part.advice]
            row[:] = max(row[0], part.gang), row[1] + part.today, row[2] + after
    order = list(savings)
    below = [
        (advice.suits.replace("_", " "), round(today, 2), round(saving, 2), advice.why)
        for advice, (today, saving) in sorted(
            left.items(), key=lambda item: (order.index(item[0].suits), -item[1][0], item[0])
        )
    ]
    lines: list[Line] = []
    for (_, namespace, workload, advice), (gang, today, after) in sorted(
        rows.items(), key=lambda item: (order.index(item[0][3].suits), -item[1][1], item[0])
    ):
        money = (round(amount, 2) for amount in (today, after, today - after))
        lines.append((namespace, workload, advice.suits.replace("_", " "), gang, *money, advice.why))
    title = "Workloads on nodes that could move"
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    stay = Rows.of("Left on demand, and what it would save", ("suits spot", "today", "saving", "why"), below)
    return savings, (*stay, *(Rows.top(title, columns, lines, "and {} more") or (Rows(title, columns, ()),)))


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
    return tuple(
        rate_assumption(rate, f"interruptions of {name}")
        for (name, _), rate in sorted(rates.items(), key=str)
    )


@record
class Described(OptionGroup):
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: flags.OnDemandPrice | None = None
    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    instance_type: Annotated[str | None, Option("Look prices, GPUs and interruptions of it up.", "TYPE")] = (
        None
    )
    region: Annotated[str | None, Option("Of --instance-type.", "REGION")] = None
    zone: Annotated[str | None, Option("Of --instance-type.", "ZONE")] = None
    nodes: flags.Nodes = 1
    gpus: flags.Gpus | None = None
    hours: flags.Hours | None = None
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days | None = None

    def price(self, target: Target, gpus: float, market: Market | None, place: Place | None) -> Price:
        """Return the option's price, else the place's: fresh spot history before list prices. Raises UsageError without any."""
        name, given = f"--{target}-price", self.spot_price if target is Target.spot else self.on_demand_price
        if given is not None:
            return Price(node_price(given, self.price_per, gpus), "option")
        if market is None or place is None:
            raise UsageError(
                f"{name} is missing", f"give {name}, or --instance-type and --region to look it up"
            )
        latest = market.latest_spot(place, to_ms(datetime.now(UTC))) if target is Target.spot else None
        if price := latest or market.list_price(place, target.capacity_type):
            return price
        where = f" in {place.zone or place.region}" if place.zone or place.region else ""
        raise UsageError(
            f"no {target} price of {place.instance_type}{where} in {market.currency} is known",
            f"give {name}" + ("" if place.region else ", or --region: prices differ between regions"),
        )


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    provider, name, gpus = find_instance(con, fleet.instance_type or "")
    if gpus != int(gpus):
        raise UsageError(
            f"{name} holds {gpus:g} of a GPU", "give prices and --gpus instead of --instance-type"
        )
    if fleet.gpus not in (None, gpus):
        raise UsageError(f"{name} has {gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(name, provider, fleet.region, fleet.zone), int(gpus)


def described(
    con: DuckDBPyConnection, settings: Config, options: SpotOptions, fleet: Described, rate: Rate | None
) -> SpotQuery:
    """One of the nodes that options describe, moved to spot: its prices from options first, else of the store and the catalog.

    Raises UsageError where a price is missing, the checkpoint interval is longer than the job, or it would never end.
    """
    gpus, market, place = fleet.gpus or GPUS_PER_NODE, None, None
    if fleet.instance_type is not None:
        place, gpus = find_place(con, fleet)
        market = read_market(con, settings, [fleet.instance_type])
    elif fleet.region or fleet.zone:
        raise UsageError(
            "--region and --zone say where an --instance-type is", "give --instance-type, or leave them out"
        )
    rate = rate or (market.rate(place) if market and place else measured_rate(None, "", None))
    prices = {target: fleet.price(target, gpus, market, place) for target in (Target.on_demand, Target.spot)}
    nodes, hours, unit = fleet.nodes, fleet.hours or HOURS_PER_MONTH, f"{settings.currency} per node-hour"
    options.check(hours)
    provider = place.provider if place else None
    if sum(weights(options, rate.per_hour, nodes, provider, exact)) > _ENDLESS_COST:
        raise UsageError(
            "interrupted so often, this work would practically never end",
            "more checkpoints, or fewer interruptions per hour",
        )
    name = (
        f"{place.instance_type}{f' in {place.region}' if place.region else ''}"
        if place
        else "described nodes"
    )
    node = one_node("Job/work", gpus, hours, prices[Target.on_demand])
    if place:
        node = node.with_nodes(lambda one: replace(one, provider=provider, instance_type=place.instance_type))
    usage = Usage(
        node,
        settings.currency,
        f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        name,
        times=nodes,
        assumptions=tuple(priced(f"{target} price", price, unit) for target, price in prices.items()),
    )
    amount = prices[Target.spot].per_node_hour / (gpus if fleet.price_per is PricePer.gpu else 1)
    there = replace(prices[Target.spot], per_node_hour=amount)
    return SpotQuery(
        usage,
        Market(settings.currency),
        rate,
        there,
        fleet.price_per,
        stale_after_days=settings.prices.stale_after_days,
    )
