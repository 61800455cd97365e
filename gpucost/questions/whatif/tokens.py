"""`gpucost whatif tokens`: the tokens of a model from own GPUs, or bought from an API."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from operator import mul
from typing import Annotated

from gpucost import pipeline
from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.price.fx import rates
from gpucost.price.tokens import near_models, token_price
from gpucost.questions.report.api_cost import bought
from gpucost.questions.units.query import UnitQuery
from gpucost.questions.units.serving import token_hours
from gpucost.questions.whatif.commitments import described_use
from gpucost.questions.whatif.prices import dated
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.records import frozen_dataclass
from gpucost.render.view import Document
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import DAYS, DEAREST, round_money, to_decimal, total
from gpucost.whatif.tokens import DescribedTokens, OwnNodes, Purchase, Replicas, Tokens, buy, serve

_MODELS = "gpucost unit tokens lists models; gpucost collect progress loads their tokens"


@frozen_dataclass
class ApiOffer(OptionGroup):
    """A model at an API, and its price."""

    model: Annotated[
        str | None, Option("Model at the API; `*` is a wildcard for tokens in bills.", "NAME")
    ] = None
    api_provider: Annotated[str | None, Option("Seller, for its list price: openai, aws, …", "NAME")] = None
    input_price_per_million: Annotated[
        Decimal | None, Option("Mean price of a million prompt tokens, including cached ones.", most=DEAREST)
    ] = None
    output_price_per_million: Annotated[
        Decimal | None, Option("Price of a million generated tokens.", most=DEAREST)
    ] = None


def whatif_tokens(
    request: WhatIfRequest, described: DescribedTokens, offer: ApiOffer, own: OwnNodes, replicas: Replicas
) -> Document:
    """Compare the cost of a model's tokens: bought from an API, or served on your own GPUs.

    With --gpus-per-replica and --replica-tokens-per-second: serve tokens that you buy today (from bills or options) on
    on-demand nodes that are always on, enough for the busiest hour and the spare replicas. Without them: buy the tokens of
    your workloads (gpucost unit tokens) from an API.

    \b
    Examples:
      gpucost whatif tokens --workload Deployment/chat-api --api-provider cerebras --model llama-3.1-8b
      gpucost whatif tokens --month 2026-10 --peak-factor 3 --on-demand-price 55 --gpus-per-replica 2 \\
        --replica-tokens-per-second 9000
      gpucost whatif tokens --prompt-tokens-per-day 4B --generation-tokens-per-day 800M --peak-factor 3 --model gpt-4o \\
        --instance-type p5.48xlarge --region us-east-1 --gpus-per-replica 2 --replica-tokens-per-second 9000
    """
    is_described = request.is_described(described)
    if not flags_of(replicas):
        if is_described or flags_of(own):
            raise UsageError(
                "the replicas are missing", "set --gpus-per-replica and --replica-tokens-per-second"
            )
        return dated(_bought_instead(request, offer), request)
    if is_described:
        use = Assumption("tokens", f"{DAYS} days", "", "option")
        purchase = _api(request, offer, described.tokens(), use)
    else:
        purchase = _billed(request, offer)
    return dated(serve(purchase, described_use(request, own, own.gpus), replicas), request)


def _api(request: WhatIfRequest, offer: ApiOffer, tokens: Tokens, use: Assumption) -> Purchase:
    """The tokens at an API's price."""
    name, prices, source, as_of = _api_prices(request, offer)
    counts = map(to_decimal, (tokens.prompts, tokens.generations))
    cost = sum(map(mul, counts, prices), Decimal(0)) / 1_000_000
    assumptions = [
        Assumption(f"{name}: {kind} tokens", price, "money per million", source, as_of)
        for kind, price in zip(("prompt", "generated"), prices, strict=True)
    ]
    position = Position(round_money(cost), request.settings.currency)
    return Purchase(name, tokens, position, use.as_of or str(use.value), (use, *assumptions))


