"""A model's tokens: bought from an API, or made by replicas on GPUs of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from gpucost.config.model import DEFAULT_PROMPT_WEIGHT
from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value, old_prices, priced, stated
from gpucost.whatif.cost import CostBlock, base_and_rest, charge, kept, positions
from gpucost.whatif.curve import Curve
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, PricePer, to_decimal
from gpucost.whatif.fleet import Price
from gpucost.whatif.reserve import Offers, Pool, ReservedUse
from gpucost.whatif.spot.formulas import bisected
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.moves import rate_assumption

_MILLION = 1_000_000
_SECONDS = 3600
_HOURS_PER_DAY = 24
# Rounding of a sum of tokens is no reason for another replica.
_SLACK = 1e-9
# Break-evens of more replicas, and dates further away, say nothing.
_MOST_REPLICAS = 1_000_000
_LONGEST_MONTHS = 600


@record
class TokenHours:
    """Tokens hour by hour. `cached_share` of all prompt tokens, 0-1, came from a cache; None: not known."""

    prompt: tuple[float, ...]
    generated: tuple[float, ...]
    cached_share: float | None = None

    @property
    def hours(self) -> int:
        return len(self.prompt)

    @property
    def months(self) -> float:
        """Months of 730 hours."""
        return self.hours / HOURS_PER_MONTH

    @property
    def prompts(self) -> float:
        """Prompt tokens of all hours, cached ones included."""
        return sum(self.prompt)

    @property
    def generations(self) -> float:
        return sum(self.generated)

    @property
    def total(self) -> float:
        return self.prompts + self.generations

    @property
    def per_month(self) -> float:
        """Tokens in 730 hours."""
        return self.total / self.months

    def work(self, prompt_weight: float) -> tuple[float, ...]:
        """What replicas have to do in each hour, in generated tokens: a prompt token is `prompt_weight` of one, cached or not."""
        return tuple(
            prompt_weight * prompt + done for prompt, done in zip(self.prompt, self.generated, strict=True)
        )


@record
class DescribedTokens(OptionGroup):
    """Tokens that options describe."""

    prompt_tokens_per_day: Annotated[
        str | None,
        Option("Prompt tokens of a day, such as 400M, 1.5B or 4e8; cached ones included.", "COUNT"),
    ] = None
    generation_tokens_per_day: Annotated[str | None, Option("Generated tokens of a day.", "COUNT")] = None
    peak_factor: Annotated[
        float | None,
        Option(
            "Needed: tokens of a day's busiest hour ÷ those of its mean hour: 1 is even, 24 all in one hour.", least=1,
            most=_HOURS_PER_DAY,
        ),
    ] = None  # fmt: skip
    days: flags.Days | None = None


def described_tokens(described: DescribedTokens, *, is_even: bool = False) -> tuple[TokenHours, str]:
    """The tokens that options describe, and what their period is called; `is_even`: their hours do not matter.

    Of a day's hours, from the calmest to the busiest, each has as many as a power of its rank says. Raises UsageError.
    """
    given = {"--prompt-tokens-per-day": described.prompt_tokens_per_day, "--generation-tokens-per-day":
             described.generation_tokens_per_day}  # fmt: skip
    for flag, text in given.items():
        if text is None:
            raise UsageError(
                f"{flag} is missing", "give both, as in --prompt-tokens-per-day 400M, 0 where there are none"
            )
    prompt, generated = (parse_count(flag, text or "") for flag, text in given.items())
    if not prompt + generated:
        raise UsageError(
            "no token is ever used",
            "--prompt-tokens-per-day and --generation-tokens-per-day say how many are",
        )
    factor = 1.0 if is_even else described.peak_factor
    if factor is None:
        raise UsageError(
            "how much busier the busiest hour of a day is than a mean one is not told",
            "--peak-factor 3 tells it, 1 that all hours are alike",
        )
    days, shares = described.days or DAYS, _day(factor)
    hours = TokenHours(
        tuple(prompt * share for share in shares) * days, tuple(generated * share for share in shares) * days
    )
    return hours, f"{days} days"


_SUFFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_MOST_PER_DAY = 1e16


def parse_count(flag: str, text: str) -> float:
    """A number of tokens: 400000000, 4e8 or 400M; k, M, B (or G) and T are thousands to trillions. Raises UsageError."""
    word = text.strip().lower()
    scale = _SUFFIXES.get(word[-1:], 1.0)
    try:
        count = float(word[:-1] if word[-1:] in _SUFFIXES else word) * scale
    except ValueError:
        count = math.nan
    if not 0 <= count <= _MOST_PER_DAY:
        raise UsageError(
            f"{flag} {text}: it is no number of tokens from 0 to {_MOST_PER_DAY:.0e}", f"{flag} 400M, or 4e8"
        )
    return count


def _day(factor: float) -> tuple[float, ...]:
    """The share of each of a day's 24 hours, 1 in all, of which the last has `factor` / 24."""

    def shares(power: float) -> tuple[float, ...]:
        levels = [(rank / _HOURS_PER_DAY) ** power for rank in range(1, _HOURS_PER_DAY + 1)]
        return tuple(level / sum(levels) for level in levels)

    return shares(
        bisected(0.0, 1000.0, lambda power: shares(power)[-1] * _HOURS_PER_DAY < factor)
        if factor > 1
        else 0.0
    )


