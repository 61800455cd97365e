"""List prices of GPUs by place.

They come from the catalog, collected prices, and the newest of the spot history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gpucost import catalog
from gpucost.engine import dicts, run_stage
from gpucost.errors import GpucostError
from gpucost.price.fx import FxRates, rates
from gpucost.price.list_prices import load_price_list
from gpucost.records import frozen_dataclass, grouped
from gpucost.shapes import Shape
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

FIX_UNPRICED = "run gpucost collect prices, or add a price to your price book"

_OFFERED = 4
_ALL_OFFERED = 6
_OVERVIEW_OPTIONS = ("on_demand", "spot")
_DECIMALS = Decimal("1e-12")
_SOLD_AS = {
    "capacity_block": "capacity blocks",
    "cud": "commitments",
    "flex_start": "flex start",
    "calendar": "calendar mode",
}
_MAKERS = {"nvidia", "tesla", "amd", "aws", "habana", "intel"}

# The meaning of a name: GPU models, or instance types in lower case; the other list is empty, both empty mean
# any.
Meaning = dict[str, list[str]]
_ANYTHING: Meaning = {"gpu_models": [], "instance_types": []}


@frozen_dataclass
class ListedPrice:
    """One list price of an instance, as in JSON and CSV.

    Fields are None if they do not apply or are unknown. price_per_hour is of the whole instance in
    `currency`: the config's if a rate is known, otherwise the currency of the list. price_per_gpu_hour has at
    most 12 decimals. gpu_count may be a fraction. more_regions counts more expensive regions that are not
    shown.
    """

    provider: str
    region: str | None
    zone: str | None
    instance_type: str
    gpu_model: str | None
    gpu_count: Decimal | None
    purchase_option: str
    term_years: int | None
    payment_option: str | None
    offering: str | None
    price_per_hour: Decimal
    price_per_gpu_hour: Decimal | None
    currency: str
    spot_discount_percent: (
        Decimal | None
    )  # 100 × (1 − spot ÷ on-demand), to a tenth; 0 or less if spot is not cheaper
    price_as_of: date
    is_stale: bool
    source: str
    origin: str  # 'catalog', 'store' (gpucost collect prices) or 'spot_history' (gpucost collect spot)
    effective_start: date | None
    listed_price_per_hour: Decimal
    listed_currency: str
    more_regions: int | None
    status: str  # 'current', 'superseded' by a newer one, or 'upcoming'


@frozen_dataclass
class PricesAnswer(Shape):
    """The answer of `gpucost prices`.

    It has the prices of one name, or for each GPU model the cheapest of each purchase option.
    """

    today: date
    currency: str
    stale_after_days: int
    name: str | None = None
    gpu_models: tuple[str, ...] | None = None
    rows: Sequence[ListedPrice | dict[str, str | ListedPrice | None]] = ()
    superseded: tuple[ListedPrice, ...] | None = None
    not_sold_on_demand: tuple[str, ...] | None = None


@frozen_dataclass
class Listing(PricesAnswer):
    """The prices of one GPU or instance type.

    `not_sold_on_demand` has a sentence for each instance type that is sold only in other ways.
    """

    name: str
    gpu_models: tuple[str, ...]
    rows: tuple[ListedPrice, ...]
    superseded: tuple[ListedPrice, ...]
    not_sold_on_demand: tuple[str, ...]

    @property
    def cheapest_fresh(self) -> ListedPrice | None:
        """The first row that is not stale; None if the first row is not stale.

        Also None without a fresh row of the first row's currency.
        """
        if not self.rows or not self.rows[0].is_stale:
            return None
        return next(
            (row for row in self.rows if not row.is_stale and row.currency == self.rows[0].currency), None
        )

    @property
    def unconverted(self) -> list[str]:
        """Currencies of rows without a rate, which are sorted after the others."""
        return sorted({row.currency for row in self.rows} - {self.currency})


@frozen_dataclass
class PriceQuery:
    """The selection and its context. Empty tuples mean any; regions may hold * and ?.

    Other currencies are converted at the day's rate of `fx`, if it has one.
    """

    today: date
    fx: FxRates
    stale_after_days: int
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    purchase_options: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Config, now: datetime, **which: tuple[str, ...]) -> PriceQuery:
        """The prices of a local day, in the config's currency.

        Raises PriceError for rates that cannot be used.
        """
        return cls(now.astimezone(config.tz).date(), rates(config), config.prices.stale_after_days, **which)


def listing(con: DuckDBPyConnection, name: str, query: PriceQuery) -> Listing:
    """List the prices of a GPU or an instance type, cheapest GPU-hour first.

    `con` belongs to a store, which may be empty; makes temporary tables on it. Raises GpucostError for an
    unknown name, with the nearest names, and if the other conditions leave no price.
    """
    _prepare(con, query)
    meaning = _resolve(con, name)
    rows = _rows(con, meaning, query)
    current = tuple(row for row in rows if row.status == "current")
    if not current:
        raise _nothing(con, name, meaning, query)
    return Listing(
        query.today,
        query.fx.currency,
        query.stale_after_days,
        name,
        tuple(sorted({row.gpu_model for row in current if row.gpu_model})),
        current,
        tuple(row for row in rows if row.status != "current"),
        _not_sold_on_demand(con, meaning["instance_types"]),
    )


def prices_of(
    con: DuckDBPyConnection, instance_types: list[str] | None, query: PriceQuery
) -> list[ListedPrice]:
    """Today's prices of these instance types, cheapest GPU-hour first.

    Names are in lower case; None selects all.
    """
    if instance_types == []:
        return []
    _prepare(con, query)
    return _current(con, _ANYTHING | {"instance_types": instance_types or []}, query)


def price_of_region(rows: Sequence[ListedPrice]) -> ListedPrice:
    """Pick a region's own price, otherwise the lower median of its zones.

    `rows` are the region's prices, cheapest first.
    """
    return next((row for row in rows if row.zone is None), rows[(len(rows) - 1) // 2])


def source_of(price: ListedPrice) -> tuple[str, str]:
    """The source of a list price, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())


