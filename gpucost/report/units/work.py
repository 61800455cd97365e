"""Cost of each epoch of a run: what its workload cost over the epoch's own interval, lost work apart."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from gpucost.engine import dicts, run_stage
from gpucost.errors import UsageError
from gpucost.report.units.query import (
    PACKAGE,
    Item,
    Located,
    ModelWithoutCost,
    OpenSpan,
    Place,
    Span,
    UnitAnswer,
    UnitAsk,
    UnitTotals,
    UnitView,
    WorkWithoutCost,
    cost_without_work,
    hours,
    moment,
    per,
    prepare,
    without_work,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_AT_ONCE_MS = 1

Status = Literal["done", "lost", "unfinished", "outside"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A run's time [from_ms, to_ms). `epoch` is None outside of epochs. `attempt` counts restarts, from 1."""

    epoch: int | None
    status: Status
    attempt: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Levels:
    """What is known of a run: `reached` are (moment, level), in order; it held GPUs in [from_ms, to_ms), and then `failed`.

    `marks`: a level says that so many epochs are done ("end"), or that this one has begun ("begin"). `from_zero`: nothing was
    done before `from_ms`. `is_over`: it will not go on after `to_ms`. `resumes`: levels fall to 0 at a restart, the work goes on.
    `is_log`: the run wrote an entry per epoch itself; else its level was looked at now and then.
    """

    reached: tuple[tuple[int, float], ...]
    from_ms: int
    to_ms: int
    marks: str
    from_zero: bool
    is_over: bool
    resumes: bool = False
    failed: bool = False
    is_log: bool = False


def intervals(run: Levels) -> list[Interval]:
    """The run's time without gap or overlap. Epochs that a restart fell back behind are lost; the last entry of each stands."""
    reached = _resumed(run.reached) if run.resumes else run.reached
    if run.is_log and run.marks == "end" and reached and 0 < reached[0][1] < 1:
        # the first epoch is under way, and began with the run
        reached = list(dropwhile(lambda entry: entry[1] < 1, reached))
    points = [(at, math.floor(level)) for at, level in reached]
    points = [(min(max(at, run.from_ms), run.to_ms), level) for at, level in points]
    found = _ended(points, run) if run.marks == "end" else _begun(points, run)
    return [interval for interval in found if interval.from_ms < interval.to_ms or interval.status in ("done", "lost")]


def _ended(points: list[tuple[int, int]], run: Levels) -> list[Interval]:
    found: list[Interval] = []
    attempt, before_ms, done = 1, run.from_ms, _done_before(points, run)
    for at_ms, level in points:
        if done is None or (done == 0 and level == 0 and not found):
            found.append(Interval(None, "outside", attempt, before_ms, at_ms))
        elif level > done:
            found += _split(done + 1, level, attempt, before_ms, at_ms)
        elif level < done:
            found = _lose(found, level + 1)
            attempt += 1
            if at_ms - before_ms <= _AT_ONCE_MS:  # a log does not tell when work began again: the epoch done again has that time
                done = level
                continue
            found.append(Interval(done + 1, "lost", attempt - 1, before_ms, at_ms))
        else:
            continue
        done, before_ms = level, at_ms
    found.append(Interval(None, "outside", attempt, before_ms, run.to_ms))
    if run.reached and (run.failed or not run.is_over):
        found[-1] = replace(found[-1], epoch=(0 if done is None else done) + 1, status="lost" if run.failed else "unfinished")
    return found


def _done_before(points: list[tuple[int, int]], run: Levels) -> int | None:
    """The number of the epoch before the first: 0, or -1 where a log counts from 0; None where that is not known.

    A 0 in a log is the first epoch, done, unless it came at once: within half the time that the next epoch then took.
    """
    if not run.from_zero:
        return None
    if not (run.is_log and run.reached and run.reached[0][1] == 0):
        return 0
    zero_ms = points[0][0]
    next_ms = next((at_ms for at_ms, level in points if level > 0), run.to_ms)
    return -1 if 2 * (zero_ms - run.from_ms) >= next_ms - zero_ms else 0


