"""`gpucost whatif tokens`: a model's tokens from own GPUs, or bought."""

from __future__ import annotations

from dataclasses import asdict, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

from gpucost import pipeline
from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_DAY
from gpucost.price.fx import rates
from gpucost.price.tokens import near_models, token_price
from gpucost.questions.report.api_cost import bought
from gpucost.questions.units.query import UnitQuery
from gpucost.questions.units.serving import full_gpu, token_hours
from gpucost.questions.whatif.commitments import use_on_offer
from gpucost.questions.whatif.prices import named_old
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.questions.whatif.view import document
from gpucost.records import record
from gpucost.render.view import Document
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import DAYS, DEAREST, kept, to_decimal, total
from gpucost.whatif.fleet import Scope, escaped_glob
from gpucost.whatif.reserve import ReservedUse
from gpucost.whatif.tokens import DescribedTokens, OwnNodes, Purchase, Replicas, Tokens, buy, serve

_MODELS = "gpucost unit tokens lists models; gpucost collect progress loads their tokens"
Row = dict[str, Any]
_THROUGHPUT = "--replica-tokens-per-second, or --throughput-of Deployment/NAME that gpucost unit tokens lists"


@record
class ApiOffer(OptionGroup):
    """A model at an API, and its price."""

    model: Annotated[str | None, Option("Model at the API; of tokens of bills, `*` is anything.", "NAME")] = (
        None
    )
    api_provider: Annotated[str | None, Option("Seller, for its list price: openai, aws, …", "NAME")] = None
    input_price_per_million: Annotated[
        Decimal | None, Option("Price of a million prompt tokens, cached ones included.", most=DEAREST)
    ] = None
    output_price_per_million: Annotated[
        Decimal | None, Option("Price of a million generated tokens.", most=DEAREST)
    ] = None
    cached_share: Annotated[
        float | None, Option("Prompt tokens that the API has cached, 0 to 1. Default: 0.", most=1)
    ] = None


def whatif_tokens(
    request: WhatIfRequest, described: DescribedTokens, offer: ApiOffer, own: OwnNodes, replicas: Replicas
) -> Document:
    """Say whether a model's tokens cost less bought or on own GPUs.

    With options of a replica: bought tokens, of bills or described, on own nodes on demand that are always on, enough for the
    busiest hour and spare replicas. Without: tokens of the store's workloads (gpucost unit tokens), at an API.

    \b
    Examples:
      gpucost whatif tokens --workload Deployment/chat-api --api-provider cerebras --model llama-3.1-8b
      gpucost whatif tokens --month 2026-10 --peak-factor 3 --on-demand-price 55 --gpus-per-replica 2 \\
        --throughput-of Deployment/chat-api
      gpucost whatif tokens --prompt-tokens-per-day 4B --generation-tokens-per-day 800M --peak-factor 3 --model gpt-4o \\
        --instance-type p5.48xlarge --region us-east-1 --gpus-per-replica 2 --replica-tokens-per-second 9000
    """
    is_described = request.is_described(described, but=("peak_factor",), of_period=not replicas.throughput_of)
    if flags_of(replicas):
        if is_described:
            use = Assumption("tokens", f"{DAYS} days", "", "option")
            purchase = _api(request, offer, described.tokens(), use)
        else:
            purchase = _billed(request, offer, described)
        answer = serve(
            purchase, _node(request, own), replicas, *_throughput(request, replicas, purchase.tokens)
        )
    elif is_described or flags_of(own):
        raise UsageError(
            "what serves the tokens is missing", "--gpus-per-replica, --replica-tokens-per-second"
        )
    else:
        answer = _bought_instead(request, offer)
    return document(named_old(answer, request))


class ApiPrice(NamedTuple):
    """Money for a million prompt, cached prompt and generated tokens, and its source."""

    model: str
    prices: tuple[Decimal, ...]
    source: str
    as_of: str | None = None