def overview(con: DuckDBPyConnection, query: PriceQuery) -> PricesAnswer:
    """List every GPU model that has a price, with its cheapest GPU-hours.

    One price for each purchase option (default: on_demand, spot). Leaves out prices that cannot be converted
    to the config's currency. Sorts models by their cheapest price. Raises GpucostError if no price matches.
    """
    _prepare(con, query)
    options, currency = query.purchase_options or _OVERVIEW_OPTIONS, query.fx.currency
    cheapest: dict[str, dict[str, str | ListedPrice | None]] = {}
    for row in _current(con, _ANYTHING, replace(query, purchase_options=options)):
        if row.gpu_model and row.currency == currency:
            prices = cheapest.setdefault(row.gpu_model, {"gpu_model": row.gpu_model} | dict.fromkeys(options))
            prices[row.purchase_option] = prices[row.purchase_option] or row
    if not cheapest:
        raise _nothing(con, "any GPU", _ANYTHING, query)
    return PricesAnswer(query.today, currency, query.stale_after_days, rows=list(cheapest.values()))


def _prepare(con: DuckDBPyConnection, query: PriceQuery) -> None:
    load_price_list(con)
    run_stage(con, "gpucost.price", "listed_instances")
    run_stage(con, "gpucost.price", "listed_prices", {"today": query.today})


def _resolve(con: DuckDBPyConnection, name: str) -> Meaning:
    """Resolve a name of GPUs or instance types; `H100` is every H100 model.

    Raises GpucostError with the nearest names if the name is unknown.
    """
    types = sqlfiles.column(con, "SELECT DISTINCT instance_type FROM listed_prices ORDER BY 1")
    wanted = name.strip().lower()
    for typed in (wanted, f"standard_{wanted}"):  # Azure's sizes also go by names without this prefix
        if any(existing.lower() == typed for existing in types):
            return _ANYTHING | {"instance_types": [typed]}
    models = sqlfiles.column(con, "SELECT gpu_model FROM gpu_models ORDER BY 1")
    if named := gpu_models_called(name, models, aliases_of(con)):
        return _ANYTHING | {"gpu_models": list(named)}
    if facts := _not_sold_on_demand(con, [wanted]):
        raise GpucostError("; ".join(facts), FIX_UNPRICED)
    if con.execute("SELECT 1 FROM listed_instances WHERE instance_type = ? LIMIT 1", [wanted]).fetchone():
        raise GpucostError(f"no known list price of {name}", FIX_UNPRICED)
    near = nearest(name, [*models, *types])
    raise GpucostError(
        f"no GPU or instance type is called {name!r}; did you mean {', '.join(near)}?",
        "gpucost prices lists every GPU",
    )


