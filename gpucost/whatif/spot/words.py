"""What answers about spot say in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpucost.whatif.spot.formulas import Work, exact, paid_share


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