def _api_prices(request: WhatIfRequest, offer: ApiOffer) -> tuple[str, Sequence[Decimal], str, str | None]:
    """The model, its prices per million prompt and generated tokens (options, otherwise list prices), their source and day.

    Raises UsageError if a price is missing.
    """
    model, seller, day = offer.model, offer.api_provider, request.today
    prompt, output = offer.input_price_per_million, offer.output_price_per_million
    if prompt is not None and output is not None:
        return model or "the model", (prompt, output), "option", None
    if model is None or prompt is not None or output is not None:
        fix = "give --input-price-per-million and --output-price-per-million, or --model gpt-4o"
        raise UsageError("the API's prices are missing", fix)
    list_price = token_price(seller, model, day)
    if list_price is None:
        at = f" at {seller}" if seller else ""
        raise UsageError(
            f"the price of the tokens of {model}{at} is unknown", near_models(seller, model, day)
        )
    fx, name = rates(request.settings), f"{list_price.model} ({list_price.provider})"
    prices = [
        fx.convert(price, list_price.currency, day, f"the token price of {model}")
        for price in (list_price.input_price_per_million, list_price.output_price_per_million)
    ]
    return name, prices, list_price.source, list_price.price_as_of.isoformat()


def _billed(request: WhatIfRequest, offer: ApiOffer) -> Purchase:
    """The bought tokens of the bills, at their cost."""
    period, name, currency = request.period, request.period_name, request.settings.currency
    if prices := flags_of(offer, but=("model",)):
        raise UsageError(f"{prices[0]}: bills have the prices of tokens", f"leave out {prices[0]}")
    found = request.read(lambda con: bought(con, request.settings, _query(request))) or ()
    wanted = (offer.model or "*").lower()
    fitting = [model for model in found if fnmatchcase((model.model or "").lower(), wanted)]
    rows = [model for model in fitting if model.cost.prompt_tokens is not None]
    models = ", ".join(sorted({model.model or "unknown" for model in rows}))
    prompts = sum(model.cost.prompt_tokens or 0 for model in rows)
    generated = sum(model.cost.generation_tokens or 0 for model in rows)
    hours = max(1, (period.end_ms - period.start_ms) // MS_PER_HOUR)
    tokens = Tokens(prompts, generated, hours)
    if not tokens.total:
        raise GpucostError(
            f"no bill of {name} contains tokens of {request.scope}",
            "bills have tokens by team and model; gpucost collect focus FILE loads a bill",
        )
    today = Position(total(model.cost.api_cost for model in rows), currency)
    return Purchase(models, tokens, today, name, (Assumption("tokens", models, "bought", "bills", name),))


def _query(request: WhatIfRequest) -> UnitQuery:
    return UnitQuery(request.settings, request.period, request.period_name, **asdict(request.scope))


def _bought_instead(request: WhatIfRequest, offer: ApiOffer) -> Answer:
    """The tokens of the store's servers, bought from an API."""
    rows = pipeline.read_attributed(
        # the ends of the period cut hours, as in gpucost unit tokens
        request.settings,
        request.store,
        lambda con: token_hours(con, _query(request)),
        request.period,
    )
    tokens = Tokens(*(sum(row[kind] for row in rows) for kind in ("prompt_tokens", "generation_tokens")))
    if not tokens.total:
        raise GpucostError(f"tokens of {request.scope} are missing in {request.period_name}", _MODELS)
    models, workloads = (sorted({row[name] for row in rows if row[name]}) for name in ("model", "workload"))
    use = Assumption("tokens", ", ".join(models), ", ".join(workloads), "store", request.period_name)
    served = set()
    for row in rows:
        served |= {(row["cluster"], row["namespace"], name) for name in row["workload"].split(" + ")}
    usage = request.usage()
    fleet = replace(usage.fleet, pods=tuple(pod for pod in usage.fleet.pods if pod.owner in served))
    costs, cash = fleet_costs(fleet), fleet_costs(usage.commitments.at_cash_prices(fleet)).cost
    share = max(costs.cost - cash, Decimal(0)) / costs.cost if costs.cost else Decimal(0)
    # the report's cost, to the last digit
    cost = total(row["cost"] for row in rows)
    today = Position(cost, usage.currency, costs.allocated_gpu_hours)
    return buy(_api(request, offer, tokens, use), today, round_money(cost * share))
