"""`gpucost whatif selfhost` and `gpucost whatif api`: a model's tokens from own GPUs, or bought."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.request import store_or_empty
from gpucost.questions.whatif.commitments import GivenOffers, given_terms, listed_type
from gpucost.questions.whatif.prices import list_prices, source_of
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.render.view import Document
from gpucost.whatif.answer import Assumption, total
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, kept
from gpucost.whatif.flags import GPUS_PER_NODE, node_price, to_decimal
from gpucost.whatif.fleet import PAID_ANYWAY, Price, Scope, escaped_glob
from gpucost.whatif.reserve import Offers
from gpucost.whatif.spot.interruptions import Rate, prior_rate
from gpucost.whatif.tokens import (
    Api,
    ApiPrice,
    DescribedServing,
    DescribedTokens,
    Growth,
    Operations,
    OwnCost,
    OwnNodes,
    OwnServing,
    PacedHour,
    Purchase,
    Replicas,
    Throughput,
    TokenHours,
    api,
    described_tokens,
    given_throughput,
    measured_throughput,
    paced_throughput,
    selfhost,
)

if TYPE_CHECKING:
    from gpucost.periods import Period
    from gpucost.price.listing import ListedPrice

Hour = dict[str, Any]
# months before the period that growth is looked for in, and the fewest that tell one
_MONTHS, _FEWEST = 6, 2


def whatif_selfhost(
    request: WhatIfRequest,
    described: DescribedTokens,
    offer: Api,
    replicas: Replicas,
    own: OwnNodes,
    operations: Operations,
) -> Document:
    """Say whether a model's tokens, bought from an API today, cost less on own GPUs.

    Tokens are described by options, or those that own servers counted in the store, hour by hour. Bought, they cost what options
    say, or the list price (gpucost prices tokens). The scenario is safe: nodes on demand that are always on, enough for the
    busiest hour at --target-utilization, and spare replicas. Nodes by the hour, commitments and spot stand beside it, with what
    they depend on.

    \b
    Examples:
      gpucost whatif selfhost --prompt-tokens-per-day 4B --generation-tokens-per-day 800M --peak-factor 3 \\
        --input-price-per-million 2.5 --output-price-per-million 10 --instance-type p5.48xlarge --region us-east-1 \\
        --gpus-per-replica 2 --replica-tokens-per-second 12000
      gpucost whatif selfhost --model "llama-3*" --input-price-per-million 0.2 --output-price-per-million 0.6 \\
        --throughput-of Deployment/chat-api --gpus-per-replica 1 --gpu-model H100
    """
    findings: list[str] = []
    if request.is_described(described, of_period=replicas.throughput_of is None):
        tokens, period_name = described_tokens(described)
        purchase = _purchase(
            request, offer, tokens, period_name, f"busiest hour {described.peak_factor:g} × the mean"
        )
    else:
        hours = _hours(request, offer.model)
        tokens = _curve(request, hours, offer)
        span = f"{tokens.hours:,} hours, from their first to their last"
        purchase = _purchase(request, offer, tokens, request.period_name, span, hours)
        findings = ["These tokens are made on own GPUs already: gpucost whatif api asks whether to buy them"]
    return request.finish(selfhost(purchase, _serving(request, own, replicas, tokens, operations), findings))


def whatif_api(
    request: WhatIfRequest,
    described: DescribedTokens,
    nodes: DescribedServing,
    offer: Api,
    operations: Operations,
) -> Document:
    """Say whether tokens that own GPUs make would cost less bought from an API.

    Today is what the store's serving workloads cost (gpucost unit tokens), or nodes that options describe; the scenario is the
    same tokens at an API's price. Reserved and committed capacity goes on being paid.

    \b
    Examples:
      gpucost whatif api --workload Deployment/chat-api --api-provider cerebras --api-model llama-3.1-8b
      gpucost whatif api --month 2026-10 --model "llama-3*" --input-price-per-million 0.05 --output-price-per-million 0.08
      gpucost whatif api --nodes 2 --on-demand-price 55 --prompt-tokens-per-day 4B --generation-tokens-per-day 800M \\
        --input-price-per-million 2.5 --output-price-per-million 10
    """
    is_of_nodes = request.is_described(nodes)
    if request.is_described(described) or is_of_nodes:
        tokens, period_name = described_tokens(described, is_even=True)
        own = _described_cost(request, nodes, tokens)
        purchase = _purchase(request, offer, tokens, period_name)
    else:
        hours = _hours(request, offer.model)
        tokens, own = _curve(request, hours, offer), _stored_cost(request, hours)
        workloads = ", ".join(sorted({row["workload"] for row in hours}))
        purchase = _purchase(request, offer, tokens, request.period_name, workloads, hours)
    return request.finish(api(own, purchase, operations.operations_cost_per_month))


def _purchase(
    request: WhatIfRequest,
    offer: Api,
    tokens: TokenHours,
    period_name: str,
    about: str = "",
    hours: Sequence[Hour] = (),
) -> Purchase:
    """The tokens at an API's price; `hours` are rows of the store that they come from, if they do."""
    growth = _growth(request, offer, hours)
    names = sorted({row["model"] for row in hours if row["model"]})
    use = Assumption("tokens", period_name, about, "option")
    if hours:
        use = Assumption("tokens", ", ".join(names), about, "store", period_name)
    return Purchase(
        tokens,
        _api_price(request, offer, names),
        growth,
        request.settings.currency,
        period_name,
        request.today,
        offer.cached_share,
        (use,),
        request.settings.prices.stale_after_days,
    )