# A current on-demand list price, such as one collected since, overrides the entry.
_NOT_SOLD = """
SELECT provider, instance_type, sold_as, fact, as_of, source_id FROM not_sold_on_demand AS n
WHERE list_contains($1::VARCHAR[], lower(instance_type)) AND NOT EXISTS (
    FROM listed_prices AS p
    WHERE p.provider = n.provider AND lower(p.instance_type) = lower(n.instance_type) AND p.purchase_option = 'on_demand'
        AND p.status = 'current'
)
ORDER BY ALL"""


def _not_sold_on_demand(con: DuckDBPyConnection, instance_types: Sequence[str]) -> tuple[str, ...]:
    """Describe the purchase options of instance types that are not sold on demand.

    Names are in lower case. One sentence for each.
    """
    sentences = []
    for provider, name, sold_as, fact, as_of, source in con.execute(
        _NOT_SOLD, [list(instance_types)]
    ).fetchall():
        ways = [_SOLD_AS.get(option, option.replace("_", " ")) for option in sold_as]
        instead = (
            f"sold as {' and '.join(filter(None, [', '.join(ways[:-1]), ways[-1]]))}"
            if ways
            else "no price is public"
        )
        sentences.append(f"{name} is not sold on demand by {provider}: {instead} ({fact}; {source}, {as_of})")
    return tuple(sentences)


def aliases_of(con: DuckDBPyConnection) -> dict[str, str]:
    """Map letters and digits of a spelling to the model's canonical name. Reads gpu_aliases."""
    return dict(con.execute("SELECT alias, gpu_model FROM gpu_aliases").fetchall())


def gpu_models_called(name: str, models: Iterable[str], aliases: dict[str, str]) -> tuple[str, ...]:
    """The GPU models of a name: with all its words in any order, otherwise by alias.

    Ignores a MIG or shared suffix of nvidia.com/gpu.product.
    """
    words = set(re.findall(r"[a-z0-9]+", _bare(name))) - _MAKERS
    found = tuple(
        model for model in models if words and words <= set(re.findall(r"[a-z0-9]+", model.lower()))
    )
    alias = spelled(name)
    return found or ((aliases[alias],) if alias in aliases else ())


def spelled(name: str) -> str:
    """`name` as in gpu_aliases: lower-case letters and digits, without the maker."""
    return catalog.spelled(_bare(name))


def _bare(name: str) -> str:
    return re.sub(r"-(shared|mig-.*)$", "", name.strip().lower())


def nearest(word: str, names: Iterable[str], count: int = _OFFERED) -> list[str]:
    """The `count` names most similar to `word`, best first.

    Names that begin with it come first, then the most similar name or word of a name.
    """
    wanted = word.strip().lower()

    def rank(name: str) -> tuple[bool, float, str]:
        pieces = {name.lower(), *re.findall(r"[a-z0-9]+", name.lower())}
        alike = max(SequenceMatcher(None, wanted, piece).ratio() for piece in pieces)
        return (not name.lower().startswith(wanted), -alike, name)

    return sorted(names, key=rank)[:count]


def cheapest_regions(rows: Iterable[ListedPrice]) -> tuple[ListedPrice, ...]:
    """The first price of each kind and instance type in `rows`, sorted by price.

    more_regions counts the other regions.
    """
    kinds = grouped(
        (
            (
                row.provider,
                row.instance_type.lower(),
                row.purchase_option,
                row.term_years,
                row.payment_option,
                row.offering,
                row.currency,
            ),
            row,
        )
        for row in rows
    )
    return tuple(
        replace(kind[0], more_regions=len({row.region for row in kind}) - 1) for kind in kinds.values()
    )