def _api_price(request: WhatIfRequest, offer: ApiOffer) -> ApiPrice:
    """The two prices of the options, otherwise list prices. Raises UsageError if neither has prices."""
    model, seller, day = offer.model, offer.api_provider, request.today
    prompt, output = offer.input_price_per_million, offer.output_price_per_million
    both = "--input-price-per-million and --output-price-per-million"
    if (prompt is None) != (output is None):
        raise UsageError("one of the API's two prices is missing", f"give {both}, or neither")
    if prompt is not None and output is not None:
        return ApiPrice(model or "the model", (prompt, prompt, output), "option")
    if model is None:
        raise UsageError("the API's price is missing", f"give {both}, or --model gpt-4o")
    listed = token_price(seller, model, day)
    if listed is None:
        at = f" at {seller}" if seller else ""
        near = near_models(seller, model, day)
        raise UsageError(f"the price of the tokens of {model}{at} is unknown", f"{near}; or give {both}")
    prompt, cached = listed.input_price_per_million, listed.cached_input_price_per_million
    prices = (prompt, prompt if cached is None else cached, listed.output_price_per_million)
    fx, what = rates(request.settings), f"the token price of {model}"
    converted = tuple(fx.convert(price, listed.currency, day, what) for price in prices)
    name = f"{listed.model} ({listed.provider})"
    return ApiPrice(name, converted, listed.source, listed.price_as_of.isoformat())


def _api(request: WhatIfRequest, offer: ApiOffer, tokens: Tokens, use: Assumption) -> Purchase:
    """The tokens at an API's price."""
    price = _api_price(request, offer)
    prompt, cached, generated = price.prices
    from_cache = to_decimal(round(tokens.prompts * (offer.cached_share or 0.0)))
    prompts = (to_decimal(tokens.prompts) - from_cache) * prompt + from_cache * cached
    cost = kept(prompts / 1_000_000) + kept(to_decimal(tokens.generations) * generated / 1_000_000)
    assumptions = [
        Assumption(f"{price.model}: {kind} tokens", amount, "money per million", price.source, price.as_of)
        for kind, amount in zip(("prompt", "cached prompt", "generated"), price.prices, strict=True)
    ]
    position = Position(cost, request.settings.currency)
    return Purchase(price.model, tokens, position, use.as_of or str(use.value), (use, *assumptions))


def _billed(request: WhatIfRequest, offer: ApiOffer, described: DescribedTokens) -> Purchase:
    """Bought tokens of the bills, at their cost."""
    period, name, currency = request.period, request.period_name, request.settings.currency
    if prices := flags_of(offer, but=("model",)):
        raise UsageError(f"{prices[0]}: bills have the prices of tokens", f"leave out {prices[0]}")
    query = _query(request, request.scope)
    found = request.read(lambda con: bought(con, request.settings, query)) or ()
    wanted = (offer.model or "*").lower()
    fitting = [one for one in found if fnmatchcase((one.model or "").lower(), wanted)]
    rows = [one for one in fitting if one.cost.prompt_tokens is not None]
    models = ", ".join(sorted({one.model or "unknown" for one in rows}))
    prompts = sum(one.cost.prompt_tokens or 0 for one in rows)
    generated = sum(one.cost.generation_tokens or 0 for one in rows)
    days = max(1, round((period.end_ms - period.start_ms) / MS_PER_DAY))
    tokens = Tokens(prompts, generated, 24 * days, described.peak_factor)
    if not tokens.total:
        raise GpucostError(
            f"no bill of {name} contains tokens of {request.scope}",
            "bills have tokens by team and model; gpucost collect focus FILE loads a bill",
        )
    today = Position(total(one.cost.api_cost for one in rows), currency)
    return Purchase(models, tokens, today, name, (Assumption("tokens", models, "bought", "bills", name),))


def _query(request: WhatIfRequest, scope: Scope) -> UnitQuery:
    return UnitQuery(request.settings, request.period, request.period_name, **asdict(scope))