@record
class Api(OptionGroup):
    """Whose tokens, what an API asks for them, and how they grow."""

    model: Annotated[
        str | None,
        Option("The model: of the store's tokens those of these models (`*` is anything).", "NAME"),
    ] = None
    api_model: Annotated[
        str | None, Option("The model whose price an API asks, where that is another than --model.", "NAME")
    ] = None
    api_provider: Annotated[
        str | None, Option("Who sells it, for its list price: openai, aws, …", "NAME")
    ] = None
    input_price_per_million: Annotated[
        Decimal | None, Option("Price of a million prompt tokens.", most=flags.DEAREST)
    ] = None
    cached_input_price_per_million: Annotated[
        Decimal | None,
        Option("Price of a million that the API has cached. Default: as others.", most=flags.DEAREST),
    ] = None
    output_price_per_million: Annotated[
        Decimal | None, Option("Price of a million generated tokens.", most=flags.DEAREST)
    ] = None
    cached_share: Annotated[
        float | None,
        Option(
            "Share of the prompt tokens that the API has cached, 0 to 1. Default: measured, else 0.", most=1
        ),
    ] = None
    growth_percent_per_month: Annotated[
        float | None,
        Option(
            "How tokens grow, for the day of the break-even. Default: as in the store.", least=-99, most=1000
        ),
    ] = None


@record
class ApiPrice:
    """Money per million tokens and its source; cached prompt tokens cost as others if `cached` is None."""

    name: str
    input: Decimal
    output: Decimal
    source: str
    cached: Decimal | None = None
    as_of: str | None = None

    def cost(self, tokens: TokenHours, cached_share: float) -> tuple[Decimal, Decimal]:
        """What prompt tokens and generated ones cost."""
        prompts, cached, generated = (
            to_decimal(_whole(count))
            for count in (tokens.prompts, tokens.prompts * cached_share, tokens.generations)
        )
        prompt = (prompts - cached) * self.input + cached * self.cached_price
        return kept(prompt / _MILLION), kept(generated * self.output / _MILLION)

    @property
    def cached_price(self) -> Decimal:
        return self.input if self.cached is None else self.cached

    def assumptions(self) -> tuple[Assumption, ...]:
        prices = {
            "prompt tokens": self.input,
            "cached prompt tokens": self.cached_price,
            "generated tokens": self.output,
        }
        cached = f"{self.source}: as other prompt tokens" if self.cached is None else self.source
        return tuple(
            Assumption(
                f"{self.name}, {name}",
                price,
                "money per million",
                cached if "cached" in name else self.source,
                self.as_of,
            )
            for name, price in prices.items()
        )


@record
class Replicas(OptionGroup):
    """How a model is served: what a replica does, how full it may be, and how many there are beyond those that are needed."""

    gpus_per_replica: Annotated[
        int | None,
        Option("GPUs of a replica. Default: of the pods of --throughput-of.", least=1, most=100_000),
    ] = None
    replica_tokens_per_second: Annotated[
        tuple[float, ...],
        Option(
            "Tokens, prompt and generated, that a full replica does at this mix. Repeat it for a range: the lowest counts.",
            above=True,
        ),
    ] = ()
    throughput_of: Annotated[
        str | None, Option("Measure that on this workload of the store.", "KIND/NAME")
    ] = None
    time_per_output_token_ms: Annotated[
        float | None,
        Option(
            "With --throughput-of, a target of latency: replicas do what was done in hours whose mean time per generated token"
            " (TPOT) was no longer.", "MS", above=True, most=60_000, says="time per generated token",
            unit="ms at most, mean of an hour",
        ),
    ] = None  # fmt: skip
    target_utilization: Annotated[
        float,
        Option(
            "Share of its throughput to which a replica is filled, so that latency holds. Default: 0.6; 1 with"
            " --time-per-output-token-ms.", above=True, most=1,
            says="replicas are filled to", unit="of their throughput",
            source="default: what Cloud Run scales by, docs.cloud.google.com/run/docs/about-instance-autoscaling",
        ),
    ] = 0.6  # fmt: skip
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
    min_replicas: Annotated[
        int,
        Option(
            "Replicas of the calmest hour; 0: all of them go, and the next request waits for a start.", most=100_000,
            is_shown=True, says="at least", unit="replicas",
        ),
    ] = 1  # fmt: skip
    start_minutes: Annotated[
        float,
        Option(
            "Until a new replica serves: node, image, weights; paid. Default: 12.", most=1440, says="start of a replica",
            unit="minutes, paid", source="default: as a restart in gpucost whatif spot",
        ),
    ] = flags.START_MINUTES  # fmt: skip
    prompt_weight: Annotated[
        float,
        Option(
            f"Work of a prompt token ÷ that of a generated one. Default: {DEFAULT_PROMPT_WEIGHT:g}.", above=True, most=100,
            says="work of a prompt token", unit="of a generated one", source="default: as in gpucost unit tokens",
        ),
    ] = DEFAULT_PROMPT_WEIGHT  # fmt: skip

    @property
    def filled_to(self) -> float:
        """Throughput that held a target of latency, peaks within hours included, needs no further room."""
        is_measured = self.time_per_output_token_ms is not None and "target_utilization" not in self.given
        return 1.0 if is_measured else self.target_utilization

    def fill(self) -> list[Assumption]:
        """How full replicas are, and the target that it comes from."""
        [share] = stated(self, "target_utilization")
        if self.filled_to != self.target_utilization:
            share = replace(share, value=self.filled_to, source="default: what was measured held the target")
        return [*stated(self, "time_per_output_token_ms"), share]


