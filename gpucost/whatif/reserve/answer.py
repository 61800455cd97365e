"""Which commitment costs least, family by family, and what it risks."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from gpucost.errors import GpucostError
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.blocks import Block, positions
from gpucost.whatif.fleet import CostOf
from gpucost.whatif.reserve.choice import Choice
from gpucost.whatif.reserve.covered import Existing
from gpucost.whatif.reserve.families import Family
from gpucost.whatif.reserve.levels import lasting_share, on_demand_blocks, terms_of
from gpucost.whatif.reserve.offers import Offer

FALLS = (10, 25, 50)

_COLUMNS = (
    "family", "commitment", "instances", "cost", "saving", "saving %", "coverage %", "utilization %",
    "break-even utilization %", "upfront", "payback months",
)  # fmt: skip


def answer(
    families: Sequence[Family],
    existing: Existing,
    cost_of: CostOf,
    *,
    currency: str,
    period: str,
    years: Sequence[int] = (),
    payments: Sequence[str] = (),
    assumptions: Sequence[Assumption] = (),
) -> Answer:
    """What the best commitment of each family would have cost over the period, beside on demand.

    `years` and `payments` narrow what is considered; none: all. Raises GpucostError where nothing is on offer.
    """
    choices = [
        Choice.best(family, terms)
        for family in families
        for terms in terms_of(family)
        if (not years or terms.years in years) and (not payments or terms.payment in payments)
    ]
    if not choices:
        names = ", ".join(sorted({use.instance_type for family in families for use in family.uses}))
        raise GpucostError(
            f"no price of a commitment is known for {names or 'any node'}",
            "gpucost collect prices asks the clouds for them; or --commitment-price 1=PRICE, or --commitment-discount 1=PERCENT",
        )
    groups = {str(family): on_demand_blocks(family.uses) for family in families}
    told = positions(cost_of, currency, groups | {choice.name: choice.blocks() for choice in choices})
    best: dict[str, Choice] = {}
    for choice in sorted(choices, key=lambda choice: (told[choice.name].cost, choice.terms.years, choice.upfront())):
        best.setdefault(str(choice.family), choice)
    chosen = {name: choice for name, choice in best.items() if any(choice.levels)}
    # What nothing is committed of costs in the scenario what it does today: the parts of one sum, to the last digit.
    scenario = [told[chosen[str(family)].name if str(family) in chosen else str(family)] for family in families]
    today = [told[str(family)] for family in families]
    regret = _regret(list(chosen.values()), cost_of, currency)
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand",
        period=period,
        today=_total(today, currency),
        scenario=_total(scenario, currency, committed_node_hours=round(sum(c.committed_hours for c in chosen.values()), 6)),
        figures=_figures(choices, chosen, told, existing, regret),
        assumptions=(*assumptions, *_sources(families, choices)),
        break_even=_break_even(chosen),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=_findings(families, choices, chosen, existing),
        tables=(
            Rows("commitments", _COLUMNS, tuple(_line(choice, told) for choice in choices), note=_best_note(chosen)),
            *([_falls(regret)] if regret else []),
        ),
    )


def _total(parts: Sequence[Position], currency: str, **more: Value) -> Position:
    whole = sum(parts, Position(Decimal(0), currency, 0.0, 0.0))
    return Position(whole.cost, currency, round(whole.gpu_hours, 6), round(whole.node_hours, 6), more)


def _percent(part: float, whole: float) -> float | None:
    return round(part / whole * 100, 6) if whole else None


def _record(choice: Choice, told: dict[str, Position]) -> dict[str, Value]:
    today, cost = told[str(choice.family)].cost, told[choice.name].cost
    return {
        "family": str(choice.family),
        "provider": choice.family.provider,
        "region": choice.family.region,
        "kind": choice.terms.kind,
        "term_years": choice.terms.years,
        "payment_option": choice.terms.payment,
        "offering": choice.terms.offering or None,
        "instances": sum(choice.levels),
        "instance_types": ", ".join(pool.of for pool in choice.pools),
        "committed_price_per_node_hour": choice.pools[0].offer.price if len(choice.pools) == 1 else None,
        "on_demand_price_per_node_hour": choice.pools[0].on_demand if len(choice.pools) == 1 else None,
        "cost": cost,
        "saving": today - cost,
        "saving_percent": _percent(float(today - cost), float(today)),
        "coverage_percent": _percent(choice.used_hours, choice.all_hours),
        "utilization_percent": _percent(choice.used_hours, choice.committed_hours),
        "break_even_utilization_percent": round(choice.break_even * 100, 6),
        "upfront_payment": choice.upfront(),
        "payback_months": choice.payback_months() if any(choice.levels) else None,
    }


def _line(choice: Choice, told: dict[str, Position]) -> tuple[Value, ...]:
    row = _record(choice, told)
    money = (round(told[choice.name].cost, 2), round(told[str(choice.family)].cost - told[choice.name].cost, 2))
    shares = ("saving_percent", "coverage_percent", "utilization_percent", "break_even_utilization_percent")
    return (
        str(choice.family), str(choice.terms), sum(choice.levels), *money,
        *(_short(row[name]) for name in shares), round(choice.upfront(), 2), _short(row["payback_months"]),
    )  # fmt: skip


def _short(value: Value) -> Value:
    return "-" if value is None else round(value, 1) if isinstance(value, float) else value


def _best_note(chosen: dict[str, Choice]) -> str | None:
    said = "; ".join(f"{name}: {choice.terms}, {_levels(choice)}" for name, choice in chosen.items())
    return f"The cheapest, which the scenario takes: {said}." if said else "On demand alone is the cheapest."


def _levels(choice: Choice) -> str:
    return " and ".join(f"{level} × {pool.of}" for pool, level in zip(choice.pools, choice.levels, strict=True) if level)


def _figures(
    choices: Sequence[Choice],
    chosen: dict[str, Choice],
    told: dict[str, Position],
    existing: Existing,
    regret: list[dict[str, Value]],
) -> dict[str, object]:
    best = [_record(choice, told) for choice in chosen.values()]
    figures: dict[str, object] = {
        "price_per": "node",
        "best": best,
        "options": [_record(choice, told) for choice in choices],
        "regret": regret,
        "existing_commitments": [
            {
                "commitment_discount_id": there.name,
                "type": there.kind,
                "covered_instance_hours": there.covered_hours,
                "unused_cost": there.unused_cost,
                "currency": there.currency,
            }
            for there in existing.commitments
        ],
        "existing_commitments_known": existing.is_bill_loaded,
    }
    if len(best) == 1:
        names = ("instances", "coverage_percent", "utilization_percent", "break_even_utilization_percent", "payback_months")
        figures |= {name: best[0][name] for name in names}
    return figures


def _regret(chosen: Sequence[Choice], cost_of: CostOf, currency: str) -> list[dict[str, Value]]:
    """For each family and fall of usage: what is paid with the commitment held, and with what would have been best then."""
    groups: dict[str, list[Block]] = {}
    for choice in chosen:
        for fall in FALLS:
            usage, name = 1 - fall / 100, f"{choice.family} -{fall}"
            then = [pool.scaled(usage).best_level() for pool in choice.pools]
            groups[f"{name} held"] = choice.blocks(usage)
            groups[f"{name} best"] = choice.blocks(usage, levels=then)
            groups[f"{name} on demand"] = choice.blocks(usage, levels=[0] * len(choice.pools))
    told = positions(cost_of, currency, groups) if groups else {}
    rows: list[dict[str, Value]] = []
    for choice in chosen:
        for fall in FALLS:
            name = f"{choice.family} -{fall}"
            held, best, alone = (told[f"{name} {what}"].cost for what in ("held", "best", "on demand"))
            rows.append(
                {
                    "family": str(choice.family),
                    "usage_falls_percent": fall,
                    "cost": round(held, 6),
                    "on_demand_cost": round(alone, 6),
                    "still_saves": round(alone - held, 6),
                    "best_cost": round(best, 6),
                    "regret": round(max(Decimal(0), held - best), 6),
                }
            )
    return rows


def _falls(regret: Sequence[dict[str, Value]]) -> Rows:
    lines = (tuple(round(value, 2) if isinstance(value, Decimal) else value for value in row.values()) for row in regret)
    columns = (name.replace("_percent", " %").replace("_", " ") for name in regret[0])
    return Rows("if usage falls", tuple(columns), tuple(lines), note="Regret: what is paid over the best level for that usage.")


def _break_even(chosen: dict[str, Choice]) -> tuple[str, ...]:
    said = []
    for name, choice in chosen.items():
        share = lasting_share(choice.pools, choice.levels)
        said.append(
            f"{name}: a committed instance pays for itself from {choice.break_even * 100:.1f} % of its hours in use on"
            + (f"; all of them together until usage falls by {(1 - share) * 100:.1f} %." if share is not None else ".")
        )
    return tuple(said) or ("At no level of use that was seen does a commitment cost less than on demand.",)


def _sources(families: Sequence[Family], choices: Sequence[Choice]) -> list[Assumption]:
    rows = [
        Assumption(
            f"on demand, {use.instance_type}",
            use.on_demand.price,
            "money per node-hour",
            use.on_demand.source,
            use.on_demand.as_of,
        )
        for family in families
        for use in family.uses
    ]
    for choice in choices:
        rows += [_price(f"{pool.of}, {choice.terms}", pool.offer) for pool in choice.pools]
    if any(choice.terms.payment == "partial_upfront" for choice in choices):
        rows.append(Assumption("partial upfront", 50, "% of the term's price", "default"))
    return rows


def _price(name: str, offer: Offer) -> Assumption:
    return Assumption(name, offer.price, "money per node-hour", offer.source, offer.as_of)


def _findings(
    families: Sequence[Family], choices: Sequence[Choice], chosen: dict[str, Choice], existing: Existing
) -> tuple[str, ...]:
    said = []
    if not existing.is_bill_loaded:
        said.append(
            "Existing commitments: none known, since no bill of the period is loaded; what you have already is not counted."
        )
    elif not existing.commitments:
        said.append("Existing commitments: the bill of the period has none.")
    else:
        covered = sum(use.covered_hours for family in families for use in family.uses)
        said.append(
            f"Existing commitments: {len(existing.commitments)} in the bill"
            + (f" of {existing.month}, which are taken to go on as on its last day," if existing.month else ",")
            + f" counted first; they cover {covered:,.1f} node-hours of this usage, which are in neither figure."
        )
        silent = [c for c in existing.commitments if not c.covered_hours and not c.unused_cost]
        said += [f"{c.name}: the bill does not say which instances it covers, so it is not counted." for c in silent]
        unused = [c for c in existing.commitments if c.unused_cost]
        said += [
            f"{c.name} was not used for {c.unused_cost:,.2f} {c.currency} of what it cost: use it before buying more."
            for c in unused
        ]
    priced = {str(choice.family) for choice in choices}
    said += [
        f"{family}: no price of a commitment is known; it stays on demand." for family in families if str(family) not in priced
    ]
    for choice in chosen.values():
        said += [f"{use.instance_type} is not sold as {choice.terms}; it stays on demand." for use in choice.left_out]
        if any(len(family.uses) > 1 for family in families) and choice.terms.kind != "reserved":
            said.append(f"{choice.family}: all sizes count as {choice.pools[0].of}, by their price on demand.")
    return tuple(said)
