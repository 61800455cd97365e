"""`gpucost whatif move`: work in another region or cloud, or its data near it."""

from gpucost.questions.whatif.prices import dated, list_prices
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif import move
from gpucost.whatif.answer import Assumption, today_of
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.move import Moving, Transfer


def whatif_move(request: WhatIfRequest, moving: Moving, transfer: Transfer) -> Document:
    """Report whether low-priority work is worth moving to another place, or its data worth keeping near.

    A place is worth it if the work costs at most 70 % of the primary's spot price there, with waiting and data, and less than
    the cost that leaves the bill. Work is the pods of the store. Places are regions with a spot price of the GPU.

    With --gb-per-start and --starts-per-day: the cost of downloads at every pod start, and the saving by a shared cache.

    \b
    Examples:
      gpucost whatif move --month 2026-10 --namespace ci --wait-minutes 15
      gpucost whatif move --namespace ci --wait-minutes 15 --egress-gb 500 --egress-price-per-gb 0.02 --to-provider azure
      gpucost whatif move --gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09
    """
    settings = request.settings
    if request.is_described(transfer, *flags_of(moving)):
        return document(move.cache(transfer, settings.currency))
    moving.check()
    usage, period = request.usage(), request.period_name
    spot_prices = list_prices(settings, None, purchase_options=("spot",))
    works, findings = move.works_of(usage.fleet, spot_prices, usage.commitments)
    today = today_of(usage, fleet_costs(usage.fleet), is_held=True)
    use = Assumption("work", usage.scope_name, "all its pods", "store", period)
    answer = move.answer(works, moving, today, use, findings, period=period)
    return dated(answer, request)
