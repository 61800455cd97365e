"""`gpucost whatif spot`: on-demand usage moved to spot."""

from dataclasses import replace
from typing import Annotated

from gpucost.options import Option
from gpucost.questions.request import store_or_empty
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import Price
from gpucost.whatif.spot import answer
from gpucost.whatif.spot.answer import Described
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import read_market
from gpucost.whatif.spot.moves import SpotOptions, SpotQuery


def whatif_spot(
    request: WhatIfRequest,
    fleet: Described,
    options: SpotOptions,
    interruptions_per_hour: Annotated[
        float | None,
        Option(
            "Interruptions of one node per hour. Default: the published rate, adjusted by your spot nodes."
        ),
    ] = None,
) -> Document:
    """Estimate the saving of moving on-demand usage to spot, including the cost of interruptions.

    With --on-demand-price, --instance-type, --nodes, --gpus or --hours: a calculator that needs no store. Without them: the
    store's usage of the last complete month, or of the given period and team. Prices come from options. Otherwise,
    less discounts, they come from the price book, the spot price history, your own nodes of the type, or list prices, in that
    order. The saving counts work that is safe on spot: batch work, and training with known checkpoints. Other work is listed
    separately, with the reason.

    Without --interruptions-per-hour, the rate of interruptions is the published rate of the instance family, adjusted by your
    own spot nodes of all stored months. A gang of n nodes stops √n times as often as one node.

    \b
    Examples:
      gpucost whatif spot --on-demand-price 32 --spot-price 12 --interruptions-per-hour 0.33 --checkpoint-minutes 30
      gpucost whatif spot --instance-type p4d.24xlarge --region us-east-1 --nodes 4 --restart-minutes 10
      gpucost whatif spot --team research --month 2026-10
      gpucost whatif spot --on-demand-price 32 --spot-price 12 --nodes 4 --on-demand-share 0.25
      gpucost whatif spot --instance-type p5.48xlarge --region us-east-1 --interruptions-per-hour 0.05 --format json
    """
    rate = None if interruptions_per_hour is None else Rate(interruptions_per_hour, "option")
    if request.is_described(fleet, but=("spot_price",)):
        with store_or_empty(request.settings) as con:
            question = answer.described(con, request.settings, options, fleet, rate)
    else:
        usage, settings = request.usage(), request.settings
        with request.store.read() as con:
            market = read_market(con, settings, request.period)
        if rate:
            market = replace(market, rate=lambda _: rate)
        if fleet.spot_price is not None:
            market = replace(market, price=Price(fleet.spot_price, "option"), price_per=fleet.price_per)
        question = SpotQuery(usage, market, settings, options)
    return document(answer.answer(question))