@record
class OwnNodes(OptionGroup):
    """What GPUs of one's own cost."""

    instance_type: Annotated[str | None, Option("Look prices and GPUs of it up.", "TYPE")] = None
    region: Annotated[str | None, Option("Of --instance-type.", "REGION")] = None
    gpu_model: Annotated[
        str | None,
        Option(
            "Instead of a type: this GPU, at the upper median of what clouds ask for it on demand.", "NAME"
        ),
    ] = None
    gpus: flags.Gpus | None = None
    on_demand_price: flags.OnDemandPrice | None = None
    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    commitment_price: Annotated[
        tuple[str, ...],
        Option("As gpucost whatif reserve takes it; TERMS is [KIND:]YEARS[:PAYMENT].", "TERMS=MONEY"),
    ] = ()
    commitment_discount: Annotated[
        tuple[str, ...], Option("The same as percent off the price on demand.", "TERMS=PERCENT")
    ] = ()  # fmt: skip
    interruptions_per_hour: Annotated[
        float | None,
        Option("Interruptions of a spot node per hour. Default: own ones, else of measured traces."),
    ] = None


@record
class Operations(OptionGroup):
    """What serving costs besides GPUs."""

    operations_cost_per_month: Annotated[
        Decimal, Option("People and what else serving takes. Default: 0, and said.", most=flags.DEAREST)
    ] = Decimal(0)


@record
class Throughput:
    """What a full replica does, in generated tokens per second (prompts by their weight); and between which that lies."""

    per_second: float
    low: float
    high: float
    source: str
    meaning: str = ""


def given_throughput(per_second: Sequence[float], tokens: TokenHours, prompt_weight: float) -> Throughput:
    """Of tokens of both kinds per second, at the mix of these tokens; the lowest counts."""
    weight = sum(tokens.work(prompt_weight)) / tokens.total
    low, high = min(per_second) * weight, max(per_second) * weight
    return Throughput(low, low, high, "option", "throughputs given")


def measured_throughput(full: float, mean: float, gpus: int, source: str) -> Throughput:
    """Of the work of a GPU in an hour: a full one's, as gpucost unit tokens has it; from the mean of active hours on."""
    scale = gpus / _SECONDS
    meaning = "throughput from the mean of active hours to that of the busiest twentieth"
    return Throughput(full * scale, min(mean, full) * scale, full * scale, source, meaning)


class PacedHour(NamedTuple):
    """Work done in an active hour, GPU-hours held, tokens generated, and the seconds that requests spent in decoding them."""

    work: float
    gpu_hours: float
    generated: float
    decode_seconds: float


_GROUPS = 20