def _hours(
    request: WhatIfRequest,
    model: str | None = None,
    scope: Scope | None = None,
    period: Period | None = None,
    bucket: Literal["hour", "month"] = "hour",
) -> list[Hour]:
    """Read the tokens of own servers of the store by hour: of a model (a glob), and of a scope and period or those asked for."""
    from gpucost import pipeline
    from gpucost.questions.units.query import UnitQuery
    from gpucost.questions.units.reading import token_hours

    query = UnitQuery.of(
        request.settings, period or request.period, request.period_name, **asdict(scope or request.scope)
    )
    # cut at the ends of the period, as gpucost unit tokens reads it
    rows = pipeline.read_attributed(
        request.settings, request.store, lambda con: token_hours(con, query, bucket), request.period
    )
    return [row for row in rows if model is None or fnmatchcase((row["model"] or "").lower(), model.lower())]


def _curve(request: WhatIfRequest, rows: Sequence[Hour], offer: Api) -> TokenHours:
    """The tokens of these rows by hour, from the first hour with some, or with a cost, to the last. Raises GpucostError."""
    names = ("prompt_tokens", "generation_tokens", "cached_tokens")
    sums: dict[str, defaultdict[int, float]] = {name: defaultdict(float) for name in names}
    for row in rows:
        if row["prompt_tokens"] or row["generation_tokens"] or row["cost"]:
            for name in names:
                # of an hour that midnight cuts, where zones are half an hour off, both parts
                sums[name][row["from_ms"] // MS_PER_HOUR] += row[name] or 0.0
    hours = sums["prompt_tokens"].keys()
    span = range(min(hours), max(hours) + 1) if hours else ()
    prompt, generated, cached = (tuple(amounts[hour] for hour in span) for amounts in sums.values())
    if not any(prompt + generated):
        of = f" of {offer.model}" if offer.model else ""
        raise GpucostError(
            f"no token{of} is known in {request.period_name}",
            "gpucost unit tokens lists models; gpucost collect progress collects them; or --prompt-tokens-per-day describes them",
        )
    is_counted = any(prompt) and any(row["cached_tokens"] is not None for row in rows)
    return TokenHours(prompt, generated, min(sum(cached) / sum(prompt), 1.0) if is_counted else None)


def _growth(request: WhatIfRequest, offer: Api, hours: Sequence[Hour] = ()) -> Growth:
    """The growth that an option gives, otherwise that of the workloads of these rows in the store's whole months before."""
    today = request.today
    begins = min(today, request.period.end.astimezone(request.tz).date()) if hours else today
    if offer.growth_percent_per_month is not None or not hours:
        return Growth(offer.growth_percent_per_month, "option", begins)
    from gpucost.periods import Period, from_ms, local_midnight

    last = _month(begins)
    first_day, last_day = (date(month // 12, month % 12 + 1, 1) for month in (last - _MONTHS, last))
    months = Period(local_midnight(first_day, request.tz), local_midnight(last_day, request.tz))
    places = {_place(row) for row in hours}
    tokens: Counter[int] = Counter()
    for row in _hours(request, offer.model, Scope(), months, "month"):
        if _place(row) in places:
            tokens[_month(from_ms(row["from_ms"]).astimezone(request.tz))] += (
                row["prompt_tokens"] + row["generation_tokens"]
            )
    # they may have begun within the first one
    known = [(month, count) for month, count in sorted(tokens.items()) if count][1:]
    if len(known) < _FEWEST:
        return Growth(None, "", begins)
    (first_month, before), (last_month, after) = known[0], known[-1]
    percent = (math.pow(after / before, 1 / (last_month - first_month)) - 1) * 100
    return Growth(percent, f"store: {len(known)} whole months", begins)


def _place(row: Hour) -> tuple[str, str, str]:
    return row["cluster"], row["namespace"], row["workload"]


def _month(day: date) -> int:
    """Months since the year 0."""
    return day.year * 12 + day.month - 1


def _api_price(request: WhatIfRequest, offer: Api, models: Sequence[str]) -> ApiPrice:
    """What options say, and the price list for what they do not. Raises UsageError where nothing says it."""
    given = (
        offer.input_price_per_million,
        offer.output_price_per_million,
        offer.cached_input_price_per_million,
    )
    name = offer.api_model or (offer.model if offer.model and "*" not in offer.model else None)
    name = name or (models[0] if len(models) == 1 else None)
    if given[0] is not None and given[1] is not None:
        return ApiPrice(name or "the model", given[0], given[1], "option", given[2])
    if name is None:
        raise UsageError(
            "the API's price is missing",
            "--input-price-per-million and --output-price-per-million give it, --api-model gpt-4o looks it up"
            + (f"; there are {', '.join(models)}" if models else ""),
        )
    from gpucost.price.fx import rates
    from gpucost.price.tokens import near_models, token_price

    day = request.today
    listed = token_price(offer.api_provider, name, day)
    if listed is None:
        of = f" at {offer.api_provider}" if offer.api_provider else ""
        near = near_models(offer.api_provider, name, day)
        raise UsageError(
            f"no price of the tokens of {name}{of} is known",
            f"{near}; or give --input-price-per-million and --output-price-per-million",
        )
    fx = rates(request.settings)

    def own(option: Decimal | None, price: Decimal) -> Decimal:
        return (
            fx.convert(price, listed.currency, day, f"the token price of {listed.model}")
            if option is None
            else option
        )

    prompt, generated = (
        own(option, price)
        for option, price in zip(
            given, (listed.input_price_per_million, listed.output_price_per_million), strict=False
        )
    )
    cached = listed.cached_input_price_per_million
    cached = given[2] if cached is None else own(given[2], cached)
    of_options = ", but for what options give" if any(price is not None for price in given) else ""
    source, as_of = f"{listed.source}{of_options}", listed.price_as_of.isoformat()
    return ApiPrice(f"{listed.model} ({listed.provider})", prompt, generated, source, cached, as_of)


class _Nodes(NamedTuple):
    """Nodes as they are called, their GPUs, price on demand, commitments on offer, and what other clouds ask for such."""

    name: str
    gpus: float
    on_demand: Price
    offers: Offers
    places: tuple[tuple[str, Price], ...] = ()


def _nodes(request: WhatIfRequest, own: OwnNodes | DescribedServing) -> _Nodes:
    """Of an instance type, or by options. Raises UsageError where no price is known."""
    if own.region and own.instance_type is None:
        raise UsageError("--region says where an --instance-type is", "give --instance-type, or leave it out")
    listed = listed_type(request, own.instance_type, own.region)
    if listed.gpus and own.gpus not in (None, listed.gpus):
        raise UsageError(f"{own.instance_type} has {listed.gpus:g} GPUs, not {own.gpus}", "leave out --gpus")
    gpus = float(listed.gpus or own.gpus or GPUS_PER_NODE)
    price = listed.given_or_listed(own.on_demand_price, own.price_per, gpus)
    return _Nodes(own.instance_type or f"node of {gpus:g} GPUs", gpus, price, listed.offers)


def _of_gpu(request: WhatIfRequest, own: OwnNodes, gpus_per_replica: int) -> _Nodes:
    """Of a GPU model: each cloud's cheapest place that has instances with a replica's GPUs, and the upper median of these.

    Raises UsageError where an option says otherwise, GpucostError where nothing is known of the GPU.
    """
    for name in ("instance_type", "region", "on_demand_price"):
        if getattr(own, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} and --gpu-model both say which nodes are meant", "leave out one of them"
            )
    gpus = float(own.gpus or GPUS_PER_NODE)
    with list_prices(request.settings) as listed:
        rows = listed(own.gpu_model, purchase_options=("on_demand",))
    cheapest: dict[str, ListedPrice] = {}
    for row in rows:
        if row.price_per_gpu_hour and (row.gpu_count or 0) >= min(gpus_per_replica, gpus):
            cheapest.setdefault(row.provider, row)
    if not cheapest:
        raise GpucostError(
            f"no price on demand of {own.gpu_model} is known", f"gpucost prices {own.gpu_model} lists what is"
        )
    places = tuple(
        (
            " ".join(word for word in (row.provider, row.region, row.instance_type) if word),
            Price(kept((row.price_per_gpu_hour or 0) * to_decimal(gpus)), *source_of(row)),
        )
        for row in cheapest.values()
    )
    where, price = places[len(places) // 2]
    price = replace(price, source=f"upper median of {len(places)} clouds, {where}: {price.source}")
    return _Nodes(f"node of {gpus:g} {own.gpu_model}", gpus, price, {}, places)


def _serving(
    request: WhatIfRequest, own: OwnNodes, replicas: Replicas, tokens: TokenHours, operations: Operations
) -> OwnServing:
    """The replicas that options describe, or the store measured. Raises UsageError where something is not told."""
    throughput, gpus_per_replica = _throughput(request, replicas, tokens)
    nodes = _nodes(request, own) if own.gpu_model is None else _of_gpu(request, own, gpus_per_replica)
    spot, rate = _spot(request, own, nodes.gpus)
    given = GivenOffers(
        given_terms("--commitment-price", own.commitment_price),
        given_terms("--commitment-discount", own.commitment_discount, highest=99),
        own.price_per,
    )
    return OwnServing(
        nodes.name,
        nodes.gpus,
        gpus_per_replica,
        throughput,
        nodes.on_demand,
        replicas,
        given.of(nodes.gpus, nodes.on_demand) or nodes.offers,
        spot,
        rate,
        operations.operations_cost_per_month,
        nodes.places,
    )


def _throughput(request: WhatIfRequest, replicas: Replicas, tokens: TokenHours) -> tuple[Throughput, int]:
    """What a full replica does, and its GPUs. Raises UsageError where neither options nor the store say."""
    workload, gpus, target = (
        replicas.throughput_of,
        replicas.gpus_per_replica,
        replicas.time_per_output_token_ms,
    )
    if replicas.replica_tokens_per_second:
        return _given_throughput(replicas, tokens)
    if workload is None:
        raise UsageError(
            "what a replica does is not told",
            "--replica-tokens-per-second gives it, as a load test says; --throughput-of Deployment/NAME measures it in the store",
        )
    from gpucost.questions.units.reading import full_gpu

    rows = [row for row in _hours(request, scope=Scope()) if workload in row["workload"].split(" + ")]
    hours = [
        PacedHour(
            replicas.prompt_weight * row["prompt_tokens"] + row["generation_tokens"], row["allocated_gpu_hours"],
            row["generation_tokens"], row["decode_seconds"] or 0.0,
        )
        for row in rows
    ]  # fmt: skip
    full = full_gpu((one.work, one.gpu_hours) for one in hours)
    if full is None:
        raise GpucostError(
            f"no token of {workload} is known in {request.period_name}", "gpucost unit tokens lists what is"
        )
    if gpus is None:
        gpus = _gpus_held(request, workload, is_pool=rows[0]["workload"] != workload)
    if target is not None:
        paced_hours = [one for one in hours if one.gpu_hours and one.generated and one.decode_seconds]
        if not paced_hours:
            raise UsageError(
                f"the time per generated token of {workload} is not known: its server tells no time in decode",
                "leave out --time-per-output-token-ms; docs/units.md says which servers tell it",
            )
        source = f"store: {workload}, {len(paced_hours):,} active hours of {request.period_name} with a time in decode"
        return paced_throughput(paced_hours, target, gpus, source), gpus
    source = (
        f"store: {workload}, {full.active_hours:,} active hours of {request.period_name}, the 95th percentile"
    )
    return measured_throughput(full.work, full.mean_work, gpus, source), gpus


def _given_throughput(replicas: Replicas, tokens: TokenHours) -> tuple[Throughput, int]:
    """What options say that a full replica does, and its GPUs. Raises UsageError where they say it twice, or not all."""
    if replicas.throughput_of is not None:
        raise UsageError(
            "--replica-tokens-per-second and --throughput-of both say what a replica does",
            "leave out one of them",
        )
    if replicas.time_per_output_token_ms is not None:
        raise UsageError(
            "--time-per-output-token-ms is held against what --throughput-of measures",
            "leave it out, and give --replica-tokens-per-second as a load test at your target says",
        )
    if replicas.gpus_per_replica is None:
        raise UsageError("--gpus-per-replica is missing", "how many GPUs serve one copy of the model")
    per_second = replicas.replica_tokens_per_second
    return given_throughput(per_second, tokens, replicas.prompt_weight), replicas.gpus_per_replica


def _gpus_held(request: WhatIfRequest, workload: str, *, is_pool: bool) -> int:
    """The GPUs that most pods of the workload hold. Raises UsageError for a part of a pool, and for a part of a GPU."""
    # of a pool both phases count: a decode pod alone would have done what others computed of its prompts
    if is_pool:
        raise UsageError(
            "--gpus-per-replica is missing", "how many GPUs pods of prefill and of decode hold together"
        )
    held = Counter(pod.gpus for pod in request.usage(Scope(workloads=(escaped_glob(workload),))).fleet.pods)
    (most, _), *_ = held.most_common(1)
    if most != int(most):
        raise UsageError(
            f"pods of {workload} hold {most:.3g} of a GPU",
            "--gpus-per-replica says what a replica is to hold",
        )
    return int(most)


def _spot(request: WhatIfRequest, own: OwnNodes, gpus: float) -> tuple[Price | None, Rate | None]:
    """The spot price, and how often spot nodes are interrupted; None where it is not known."""
    from gpucost.periods import to_ms
    from gpucost.whatif.spot.market import Place, find_instance, read_market

    price = (
        None if own.spot_price is None else Price(node_price(own.spot_price, own.price_per, gpus), "option")
    )
    rate = prior_rate(None, None, "")
    if own.instance_type is not None:
        with store_or_empty(request.settings) as con:
            provider, name, _ = find_instance(con, own.instance_type)
            place = Place(name, provider, own.region)
            market = read_market(con, request.settings, [name])
        price = price or market.latest_spot(place, to_ms(request.now)) or market.list_price(place, "spot")
        rate = market.rate(place)
    if own.interruptions_per_hour is not None:
        rate = Rate(own.interruptions_per_hour, "option")
    return price, rate if price else None


def _described_cost(request: WhatIfRequest, nodes: DescribedServing, tokens: TokenHours) -> OwnCost:
    """What nodes that options describe cost. Raises UsageError where they are not told."""
    if nodes.nodes is None:
        raise UsageError("--nodes is missing", "how many nodes serve these tokens today")
    known = _nodes(request, nodes)
    block = CostBlock(float(nodes.nodes * tokens.hours), known.on_demand.per_node_hour, known.gpus)
    return OwnCost((block,), price=(known.name, known.on_demand))


def _stored_cost(request: WhatIfRequest, hours: Sequence[Hour]) -> OwnCost:
    """What the rows cost; the part of it on capacity that is paid anyway, as it is of all that their workloads hold."""
    cost = total(row["cost"] for row in hours)
    names = tuple({escaped_glob(part) for row in hours for part in row["workload"].split(" + ")})
    places = {(row["cluster"], row["namespace"]) for row in hours}
    fleet = request.usage(Scope(workloads=names)).fleet
    fleet = replace(fleet, pods=tuple(pod for pod in fleet.pods if (pod.cluster, pod.namespace) in places))
    committed = fleet.only(
        lambda node: node.capacity_type in PAID_ANYWAY or any(price.is_committed for price in node.prices)
    )
    whole, paid = (one.cost for one in map(fleet_costs, (fleet, committed)))
    share = paid / whole if whole else Decimal(0)
    held = sum(row["allocated_gpu_hours"] for row in hours)
    return OwnCost((charge(cost),), round(held, 6), round(cost * share, 9))
