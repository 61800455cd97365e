"""What the epochs of one run come to: mean, best, trend, lost work, and a forecast to the planned number of epochs."""

from __future__ import annotations

from decimal import Decimal

from gpucost.units.view import Item, per

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
