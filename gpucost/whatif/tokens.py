"""The tokens of a model: bought from an API, or served by replicas on own GPUs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

from gpucost.config.model import DEFAULT_PROMPT_WEIGHT
from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.records import frozen_dataclass
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Assumptions, Position, Value, priced, stated
from gpucost.whatif.cost import CostBlock, position
from gpucost.whatif.curve import PricedNodes
from gpucost.whatif.flags import DAYS, round_money, to_decimal
from gpucost.whatif.reserve import ReservedUse

_MILLION, _SECONDS = 1_000_000, 3600
_SLACK = 1e-9  # the rounding of a sum of tokens adds no replica


@frozen_dataclass
class Tokens:
    """Tokens of some hours."""

    prompts: float
    generations: float
    hours: int = 1

    @property
    def total(self) -> float:
        return self.prompts + self.generations

    @property
    def work(self) -> float:
        """Work in generated tokens; a prompt token, cached or not, is a part of one."""
        return DEFAULT_PROMPT_WEIGHT * self.prompts + self.generations


@frozen_dataclass
class DescribedTokens(OptionGroup):
    """Tokens that options describe."""

    prompt_tokens_per_day: Annotated[float | None, flags.amount("Prompt tokens a day, cached ones too.")] = (
        None
    )
    generation_tokens_per_day: Annotated[float | None, flags.amount("Generated tokens a day.")] = None

    def tokens(self) -> Tokens:
        """Raises UsageError if a count is missing."""
        prompts, generations = self.prompt_tokens_per_day, self.generation_tokens_per_day
        if prompts is None or generations is None or not prompts + generations:
            missing = "--prompt-tokens-per-day and --generation-tokens-per-day are not both given, or are 0"
            raise UsageError(missing, "give both, as in --prompt-tokens-per-day 400M; one may be 0")
        return Tokens(prompts * DAYS, generations * DAYS, 24 * DAYS)


@frozen_dataclass
class OwnNodes(PricedNodes):
    """Own GPUs and their price."""

    gpus: flags.Gpus | None = None


@frozen_dataclass
class Replicas(OptionGroup):
    """The replicas that serve a model on own GPUs."""

    gpus_per_replica: Annotated[
        int | None,
        Option("GPUs of a replica.", least=1, most=100_000, label="GPUs of a replica", unit="GPUs"),
    ] = None
    replica_tokens_per_second: Annotated[
        float | None, Option("Prompt and generated tokens of a full replica at this mix.", above=True)
    ] = None
    peak_factor: Annotated[
        float | None,
        Option(
            "Tokens of a day's busiest hour ÷ its mean hour: 1 is even.",
            least=1,
            most=24,
            label="busiest hour",
            unit="of the mean hour",
        ),
    ] = None
    target_utilization: Annotated[
        float,
        Option(
            "Used share of a replica's throughput, for latency. Default: 0.6.",
            above=True,
            most=1,
            label="replicas are filled to",
            unit="of their throughput",
            source="default: what Cloud Run scales by, docs.cloud.google.com/run/docs/about-instance-autoscaling",
        ),
    ] = 0.6
    spare_replicas: Annotated[
        int,
        Option(
            "Extra replicas, in case one fails.", most=1000, is_shown=True, label="spare", unit="replicas"
        ),
    ] = 1


@frozen_dataclass
class Purchase:
    """Tokens and their cost at an API."""

    name: str
    tokens: Tokens
    position: Position
    period: str
    assumptions: Assumptions

    def answer(
        self, avoidable: Decimal, figures: dict[str, Value], findings: Sequence[str], **more: Any
    ) -> Answer:
        """The answer of either direction; `avoidable` is the cash cost of own GPUs for these tokens."""
        tokens = self.tokens
        api, even = (
            round_money(cost * _MILLION / to_decimal(tokens.total))
            for cost in (self.position.cost, avoidable)
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


def serve(purchase: Purchase, node: ReservedUse, plan: Replicas) -> Answer:
    """Bought tokens, served by own replicas on always-on on-demand nodes, for the busiest hour and spare replicas.

    Nodes are whole: a replica that is larger than a node takes several whole nodes. Raises UsageError if an option is missing.
    """
    tokens, size, throughput = purchase.tokens, plan.gpus_per_replica, plan.replica_tokens_per_second
    if not size or not throughput or not plan.peak_factor:
        raise UsageError(
            "a number of the replicas is missing",
            "--gpus-per-replica, --replica-tokens-per-second (of a load test), --peak-factor (1 if all hours are equal)",
        )
    # in generated tokens
    per_second = throughput * tokens.work / tokens.total
    peak = tokens.work / tokens.hours * plan.peak_factor
    replicas = max(1, math.ceil(peak / (per_second * _SECONDS * plan.target_utilization) - _SLACK))
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
        ["The answer depends on the throughput and its latency: compare them with a load test"],
        title=f"Own GPUs instead of an API for {purchase.name}: {count:,} replicas on {nodes:,} × {node.instance_type}",
        today=purchase.position,
        scenario=position(purchase.position.currency, [block]),
        assumptions=(
            *purchase.assumptions,
            priced(node.instance_type, node.on_demand, "money per node-hour"),
            Assumption("GPUs of a node", node.gpus, "GPUs, all paid", node.on_demand.source),
            Assumption("a full replica", round(per_second, 3), "generated tokens per second", "option"),
            *stated(plan),
        ),
    )


def buy(purchase: Purchase, today: Position, paid_anyway: Decimal) -> Answer:
    """Tokens of own GPUs, bought from an API; `paid_anyway` is the cost that stays on the bill."""
    findings = [
        "The answer depends on the removal of whole nodes and on the API's model; the answers of models are not compared"
    ]
    if paid_anyway:
        findings.append(f"{paid_anyway:,.2f} stays on the bill: commitments, capacity blocks or own machines")
    return purchase.answer(
        today.cost - paid_anyway,
        {"direction": "own to bought", "paid_anyway_cost": round_money(paid_anyway)},
        findings,
        title=f"An API instead of own GPUs for {purchase.name}",
        today=today,
        scenario=replace(purchase.position, cost=purchase.position.cost + paid_anyway),
        assumptions=purchase.assumptions,
    )
