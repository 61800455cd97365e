"""Commitments of a bill: the instances that they cover, hour by hour, and the cash saved if such instances go."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from functools import reduce
from operator import add

from gpucost.engine import dicts
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, from_ms as at
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.store.sqlfiles import column
from gpucost.whatif.avoidable import NOTHING, Commitments, Cover, Key
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.flags import round_money, to_decimal, total
from gpucost.whatif.fleet import Price, Row

# Two billing periods: commitments of an older bill may be over.
_LASTS = 62 * MS_PER_DAY


NO_KEY: Key = ("", "", "")


@frozen_dataclass
class Commitment:
    """A commitment in the period: the instance-hours that it covers, and the cost of its unused part."""

    commitment_discount_id: str
    type: str
    covered_instance_hours: float
    unused_cost: Decimal
    currency: str


@frozen_dataclass
class Covered:
    """Instances of a type that commitments cover, and uncovered instances, hour by hour.

    `used` is the cost of the used part of the covering commitments after discounts. `plan_hours` are covered by savings plans.
    `on_demand` is the cost of uncovered instances, before discounts in separate rows.
    """

    curve: Curve
    uncovered: Curve
    used: Decimal = NOTHING
    on_demand: Decimal = NOTHING
    plan_hours: float = 0.0


@frozen_dataclass
class OtherUse:
    """Other on-demand instances of the only payer of a provider; a unit costs 1 an hour under a savings plan."""

    on_demand: Price
    curve: Curve


@frozen_dataclass
class Existing:
    """Commitments of the bill by the instances that they cover, and the payer's other usage by provider.

    Charges that cover no instance are under NO_KEY. `month` is that of the bill whose last day is repeated for later time.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Covered] = field(default_factory=dict)
    month: str | None = None
    currency: str | None = None
    others: dict[str, OtherUse] = field(default_factory=dict)


# By provider: the end of the last billed instance, and the end of the complete bill.
_BILLED = """
CREATE OR REPLACE TEMP TABLE billed AS
SELECT b.provider, max(epoch_ms(charge_period_end)) AS last_ms, max(greatest(epoch_ms(charge_period_end), least(
    epoch_ms(strptime(b.billing_period, '%Y-%m') + INTERVAL 1 MONTH), epoch_ms(b.loaded_at)))) AS until_ms
FROM bill_rows JOIN bills AS b USING (bill_id)
WHERE kind = 'instance' AND epoch_ms(charge_period_start) < $to_ms
GROUP BY ALL HAVING max(epoch_ms(charge_period_end)) >= $from_ms - $lasts
"""
# Hours that commitments cover, their unused part and discounts; without an id, hours of $types on demand. After the bill, its
# last day is repeated, until the end of the commitment if a fee of the whole term shows it.
_COVERED = """
WITH ends AS (
    SELECT commitment_discount_id, max(epoch_ms(charge_period_end)) AS expires_ms FROM charges
    WHERE kind = 'commitment_fee' AND charge_period_end > charge_period_start + INTERVAL 62 DAYS GROUP BY ALL
), rows AS (
    SELECT c.*, epoch_ms(charge_period_start) AS start_ms, epoch_ms(charge_period_end) AS end_ms, last_ms, until_ms,
        least($to_ms, coalesce(expires_ms, $to_ms)) AS expires_ms,
        coalesce(commitment_discount_status = 'Unused', false) OR kind = 'commitment_unused' AS is_unused
    FROM charges AS c JOIN billed USING (provider) LEFT JOIN ends USING (commitment_discount_id)
    WHERE commitment_discount_id IS NOT NULL AND (charge_category = 'Usage' OR kind IN ('commitment_unused', 'discount'))
        OR commitment_discount_id IS NULL AND kind = 'instance' AND pricing_category = 'Standard'
            AND list_contains($types::VARCHAR[], lower(instance_type))
), spans AS (
    SELECT *, greatest(start_ms, $from_ms) AS from_ms, least(end_ms, $to_ms) AS to_ms, 1 / (end_ms - start_ms) AS share_per_ms
    FROM rows
    UNION ALL
    SELECT *, greatest(until_ms, $from_ms), expires_ms,
        (least(end_ms, last_ms) - greatest(start_ms, last_ms - $day)) / (end_ms - start_ms) / $day
    FROM rows WHERE last_ms - $day < end_ms AND start_ms < last_ms
), sums AS (
    SELECT provider, region, instance_type, commitment_discount_id AS id, any_value(commitment_discount_type) AS type,
        from_ms, to_ms, sum(CASE WHEN NOT is_unused THEN instance_hours * share_per_ms * (to_ms - from_ms) END) AS hours,
        sum(effective_cost * share_per_ms * (to_ms - from_ms)) AS cost, is_unused, any_value(billing_currency) AS currency
    FROM spans WHERE from_ms < to_ms GROUP BY ALL
)
SELECT id, coalesce(max(type) OVER same, 'commitment') AS type, CASE WHEN hours > 0 AND instance_type IS NOT NULL
        THEN [lower(provider), coalesce(lower(region), ''), lower(instance_type)] END AS key,
    from_ms, to_ms, coalesce(hours, 0) AS hours, coalesce(hours, 0) / (to_ms - from_ms) * $hour AS instances,
    CASE WHEN is_unused THEN cost ELSE 0 END AS unused, currency,
    -- what covers nothing (unused parts, discounts) is shared by what the covered hours cost
    CASE WHEN sum(cost) FILTER (key IS NOT NULL) OVER same > 0
        THEN sum(cost) FILTER (NOT is_unused) OVER same * if(key IS NULL, 0, cost) / sum(cost) FILTER (key IS NOT NULL) OVER same
        ELSE cost END AS used
FROM sums WINDOW same AS (PARTITION BY id) ORDER BY ALL
"""
# Other on-demand instances of the only payer of a provider: their cost, and the cost of such usage under plans of the bill.
_OTHERS = """
WITH instances AS (
    FROM charges JOIN billed USING (provider) WHERE kind = 'instance'
        AND provider IN (SELECT provider FROM bills GROUP BY ALL HAVING count(DISTINCT billing_account_id) = 1)
), rates AS (
    SELECT provider, lower(instance_type) AS type, sum(effective_cost) / sum(list_cost) AS rate FROM instances
    WHERE commitment_discount_type ILIKE 'savings%plan%' AND commitment_discount_status = 'Used' AND list_cost > 0
        AND (NOT $of_same_plan OR commitment_discount_id IN (
            SELECT commitment_discount_id FROM instances WHERE list_contains($types, lower(instance_type))))
    GROUP BY ALL
)
SELECT lower(provider), epoch_ms(charge_period_start) AS from_ms, epoch_ms(charge_period_end) AS to_ms,
    sum(effective_cost), sum(effective_cost * rate)
FROM instances JOIN rates USING (provider)
WHERE lower(instance_type) = type AND NOT list_contains($types, type) AND commitment_discount_id IS NULL
    AND pricing_category = 'Standard' AND from_ms < $to_ms AND $from_ms < to_ms AND effective_cost > 0 AND rate > 0
GROUP BY ALL ORDER BY ALL
"""