def _served(request: WhatIfRequest, scope: Scope) -> list[Row]:
    """Tokens and cost of the store's serving workloads by hour, cut at the ends of the period as gpucost unit tokens does."""
    query = _query(request, scope)
    return pipeline.read_attributed(
        request.settings, request.store, lambda con: token_hours(con, query), request.period
    )


def _bought_instead(request: WhatIfRequest, offer: ApiOffer) -> Answer:
    """The tokens of the store's servers, at an API."""
    rows, period = _served(request, request.scope), request.period_name
    if offer.model is not None:
        same = offer.model.casefold()
        rows = [row for row in rows if (row["model"] or "").casefold() == same] or rows
        if len(served := sorted({row["model"] or "unknown" for row in rows})) > 1:
            raise UsageError(
                f"{request.scope} served {', '.join(served)}: {offer.model} cannot stand for all of them",
                "select the workloads of one with --workload",
            )
    tokens = Tokens(*(sum(row[kind] for row in rows) for kind in ("prompt_tokens", "generation_tokens")))
    if not tokens.total:
        raise GpucostError(f"no token of {request.scope} is known in {period}", _MODELS)
    models, workloads = (sorted({row[name] for row in rows if row[name]}) for name in ("model", "workload"))
    use = Assumption("tokens", ", ".join(models), ", ".join(workloads), "store", period)
    purchase = _api(request, offer, tokens, use)
    held = round(sum(row["allocated_gpu_hours"] for row in rows), 6)
    today = Position(total(row["cost"] for row in rows), request.settings.currency, held)
    return buy(purchase, today, round(today.cost * _share_paid_anyway(request, rows), 9))


def _share_paid_anyway(request: WhatIfRequest, rows: list[Row]) -> Decimal:
    """The share of cost that stays on the bill, of all that the rows' workloads hold."""
    names = {escaped_glob(part) for row in rows for part in row["workload"].split(" + ")}
    places = {(row["cluster"], row["namespace"]) for row in rows}
    usage = request.usage(Scope(workloads=tuple(names)))
    pods = tuple(pod for pod in usage.fleet.pods if (pod.cluster, pod.namespace) in places)
    fleet = replace(usage.fleet, pods=pods)
    whole, cash = fleet_costs(fleet).cost, fleet_costs(usage.commitments.at_cash_prices(fleet)).cost
    return max(whole - cash, Decimal(0)) / whole if whole else Decimal(0)


def _node(request: WhatIfRequest, own: OwnNodes) -> ReservedUse:
    """A node and its price on demand. Raises UsageError if options disagree or none has a price."""
    if own.region and not own.instance_type:
        raise UsageError("--region is of an --instance-type", "give --instance-type, or leave it out")
    if own.gpus and own.instance_type:
        raise UsageError("--gpus is of nodes without an --instance-type", "leave out --gpus")
    return use_on_offer(request, own, own.gpus)


def _throughput(request: WhatIfRequest, replicas: Replicas, tokens: Tokens) -> tuple[float, str]:
    """Generated tokens per second of a full replica, and their source. Raises UsageError if an option is missing."""
    given, workload = replicas.replica_tokens_per_second, replicas.throughput_of
    if not replicas.gpus_per_replica:
        raise UsageError("--gpus-per-replica is missing", "the GPUs that serve one copy of the model")
    if (given is None) == (workload is None):
        raise UsageError("the throughput is missing or given twice", _THROUGHPUT)
    if given:
        return given * tokens.work / tokens.total, "option"
    rows = [row for row in _served(request, Scope()) if workload in row["workload"].split(" + ")]
    work = [Tokens(row["prompt_tokens"], row["generation_tokens"]).work for row in rows]
    full = full_gpu(zip(work, (row["allocated_gpu_hours"] for row in rows), strict=True))
    if not full:
        raise GpucostError(f"no token of {workload} is known in {request.period_name}", _THROUGHPUT)
    hours = f"{full.active_hours:,} active hours of {request.period_name}"
    return full.work * replicas.gpus_per_replica / 3600, f"store: {workload}, {hours}, the 95th percentile"