def _begun(points: list[tuple[int, int]], run: Levels) -> list[Interval]:
    found: list[Interval] = []
    attempt, before_ms, current = 1, run.from_ms, None
    for at_ms, level in points:
        if current is None:
            found.append(Interval(None, "outside", attempt, before_ms, at_ms))
        elif level > current:
            found += _split(current, level - 1, attempt, before_ms, at_ms)
        elif level < current:
            found.append(Interval(current, "lost", attempt, before_ms, at_ms))
            found = _lose(found, level)
            attempt += 1
        else:
            continue
        current, before_ms = level, at_ms
    if current is None:
        return [*found, Interval(None, "outside", attempt, before_ms, run.to_ms)]
    status: Status = "lost" if run.failed else "done" if run.is_over else "unfinished"
    return [*found, Interval(current, status, attempt, before_ms, run.to_ms)]


def _split(first: int, last: int, attempt: int, from_ms: int, to_ms: int) -> list[Interval]:
    """Epochs that were reached between two looks share the time evenly."""
    count = last - first + 1
    edges = [from_ms + (to_ms - from_ms) * i // count for i in range(count + 1)]
    return [Interval(first + i, "done", attempt, edges[i], edges[i + 1]) for i in range(count)]


def _lose(found: list[Interval], from_epoch: int) -> list[Interval]:
    return [
        replace(one, status="lost") if one.status == "done" and one.epoch is not None and one.epoch >= from_epoch else one
        for one in found
    ]


def _resumed(reached: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """Levels that go on where they were before each fall."""
    base, before, result = 0.0, 0.0, []
    for at_ms, level in reached:
        if level < before:
            base += before
        result.append((at_ms, base + level))
        before = level
    return result


_ENOUGH = 2


def summary(planned: float | None, rows: list[Item], planned_epochs: int | None) -> Item:
    """One run's figures, of its rows of epochs; formulas are in docs/units.md.

    Means and the trend are of epochs that are done and lie in the period whole.
    """
    first = rows[0]
    done = [row for row in rows if row["status"] == "done"]
    whole = sorted((row for row in done if row["is_whole"]), key=lambda row: (row["epoch"], row["from"]))
    lost = [row for row in rows if row["status"] == "lost"]
    cost = _sum(rows)
    best = min(whole, key=lambda row: (row["cost"], row["epoch"]), default=None)
    recent, before, since = _halves(whole)
    trend = None
    if recent and before and _mean(before):
        trend = round(float((_mean(recent) / _mean(before) - 1) * 100), 1)
    plan = planned_epochs or (int(planned) if planned else None)
    result: Item = {key: first[key] for key in ("run", "run_id", "cluster", "namespace", "workload", "team")}
    result |= {
        "from": first["from"],
        "to": rows[-1]["to"],
        "attempts": max(row["attempt"] for row in rows),
        "epochs_done": len(done),
        "mean_cost": per(_sum(whole), len(whole)),
        "mean_hours": round(sum(row["duration_hours"] for row in whole) / len(whole), 6) if whole else None,
        "cost_per_epoch_all_in": per(cost, len(done)),
        "best_epoch": best["epoch"] if best else None,
        "best_cost": best["cost"] if best else None,
        "trend_percent": trend,
        "trend_since": since if trend is not None else None,
        "lost_epochs": len(lost),
        "lost_cost": _sum(lost),
        "unfinished_cost": _sum([row for row in rows if row["status"] == "unfinished"]),
        "outside_cost": _sum([row for row in rows if row["status"] == "outside"]),
        "cost": cost,
        "idle_cost": sum((row["idle_cost"] for row in rows), Decimal(0)),
        "cost_per_useful_gpu_hour": per(cost, sum(row["active_gpu_hours"] for row in done)),
        "planned_epochs": plan,
    }
    return result | _forecast(plan, rows, recent or whole)


def _forecast(plan: int | None, rows: list[Item], recent: list[Item]) -> Item:
    """The run goes on as its latest epochs did; what the epoch under way has cost already counts toward it."""
    nothing: Item = {"remaining_epochs": None, "forecast_cost": None, "forecast_hours": None}
    if plan is None:
        return nothing
    reached = max((row["epoch"] for row in rows if row["status"] == "done"), default=0)
    if any(row["epoch"] == 0 for row in rows):
        reached += 1  # numbers begin with 0
    remaining = max(0, plan - reached)
    if remaining and not recent:
        return nothing | {"remaining_epochs": remaining}
    each = _mean(recent) if recent else Decimal(0)
    length = sum(row["duration_hours"] for row in recent) / len(recent) if recent else 0.0
    open_cost = _sum([row for row in rows if row["status"] == "unfinished"])
    open_hours = sum(row["duration_hours"] for row in rows if row["status"] == "unfinished")
    return {
        "remaining_epochs": remaining,
        "forecast_cost": (_sum(rows) + max(Decimal(0), remaining * each - open_cost)).quantize(Decimal("0.000000001")),
        "forecast_hours": round(max(0.0, remaining * length - open_hours), 6),
    }


def _halves(whole: list[Item]) -> tuple[list[Item], list[Item], str]:
    """The latest epochs, those before, and what parts them: the last restart, else the middle."""
    last = max((row["attempt"] for row in whole), default=1)
    recent, before = [row for row in whole if row["attempt"] == last], [row for row in whole if row["attempt"] < last]
    if recent and before:
        return recent, before, "restart"
    if len(whole) < _ENOUGH:
        return whole, [], "middle"
    half = len(whole) // 2
    return whole[half:], whole[:half], "middle"


def _sum(rows: list[Item]) -> Decimal:
    return sum((row["cost"] for row in rows), Decimal(0))


def _mean(rows: list[Item]) -> Decimal:
    return _sum(rows) / len(rows)


_APART_MS = 900_000
# mappings whose values are entries that runs wrote, one per epoch
_LOGS = ("mlflow", "file")


class EpochRow(Located, OpenSpan):
    """What an epoch, or the time outside of runs, cost."""

    run: str | None
    run_id: str | None
    epoch: int | None
    status: Status
    attempt: int | None
    duration_hours: float | None
    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    active_gpu_hours: float
    is_whole: bool


class RunRow(Located, Span):
    """What a run cost, by epoch and in all; `trend_since`: a restart, or its middle."""

    run: str
    run_id: str | None
    attempts: int
    epochs_done: int
    mean_cost: Decimal | None
    mean_hours: float | None
    cost_per_epoch_all_in: Decimal | None
    best_epoch: int | None
    best_cost: Decimal | None
    trend_percent: float | None
    trend_since: Literal["restart", "middle"] | None
    lost_epochs: int
    lost_cost: Decimal
    unfinished_cost: Decimal
    outside_cost: Decimal
    cost: Decimal
    idle_cost: Decimal
    cost_per_useful_gpu_hour: Decimal | None
    planned_epochs: int | None
    remaining_epochs: int | None
    forecast_cost: Decimal | None
    forecast_hours: float | None


class EpochTotals(UnitTotals):
    """Of all runs."""

    runs: int
    epochs_done: int
    lost_cost: Decimal
    outside_cost: Decimal
    mean_cost_per_epoch: Decimal | None
    cost_per_useful_gpu_hour: Decimal | None


class Epochs(UnitAnswer):
    """What `gpucost unit epoch` prints."""

    rows: list[EpochRow]
    totals: EpochTotals
    runs: list[RunRow]
    work_without_cost: list[ModelWithoutCost]


@dataclass(slots=True)
class Run:
    """A run with epochs: where it ran, what it is called, and its intervals."""

    place: Place
    run_id: str
    name: str
    pods: str
    parent_id: str | None
    planned: float | None
    parts: list[Interval]
    work: ModelWithoutCost | None = None  # as a row of work without cost, in case nothing it ran on cost anything


# Per claim (null: what nothing claims) and workload its cost and hours.
_CLAIMED = """
SELECT claim_id, cluster, namespace, workload, string_agg(DISTINCT team, ', ' ORDER BY team) AS team,
    sum(cost) AS cost, sum(idle_cost) AS idle_cost,
    sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
FROM unit_pieces
GROUP BY claim_id, cluster, namespace, workload"""


def epochs(con: DuckDBPyConnection, ask: UnitAsk, planned_epochs: int | None = None, *, is_prepared: bool = False) -> UnitView:
    """What each epoch of the period's runs cost, and per run its mean, trend, best, lost work and forecast.

    Per workload, the costs of its runs' intervals and of the time outside of runs sum to what it cost in the period, exactly.
    `is_prepared`: `query.prepare` has run with this ask.
    """
    if not is_prepared:
        prepare(con, ask)
    run_stage(con, PACKAGE, "31_run_places", {"from_ms": ask.period.start_ms, "to_ms": ask.period.end_ms})
    run_stage(con, PACKAGE, "70_levels", {"to_ms": ask.period.end_ms})
    runs, lost = _runs(con, ask)
    keys = claim(con, ask, runs)
    claimed = dicts(con.execute(_CLAIMED))
    sums = {row["claim_id"]: row for row in claimed if row["claim_id"] is not None}
    beside = [row for row in claimed if row["claim_id"] is None]
    rows_of: dict[int, list[Item]] = defaultdict(list)
    for claim_id, (number, part) in enumerate(keys):
        if claim_id in sums:
            rows_of[number].append(_row(runs[number], part, sums[claim_id], ask))
    lost += [run.work for number, run in enumerate(runs) if run.work and number not in rows_of]
    rows = [row for number in sorted(rows_of) for row in rows_of[number]]
    told = [summary(runs[number].planned, rows_of[number], planned_epochs) for number in sorted(rows_of)]
    rows += [_beside(row) for row in beside]
    rest = cost_without_work(without_work(con, [(row["cluster"], row["namespace"], row["workload"]) for row in rows]))
    spent = sum((row["cost"] for row in rows), Decimal(0))
    apart = sum((row["cost"] for row in rest), Decimal(0))
    done = sum(run["epochs_done"] for run in told)
    useful = sum(row["active_gpu_hours"] for row in rows if row["status"] == "done")
    totals = {
        "runs": len(told),
        "epochs_done": done,
        "cost": spent,
        "idle_cost": sum((row["idle_cost"] for row in rows), Decimal(0)),
        "lost_cost": sum((row["cost"] for row in rows if row["status"] == "lost"), Decimal(0)),
        "outside_cost": sum((row["cost"] for row in rows if row["status"] == "outside"), Decimal(0)),
        "mean_cost_per_epoch": per(sum((row["cost"] for row in rows if row["status"] == "done"), Decimal(0)), done),
        "cost_per_useful_gpu_hour": per(spent, useful),
        "cost_without_work": apart,
        "allocated_cost": spent + apart,
    }
    view = UnitView(
        "unit.epoch",
        "Cost per epoch",
        ask,
        rows,
        totals,
        {"runs": told, "work_without_cost": [] if ask.is_narrowed else lost, "cost_without_work": rest},
        {
            "rows": ("run", "epoch", "status", "from", "duration_hours", "cost", "idle_cost"),
            "runs": (
                "run", "epochs_done", "mean_cost", "trend_percent", "lost_cost", "cost", "planned_epochs", "forecast_cost",
                "lost_epochs", "best_epoch", "best_cost",
            ),
            "work_without_cost": ("workload", "unit", "amount", "since", "why"),
            "cost_without_work": ("namespace", "workload", "team", "cost", "idle_cost"),
        },
    )  # fmt: skip
    if not told:
        view.notes.append("no epochs are known in this period: gpucost collect progress")
    return view


# Which intervals ask for the cost of which pods; without names of pods, of all pods of the workload.
_CLAIMS = """
CREATE OR REPLACE TEMP TABLE unit_claims AS
SELECT s.claim_id, s.depth, a.allocation_id, s.from_ms, s.to_ms
FROM (
    SELECT unnest($claim_id::INTEGER[]) AS claim_id, unnest($depth::INTEGER[]) AS depth, unnest($cluster::VARCHAR[]) AS cluster,
        unnest($namespace::VARCHAR[]) AS namespace, unnest($workload::VARCHAR[]) AS workload, unnest($pods::VARCHAR[]) AS pods,
        unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms
) AS s JOIN allocations AS a USING (cluster, namespace, workload)
WHERE (s.pods = '' OR list_contains(string_split(s.pods, ','), a.pod)) AND s.from_ms < s.to_ms"""


def claim(con: DuckDBPyConnection, ask: UnitAsk, runs: list[Run]) -> list[tuple[int, Interval]]:
    """Makes unit_pieces; claim i stands for interval [1] of run number [0] of the answer's i-th element."""
    keys = [(number, part) for number, run in enumerate(runs) for part in run.parts]
    depths = [depth_of(run.run_id, {other.run_id: other.parent_id for other in runs}) for run in runs]
    apart = pods_apart(runs)
    con.execute(
        _CLAIMS,
        {
            "claim_id": list(range(len(keys))),
            "depth": [depths[number] for number, _ in keys],
            "cluster": [runs[number].place[0] for number, _ in keys],
            "namespace": [runs[number].place[1] for number, _ in keys],
            "workload": [runs[number].place[2] for number, _ in keys],
            "pods": [runs[number].pods if runs[number].place in apart else "" for number, _ in keys],
            "from_ms": [max(part.from_ms, ask.period.start_ms) for _, part in keys],
            "to_ms": [min(part.to_ms, ask.period.end_ms) for _, part in keys],
        },
    )
    run_stage(con, PACKAGE, "85_pieces")
    return keys


def pods_apart(runs: list[Run]) -> set[Place]:
    """Workloads whose runs each have pods of their own; elsewhere a run is its whole workload."""
    pods: dict[Place, list[str]] = defaultdict(list)
    for run in runs:
        pods[run.place].append(run.pods)
    return {place for place, names in pods.items() if len(set(names)) > 1 and all(names)}


def depth_of(run_id: str, parents: dict[str, str | None]) -> int:
    """How many sweeps a run lies in."""
    depth, seen = 0, {run_id}
    while (run_id := parents.get(run_id) or "") in parents and run_id not in seen:
        seen.add(run_id)
        depth += 1
    return depth


# When a workload's pods held GPUs, whether the last of them failed, and when its cluster's metrics end.
_SPANS = """
SELECT a.cluster, a.namespace, a.workload, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    coalesce(arg_max(t.failed, a.held_to_ms), false) AS failed,
    (SELECT max(c.to_ms) FROM collected AS c WHERE c.cluster = a.cluster) AS collected_to_ms,
    (SELECT min(l.from_ms) FROM loads AS l WHERE l.kind = 'progress') AS progress_from_ms
FROM allocations AS a LEFT JOIN allocation_traits AS t USING (allocation_id)
GROUP BY a.cluster, a.namespace, a.workload"""


def _runs(con: DuckDBPyConnection, ask: UnitAsk) -> tuple[list[Run], list[ModelWithoutCost]]:
    """The runs whose workloads are known, and the epochs of the others as rows of work without cost."""
    known = {row["run_id"]: row for row in dicts(con.execute("SELECT * FROM unit_run_places"))}
    spans = {(row["cluster"], row["namespace"], row["workload"]): row for row in dicts(con.execute(_SPANS))}
    groups: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
    for row in dicts(con.execute("SELECT * FROM unit_levels ORDER BY cluster, namespace, workload, told, run_id, at_ms")):
        groups[row["cluster"], row["namespace"], row["workload"], row["told"], row["run_id"]].append(row)
    runs: list[Run] = []
    lost: list[ModelWithoutCost] = []
    for (cluster, namespace, workload, told, run_id), rows in groups.items():
        is_new = rows[-1]["at_ms"] >= ask.period.start_ms
        if workload is None:
            lost += [_lost_epochs(told, rows, "no pod with GPUs is known by this name")] if is_new else []
            continue
        place = (cluster, namespace, workload)
        tracked = known.get(run_id)
        work = _lost_epochs(workload, rows, "its pods cost nothing then") if is_new else None
        if not run_id and not _meets(rows, spans[place]):
            lost += [work] if work else []
            continue
        span = _span(rows, spans[place], tracked, ask)
        name = tracked["name"] if tracked else run_id or workload
        runs.append(
            Run(
                place,
                run_id,
                name,
                ",".join(sorted({pod for row in rows for pod in (row["pod"] or "").split(",") if pod})) if run_id else "",
                tracked["parent_id"] if tracked else None,
                tracked["planned_epochs"] if tracked else None,
                intervals(span),
                work,
            )
        )
    names = [run.name for run in runs]
    for run in runs:
        if run.run_id and names.count(run.name) > 1:
            run.name = f"{run.name} ({run.run_id[:8]})"
    return runs, lost


def _meets(rows: list[Item], span: Item) -> bool:
    """Whether a run's epochs were told of at a time when its pods held GPUs, give or take what clocks and scrapes differ in."""
    return bool(rows[0]["at_ms"] <= span["to_ms"] + _APART_MS and span["from_ms"] - _APART_MS <= rows[-1]["at_ms"])


def _span(rows: list[Item], span: Item, tracked: Item | None, ask: UnitAsk) -> Levels:
    first = rows[0]
    failed = False
    collected_to = span["collected_to_ms"] or ask.period.end_ms
    if tracked is not None:
        ended = tracked["ended_ms"]
        from_ms, to_ms, is_over, from_zero = tracked["started_ms"], ended or collected_to, ended is not None, True
        failed = is_over and tracked["status"] != "FINISHED"
    elif first["run_id"]:
        from_ms, to_ms, is_over, from_zero = first["at_ms"], rows[-1]["at_ms"], True, False
    else:
        # a file tells the whole story; of metrics only what was collected is known
        from_zero = first["mapping"] == "file" or (span["progress_from_ms"] or 0) <= span["from_ms"]
        from_ms, to_ms, is_over = span["from_ms"], span["to_ms"], span["to_ms"] < min(collected_to, ask.period.end_ms)
        failed = is_over and span["failed"]
    return Levels(
        reached=tuple((row["at_ms"], row["level"]) for row in rows),
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms),
        marks=first["marks"],
        from_zero=from_zero,
        is_over=is_over,
        resumes=first["resumes"] and first["kind"] == "counter",
        failed=failed,
        is_log=first["mapping"] in _LOGS and first["kind"] == "gauge",
    )


def _row(run: Run, part: Interval, sums: Item, ask: UnitAsk) -> Item:
    from_ms, to_ms = max(part.from_ms, ask.period.start_ms), min(part.to_ms, ask.period.end_ms)
    return _beside(sums) | {
        "run": run.name,
        "run_id": run.run_id or None,
        "epoch": part.epoch,
        "status": part.status,
        "attempt": part.attempt,
        "from": moment(from_ms),
        "to": moment(to_ms),
        "duration_hours": hours(to_ms - from_ms),
        "is_whole": (from_ms, to_ms) == (part.from_ms, part.to_ms),
    }


def _beside(sums: Item) -> Item:
    """What a workload with runs cost while none of them ran."""
    return {
        **dict.fromkeys(("run", "run_id")),
        **{key: sums[key] for key in ("cluster", "namespace", "workload", "team")},
        "epoch": None,
        "status": "outside",
        **dict.fromkeys(("attempt", "from", "to", "duration_hours")),
        "cost": sums["cost"],
        "idle_cost": sums["idle_cost"],
        "allocated_gpu_hours": hours(sums["allocated_gpu_ms"]),
        "active_gpu_hours": hours(sums["active_gpu_ms"]),
        "is_whole": True,
    }


def _lost_epochs(told: str, rows: list[Item], why: str) -> ModelWithoutCost:
    return {
        "workload": told,
        "namespace": None,
        "model": None,
        "unit": "epoch",
        "amount": int(max(row["level"] for row in rows)),
        "failed": 0,
        "since": moment(rows[0]["at_ms"]),
        "source": rows[0]["source"],
        "why": why,
    }


class ExperimentRow(Located, OpenSpan):
    """What an experiment cost: a run of the tracker, a job that it does not know, or the time of a workload outside its runs."""

    kind: Literal["run", "job", "outside_runs"]
    experiment: str | None
    name: str
    run_id: str | None
    parent_id: str | None
    status: str | None
    hours: float | None
    pods: int | None
    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    active_gpu_hours: float
    cost_per_active_gpu_hour: Decimal | None


class Sweep(TypedDict):
    """What a sweep cost, and its best trial by the last value of `metric`."""

    sweep: str
    run_id: str
    experiment: str | None
    trials: int
    cost: Decimal
    cost_outside_trials: Decimal
    cost_per_trial: Decimal | None
    metric: str | None
    best_trial: str | None
    best_run_id: str | None
    best_value: float | None
    best_trial_cost: Decimal | None


class ExperimentTotals(UnitTotals):
    """Of all experiments."""

    experiments: int
    cost_per_active_gpu_hour: Decimal | None


class RunWithoutCost(WorkWithoutCost):
    """Work without cost of a run."""

    run: str
    run_id: str


class Experiments(UnitAnswer):
    """What `gpucost unit experiment` prints."""

    rows: list[ExperimentRow]
    totals: ExperimentTotals
    sweeps: list[Sweep]
    work_without_cost: list[RunWithoutCost]


# Workloads of these types are experiments even where no tracker knows them.
EXPERIMENT_TYPES = frozenset({"training", "batch"})
# Metrics that name the best trial where none is asked for: the first that any trial has.
LOSSES = ("val_loss", "eval_loss", "validation_loss", "test_loss", "loss", "train_loss")


_WORKLOADS = """
SELECT cluster, namespace, workload, any_value(workload_type) AS workload_type,
    string_agg(DISTINCT team, ', ' ORDER BY team) AS team, count(DISTINCT allocation_id) AS pods, min(held_from_ms) AS from_ms,
    max(held_to_ms) AS to_ms, sum(cost) AS cost, sum(idle_cost) AS idle_cost,
    sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
FROM unit_cells
WHERE is_asked
GROUP BY cluster, namespace, workload
ORDER BY cluster, namespace, workload"""


def experiments(
    con: DuckDBPyConnection, ask: UnitAsk, metric: str | None = None, goal: Literal["min", "max"] = "min"
) -> UnitView:
    """What each experiment of the period cost, and each sweep with its best trial by the last value of `metric`.

    Raises UsageError for a metric that no run has.
    """
    prepare(con, ask)
    run_stage(con, PACKAGE, "31_run_places", {"from_ms": ask.period.start_ms, "to_ms": ask.period.end_ms})
    places = dicts(con.execute("SELECT * FROM unit_run_places ORDER BY started_ms, run_id"))
    names = sorted({name for row in places for name in row["metrics"]})
    if metric and metric not in names:
        raise UsageError(
            f"no run of the period has a metric {metric!r}", f"--metric takes one of: {', '.join(names) or 'none yet'}"
        )
    tracked = [row for row in places if row["workload"] is not None]
    runs = [
        Run(
            (row["cluster"], row["namespace"], row["workload"]),
            row["run_id"],
            row["name"],
            row["pods"],
            row["parent_id"],
            None,
            [Interval(None, "done", 1, row["started_ms"], row["ended_ms"] or ask.period.end_ms)],
        )
        for row in tracked
    ]
    claim(con, ask, runs)
    claimed = dicts(con.execute(_CLAIMED))
    sums = {row["claim_id"]: row for row in claimed if row["claim_id"] is not None}
    rows = [_run_row(row, sums[number]) for number, row in enumerate(tracked) if number in sums]
    paid = {row["run_id"] for row in rows} | {row["parent_id"] for row in rows}
    rows += [_plain_row("outside_runs", row, row["workload"]) for row in claimed if row["claim_id"] is None]
    mine = {(row["cluster"], row["namespace"], row["workload"]) for row in rows}
    jobs = dicts(con.execute(_WORKLOADS))
    rows += [
        _plain_row("job", row, row["workload"])
        for row in jobs
        if row["workload_type"] in EXPERIMENT_TYPES and (row["cluster"], row["namespace"], row["workload"]) not in mine
    ]
    rows.sort(key=lambda row: (-row["cost"], row["workload"], row["name"]))
    asked = [row for row in places if row["run_id"] in paid] if ask.is_narrowed else places
    sweeps = _sweeps(asked, rows, metric, goal)
    rest = cost_without_work(without_work(con, [(row["cluster"], row["namespace"], row["workload"]) for row in rows]))
    lost = [] if ask.is_narrowed else [_lost_run(row) for row in places if row["run_id"] not in paid]
    spent, apart = sum((row["cost"] for row in rows), Decimal(0)), sum((row["cost"] for row in rest), Decimal(0))
    active = sum(row["active_gpu_hours"] for row in rows)
    totals = {
        "experiments": sum(1 for row in rows if row["kind"] != "outside_runs"),
        "cost": spent,
        "idle_cost": sum((row["idle_cost"] for row in rows), Decimal(0)),
        "cost_per_active_gpu_hour": per(spent, active),
        "cost_without_work": apart,
        "allocated_cost": spent + apart,
    }
    return UnitView(
        "unit.experiment",
        "Cost per experiment",
        ask,
        rows,
        totals,
        {"sweeps": sweeps, "work_without_cost": lost, "cost_without_work": rest},
        {
            "rows": (
                "kind",
                "experiment",
                "name",
                "namespace",
                "status",
                "hours",
                "cost",
                "idle_cost",
                "cost_per_active_gpu_hour",
            ),
            "sweeps": (
                "sweep",
                "experiment",
                "trials",
                "cost",
                "cost_per_trial",
                "best_trial",
                "metric",
                "best_value",
                "best_trial_cost",
            ),
            "work_without_cost": ("workload", "run", "unit", "since", "why"),
            "cost_without_work": ("namespace", "workload", "team", "cost", "idle_cost"),
        },
    )


def _run_row(row: Item, sums: Item) -> Item:
    return _plain_row("run", {**sums, **{key: row[key] for key in ("cluster", "namespace", "workload")}}, row["name"]) | {
        "experiment": row["experiment"],
        "run_id": row["run_id"],
        "parent_id": row["parent_id"],
        "status": row["status"],
        "from": moment(row["started_ms"]),
        "to": moment(row["ended_ms"]),
        "hours": hours(row["ended_ms"] - row["started_ms"]) if row["ended_ms"] else None,
    }


def _plain_row(kind: str, sums: Item, name: str) -> Item:
    from_ms, to_ms = sums.get("from_ms"), sums.get("to_ms")
    return {
        "kind": kind,
        "experiment": None,
        "name": name,
        "run_id": None,
        "parent_id": None,
        "cluster": sums["cluster"],
        "namespace": sums["namespace"],
        "workload": sums["workload"],
        "team": sums["team"],
        "status": None,
        "from": moment(from_ms),
        "to": moment(to_ms),
        "hours": hours(to_ms - from_ms) if from_ms is not None and to_ms is not None else None,
        "pods": sums.get("pods"),
        "cost": sums["cost"],
        "idle_cost": sums["idle_cost"],
        "allocated_gpu_hours": hours(sums["allocated_gpu_ms"]),
        "active_gpu_hours": hours(sums["active_gpu_ms"]),
        "cost_per_active_gpu_hour": per(sums["cost"], hours(sums["active_gpu_ms"])),
    }


def _sweeps(places: list[Item], rows: list[Item], metric: str | None, goal: str) -> list[Item]:
    cost_of = {row["run_id"]: row["cost"] for row in rows if row["run_id"]}
    known = {row["run_id"]: row for row in places}
    trials: dict[str, list[Item]] = defaultdict(list)
    for row in places:
        if row["parent_id"]:
            trials[row["parent_id"]].append(row)
    result = []
    for parent_id, children in trials.items():
        parent = known.get(parent_id)
        wanted = metric or next((name for name in LOSSES if any(name in child["metrics"] for child in children)), None)
        scored = [child for child in children if wanted in child["metrics"]]
        best = None
        if scored:
            sign = 1 if goal == "min" else -1
            best = min(scored, key=lambda child: (sign * child["metrics"][wanted], child["run_id"]))
        own = cost_of.get(parent_id, Decimal(0))
        cost = own + sum((_whole(child["run_id"], cost_of, trials) for child in children), Decimal(0))
        result.append(
            {
                "sweep": parent["name"] if parent else parent_id,
                "run_id": parent_id,
                "experiment": children[0]["experiment"],
                "trials": len(children),
                "cost": cost,
                "cost_outside_trials": own,
                "cost_per_trial": per(cost, len(children)),
                "metric": wanted if best else None,
                "best_trial": best["name"] if best else None,
                "best_run_id": best["run_id"] if best else None,
                "best_value": best["metrics"][wanted] if best else None,
                "best_trial_cost": cost_of.get(best["run_id"], Decimal(0)) if best else None,
            }
        )
    return sorted(result, key=lambda row: (-row["cost"], row["run_id"]))


def _whole(run_id: str, cost_of: dict[str, Decimal], trials: dict[str, list[Item]]) -> Decimal:
    """A run's cost with that of the runs within it."""
    within = sum((_whole(child["run_id"], cost_of, trials) for child in trials.get(run_id, [])), Decimal(0))
    return cost_of.get(run_id, Decimal(0)) + within


def _lost_run(row: Item) -> RunWithoutCost:
    if row["workload"]:
        why = "its workload cost nothing while it ran"
    else:
        why = "no pod with GPUs is known by this name" if row["told"] else "no tag says where it ran"
    return {
        "workload": row["told"],
        "namespace": row["namespace"],
        "run": row["name"],
        "run_id": row["run_id"],
        "unit": "run",
        "amount": 1,
        "failed": 0,
        "since": moment(row["started_ms"]),
        "source": row["source"],
        "why": why,
    }