def read_commitments(
    con: DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    gpu_types: Iterable[str] = (),
    *,
    of_same_plan: bool = False,
) -> Existing:
    """The commitments of the bill in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    After the newest bill they continue as on its last day. Other usage is that of instance types outside `gpu_types`.
    """
    span = {"from_ms": from_ms, "to_ms": to_ms}
    con.execute(_BILLED, span | {"lasts": _LASTS})
    until, last = con.execute("SELECT min(until_ms), max(last_ms) FROM billed").fetchall()[0]
    if until is None:
        return Existing(is_bill_loaded=False)
    types = [name.lower() for name in gpu_types]
    rows = dicts(con.execute(_COVERED, span | {"day": MS_PER_DAY, "hour": MS_PER_HOUR, "types": types}))
    by_commitment = grouped((row["id"], row) for row in rows if row["id"] is not None)
    by_key = grouped((tuple(row["key"] or NO_KEY), row) for row in rows)
    commitments = tuple(_commitment(name, several) for name, several in by_commitment.items())
    currencies = {commitment.currency for commitment in commitments}
    return Existing(
        True,
        commitments,
        {key: _covered(several, from_ms, to_ms) for key, several in by_key.items()},
        f"{at(last - 1):%Y-%m}" if until < to_ms else None,
        currencies.pop() if len(currencies) == 1 else None,
        dict(_others(con, span | {"types": types, "of_same_plan": of_same_plan})),
    )


def _commitment(name: str, rows: Sequence[Row]) -> Commitment:
    """The commitment of these rows."""
    hours = sum(row["hours"] for row in rows)
    return Commitment(name, rows[0]["type"], hours, _money(rows, "unused"), rows[0]["currency"])


def _money(rows: Iterable[Row], name: str) -> Decimal:
    return total(round_money(row[name]) for row in rows)


def _covered(rows: Sequence[Row], from_ms: int, to_ms: int) -> Covered:
    """The rows of one instance type: instances in each hour, and their cost."""
    covered = [row for row in rows if row["id"] is not None]
    others = [row for row in rows if row["id"] is None]
    curves = []
    for part in (covered, others):
        spans = ((row["from_ms"], row["to_ms"], row["instances"]) for row in part)
        curves.append(counted(spans, from_ms, to_ms))
    plan_hours = sum(row["hours"] for row in covered if row["type"].lower().startswith("savings"))
    return Covered(curves[0], curves[1], _money(covered, "used"), _money(others, "used"), plan_hours)


def read_types(con: DuckDBPyConnection) -> list[str]:
    """The instance types of the store's nodes, lower-cased."""
    return column(con, "SELECT DISTINCT lower(instance_type) FROM nodes WHERE instance_type IS NOT NULL")


