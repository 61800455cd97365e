"""A model's tokens: bought from an API, or served by replicas on own GPUs."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from gpucost.config.model import DEFAULT_PROMPT_WEIGHT
from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Value, priced, stated
from gpucost.whatif.cost import CostBlock, position
from gpucost.whatif.flags import HOURS_PER_MONTH, kept, to_decimal
from gpucost.whatif.fleet import Price

_MILLION, _SECONDS = 1_000_000, 3600
_SLACK = 1e-9  # rounding of a sum of tokens needs no further replica
_MOST_REPLICAS = 1_000_000


@record
class Tokens:
    """Tokens of some hours; the busiest hour has `peak_factor` times the mean."""

    prompts: float
    generations: float
    hours: int
    peak_factor: float | None = None

    @property
    def total(self) -> float:
        return self.prompts + self.generations

    @property
    def per_month(self) -> float:
        return self.total / self.hours * HOURS_PER_MONTH

    @property
    def work(self) -> float:
        """Work in generated tokens, of which a prompt token, cached or not, is a part."""
        return DEFAULT_PROMPT_WEIGHT * self.prompts + self.generations

    @property
    def peak(self) -> float:
        """Work of the busiest hour. Raises UsageError without a peak factor."""
        if not self.peak_factor:
            raise UsageError("--peak-factor is missing", "3, or 1 if all hours are alike")
        return self.work / self.hours * self.peak_factor


@record
class DescribedTokens(OptionGroup):
    """Tokens that options describe."""

    prompt_tokens_per_day: Annotated[float | None, flags.amount("Prompt tokens a day, cached ones too.")] = (
        None
    )
    generation_tokens_per_day: Annotated[float | None, flags.amount("Generated tokens a day.")] = None
    peak_factor: Annotated[
        float | None, Option("Tokens of a day's busiest hour ÷ its mean hour: 1 is even.", least=1, most=24)
    ] = None
    days: flags.Days = flags.DAYS

    def tokens(self) -> Tokens:
        """Raises UsageError if a count is missing."""
        prompts, generations = self.prompt_tokens_per_day, self.generation_tokens_per_day
        if prompts is None or generations is None or not prompts + generations:
            missing = "--prompt-tokens-per-day and --generation-tokens-per-day are not both given, or are 0"
            raise UsageError(missing, "give both, as in --prompt-tokens-per-day 400M; one may be 0")
        return Tokens(prompts * self.days, generations * self.days, 24 * self.days, self.peak_factor)


@record
class OwnNodes(OptionGroup):
    """Own GPUs and their price."""

    nodes: Annotated[int | None, Option("Nodes that serve the described tokens today.", least=1)] = None
    instance_type: Annotated[str | None, Option("Instance type, for list prices and GPUs.", "TYPE")] = None
    region: Annotated[str | None, Option("Region of --instance-type.", "REGION")] = None
    gpus: flags.Gpus | None = None
    on_demand_price: flags.OnDemandPrice | None = None
    price_per: flags.Per = flags.PricePer.node


@record
class Replicas(OptionGroup):
    """How own GPUs serve a model."""

    gpus_per_replica: Annotated[int | None, Option("GPUs of a replica.", least=1, most=100_000)] = None
    replica_tokens_per_second: Annotated[
        float | None, Option("Prompt and generated tokens that a full replica does at this mix.", above=True)
    ] = None
    throughput_of: Annotated[str | None, Option("Measure that on this workload.", "KIND/NAME")] = None
    target_utilization: Annotated[float, Option(
        "Share of its throughput to which a replica is filled, for latency. Default: 0.6.", above=True, most=1,
        says="replicas are filled to", unit="of their throughput",
        source="default: what Cloud Run scales by, docs.cloud.google.com/run/docs/about-instance-autoscaling",
    )] = 0.6  # fmt: skip
    spare_replicas: Annotated[int, Option(
        "Replicas beyond those needed, for one that fails.", most=1000, is_shown=True, says="spare", unit="replicas",
    )] = 1  # fmt: skip


class Node(NamedTuple):
    """A node, its GPUs and its price on demand."""

    name: str
    gpus: float
    price: Price


@record
class OwnServing:
    """Replicas on nodes; a full one does `per_second` generated tokens."""

    node: Node
    plan: Replicas
    per_second: float

    @property
    def nodes_per_replica(self) -> float:
        """Nodes of a replica among many; one that is larger than a node takes whole nodes."""
        size, gpus = self.plan.gpus_per_replica or 1, self.node.gpus
        return math.ceil(size / gpus) if size > gpus else 1 / (gpus // size)

    @property
    def filled(self) -> float:
        """Work of an hour that a replica takes."""
        return self.per_second * _SECONDS * self.plan.target_utilization

    def nodes(self, replicas: int) -> int:
        """Whole nodes for so many replicas and the spare ones."""
        return math.ceil((replicas + self.plan.spare_replicas) * self.nodes_per_replica - _SLACK)

    def replicas(self, tokens: Tokens) -> int:
        """Replicas of the busiest hour, without spare ones."""
        return max(1, math.ceil(tokens.peak / self.filled - _SLACK))

    def break_even(self, tokens: Tokens, per_token: float) -> float | None:
        """Tokens per month from which on nodes always on cost at most `per_token` each, at this shape; None: never.

        Cost rises in steps of whole nodes: below it is the last volume at which the API costs less.
        """
        volume = tokens.per_month / tokens.peak * self.filled  # of a full replica
        node = float(self.node.price.per_node_hour) * HOURS_PER_MONTH
        gain = per_token * volume - node * self.nodes_per_replica  # of each further full replica
        if gain <= 0:
            return None
        # from the last replica on, no step reaches above the API: one node more than replicas need, at most
        fixed = node * (self.nodes_per_replica * self.plan.spare_replicas + 1)
        last = math.ceil((fixed + per_token * volume) / gain)
        for replicas in range(last, 0, -1) if last <= _MOST_REPLICAS else ():
            even = node * self.nodes(replicas) / per_token
            if even > volume * (replicas - 1):
                return min(even, volume * replicas)
        return None


@record
class Purchase:
    """Tokens and their cost at an API."""

    name: str
    tokens: Tokens
    position: Position
    period: str
    assumptions: tuple[Assumption, ...]
    cached_share: float | None = None

    def answer(self, own: Decimal, even: float | None, figures: dict[str, Value], **more: Any) -> Answer:
        """The answer of either direction; `own` is the cost of own GPUs."""
        tokens, share = self.tokens, self.cached_share
        counts: dict[str, Value] = {
            "hours": tokens.hours,
            "prompt_tokens": round(tokens.prompts),
            "cached_tokens": None if share is None else round(tokens.prompts * share),
            "generation_tokens": round(tokens.generations),
            "tokens_per_month": round(tokens.per_month, 3),
            "api_cost_per_million_tokens": per_million(self.position.cost, tokens.total),
            "own_cost_per_million_tokens": per_million(own, tokens.total),
            "break_even_tokens_per_month": None if even is None else round(even, 3),
        }
        return Answer("tokens", period=self.period, figures=counts | figures, **more)


def per_million(cost: Decimal, tokens: float) -> Decimal:
    """Money for a million tokens."""
    return kept(cost * _MILLION / to_decimal(tokens))


def _millions(tokens: float) -> str:
    return f"{tokens / _MILLION:,.1f} million tokens a month"


def serve(purchase: Purchase, node: Node, plan: Replicas, per_second: float, source: str) -> Answer:
    """Bought tokens, served by own replicas: nodes on demand, always on, for the busiest hour and spare replicas."""
    tokens, serving = purchase.tokens, OwnServing(node, plan, per_second)
    replicas = serving.replicas(tokens)
    nodes, count = serving.nodes(replicas), replicas + plan.spare_replicas
    block = CostBlock(nodes * tokens.hours, node.price.per_node_hour, node.gpus)
    scenario = position(purchase.position.currency, [block])
    even = serving.break_even(tokens, float(purchase.position.cost) / tokens.total)
    verdict = "Own nodes, always on, cost more than the API at any volume of this shape"
    if even is not None:
        verdict = f"Own nodes, always on, cost less from {_millions(even)} on"
    return purchase.answer(
        scenario.cost,
        even,
        {
            "direction": "bought to own",
            "break_even_api_cost_per_million_tokens": per_million(scenario.cost, tokens.total),
            "replicas_at_peak": replicas,
            "nodes": nodes,
            "work_tokens_per_second_per_replica": round(per_second, 6),
        },
        title=f"Own GPUs instead of an API for {purchase.name}: {count:,} replicas on {nodes:,} × {node.name}",
        today=purchase.position,
        scenario=replace(scenario, more={"nodes": nodes, "replicas": count}),
        assumptions=(
            *purchase.assumptions,
            priced(node.name, node.price, "money per node-hour"),
            Assumption("GPUs of a node", node.gpus, "GPUs, all paid", node.price.source),
            Assumption("GPUs of a replica", plan.gpus_per_replica, "GPUs", "option"),
            Assumption("a full replica", round(per_second, 3), "generated tokens per second", source),
            Assumption("busiest hour", tokens.peak_factor, "of the mean hour", "option"),
            *stated(plan, "target_utilization", "spare_replicas"),
        ),
        break_even=(f"{verdict}; today it is {_millions(tokens.per_month)}",),
        findings=(
            "The answer depends on the throughput and the latency at it: hold them against a load test",
            "People, networks and storage of own GPUs are not counted",
        ),
    )


def buy(purchase: Purchase, today: Position, paid_anyway: Decimal) -> Answer:
    """Tokens that own GPUs serve today, bought; `paid_anyway` is the cost that stays on the bill."""
    tokens, price, saved = purchase.tokens, purchase.position.cost, today.cost - paid_anyway
    even = tokens.per_month * float(saved / price) if price and saved > 0 else None
    verdict = "The API costs more at any volume: nothing that own GPUs cost leaves the bill"
    if even is not None:
        verdict = f"The API costs less up to {_millions(even)} of this mix"
    findings = [
        "The answer depends on whole nodes going, and on the API's model: its answers are not compared",
        "People, networks and storage of own GPUs are not counted",
    ]
    if paid_anyway:
        findings.append(f"{paid_anyway:,.2f} stays on the bill: commitments, capacity blocks or own machines")
    return purchase.answer(
        today.cost,
        even,
        {
            "direction": "own to bought",
            "break_even_api_cost_per_million_tokens": per_million(saved, tokens.total),
            "paid_anyway_cost": kept(paid_anyway),
        },
        title=f"An API instead of own GPUs for {purchase.name}",
        today=today,
        scenario=replace(purchase.position, cost=price + paid_anyway),
        assumptions=purchase.assumptions,
        break_even=(f"{verdict}; today it is {_millions(tokens.per_month)}",),
        findings=tuple(findings),
    )
