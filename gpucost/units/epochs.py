"""Cost of each epoch of a run: what its workload cost over the epoch's own interval, lost work apart."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.engine.local import answer_rows, run_stage
from gpucost.units.ask import PACKAGE, Place, UnitAsk, answer, prepare, without_work
from gpucost.units.intervals import Interval, Levels, intervals
from gpucost.units.summary import summary
from gpucost.units.view import Item, UnitView, cost_without_work, hours, moment, per

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_APART_MS = 900_000
# mappings whose values are entries that runs wrote, one per epoch
_LOGS = ("mlflow", "file")


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
    work: Item | None = None  # as a row of work without cost, in case nothing it ran on cost anything


def epochs(con: DuckDBPyConnection, ask: UnitAsk, planned_epochs: int | None = None, *, is_prepared: bool = False) -> UnitView:
    """What each epoch of the period's runs cost, and per run its mean, trend, best, lost work and forecast.

    Per workload, the costs of its runs' intervals and of the time outside of runs sum to what it cost in the period, exactly.
    `is_prepared`: gpucost.units.ask.prepare has run with this ask.
    """
    if not is_prepared:
        prepare(con, ask)
    run_stage(con, PACKAGE, "31_run_places", {"from_ms": ask.period.start_ms, "to_ms": ask.period.end_ms})
    run_stage(con, PACKAGE, "70_levels", {"to_ms": ask.period.end_ms})
    runs, lost = _runs(con, ask)
    keys = claim(con, ask, runs)
    sums = {row["claim_id"]: row for row in answer_rows(con, PACKAGE, "90_claimed") if row["claim_id"] is not None}
    beside = [row for row in answer_rows(con, PACKAGE, "90_claimed") if row["claim_id"] is None]
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
        "gpucost.unit.epoch/1",
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


def claim(con: DuckDBPyConnection, ask: UnitAsk, runs: list[Run]) -> list[tuple[int, Interval]]:
    """Makes unit_pieces; claim i stands for interval [1] of run number [0] of the answer's i-th element."""
    keys = [(number, part) for number, run in enumerate(runs) for part in run.parts]
    depths = [depth_of(run.run_id, {other.run_id: other.parent_id for other in runs}) for run in runs]
    apart = pods_apart(runs)
    run_stage(
        con,
        PACKAGE,
        "80_claims",
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


def _runs(con: DuckDBPyConnection, ask: UnitAsk) -> tuple[list[Run], list[Item]]:
    """The runs whose workloads are known, and the epochs of the others as rows of work without cost."""
    known = {row["run_id"]: row for row in answer(con, "SELECT * FROM unit_run_places")}
    spans = {(row["cluster"], row["namespace"], row["workload"]): row for row in answer_rows(con, PACKAGE, "75_spans")}
    groups: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
    for row in answer(con, "SELECT * FROM unit_levels ORDER BY cluster, namespace, workload, told, run_id, at_ms"):
        groups[row["cluster"], row["namespace"], row["workload"], row["told"], row["run_id"]].append(row)
    runs: list[Run] = []
    lost: list[Item] = []
    for (cluster, namespace, workload, told, run_id), rows in groups.items():
        is_new = rows[-1]["at_ms"] >= ask.period.start_ms
        if workload is None:
            lost += [_lost(told, rows, "no pod with GPUs is known by this name")] if is_new else []
            continue
        place = (cluster, namespace, workload)
        tracked = known.get(run_id)
        work = _lost(workload, rows, "its pods cost nothing then") if is_new else None
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


def _lost(told: str, rows: list[Item], why: str) -> Item:
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