_MATCHING = """
SELECT provider, nullif(region, '') AS region, nullif(zone, '') AS zone, instance_type, gpu_model, gpu_count, purchase_option,
    nullif(term_years, 0) AS term_years, nullif(payment_option, '') AS payment_option, nullif(offering, '') AS offering,
    price_per_hour AS listed_price_per_hour, currency AS listed_currency, on_demand_price_per_hour,
    price_as_of, price_as_of < $today::DATE - $stale_after_days::INTEGER AS is_stale, effective_start, source, origin, status
FROM listed_prices AS p
WHERE passes($gpu_models, gpu_model) AND passes($instance_types, lower(instance_type))
    AND passes($providers, lower(provider)) AND passes($purchase_options, purchase_option)
    AND (len($regions::VARCHAR[]) = 0 OR list_bool_or(list_transform($regions::VARCHAR[], lambda r: lower(p.region) GLOB r)))
ORDER BY p.provider, p.instance_type, p.purchase_option, p.term_years, p.region, p.zone, p.payment_option, p.offering,
    p.price_as_of DESC, p.source"""


def _rows(con: DuckDBPyConnection, meaning: Meaning, query: PriceQuery) -> list[ListedPrice]:
    """The matching prices, cheapest GPU-hour first.

    Prices in the config's currency come first, then other currencies, one after the other.
    """
    sqlfiles.run(con, "filters")
    parameters = {
        "providers": [word.lower() for word in query.providers],
        "regions": [word.lower() for word in query.regions],
        "purchase_options": list(query.purchase_options),
        "today": query.today,
        "stale_after_days": query.stale_after_days,
    }
    con.execute(_MATCHING, meaning | parameters)

    def rank(row: ListedPrice) -> tuple[object, ...]:
        per_gpu = row.price_per_gpu_hour
        is_other = row.currency != query.fx.currency
        return is_other, row.currency, per_gpu is None, per_gpu or row.price_per_hour

    return sorted((_price(row, query) for row in dicts(con)), key=rank)


def _current(con: DuckDBPyConnection, meaning: Meaning, query: PriceQuery) -> list[ListedPrice]:
    """The prices valid today."""
    return [row for row in _rows(con, meaning, query) if row.status == "current"]


def _price(row: dict[str, Any], query: PriceQuery) -> ListedPrice:
    on_demand, currency, gpus = row.pop("on_demand_price_per_hour"), row["listed_currency"], row["gpu_count"]
    list_price = price = row["listed_price_per_hour"].normalize()
    rate = query.fx.rate(currency, query.today)
    if rate is not None:
        price, currency = (list_price * rate).quantize(_DECIMALS).normalize(), query.fx.currency
    discount = None
    if row["purchase_option"] == "spot" and on_demand is not None:
        discount = ((1 - list_price / on_demand) * 100).quantize(Decimal("0.1"))
    return ListedPrice(
        **row | {"listed_price_per_hour": list_price, "gpu_count": gpus and gpus.normalize()},
        price_per_hour=price,
        price_per_gpu_hour=None if gpus is None else (price / gpus).quantize(_DECIMALS).normalize(),
        currency=currency,
        spot_discount_percent=discount,
        more_regions=None,
    )


def _nothing(con: DuckDBPyConnection, name: str, meaning: Meaning, query: PriceQuery) -> GpucostError:
    """The error for a query without prices.

    It names the condition that leaves none, and the available values.
    """
    left = _current(con, meaning, replace(query, providers=(), regions=(), purchase_options=()))
    if not left:
        return GpucostError(f"no known list price of {name}", FIX_UNPRICED)
    for field, words in (
        ("provider", query.providers),
        ("region", query.regions),
        ("purchase_option", query.purchase_options),
    ):
        there = sorted({getattr(row, field) or "" for row in left} - {""})
        left = [
            row
            for row in left
            if not words
            or any(fnmatchcase((getattr(row, field) or "").lower(), word.lower()) for word in words)
        ]
        if left:
            continue
        facts = _not_sold_on_demand(con, meaning["instance_types"])
        if facts and "on_demand" in words:
            return GpucostError("; ".join(facts), f"gpucost prices {name} lists its purchase options")
        some, offered = "; there is " if there else "", there
        if len(there) > _ALL_OFFERED:
            some, offered = f"; there are {len(there)}, such as ", nearest(words[0], there)
        what = f"the {field.replace('_', ' ')} {' or '.join(words)}"
        missing = f"no known price of {name} for {what}{some}{', '.join(offered)}"
        return GpucostError(
            "; ".join((missing, *facts)), "choose one of these, or run gpucost collect prices"
        )
    return GpucostError(
        f"no known price of {name} in {query.fx.currency}", "set the rates of other currencies in [prices] fx"
    )
