"""Cost of experiments: jobs, runs of an experiment tracker, and sweeps with their trials."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from gpucost.engine.local import answer_rows, run_stage
from gpucost.errors import UsageError
from gpucost.units.ask import PACKAGE, UnitAsk, answer, prepare, without_work
from gpucost.units.epochs import Run, claim
from gpucost.units.intervals import Interval
from gpucost.units.view import Item, UnitView, cost_without_work, hours, moment, per

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Workloads of these types are experiments even where no tracker knows them.
EXPERIMENT_TYPES = frozenset({"training", "batch"})
# Metrics that name the best trial where none is asked for: the first that any trial has.
LOSSES = ("val_loss", "eval_loss", "validation_loss", "test_loss", "loss", "train_loss")


def experiments(
    con: DuckDBPyConnection, ask: UnitAsk, metric: str | None = None, goal: Literal["min", "max"] = "min"
) -> UnitView:
    """What each experiment of the period cost, and each sweep with its best trial by the last value of `metric`.

    Raises UsageError for a metric that no run has.
    """
    prepare(con, ask)
    run_stage(con, PACKAGE, "31_run_places", {"from_ms": ask.period.start_ms, "to_ms": ask.period.end_ms})
    places = answer(con, "SELECT * FROM unit_run_places ORDER BY started_ms, run_id")
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
    claimed = answer_rows(con, PACKAGE, "90_claimed")
    sums = {row["claim_id"]: row for row in claimed if row["claim_id"] is not None}
    rows = [_run_row(row, sums[number]) for number, row in enumerate(tracked) if number in sums]
    paid = {row["run_id"] for row in rows} | {row["parent_id"] for row in rows}
    rows += [_plain_row("outside_runs", row, row["workload"]) for row in claimed if row["claim_id"] is None]
    mine = {(row["cluster"], row["namespace"], row["workload"]) for row in rows}
    jobs = answer_rows(con, PACKAGE, "67_workloads")
    rows += [
        _plain_row("job", row, row["workload"])
        for row in jobs
        if row["workload_type"] in EXPERIMENT_TYPES and (row["cluster"], row["namespace"], row["workload"]) not in mine
    ]
    rows.sort(key=lambda row: (-row["cost"], row["workload"], row["name"]))
    asked = [row for row in places if row["run_id"] in paid] if ask.is_narrowed else places
    sweeps = _sweeps(asked, rows, metric, goal)
    rest = cost_without_work(without_work(con, [(row["cluster"], row["namespace"], row["workload"]) for row in rows]))
    lost = [] if ask.is_narrowed else [_lost(row) for row in places if row["run_id"] not in paid]
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
        "gpucost.unit.experiment/1",
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


def _lost(row: Item) -> Item:
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
