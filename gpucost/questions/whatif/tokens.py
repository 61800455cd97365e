"""`gpucost whatif tokens`: a model's tokens from own GPUs, or bought."""

from __future__ import annotations

from dataclasses import asdict, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from gpucost import pipeline
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_DAY
from gpucost.questions.report.api_cost import bought
from gpucost.questions.units.query import UnitQuery
from gpucost.questions.units.serving import full_gpu, token_hours
from gpucost.questions.whatif.commitments import listed_type
from gpucost.questions.whatif.prices import ApiOffer, api_price, named_old
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.answer import Assumption, Position
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import GPUS_PER_NODE, total
from gpucost.whatif.fleet import Scope, escaped_glob
from gpucost.whatif.tokens import DescribedTokens, Node, OwnNodes, Purchase, Replicas, Tokens, buy, serve

_MODELS = "gpucost unit tokens lists models; gpucost collect progress loads their tokens"
Row = dict[str, Any]
_THROUGHPUT = "--replica-tokens-per-second, or --throughput-of Deployment/NAME that gpucost unit tokens lists"


def whatif_tokens(
    request: WhatIfRequest, described: DescribedTokens, offer: ApiOffer, own: OwnNodes, replicas: Replicas
) -> Document:
    """Say whether a model's tokens cost less bought or on own GPUs.

    With options of a replica: bought tokens, of bills or described, on own nodes on demand that are always on, enough for the
    busiest hour and spare replicas. Without: tokens of the store's workloads (gpucost unit tokens), at an API.

    \b
    Examples:
      gpucost whatif tokens --workload Deployment/chat-api --api-provider cerebras --api-model llama-3.1-8b
      gpucost whatif tokens --month 2026-10 --peak-factor 3 --on-demand-price 55 --gpus-per-replica 2 \\
        --throughput-of Deployment/chat-api
      gpucost whatif tokens --prompt-tokens-per-day 4B --generation-tokens-per-day 800M --peak-factor 3 --model gpt-4o \\
        --instance-type p5.48xlarge --region us-east-1 --gpus-per-replica 2 --replica-tokens-per-second 9000
    """
    is_described = request.is_described(described, but=("peak_factor",), of_period=not replicas.throughput_of)
    if flags_of(replicas):
        if is_described:
            use = Assumption("tokens", f"{described.days} days", "", "option")
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
        rows = [row for row in _served(request, request.scope) if _is_of(row["model"], offer)]
        purchase = _stored(request, offer, rows)
        held = round(sum(row["allocated_gpu_hours"] for row in rows), 6)
        today = Position(total(row["cost"] for row in rows), request.settings.currency, held)
        answer = buy(purchase, today, round(today.cost * _share_paid_anyway(request, rows), 9))
    return document(named_old(answer, request.settings, request.today))


def _api(request: WhatIfRequest, offer: ApiOffer, tokens: Tokens, use: Assumption, *models: str) -> Purchase:
    """The tokens at an API's price."""
    price = api_price(request.settings, offer, models, request.today)
    cost = price.cost(tokens.prompts, tokens.generations, offer.cached_share or 0.0)
    position, period = Position(cost, request.settings.currency), use.as_of or str(use.value)
    return Purchase(price.name, tokens, position, period, (use, *price.assumptions()))


def _billed(request: WhatIfRequest, offer: ApiOffer, described: DescribedTokens) -> Purchase:
    """Bought tokens of the bills, at their cost."""
    period, name, currency = request.period, request.period_name, request.settings.currency
    if prices := flags_of(offer, but=("model",)):
        raise UsageError(f"{prices[0]}: bills have the prices of tokens", f"leave out {prices[0]}")
    query = _query(request, request.scope)
    found = request.read(lambda con: bought(con, request.settings, query)) or ()
    rows = [one for one in found if _is_of(one.model, offer) and one.cost.prompt_tokens is not None]
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


def _is_of(model: str | None, offer: ApiOffer) -> bool:
    return fnmatchcase((model or "").lower(), (offer.model or "*").lower())


def _query(request: WhatIfRequest, scope: Scope) -> UnitQuery:
    return UnitQuery(request.settings, request.period, request.period_name, **asdict(scope))


def _served(request: WhatIfRequest, scope: Scope) -> list[Row]:
    """Tokens and cost of the store's serving workloads by hour, cut at the ends of the period as gpucost unit tokens does."""
    query = _query(request, scope)
    return pipeline.read_attributed(
        request.settings, request.store, lambda con: token_hours(con, query), request.period
    )


def _stored(request: WhatIfRequest, offer: ApiOffer, rows: list[Row]) -> Purchase:
    """The tokens of these rows at an API."""
    tokens = Tokens(*(sum(row[kind] for row in rows) for kind in ("prompt_tokens", "generation_tokens")))
    if not tokens.total:
        raise GpucostError(
            f"no token of {offer.model or 'a model'} is known in {request.period_name}", _MODELS
        )
    models, workloads = (sorted({row[name] for row in rows if row[name]}) for name in ("model", "workload"))
    use = Assumption("tokens", ", ".join(models), ", ".join(workloads), "store", request.period_name)
    return _api(request, offer, tokens, use, *models)


def _share_paid_anyway(request: WhatIfRequest, rows: list[Row]) -> Decimal:
    """The share of cost that stays on the bill, of all that the rows' workloads hold."""
    names = {escaped_glob(part) for row in rows for part in row["workload"].split(" + ")}
    places = {(row["cluster"], row["namespace"]) for row in rows}
    usage = request.usage(Scope(workloads=tuple(names)))
    pods = tuple(pod for pod in usage.fleet.pods if (pod.cluster, pod.namespace) in places)
    fleet = replace(usage.fleet, pods=pods)
    whole, cash = fleet_costs(fleet).cost, fleet_costs(usage.commitments.at_cash_prices(fleet)).cost
    return max(whole - cash, Decimal(0)) / whole if whole else Decimal(0)


def _node(request: WhatIfRequest, own: OwnNodes) -> Node:
    """A node and its price on demand. Raises UsageError if options disagree or none has a price."""
    if own.region and not own.instance_type:
        raise UsageError("--region is of an --instance-type", "give --instance-type, or leave it out")
    listed = listed_type(request, own.instance_type, own.region)
    if listed.gpus and own.gpus not in (None, listed.gpus):
        raise UsageError(f"{own.instance_type} has {listed.gpus:g} GPUs, not {own.gpus}", "leave out --gpus")
    gpus = float(listed.gpus or own.gpus or GPUS_PER_NODE)
    price = listed.given_or_listed(own.on_demand_price, own.price_per, gpus)
    return Node(own.instance_type or f"node of {gpus:g} GPUs", gpus, price)


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