# The mean price of nodes by a bill, without spot: of the period, otherwise of the last months before it.
_BILLED_NODES = """
WITH spans AS (
    SELECT *, p.to_ms > $from_ms AS is_inside, greatest(p.from_ms, if(is_inside, $from_ms, $from_ms - $lasts)) AS since_ms,
        least(p.to_ms, $to_ms) - since_ms AS span_ms
    FROM node_prices AS p JOIN nodes AS n USING (node_id)
    WHERE price_source = 'bill' AND capacity_type IN ('on_demand', 'unknown', 'reserved') AND instance_type IS NOT NULL
        AND p.from_ms < $to_ms AND $from_ms - $lasts < p.to_ms
)
SELECT lower(provider), lower(coalesce(region, '')), lower(instance_type), is_inside,
    sum(price_per_hour * span_ms::DECIMAL(14, 0)) / sum(span_ms)
FROM spans GROUP BY ALL ORDER BY is_inside
"""


# Without a commitment, a large bill need not be read.
_ANY_COMMITMENT = "SELECT 1 FROM bill_details WHERE commitment_discount_id IS NOT NULL LIMIT 1"


def read_covers(con: DuckDBPyConnection, period: Period, currency: str) -> Commitments:
    """The commitments of the bill for the store's instance types, and the cash saved if instances go.

    Nodes share the cost of on-demand and committed hours: the cost without the commitments' part is on demand, at most the bill's
    charges for such instances. In another currency than `currency` only the nodes' price is known.
    """
    if not con.execute(_ANY_COMMITMENT).fetchall():
        return Commitments()
    start, end = period.span
    existing = read_commitments(con, start, end, read_types(con), of_same_plan=True)
    span = {"from_ms": start, "to_ms": end, "lasts": _LASTS}
    means = {tuple(key): to_decimal(price) for *key, _, price in con.execute(_BILLED_NODES, span).fetchall()}
    covers = {}
    for key, covered in existing.covered.items():
        if not covered.curve.node_hours:
            continue
        price, returned = means.get(key), NOTHING
        if existing.currency == currency:
            returned = _returned(existing, key)
            if covered.uncovered.node_hours:
                hours = to_decimal(covered.uncovered.node_hours)
                billed = covered.on_demand / hours
                whole = price and price * (hours + to_decimal(covered.curve.node_hours))
                price = billed if whole is None else min(billed, (whole - covered.used) / hours)
        on_demand = round_money(max(price or NOTHING, NOTHING))
        covers[key] = Cover(covered.curve, covered.uncovered, on_demand, round_money(returned))
    return Commitments(start, end, covers)


def _returned(existing: Existing, key: Key) -> Decimal:
    """The saving of other usage if a savings plan gives up an instance-hour: the mean over the hours, limited by that usage."""
    other = existing.others.get(key[0])
    covered = existing.covered[key]
    if not other or not covered.plan_hours:
        return NOTHING
    by_plans = [each for (cloud, *_), each in existing.covered.items() if cloud == key[0] and each.plan_hours]
    spent = reduce(add, (each.curve.scaled(float(each.used) / each.curve.node_hours) for each in by_plans))
    taken = spent.node_hours - spent.less(other.curve).node_hours
    hours = covered.curve.node_hours
    share = to_decimal(taken / spent.node_hours * covered.plan_hours / hours)
    return covered.used / to_decimal(hours) * share * other.on_demand.per_node_hour


# Time that was collected from any cluster.
_COLLECTED = """
SELECT coalesce(sum(greatest(0, until_ms - greatest(since_ms, before_ms))), 0)::BIGINT, coalesce(max(until_ms), $from_ms)
FROM (
    SELECT greatest(from_ms, $from_ms) AS since_ms, least(to_ms, $to_ms) AS until_ms,
        coalesce(max(until_ms) OVER (ORDER BY from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_ms
    FROM collected WHERE from_ms < $to_ms AND $from_ms < to_ms
)
"""


def read_collected(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> tuple[int, int]:
    """The time of a span that was collected from any cluster, and its end, ms; from an attributed store."""
    [row] = con.execute(_COLLECTED, {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    return row


def read_evidence(con: DuckDBPyConnection, period: Period) -> Evidence:
    """The collected part of the period."""
    time, until = read_collected(con, *period.span)
    return Evidence(time / MS_PER_DAY, (until - period.start_ms) // MS_PER_HOUR)


def _others(con: DuckDBPyConnection, params: Row) -> Iterator[tuple[str, OtherUse]]:
    """Other on-demand usage by provider."""
    rows = con.execute(_OTHERS, params).fetchall()
    for provider, several in grouped((row[0], row[1:]) for row in rows).items():
        spans = [(start, end, float(plan) * MS_PER_HOUR / (end - start)) for start, end, _, plan in several]
        on_demand, plan = (total(round_money(row[column]) for row in several) for column in (2, 3))
        price = Price(round_money(on_demand / plan), "bill: other instances on demand, per money of plans")
        yield provider, OtherUse(price, counted(spans, params["from_ms"], params["to_ms"]))
