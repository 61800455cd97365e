"""List prices for what-ifs, and answers that name old prices."""

from dataclasses import replace
from datetime import datetime

from gpucost.config.model import Config
from gpucost.options import Names
from gpucost.price.discounts import discounted
from gpucost.price.listing import ListedPrice, PriceQuery, listing, prices_of
from gpucost.questions.request import store_or_empty
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.answer import Answer, old_prices


def list_prices(settings: Config, name: str | list[str] | None, **which: Names) -> list[ListedPrice]:
    """List prices less discounts of instance types or a GPU model, cheapest GPU-hour first; without a name, of all types.

    `which` narrows them by `purchase_options`, `providers` and `regions`. Prices of the store are included. Raises GpucostError
    if the name is unknown (it offers near ones) or has no price.
    """
    now = datetime.now(settings.tz)
    query = PriceQuery.of(settings, now, **which)
    with store_or_empty(settings) as con:
        found = listing(con, name, query).rows if isinstance(name, str) else prices_of(con, name, query)
        return discounted(con, settings, found, now)


def dated(answer: Answer, request: WhatIfRequest) -> Document:
    """The answer as a document; its title names the old prices among its assumptions."""
    prices = [
        (assumption.name.partition(":")[0], assumption)
        for assumption in answer.assumptions
        if assumption.unit.startswith("money")
    ]
    old = old_prices(prices, request.today, request.settings.prices.stale_after_days)
    return document(replace(answer, title=answer.title + old))
