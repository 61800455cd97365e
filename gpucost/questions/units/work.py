"""The cost of epochs and experiments: their workloads' cost during their time, with lost work separate."""

import math
from collections import Counter
from dataclasses import fields, replace
from decimal import Decimal
from itertools import dropwhile, pairwise
from typing import Literal

from typing_extensions import TypedDict

from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.questions.report.rows import MICRO, in_hours
from gpucost.questions.units.query import (
    PACKAGE,
    PLACE,
    Item,
    Located,
    ModelWithoutCost,
    OpenSpan,
    Span,
    UnitAnswer,
    UnitQuery,
    UnitTotals,
    UnitView,
    WorkWithoutCost,
    moment,
    per,
    total,
    with_remainders,
)
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped, grouped_by
from gpucost.render.view import hours

_AT_ONCE_MS = 1

Status = Literal["done", "lost", "unfinished", "outside"]


@frozen_dataclass
class Interval:
    """A run's time [from_ms, to_ms). `epoch` is None outside epochs. `attempt` counts restarts, from 1."""

    epoch: int | None
    status: Status
    attempt: int
    from_ms: int
    to_ms: int


@frozen_dataclass
class Levels:
    """The known facts of a run: `reached` are (moment, level) in order.

    It held GPUs in [from_ms, to_ms), and then possibly `failed`. `marks`: a level is the number of finished epochs
    ("end") or of the epoch that begins ("begin"). `from_zero`: no work was done before `from_ms`. `is_over`: it will
    not continue after `to_ms`. `resumes`: levels fall to 0 at a restart, but the work continues. `is_log`: the run
    itself wrote an entry per epoch; otherwise its level was sampled.
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
    """The run's time without gap or overlap. Epochs repeated after a restart are lost; the last entry of each counts."""
    reached = _resumed(run.reached) if run.resumes else run.reached
    begins = run.marks == "begin"
    if run.is_log and not begins and reached and 0 < reached[0][1] < 1:
        # the first epoch is in progress, and began with the run
        reached = list(dropwhile(lambda entry: entry[1] < 1, reached))
    # number of finished epochs by moment
    points = [(min(max(at, run.from_ms), run.to_ms), math.floor(level) - begins) for at, level in reached]
    parts: list[Interval] = []
    attempt, before_ms, done = 1, run.from_ms, None if begins else _done_before(points, run)
    for at_ms, level in points:
        if done is None or (done == 0 and level == 0 and not parts):
            parts.append(Interval(None, "outside", attempt, before_ms, at_ms))
        elif level > done:
            # epochs finished between two samples share the time evenly
            count = level - done
            edges = (before_ms + (at_ms - before_ms) * part // count for part in range(count + 1))
            for number, span in enumerate(pairwise(edges), done + 1):
                parts.append(Interval(number, "done", attempt, *span))
        elif level < done:
            parts = _lose(parts, level + 1)
            attempt += 1
            # a log does not show when work resumed, so the time before it counts for the repeated epoch
            if not begins and at_ms - before_ms <= _AT_ONCE_MS:
                done = level
                continue
            parts.append(Interval(done + 1, "lost", attempt - 1, before_ms, at_ms))
        else:
            continue
        done, before_ms = level, at_ms
    status: Status = "outside"
    if run.reached and (begins or run.failed or not run.is_over):
        status = "lost" if run.failed else "done" if run.is_over else "unfinished"
    epoch = None if status == "outside" else (done or 0) + 1
    parts.append(Interval(epoch, status, attempt, before_ms, run.to_ms))
    return [
        interval
        for interval in parts
        if interval.from_ms < interval.to_ms or interval.status in ("done", "lost")
    ]


def _done_before(points: list[tuple[int, int]], run: Levels) -> int | None:
    """The number of the epoch before the first: 0, or -1 if a log counts from 0; None if unknown.

    A 0 in a log is the first epoch, finished, unless it came at once: within half the duration of the next epoch.
    """
    if not run.from_zero:
        return None
    if not (run.is_log and run.reached and run.reached[0][1] == 0):
        return 0
    zero_ms = points[0][0]
    next_ms = next((at_ms for at_ms, level in points if level > 0), run.to_ms)
    return -1 if 2 * (zero_ms - run.from_ms) >= next_ms - zero_ms else 0


def _lose(parts: list[Interval], from_epoch: int) -> list[Interval]:
    """The parts, with epochs from this one on lost."""
    return [
        replace(part, status="lost") if part.status == "done" and (part.epoch or 0) >= from_epoch else part
        for part in parts
    ]


def _resumed(reached: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """The levels, continued after each fall."""
    base, before, result = 0.0, 0.0, []
    for at_ms, level in reached:
        if level < before:
            base += before
        result.append((at_ms, base + level))
        before = level
    return result


class EpochRow(Located, OpenSpan):
    """The cost of an epoch, or of the time outside runs."""

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
    """The cost of a run, by epoch and in total; `trend_since`: a restart, or its middle."""

    run: str
    run_id: str | None
    attempts: int
    epochs_done: int
    mean_cost: Decimal | None
    trend_percent: float | None
    trend_since: Literal["restart", "middle"] | None
    lost_epochs: int
    lost_cost: Decimal
    unfinished_cost: Decimal
    outside_cost: Decimal
    cost: Decimal
    idle_cost: Decimal
    planned_epochs: int | None
    remaining_epochs: int | None
    forecast_cost: Decimal | None
    forecast_hours: float | None


class EpochTotals(UnitTotals):
    """Over all runs."""

    runs: int
    epochs_done: int
    lost_cost: Decimal
    outside_cost: Decimal
    mean_cost_per_epoch: Decimal | None
    cost_per_useful_gpu_hour: Decimal | None


class Epochs(UnitAnswer):
    """The output of `gpucost unit epoch`."""

    rows: list[EpochRow]
    totals: EpochTotals
    runs: list[RunRow]
    work_without_cost: list[ModelWithoutCost]


def epochs(con: DuckDBPyConnection, query: UnitQuery, planned_epochs: int | None = None) -> UnitView:
    """The cost of each epoch of the period's runs, with mean, trend, best, lost work and forecast.

    Per workload, the costs of its runs' intervals and of the time outside runs add up to its cost in the period,
    exactly. Reads the tables of `query.prepare`.
    """
    run_stage(con, PACKAGE, "31_run_places", query.period.bounds)
    runs, lost = _runs(con, query)
    claims = _cut(con, query, runs)
    outside = []
    for sums in map(in_hours, dicts(con.execute(_CLAIMED))):
        if sums["claim_id"] is None:
            outside.append(_epoch_row(sums, query))
        else:
            run, part = claims[sums["claim_id"]]
            run["rows"].append(_epoch_row(sums, query, run, part))
    rows, summaries = [], []
    for run in runs:
        if run["rows"]:
            rows += run["rows"]
            summaries.append(
                _summary(
                    run["rows"],
                    planned_epochs or int(run["planned_epochs"] or 0),
                    is_over=run["is_over"] and not planned_epochs,
                )
            )
        else:
            # its pods have no cost
            lost += run["without_cost"]
    rows += outside
    done = _of_status(rows, "done")
    view = UnitView(
        "unit.epoch",
        "Cost per epoch",
        query,
        rows,
        {
            "runs": len(summaries),
            "epochs_done": len(done),
            "cost": total(rows),
            "idle_cost": total(rows, "idle_cost"),
            "lost_cost": total(_of_status(rows, "lost")),
            "outside_cost": total(_of_status(rows, "outside")),
            "mean_cost_per_epoch": per(total(done), len(done)),
            "cost_per_useful_gpu_hour": per(total(rows), sum(row["active_gpu_hours"] for row in done)),
        },
        {"runs": summaries},
        {
            "rows": ("run", "epoch", "status", "from", "duration_hours", "cost", "idle_cost"),
            "runs": (
                "run", "epochs_done", "mean_cost", "trend_percent", "lost_cost", "cost", "planned_epochs", "forecast_cost",
                "lost_epochs",
            ),
            "work_without_cost": ("workload", "unit", "amount", "since", "why"),
        },
    )  # fmt: skip
    if not summaries:
        view.notes.append("no epochs were counted in this period: run gpucost collect progress")
    return with_remainders(con, view, lost, ("training",))


def runs_with_parts(con: DuckDBPyConnection, query: UnitQuery) -> list[Item]:
    """The runs with known workloads and their intervals, as `parts`. Reads the tables of `query.prepare`."""
    run_stage(con, PACKAGE, "31_run_places", query.period.bounds)
    return _runs(con, query)[0]


def _runs(con: DuckDBPyConnection, query: UnitQuery) -> tuple[list[Item], list[Item]]:
    """The runs with known workloads and their intervals, and the other epochs as work without cost."""
    runs, lost = [], []
    for run in answer_rows(con, PACKAGE, "70_runs", query.period.bounds):
        row = run["without_cost"]
        run["without_cost"] = [row | {"since": moment(row["since"])}] if run["is_new"] else []
        if run["has_place"]:
            run["reached"] = tuple(zip(run["moments"], run["levels"], strict=True))
            levels = Levels(**{each.name: run[each.name] for each in fields(Levels)})
            runs.append(run | {"parts": intervals(levels), "rows": []})
        else:
            lost += run["without_cost"]
    names = Counter(run["name"] for run in runs)
    for run in runs:
        if run["run_id"] and names[run["name"]] > 1:
            run["name"] = f"{run['name']} ({run['run_id'][:8]})"
    return runs, lost


_EPOCH_COLUMNS = (
    "run",
    "run_id",
    *PLACE,
    "team",
    "epoch",
    "status",
    "attempt",
    "from",
    "to",
    "duration_hours",
    "cost",
    "idle_cost",
    "allocated_gpu_hours",
    "active_gpu_hours",
    "is_whole",
)


def _epoch_row(sums: Item, query: UnitQuery, run: Item | None = None, part: Interval | None = None) -> Item:
    """An interval of a run; without one, the cost of a workload with runs while none of them ran."""
    row = {name: sums.get(name) for name in _EPOCH_COLUMNS} | {"status": "outside", "is_whole": True}
    if run is None or part is None:
        return row
    from_ms, to_ms = max(part.from_ms, query.period.start_ms), min(part.to_ms, query.period.end_ms)
    return row | {
        "run": run["name"],
        "run_id": run["run_id"] or None,
        "epoch": part.epoch,
        "status": part.status,
        "attempt": part.attempt,
        "from": moment(from_ms),
        "to": moment(to_ms),
        "duration_hours": hours(to_ms - from_ms),
        "is_whole": (from_ms, to_ms) == (part.from_ms, part.to_ms),
    }


def _summary(rows: list[Item], plan: int, *, is_over: bool) -> Item:
    """The figures of one run, from its epochs; docs/units.md has the formulas.

    A run that is over has no forecast.

    The mean and the trend use finished epochs that are entirely in the period.
    """
    done, lost = _of_status(rows, "done"), _of_status(rows, "lost")
    whole = sorted((row for row in done if row["is_whole"]), key=lambda row: (row["epoch"], row["from"]))
    # the latest epochs and the earlier ones, separated by the last restart, otherwise at the middle
    last = max((row["attempt"] for row in whole), default=1)
    by_recency = grouped((row["attempt"] == last, row) for row in whole)
    recent, before, since = by_recency[True], by_recency[False], "restart"
    if not before:
        half = len(whole) // 2
        recent, before, since = whole[half:], whole[:half], "middle"
    has_trend = bool(recent and total(before))
    return {
        **{name: rows[0][name] for name in ("run", "run_id", *PLACE, "team")},
        "from": rows[0]["from"],
        "to": rows[-1]["to"],
        "attempts": max(row["attempt"] for row in rows),
        "epochs_done": len(done),
        "mean_cost": per(total(whole), len(whole)),
        "trend_percent": round(float((_mean(recent) / _mean(before) - 1) * 100), 1) if has_trend else None,
        "trend_since": since if has_trend else None,
        "lost_epochs": len(lost),
        "lost_cost": total(lost),
        "unfinished_cost": total(_of_status(rows, "unfinished")),
        "outside_cost": total(_of_status(rows, "outside")),
        "cost": total(rows),
        "idle_cost": total(rows, "idle_cost"),
        "planned_epochs": plan or None,
        **dict.fromkeys(("remaining_epochs", "forecast_cost", "forecast_hours")),
    } | (_forecast(plan, rows, recent) if plan and not is_over else {})


def _forecast(plan: int, rows: list[Item], recent: list[Item]) -> Item:
    """A forecast that continues the latest epochs; the cost so far of the current epoch counts toward it."""
    reached = max((row["epoch"] for row in _of_status(rows, "done")), default=0)
    reached += any(row["epoch"] == 0 for row in rows)  # numbers start at 0
    remaining = max(0, plan - reached)
    if remaining and not recent:
        return {"remaining_epochs": remaining}
    cost, length = Decimal(0), 0.0
    if recent:
        cost = remaining * _mean(recent)
        length = remaining * (sum(row["duration_hours"] for row in recent) / len(recent))
    under_way = _of_status(rows, "unfinished")
    return {
        "remaining_epochs": remaining,
        "forecast_cost": (total(rows) + max(Decimal(0), cost - total(under_way))).quantize(MICRO),
        "forecast_hours": round(max(0.0, length - sum(row["duration_hours"] for row in under_way)), 6),
    }


def _of_status(rows: list[Item], status: Status) -> list[Item]:
    return [row for row in rows if row["status"] == status]


def _mean(rows: list[Item]) -> Decimal:
    return total(rows) / len(rows)


# The intervals that claim the cost of pods; without pod names, of all pods of the workload.
_CLAIMS = """
CREATE OR REPLACE TEMP TABLE unit_claims AS
SELECT s.claim_id, s.depth, a.allocation_id, s.from_ms, s.to_ms
FROM (
    SELECT unnest($claims::STRUCT(claim_id INTEGER, depth INTEGER, cluster VARCHAR, namespace VARCHAR, workload VARCHAR,
        pods VARCHAR, from_ms BIGINT, to_ms BIGINT)[], recursive := true)
) AS s JOIN allocations AS a USING (cluster, namespace, workload)
WHERE (s.pods = '' OR list_contains(string_split(s.pods, ','), a.pod)) AND s.from_ms < s.to_ms"""
# Cost and GPU time per claim (null: unclaimed) and workload.
_CLAIMED = """
SELECT claim_id, cluster, namespace, workload, string_agg(DISTINCT team, ', ' ORDER BY team) AS team,
    sum(cost) AS cost, sum(idle_cost) AS idle_cost,
    sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
FROM unit_pieces
GROUP BY claim_id, cluster, namespace, workload
ORDER BY claim_id, cluster, namespace, workload"""


def _cut(con: DuckDBPyConnection, query: UnitQuery, runs: list[Item]) -> list[tuple[Item, Interval]]:
    """Make unit_pieces; claim i is the i-th element of the answer, a run with one of its intervals.

    If runs overlap, only the runs in the most sweeps are charged.
    """
    parents = {run["run_id"]: run["parent_id"] for run in runs}
    runs_of = grouped_by(runs, *PLACE)
    claims: list[tuple[Item, Interval]] = []
    rows: list[Item] = []
    for run in runs:
        place = {name: run[name] for name in PLACE}
        # a run is its whole workload, unless each has pods of its own
        pods = {other["pods"] for other in runs_of[tuple(place.values())]}
        claimant = place | {"pods": run["pods"] if all(pods) and len(pods) > 1 else ""}
        claimant["depth"] = _depth(run["run_id"], parents)
        for part in run["parts"]:
            from_ms, to_ms = max(part.from_ms, query.period.start_ms), min(part.to_ms, query.period.end_ms)
            rows.append(claimant | {"claim_id": len(claims), "from_ms": from_ms, "to_ms": to_ms})
            claims.append((run, part))
    con.execute(_CLAIMS, {"claims": rows})
    run_stage(con, PACKAGE, "85_pieces")
    return claims


def _depth(run_id: str, parents: dict[str, str | None]) -> int:
    """The number of sweeps that contain a run."""
    depth, seen = 0, {run_id}
    while (run_id := parents.get(run_id) or "") in parents and run_id not in seen:
        seen.add(run_id)
        depth += 1
    return depth


class ExperimentRow(Located, OpenSpan):
    """The cost of an experiment: a tracked run, a job without a tracker, or a workload's time outside runs."""

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
    """The cost of a sweep, with its trials."""

    sweep: str
    run_id: str
    experiment: str | None
    trials: int
    cost: Decimal
    cost_outside_trials: Decimal
    cost_per_trial: Decimal | None


class ExperimentTotals(UnitTotals):
    """Over all experiments."""

    experiments: int
    cost_per_active_gpu_hour: Decimal | None


class RunWithoutCost(WorkWithoutCost):
    """Work of a run without cost."""

    run: str
    run_id: str


class Experiments(UnitAnswer):
    """The output of `gpucost unit experiment`."""

    rows: list[ExperimentRow]
    totals: ExperimentTotals
    sweeps: list[Sweep]
    work_without_cost: list[RunWithoutCost]


_RUNS_WITHOUT_COST = """
SELECT label AS workload, namespace, name AS run, run_id, 'run' AS unit, 1 AS amount, 0 AS failed, started_ms AS since, source,
    CASE WHEN workload IS NOT NULL THEN 'its workload had no cost during the run'
        WHEN label IS NOT NULL THEN 'no GPU pod has this name' ELSE 'no tag names its workload' END AS why
FROM unit_run_places ANTI JOIN (SELECT unnest([run_id, parent_id]) AS run_id FROM unit_experiments) USING (run_id)
ORDER BY started_ms, run_id"""


def experiments(con: DuckDBPyConnection, query: UnitQuery) -> UnitView:
    """The cost of each experiment and sweep of the period. Reads the tables of `query.prepare`."""
    run_stage(con, PACKAGE, "31_run_places", query.period.bounds)
    con.execute("FROM unit_run_places WHERE workload IS NOT NULL ORDER BY started_ms, run_id")
    runs = dicts(con)
    for run in runs:
        run["parts"] = [Interval(None, "done", 1, run["started_ms"], run["ended_ms"] or query.period.end_ms)]
    _cut(con, query, runs)
    run_stage(con, PACKAGE, "90_experiments")
    con.execute("FROM unit_experiments ORDER BY cost DESC, workload, name, run_id NULLS LAST, kind DESC")
    rows = [_experiment(in_hours(row)) for row in dicts(con)]
    sweeps = answer_rows(con, PACKAGE, "95_sweeps", {"is_narrowed": query.is_narrowed})
    view = UnitView(
        "unit.experiment",
        "Cost per experiment",
        query,
        rows,
        {
            "experiments": sum(row["kind"] != "outside_runs" for row in rows),
            "cost": total(rows),
            "idle_cost": total(rows, "idle_cost"),
            "cost_per_active_gpu_hour": per(total(rows), sum(row["active_gpu_hours"] for row in rows)),
        },
        {"sweeps": [sweep | {"cost_per_trial": per(sweep["cost"], sweep["trials"])} for sweep in sweeps]},
        {
            "rows": (
                "kind", "experiment", "name", "namespace", "status", "hours", "cost", "idle_cost", "cost_per_active_gpu_hour",
            ),
            "sweeps": ("sweep", "experiment", "trials", "cost", "cost_per_trial"),
            "work_without_cost": ("workload", "run", "unit", "since", "why"),
        },
    )  # fmt: skip
    lost = dicts(con.execute(_RUNS_WITHOUT_COST))
    lost = [row | {"since": moment(row["since"])} for row in lost]
    return with_remainders(con, view, lost, ("training", "batch"))


def _experiment(row: Item) -> Item:
    begun, ended = row["from"], row["to"]
    return row | {
        "from": moment(begun),
        "to": moment(ended),
        "hours": hours(ended - begun) if begun is not None and ended else None,
        "cost_per_active_gpu_hour": per(row["cost"], row["active_gpu_hours"]),
    }
