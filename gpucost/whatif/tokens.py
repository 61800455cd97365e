"""A model's tokens: bought from an API, or served by replicas on own GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

from gpucost.config.model import DEFAULT_PROMPT_WEIGHT
from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Value, priced, stated
from gpucost.whatif.cost import CostBlock, position
from gpucost.whatif.curve import PricedNodes
from gpucost.whatif.flags import DAYS, kept, to_decimal
from gpucost.whatif.reserve import ReservedUse

_MILLION, _SECONDS = 1_000_000, 3600
_SLACK = 1e-9  # rounding of a sum of tokens needs no further replica


@record
class Tokens:
    """Tokens of some hours; the busiest hour has `peak_factor` times the mean."""

    prompts: float
    generations: float
    hours: int = 1
    peak_factor: float | None = None

    @property
    def total(self) -> float:
        return self.prompts + self.generations

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

    def tokens(self) -> Tokens:
        """Raises UsageError if a count is missing."""
        prompts, generations = self.prompt_tokens_per_day, self.generation_tokens_per_day
        if prompts is None or generations is None or not prompts + generations:
            missing = "--prompt-tokens-per-day and --generation-tokens-per-day are not both given, or are 0"
            raise UsageError(missing, "give both, as in --prompt-tokens-per-day 400M; one may be 0")
        return Tokens(prompts * DAYS, generations * DAYS, 24 * DAYS, self.peak_factor)


@record
class OwnNodes(PricedNodes):
    """Own GPUs and their price."""

    gpus: flags.Gpus | None = None


@record
class Replicas(OptionGroup):
    """How own GPUs serve a model."""

    gpus_per_replica: Annotated[
        int | None, Option("GPUs of a replica.", least=1, most=100_000, says="GPUs of a replica", unit="GPUs")
    ] = None
    replica_tokens_per_second: Annotated[
        float | None, Option("Prompt and generated tokens that a full replica does at this mix.", above=True)
    ] = None
    throughput_of: Annotated[str | None, Option("Measure that on this workload.", "KIND/NAME")] = None
    target_utilization: Annotated[
        float,
        Option(
            "Share of its throughput to which a replica is filled, for latency. Default: 0.6.",
            above=True,
            most=1,
            says="replicas are filled to",
            unit="of their throughput",
            source="default: what Cloud Run scales by, docs.cloud.google.com/run/docs/about-instance-autoscaling",
        ),
    ] = 0.6
    spare_replicas: Annotated[
        int,
        Option(
            "Replicas beyond those needed, for one that fails.",
            most=1000,
            is_shown=True,
            says="spare",
            unit="replicas",
        ),
    ] = 1


@record
class Purchase:
    """Tokens and their cost at an API."""

    name: str
    tokens: Tokens
    position: Position
    period: str
    assumptions: tuple[Assumption, ...]

    def answer(
        self, avoidable: Decimal, figures: dict[str, Value], findings: Sequence[str], **more: Any
    ) -> Answer:
        """The answer of either direction; `avoidable` is the cost of own GPUs that is paid for these tokens alone."""
        tokens = self.tokens
        api, even = (
            kept(cost * _MILLION / to_decimal(tokens.total)) for cost in (self.position.cost, avoidable)
        )
        counts = {
            "prompt_tokens": round(tokens.prompts),
            "generation_tokens": round(tokens.generations),
            "api_cost_per_million_tokens": api,
            "break_even_api_cost_per_million_tokens": even,
        }
        text = f"The API costs less than own GPUs below {even:,.4f} per million tokens of this mix; it is {api:,.4f}"
        return Answer(
            kind="tokens",
            period=self.period,
            figures=counts | figures,
            break_even=(text,),
            findings=(*findings, "People, networks and storage of own GPUs are not counted"),
            **more,
        )


def serve(purchase: Purchase, node: ReservedUse, plan: Replicas, per_second: float, source: str) -> Answer:
    """Bought tokens, served by own replicas: nodes on demand, always on, for the busiest hour and spare replicas.

    A full replica makes `per_second` generated tokens by weight. Nodes are whole: a replica that is larger than a node takes
    whole nodes.
    """
    tokens, size = purchase.tokens, plan.gpus_per_replica or 1
    replicas = max(1, math.ceil(tokens.peak / (per_second * _SECONDS * plan.target_utilization) - _SLACK))
    nodes_per_replica = math.ceil(size / node.gpus) if size > node.gpus else 1 / (node.gpus // size)
    count = replicas + plan.spare_replicas
    nodes = math.ceil(count * nodes_per_replica - _SLACK)
    block = CostBlock(nodes * tokens.hours, node.on_demand.per_node_hour, node.gpus)
    return purchase.answer(
        block.cost,
        {
            "direction": "bought to own",
            "replicas_at_peak": replicas,
            "nodes": nodes,
            "work_tokens_per_second_per_replica": round(per_second, 6),
        },
        ["The answer depends on the throughput and the latency at it: hold them against a load test"],
        title=f"Own GPUs instead of an API for {purchase.name}: {count:,} replicas on {nodes:,} × {node.instance_type}",
        today=purchase.position,
        scenario=position(purchase.position.currency, [block]),
        assumptions=(
            *purchase.assumptions,
            priced(node.instance_type, node.on_demand, "money per node-hour"),
            Assumption("GPUs of a node", node.gpus, "GPUs, all paid", node.on_demand.source),
            Assumption("a full replica", round(per_second, 3), "generated tokens per second", source),
            Assumption("busiest hour", tokens.peak_factor, "of the mean hour", "option"),
            *stated(plan),
        ),
    )


def buy(purchase: Purchase, today: Position, paid_anyway: Decimal) -> Answer:
    """Tokens that own GPUs serve today, bought; `paid_anyway` is the cost that stays on the bill."""
    findings = [
        "The answer depends on whole nodes going, and on the API's model: its answers are not compared"
    ]
    if paid_anyway:
        findings.append(f"{paid_anyway:,.2f} stays on the bill: commitments, capacity blocks or own machines")
    return purchase.answer(
        today.cost - paid_anyway,
        {"direction": "own to bought", "paid_anyway_cost": kept(paid_anyway)},
        findings,
        title=f"An API instead of own GPUs for {purchase.name}",
        today=today,
        scenario=replace(purchase.position, cost=purchase.position.cost + paid_anyway),
        assumptions=purchase.assumptions,
    )