def paced_throughput(hours: Sequence[PacedHour], most_ms: float, gpus: int, source: str) -> Throughput:
    """What a replica did where a generated token took at most `most_ms`, on average.

    The hours, from calm to busy, are cut into twenty equal groups, or one hour each where there are fewer. It is the mean of the
    last group before the first that took longer, and the range goes on to the latter. Raises UsageError where the calmest did.
    """
    ranked = sorted(hours, key=lambda one: (one.work / one.gpu_hours, one.decode_seconds / one.generated))
    count = min(_GROUPS, len(ranked))
    groups = [
        ranked[begin:end] for begin, end in pairwise(at * len(ranked) // count for at in range(count + 1))
    ]
    rates = [
        sum(one.work for one in group) / sum(one.gpu_hours for one in group) * gpus / _SECONDS
        for group in groups
    ]
    paces = [
        sum(one.decode_seconds for one in group) / sum(one.generated for one in group) * 1000
        for group in groups
    ]
    missed = next((at for at, pace in enumerate(paces) if pace > most_ms), count)
    if not missed:
        raise UsageError(
            f"a generated token took {paces[0]:,.4g} ms in the calmest hours, over --time-per-output-token-ms {most_ms:g}",
            "give a higher target; or --replica-tokens-per-second, as a load test says, instead of both",
        )
    held = rates[missed - 1]
    if missed == count:
        return Throughput(held, held, held, f"{source}, the busiest; none missed the target")
    meaning = "throughput of the busiest hours that held the target to that of the next ones, which did not"
    return Throughput(held, held, rates[missed], f"{source}, the busiest that held the target", meaning)


@record
class OwnServing:
    """Replicas on nodes: prices are per node-hour, `operations` is money per month.

    `places` are what others ask for such nodes on demand, cheapest first.
    """

    name: str
    gpus: float
    gpus_per_replica: int
    throughput: Throughput
    on_demand: Price
    plan: Replicas = field(default_factory=Replicas)
    offers: Offers = field(default_factory=dict)
    spot: Price | None = None
    rate: Rate | None = None
    operations: Decimal = Decimal(0)
    places: tuple[tuple[str, Price], ...] = ()

    def nodes(self, replicas: int) -> int:
        """Whole nodes for so many replicas; one that is larger than a node takes several."""
        if self.gpus_per_replica > self.gpus:
            return replicas * math.ceil(self.gpus_per_replica / self.gpus)
        return math.ceil(replicas / (self.gpus // self.gpus_per_replica))

    @property
    def nodes_per_replica(self) -> float:
        """Nodes of a replica among many."""
        if self.gpus_per_replica > self.gpus:
            return math.ceil(self.gpus_per_replica / self.gpus)
        return 1 / (self.gpus // self.gpus_per_replica)

    @property
    def filled(self) -> float:
        """Work of an hour that a replica takes."""
        return self.throughput.per_second * _SECONDS * self.plan.filled_to

    def at(self, per_second: float) -> OwnServing:
        return replace(self, throughput=replace(self.throughput, per_second=per_second))

    def replicas(self, work: Sequence[float]) -> tuple[int, ...]:
        """Those that each hour needs, without spare ones."""
        return tuple(max(self.plan.min_replicas, math.ceil(one / self.filled - _SLACK)) for one in work)

    def always(self, work: Sequence[float]) -> int:
        """Nodes for the busiest hour, and the spare replicas."""
        return self.nodes(max(self.replicas(work)) + self.plan.spare_replicas)

    def curve(self, work: Sequence[float]) -> Curve:
        """Nodes by the hour; spare replicas go only where all do."""
        return Curve.hourly(
            self.nodes(one + self.plan.spare_replicas) if one else 0 for one in self.replicas(work)
        )

    def starting_hours(self, curve: Curve, above: float = 0) -> float:
        """Node-hours that nodes over `above` of them are paid before they serve: each start of one."""
        over = (max(level - above, 0.0) for level in curve.levels)
        return (
            sum(max(after - before, 0.0) for before, after in pairwise(over)) * self.plan.start_minutes / 60
        )

    def month(self, replicas: int) -> Decimal:
        """What so many replicas and the spare ones cost in 730 hours, on demand and always on."""
        nodes = self.nodes(replicas + self.plan.spare_replicas)
        return self.on_demand.per_node_hour * nodes * HOURS_PER_MONTH + self.operations

    def break_even(self, tokens: TokenHours, per_token: float) -> float | None:
        """Tokens per month from which on nodes on demand, always on, cost no more than `per_token` each; None: they never do.

        At the shape and mix of these tokens. Cost rises in steps: below it is the last volume at which the API costs less.
        """
        peak = max(tokens.work(self.plan.prompt_weight))
        volume = (
            tokens.per_month / peak * self.filled
        )  # tokens per month with which one replica's busiest hour is full
        least = max(1, self.plan.min_replicas)
        a_node = float(self.on_demand.per_node_hour) * HOURS_PER_MONTH
        gain = (
            per_token * volume - a_node * self.nodes_per_replica
        )  # of each further replica, full at the peak
        if gain <= 0:
            return None
        # from so many replicas on no step of cost reaches above the API: one node more than replicas need, at most
        fixed = a_node * (self.nodes_per_replica * self.plan.spare_replicas + 1) + float(self.operations)
        last = math.ceil((fixed + per_token * volume) / gain)
        if last > _MOST_REPLICAS:
            return None
        for replicas in range(max(last, least), least - 1, -1):
            even, begin = (
                float(self.month(replicas)) / per_token,
                0.0 if replicas == least else volume * (replicas - 1),
            )
            if even > begin:
                return min(even, volume * replicas)
        return None


class Growth(NamedTuple):
    """Percent per month, None where nobody knows; `begins` is the day that the tokens are of."""

    percent: float | None
    source: str
    begins: date

    def reaches(self, volume: float, target: float | None) -> tuple[date | None, str]:
        """The day on which `volume` is `target`, and why there is none."""
        if target is None:
            return None, "there is no break-even"
        if self.percent is None:
            return None, "how tokens grow is not known: --growth-percent-per-month"
        rate, wanted = math.log1p(self.percent / 100), math.log(target / volume)
        if not rate or wanted / rate < 0:
            away = "grow" if self.percent > 0 else "shrink" if self.percent < 0 else "stay as they are"
            return None, f"tokens {away}, and never pass it"
        months = wanted / rate
        if months > _LONGEST_MONTHS:
            return None, f"it is more than {_LONGEST_MONTHS // 12} years away"
        return self.begins + timedelta(hours=months * HOURS_PER_MONTH), ""


@record
class Purchase:
    """Tokens at an API's price, and the rest that answers about them share; prices are looked at on the day `used`.

    `cached_share` of the prompt tokens the API has cached; None: not known.
    """

    tokens: TokenHours
    price: ApiPrice
    growth: Growth
    currency: str
    period: str
    used: date
    cached_share: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    stale_after_days: int = 90

    @property
    def cost(self) -> tuple[Decimal, Decimal]:
        """The cost of prompt tokens, and of generated ones."""
        return self.price.cost(self.tokens, self.cached_share or 0.0)

    def running(self, per_month: Decimal) -> CostBlock:
        """The cost of operations over the hours of the tokens."""
        return charge(kept(per_month * to_decimal(self.tokens.months)))

    def reaches(self, even: float | None) -> tuple[date | None, str]:
        """The day of a break-even volume, and why there is none."""
        return self.growth.reaches(self.tokens.per_month, even)

    def answer(
        self,
        title: str,
        even: float | None,
        even_price: Value,
        figures: dict[str, Value],
        assumptions: Sequence[Assumption],
        prices: Sequence[tuple[str, Price]],
        operations: Decimal,
        rows: list[dict[str, Value]],
        **more: Any,
    ) -> Answer:
        """Make the answer: `figures`, `assumptions` and dated `prices` are those beside the tokens and the API."""
        (day, why), tokens, price = self.reaches(even), self.tokens, self.price
        share = self.cached_share
        dated = [(price.name, Price(price.input, price.source, price.as_of)), *prices]
        source = (
            "default: not known" if share is None else "store" if share == tokens.cached_share else "option"
        )
        cached = Assumption(
            "prompt tokens that the API has cached", round((share or 0.0) * 100, 3), "%", source
        )
        percent = self.growth.percent
        growth = (
            []
            if percent is None
            else [Assumption("growth of tokens", round(percent, 3), "% per month", self.growth.source)]
        )
        paid = Assumption(
            "operations", operations, "money per month", "option" if operations else "not counted"
        )
        return Answer(
            title=title + old_prices(dated, self.used, self.stale_after_days),
            period=self.period,
            figures={
                "hours": tokens.hours,
                "prompt_tokens": _whole(tokens.prompts),
                "cached_tokens": None if share is None else _whole(tokens.prompts * share),
                "generation_tokens": _whole(tokens.generations),
                "tokens_per_month": round(tokens.per_month, 3),
                **figures,
                "break_even_tokens_per_month": None if even is None else round(even, 3),
                "break_even_api_cost_per_million_tokens": even_price,
                "growth_percent_per_month": percent,
                "break_even_on": day and day.isoformat(),
                "break_even_on_is_null_because": why or None,
                "ways": rows,
            },
            assumptions=(*self.assumptions, *price.assumptions(), cached, *growth, *assumptions, paid),
            **more,
        )


@record
class _Way:
    """One way to have the tokens; costs of prompt and generated ones add up to its cost."""

    name: str
    position: Position
    prompt_cost: Decimal
    depends: str = ""
    peak_nodes: float | None = None
    mean_nodes: float | None = None
    utilization: float | None = None

    def row(self, tokens: TokenHours, today: Decimal) -> dict[str, Value]:
        """As JSON has it."""
        generation_cost = self.position.cost - self.prompt_cost
        return {
            "way": self.name,
            "cost": self.position.cost,
            "saving": today - self.position.cost,
            "cost_per_million_tokens": _per_million(self.position.cost, tokens.total),
            "cost_per_million_prompt_tokens": _per_million(self.prompt_cost, tokens.prompts),
            "cost_per_million_generation_tokens": _per_million(generation_cost, tokens.generations),
            "nodes_at_peak": self.peak_nodes,
            "nodes_mean": None if self.mean_nodes is None else round(self.mean_nodes, 6),
            "utilization_percent": None if self.utilization is None else round(self.utilization * 100, 6),
            "depends_on": self.depends,
        }


def _per_million(cost: Decimal, tokens: float) -> Decimal | None:
    return kept(cost * _MILLION / to_decimal(tokens)) if tokens else None


_COLUMNS = {
    "way": "way", "cost": "cost", "saving": "saving", "per million": "cost_per_million_tokens",
    "per million prompt": "cost_per_million_prompt_tokens", "per million generated": "cost_per_million_generation_tokens",
    "nodes at peak": "nodes_at_peak", "mean nodes": "nodes_mean", "utilization %": "utilization_percent",
}  # fmt: skip


def _tables(rows: Sequence[Mapping[str, Value]], note: str = "") -> tuple[Rows, ...]:
    """The ways, without columns that none of them has, and what each depends on."""
    shown = {title: name for title, name in _COLUMNS.items() if any(row[name] is not None for row in rows)}
    lines = [tuple("-" if row[name] is None else row[name] for name in shown.values()) for row in rows]
    depends = [(row["way"], row["depends_on"]) for row in rows if row["depends_on"]]
    return (
        *Rows.of("ways to have these tokens", tuple(shown), lines, note),
        *Rows.of("what each depends on", ("way", "depends on"), depends),
    )


_ALWAYS = "on demand, always on"
_HOURLY = "on demand, by the hour"
_SPOT = "spot, by the hour"


def selfhost(purchase: Purchase, serving: OwnServing, findings: Sequence[str] = ()) -> Answer:
    """Tokens bought today, made by own replicas in the scenario: on demand, always on for the busiest hour, and spare ones.

    Fewer nodes by the hour, commitments and spot stand beside it. If the share that the API has cached is not known, it is the
    share that own servers measured.
    """
    tokens = purchase.tokens
    if purchase.cached_share is None:
        purchase = replace(purchase, cached_share=tokens.cached_share)
    work = tokens.work(serving.plan.prompt_weight)
    needed, curve, always = serving.replicas(work), serving.curve(work), serving.always(work)
    committed = _commitments(serving, curve)
    low, high = (serving.at(one) for one in (serving.throughput.low, serving.throughput.high))
    operations = purchase.running(serving.operations)
    starting = serving.starting_hours(curve)
    price, gpus = serving.on_demand.per_node_hour, serving.gpus

    def on_demand(nodes: float) -> list[CostBlock]:
        return [CostBlock(nodes * tokens.hours, price, gpus), operations]

    groups = {
        "api": [*map(charge, purchase.cost)],
        _ALWAYS: on_demand(always),
        _HOURLY: [CostBlock(curve.node_hours + starting, price, gpus), operations],
        "low": on_demand(low.always(work)),
        "high": on_demand(high.always(work)),
    }
    for place, there in serving.places:
        groups[f"in {place}"] = [CostBlock(always * tokens.hours, there.per_node_hour, gpus), operations]
    for pool in committed:
        rest = CostBlock(serving.starting_hours(curve, pool.level), price, gpus)
        groups[str(pool.terms)] = [
            *base_and_rest(curve, pool.level, pool.price, price, gpus),
            rest,
            operations,
        ]
    rates = _rates(serving)
    for name, rate in rates.items():
        # each interruption pays for a start in another place
        hours = (curve.node_hours + starting) * (1 + rate * serving.plan.start_minutes / 60)
        spot = serving.spot.per_node_hour if serving.spot else price
        groups[name] = [CostBlock(hours, spot, gpus), operations]
    costs = positions(purchase.currency, groups)

    done, whole = (
        sum(work),
        serving.throughput.per_second * _SECONDS * tokens.hours / serving.nodes_per_replica,
    )
    prompt_share = tokens.prompts * serving.plan.prompt_weight / done if done else 0.0

    def own(name: str, depends: str, peak: float, mean: float) -> _Way:
        cost = costs[name].cost
        return _Way(
            name,
            costs[name],
            kept(cost * to_decimal(prompt_share)),
            depends,
            peak,
            mean,
            done / (whole * mean),
        )

    best = _best_by_years(committed, costs)
    ways = [
        _Way(f"API: {purchase.price.name}", costs["api"], purchase.cost[0]),
        own(_ALWAYS, "the throughput", always, always),
        own(_HOURLY, "nodes that come and go within the hour", curve.peak, curve.mean),
        *(
            own(str(pool.terms), f"this use lasting {pool.terms.length}: {pool.level:,} of them at the price of the commitment",
                max(curve.peak, pool.level), pool.level + max(0.0, curve.node_hours - curve.used(pool.level)) / curve.hours)
            for pool in best
        ),
        *([own(_SPOT, "spot capacity; requests fail while a replica is replaced", curve.peak, curve.mean)] if rates else []),
    ]  # fmt: skip
    today, scenario = costs["api"], costs[_ALWAYS]
    blended = float(today.cost) / tokens.total
    even = serving.break_even(tokens, blended) if blended else None
    prices = [(f"{serving.name}, {pool.terms}", pool.committed) for pool in best]
    if serving.spot:
        prices.append((f"{serving.name}, spot", serving.spot))
    rows = [way.row(tokens, today.cost) for way in ways]
    peak_replicas = max(needed)
    is_cache_unknown = purchase.cached_share is None
    return purchase.answer(
        f"Own GPUs instead of an API for {purchase.price.name}: {peak_replicas:,} + {serving.plan.spare_replicas:,} replicas on"
        f" {always:,} × {serving.name}",
        even,
        rows[1]["cost_per_million_tokens"],
        kind="selfhost",
        today=today,
        scenario=replace(scenario, more={"nodes": always, "replicas": peak_replicas + serving.plan.spare_replicas}),
        figures={
            "replicas_at_peak": peak_replicas,
            "replicas_mean": round(sum(needed) / tokens.hours, 6),
            "nodes": always,
            "utilization_percent": rows[1]["utilization_percent"],
            "work_tokens_per_second_per_replica": round(serving.throughput.per_second, 6),
        },
        rows=rows,
        prices=[(serving.name, serving.on_demand), *prices],
        operations=serving.operations,
        assumptions=(
            priced(f"{serving.name}, on demand", serving.on_demand, "money per node-hour"),
            *(priced(name, one, "money per node-hour") for name, one in prices),
            *([rate_assumption(serving.rate)] if serving.rate and rates else []),
            Assumption("GPUs of a node", serving.gpus, "GPUs, all paid", serving.on_demand.source),
            Assumption(
                "GPUs of a replica", serving.gpus_per_replica, "GPUs",
                "option" if serving.plan.gpus_per_replica else f"store: pods of {serving.plan.throughput_of}",
            ),
            Assumption(
                "a full replica", round(serving.throughput.per_second, 3), "generated tokens per second; prompts by their work",
                serving.throughput.source,
            ),
            *serving.plan.fill(),
            *stated(serving.plan, "spare_replicas", "min_replicas", "start_minutes", "prompt_weight"),
        ),
        ranges=tuple(_ranges(serving, costs, tokens, blended, purchase.currency)),
        break_even=tuple(_break_even(rows[1]["cost_per_million_tokens"], even, purchase)),
        time=tuple(_time(serving, needed)),
        findings=(*_findings(ways, serving, is_cache_unknown), *findings),
        tables=(
            *_tables(rows, "GPUs of whole nodes are paid; utilization is of the throughput of all that fits on them."),
            *Rows.of(
                f"the same nodes of other clouds, {_ALWAYS}", ("where", "price per node-hour", "as of", "cost"),
                [(place, there.per_node_hour, there.as_of, costs[f"in {place}"].cost) for place, there in serving.places],
            ),
        ),
    )  # fmt: skip


def _whole(count: float) -> int | float:
    """Sums of hours' shares of whole tokens are whole again."""
    return round(count) if math.isclose(count, round(count), rel_tol=1e-12) else round(count, 3)


def _rates(serving: OwnServing) -> dict[str, float]:
    """Interruptions per node-hour of spot: as expected, and at the ends of their range."""
    if serving.spot is None or serving.rate is None:
        return {}
    ends = {f"{_SPOT}, {name}": getattr(serving.rate, name) for name in ("low", "high")}
    return {_SPOT: serving.rate.per_hour} | {name: rate for name, rate in ends.items() if rate is not None}


def _commitments(serving: OwnServing, curve: Curve) -> list[Pool]:
    """The commitments on offer, each at the level that costs least."""
    use = ReservedUse(serving.name, serving.gpus, serving.on_demand, curve, serving.offers)
    pools = (
        Pool(use, terms, price) for terms, price in sorted(serving.offers.items(), key=lambda one: one[0])
    )
    return [replace(pool, level=pool.best_level()) for pool in pools]


def _best_by_years(pools: Sequence[Pool], costs: Mapping[str, Position]) -> list[Pool]:
    """Of each length the commitment that costs least, where any node is worth it."""
    best: dict[int, Pool] = {}
    for pool in sorted(pools, key=lambda one: costs[str(one.terms)].cost):
        if pool.level:
            best.setdefault(pool.terms.years, pool)
    return [best[years] for years in sorted(best)]


def _ranges(
    serving: OwnServing, costs: Mapping[str, Position], tokens: TokenHours, blended: float, currency: str
) -> Iterator[Range]:
    throughput = serving.throughput
    if serving.places:
        ends = [costs[f"in {place}"].cost for place, _ in serving.places]
        yield Range(
            f"cost {_ALWAYS}",
            min(ends),
            max(ends),
            currency,
            f"what {len(ends)} clouds ask for such GPUs on demand",
        )
    if throughput.low < throughput.high:
        if costs["high"].cost < costs["low"].cost:
            yield Range(
                f"cost {_ALWAYS}", costs["high"].cost, costs["low"].cost, currency, throughput.meaning
            )
        fast, slow = (
            serving.at(one).break_even(tokens, blended) for one in (throughput.high, throughput.low)
        )
        if fast is not None and fast != slow:
            high: Value = "never" if slow is None else round(slow / _MILLION, 3)
            yield Range(
                "break-even volume",
                round(fast / _MILLION, 3),
                high,
                "million tokens a month",
                throughput.meaning,
            )
    ends = [costs[name].cost for end in ("low", "high") if (name := f"{_SPOT}, {end}") in costs]
    if len(ends) > 1:
        yield Range(
            f"cost on {_SPOT}",
            ends[0],
            ends[1],
            currency,
            "interruptions of the calmest to the busiest trace",
        )


def _break_even(cost: Value, even: float | None, purchase: Purchase) -> Iterator[str]:
    on, why = purchase.reaches(even)
    volume = f"{purchase.tokens.per_month / _MILLION:,.1f} million tokens a month"
    if even is None:
        yield f"Own nodes on demand, always on, cost more than the API at any volume of this shape; today it is {volume}"
    else:
        yield (
            f"Own nodes on demand, always on, cost less than the API from {even / _MILLION:,.1f} million tokens a month on, at"
            f" this shape and mix; today it is {volume}"
        )
    yield f"They cost what an API does that asks {cost:,.4f} {purchase.currency} per million tokens of this mix"
    if on is not None:
        yield f"At this growth the break-even is passed on {on:%Y-%m-%d}"
    elif even is not None:
        yield f"There is no day of the break-even: {why}"


def _time(serving: OwnServing, needed: Sequence[int]) -> Iterator[str]:
    plan = serving.plan
    if plan.time_per_output_token_ms is None:
        yield (
            f"Latency is not computed: by the mean of each hour replicas are filled to {plan.filled_to * 100:g} % of their"
            " throughput, and the rest is for the peaks within it; hold that against your target in a load test"
        )
    else:
        yield (
            f"Replicas do what was measured where a generated token took {plan.time_per_output_token_ms:g} ms at most, as the"
            " mean of an hour; the time to the first token, and the slowest requests, are not looked at"
        )
    yield f"A replica by the hour serves {plan.start_minutes:g} min after it is asked for, and is paid until then"
    if 0 in needed:
        idle = sum(1 for one in needed if not one)
        yield f"In {idle:,} of {len(needed):,} hours there is no replica: the first request after them waits for a start"


def _findings(ways: Sequence[_Way], serving: OwnServing, is_cache_unknown: bool) -> Iterator[str]:
    api, always, *others = ways
    if always.position.cost >= api.position.cost:
        yield "At this volume buying the tokens costs less than own nodes that are always on"
    best = min(others, key=lambda way: way.position.cost)
    if best.position.cost < always.position.cost:
        less = always.position.cost - best.position.cost
        yield f"{best.name[:1].upper()}{best.name[1:]} would cost {less:,.2f} less than always on, and depends on {best.depends}"
    yield "The answer depends on the throughput, on latency at it, and on a model that you can host: its answers are not compared"
    if not serving.operations:
        yield "People who run it, networks and storage are not counted: --operations-cost-per-month does"
    if is_cache_unknown:
        yield "No prompt token is counted as cached by the API: with --cached-share buying costs less where it does"
    if serving.throughput.source.startswith("store"):
        yield "The workload that the throughput was measured on may never have been full: a load test tells what a replica can do"
    if serving.throughput.low == serving.throughput.high and serving.throughput.source == "option":
        yield "Of the throughput one value is given, so no range is known: repeat --replica-tokens-per-second with another"


@record
class DescribedServing(OptionGroup):
    """Nodes that serve a model, by options."""

    nodes: flags.Nodes | None = None
    instance_type: Annotated[str | None, Option("Of these nodes, for their list price.", "TYPE")] = None
    region: Annotated[str | None, Option("Of --instance-type.", "REGION")] = None
    gpus: flags.Gpus | None = None
    on_demand_price: flags.OnDemandPrice | None = None
    price_per: flags.Per = PricePer.node


@record
class OwnCost:
    """What serving costs today, and the GPU-hours of that which blocks do not tell; `paid_anyway` even if nothing is served."""

    blocks: tuple[CostBlock, ...]
    gpu_hours: float = 0.0
    paid_anyway: Decimal = Decimal(0)
    price: tuple[str, Price] | None = None


def api(own: OwnCost, purchase: Purchase, operations: Decimal = Decimal(0)) -> Answer:
    """Tokens made on own GPUs today, bought in the scenario, where reserved capacity goes on being paid.

    An API's cache has rules of its own: what own servers had cached is a range, and only `cached_share` lowers the price.
    """
    tokens, price, bought = purchase.tokens, purchase.price, [*map(charge, purchase.cost)]
    share = tokens.cached_share if purchase.cached_share is None and price.cached is not None else None
    groups: dict[str, list[CostBlock]] = {
        "own": [*own.blocks, purchase.running(operations)],
        "api": bought,
        "scenario": [*bought, charge(own.paid_anyway)],
        "cached": [*map(charge, price.cost(tokens, share or 0.0)), charge(own.paid_anyway)],
    }
    costs = positions(purchase.currency, groups)
    today, scenario = (
        replace(costs["own"], gpu_hours=costs["own"].gpu_hours + own.gpu_hours),
        costs["scenario"],
    )
    work = sum(tokens.work(DEFAULT_PROMPT_WEIGHT))
    own_share = to_decimal(tokens.prompts * DEFAULT_PROMPT_WEIGHT / work) if work else Decimal(0)
    ways = [
        _Way("own GPUs", today, kept(today.cost * own_share), "the GPUs being used"),
        _Way(f"API: {price.name}", costs["api"], purchase.cost[0], "the API's price and limits"),
    ]
    rows = [way.row(tokens, today.cost) for way in ways]
    blended = float(costs["api"].cost) / tokens.total
    saved = today.cost - own.paid_anyway
    even = float(saved) / tokens.months / blended if blended and saved > 0 else None
    on, why = purchase.reaches(even)
    volume = f"today it is {tokens.per_month / _MILLION:,.1f} million"
    return purchase.answer(
        f"An API instead of own GPUs for {price.name}",
        even,
        _per_million(saved, tokens.total),
        kind="api",
        today=today,
        scenario=scenario,
        figures={"paid_anyway_cost": kept(own.paid_anyway)},
        rows=rows,
        prices=[own.price] if own.price else [],
        operations=operations,
        assumptions=[
            Assumption("work of a prompt token", DEFAULT_PROMPT_WEIGHT, "of a generated one", "as in gpucost unit tokens")
        ],
        ranges=(
            Range("cost of the API", costs["cached"].cost, scenario.cost, purchase.currency,
                  f"{share * 100:.1f} % of the prompt tokens cached, as own servers had, to none"),
        ) if share else (),
        break_even=(
            "The API costs more at any volume: nothing that own GPUs cost would be saved"
            if even is None
            else f"The API costs less up to {even / _MILLION:,.1f} million tokens a month of this mix; {volume}",
            *([f"At this growth that is passed on {on:%Y-%m-%d}"] if on else []),
            *([f"There is no day of the break-even: {why}"] if not on and even is not None else []),
        ),
        time=("Latency, limits of rate and where data goes are the API's: gpucost knows nothing of them",),
        findings=tuple(_api_findings(own, today, scenario, operations, purchase.cached_share)),
        tables=_tables(rows),
    )  # fmt: skip


def _api_findings(
    own: OwnCost, today: Position, scenario: Position, operations: Decimal, cached_share: float | None
) -> Iterator[str]:
    if scenario.cost >= today.cost:
        yield "Buying the tokens costs more than it saves"
    if own.paid_anyway:
        yield f"Of today's cost {own.paid_anyway:,.2f} is reserved or committed capacity, paid whoever uses it: it is no saving"
    yield "The answer depends on giving whole nodes back, and on the API's model: its answers are not compared"
    if not operations:
        yield "People who run the own GPUs are not counted, which the API would save: --operations-cost-per-month does"
    if cached_share is None:
        yield "No prompt token is counted as cached by the API: --cached-share"
