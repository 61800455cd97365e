"""How the answers of `gpucost explain` are printed: aligned tables, figures in words, pods and when they held GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.cli._common import put

if TYPE_CHECKING:
    from gpucost.report.explained import CostExplained, PodCost

_FIGURES = {"gpus", "idle_hours", "gpu_hours", "hours", "price/h", "effective_cost"}
_TIMES = {"from", "to", "charge period"}
_SHORT_UUID = len("GPU-01234567")


def print_pods(pods: Sequence[PodCost], answer: CostExplained, top: int) -> None:
    put("\nBy pod, and when it held which GPUs (UTC)")
    lines: list[Sequence[Any]] = [
        (
            pod.pod,
            f"{pod.start:%m-%d %H:%M}",
            f"{pod.end:%m-%d %H:%M}",
            f"{pod.gpus:g}",
            hours(pod.allocated_gpu_hours),
            hours(pod.idle_gpu_hours),
            money(pod.cost),
            pod.node,
            ", ".join(map(_short, pod.devices)) or "not named by any metric",
        )
        for pod in pods[:top]
    ]
    rest = pods[top:]
    if rest:
        held, idle = (sum(getattr(pod, name) for pod in rest) for name in ("allocated_gpu_hours", "idle_gpu_hours"))
        cost = money(sum((pod.cost for pod in rest), Decimal(0)))
        lines.append((f"{len(rest):,} more", "", "", "", hours(held), hours(idle), cost, "", ""))
    idle = sum(pod.idle_gpu_hours for pod in pods)
    lines.append(("total", "", "", "", hours(answer.allocated_gpu_hours), hours(idle), money(answer.cost), "", ""))
    columns = ("pod", "from", "to", "gpus", "gpu_hours", "idle_hours", f"cost_{answer.currency}", "node", "devices")
    table(columns, lines, (0, 0, 0, 0, 0, 2, 0, 1, 1))


def _short(device: str) -> str:
    """The first group of a UUID tells GPUs of a node apart; JSON has all of it."""
    uuid, slash, instance = device.partition("/")
    return f"{uuid[:_SHORT_UUID]}{slash}{instance}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], weights: Sequence[int] | None = None) -> None:
    from gpucost.cli._fit import figures_right, fitted, left_out, line_width
    from gpucost.cli._rows import RowFormat, render_rows

    width = line_width()
    whole = [index for index, name in enumerate(columns) if name in _FIGURES | _TIMES or name[-3:].isupper()]
    shown = fitted(columns, rows, weights or [0] * len(columns), width - 2 if width else None, figures=whole)
    for text in render_rows(*figures_right(*shown, _FIGURES), RowFormat.table).splitlines():
        put(f"  {text}")
    if below := left_out(columns, shown[0]):
        put(f"  {below}")


def money(amount: Decimal) -> str:
    return f"{amount:,.2f}"


def exact(amount: Decimal) -> str:
    return f"{amount.normalize():,f}"


def hours(hours: float) -> str:
    return f"{hours:,.1f}"
