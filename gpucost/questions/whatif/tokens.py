"""`gpucost whatif tokens`: a model's tokens from own GPUs, or bought."""

from __future__ import annotations

from dataclasses import asdict, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from gpucost import pipeline
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.report.api_cost import bought
from gpucost.questions.units.query import UnitQuery
from gpucost.questions.units.serving import full_gpu, token_hours
from gpucost.questions.whatif.commitments import listed_type
from gpucost.questions.whatif.prices import ApiOffer, api_price
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.render.view import Document
from gpucost.whatif.answer import Assumption, Position, old_prices, priced
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.flags import GPUS_PER_NODE, total
from gpucost.whatif.fleet import Price, Scope, escaped_glob
from gpucost.whatif.tokens import DescribedTokens, Node, OwnNodes, Purchase, Replicas, Tokens, buy, serve

_MODELS = "gpucost unit tokens lists models; gpucost collect progress loads their tokens"
Row = dict[str, Any]
_THROUGHPUT = "--replica-tokens-per-second, or --throughput-of Deployment/NAME that gpucost unit tokens lists"


def whatif_tokens(
    request: WhatIfRequest, described: DescribedTokens, offer: ApiOffer, own: OwnNodes, replicas: Replicas
) -> Document:
    """Say whether a model's tokens cost less bought or on own GPUs.

    With options of a replica: bought tokens, of bills or described, on own nodes on demand that are always on, enough for the
    busiest hour and spare replicas. Without: tokens of the store's workloads (gpucost unit tokens), or of --nodes, at an API.

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
        if own.nodes:
            raise UsageError("--nodes serve today, replicas in the scenario", "leave out --nodes")
        of_tokens = _described if is_described else _billed
        purchase, node = of_tokens(request, offer, described), _node(request, own)
        answer = serve(purchase, node, replicas, *_throughput(request, replicas, purchase.tokens))
    elif is_described or request.is_described(own):
        purchase, node = _described(request, offer, described), _node(request, own)
        if not own.nodes:
            raise UsageError("what serves the tokens is missing", "--nodes, or --replica-tokens-per-second")
        priced_node = priced(node.name, node.price, "money per node-hour")
        purchase = replace(purchase, assumptions=(*purchase.assumptions, priced_node))
        block = CostBlock(float(own.nodes * purchase.tokens.hours), node.price.per_node_hour, node.gpus)
        answer = buy(purchase, position(purchase.position.currency, [block]), Decimal(0))
    else:
        rows = [row for row in _served(request, request.scope) if _is_of(row["model"], offer)]
        purchase = _stored(request, offer, rows)
        held = round(sum(row["allocated_gpu_hours"] for row in rows), 6)
        today = Position(total(row["cost"] for row in rows), purchase.position.currency, held)
        answer = buy(purchase, today, round(today.cost * _share_paid_anyway(request, rows), 9))
    day, most_days = request.today, request.settings.prices.stale_after_days
    prices = [one for one in answer.assumptions if one.unit.startswith("money")]
    dated = [(one.name.partition(":")[0], Price(Decimal(0), one.source, one.as_of)) for one in prices]
    return request.finish(replace(answer, title=answer.title + old_prices(dated, day, most_days)))


def _api(request: WhatIfRequest, offer: ApiOffer, tokens: Tokens, use: Assumption, *models: str) -> Purchase:
    """The tokens at an API's price."""
    price = api_price(request.settings, offer, models, request.today)
    cost = price.cost(tokens.prompts, tokens.generations, offer.cached_share or 0.0)
    position, assumptions = Position(cost, request.settings.currency), (use, *price.assumptions())
    period = use.as_of or str(use.value)
    return Purchase(price.name, tokens, position, period, assumptions, offer.cached_share)


def _described(request: WhatIfRequest, offer: ApiOffer, described: DescribedTokens) -> Purchase:
    use = Assumption("tokens", f"{described.days} days", "", "option")
    return _api(request, offer, described.tokens(), use)


def _billed(request: WhatIfRequest, offer: ApiOffer, described: DescribedTokens) -> Purchase:
    """Bought tokens of the bills, at what they cost."""
    if options := flags_of(offer, but=("model",)):
        raise UsageError(f"{options[0]}: bills have prices of tokens", f"leave out {options[0]}")
    settings, period, name = request.settings, request.period, request.period_name
    for given in ("namespace", "workload", "cluster"):
        if getattr(request, f"{given}s"):
            raise UsageError(
                f"--{given} does not narrow bought tokens: bills do not name it", f"leave out --{given}"
            )
    found = request.read(lambda con: bought(con, settings, _query(request, request.scope))) or ()
    rows = [one for one in found if _is_of(one.model, offer) and one.cost.prompt_tokens is not None]
    models = ", ".join(sorted({one.model or "unknown" for one in rows}))
    prompts, cached, generated = (
        sum(getattr(one.cost, name) or 0 for one in rows)
        for name in ("prompt_tokens", "cached_tokens", "generation_tokens")
    )
    days = max(1, round((period.end_ms - period.start_ms) / MS_PER_HOUR / 24))
    tokens = Tokens(prompts, generated, 24 * days, described.peak_factor)
    if not tokens.total:
        raise GpucostError(f"no bill of {name} contains tokens", "gpucost collect focus FILE loads a bill")
    today = Position(total(one.cost.api_cost for one in rows), settings.currency)
    use = Assumption("tokens", models, "bought", "bills", name)
    return Purchase(models, tokens, today, name, (use,), cached / prompts if prompts else None)


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
    """The tokens of these rows at an API, from the first hour with tokens or cost to the last."""
    busy = [row for row in rows if row["prompt_tokens"] or row["generation_tokens"] or row["cost"]]
    hours = [row["from_ms"] // MS_PER_HOUR for row in busy] or [0]
    prompts, generations = (sum(row[name] for row in rows) for name in ("prompt_tokens", "generation_tokens"))
    if not prompts + generations:
        raise GpucostError(
            f"no token of {offer.model or 'a model'} is known in {request.period_name}", _MODELS
        )
    tokens = Tokens(prompts, generations, max(hours) - min(hours) + 1)
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
    work = [Tokens(row["prompt_tokens"], row["generation_tokens"], 1).work for row in rows]
    full = full_gpu(zip(work, (row["allocated_gpu_hours"] for row in rows), strict=True))
    if not full:
        raise GpucostError(f"no token of {workload} is known in {request.period_name}", _THROUGHPUT)
    hours = f"{full.active_hours:,} active hours of {request.period_name}"
    return full.work * replicas.gpus_per_replica / 3600, f"store: {workload}, {hours}, the 95th percentile"
