"""Data that every pod start downloads, against a cache near the work that fetches it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, NamedTuple

from gpucost.options import Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, Value, stated
from gpucost.whatif.cost import charge
from gpucost.whatif.flags import HOURS_PER_MONTH, to_decimal
from gpucost.whatif.fleet import Fleet, PodKey

_GUESS = "default: a guess"
_SECONDS, _BITS = 3600, 8


class SameData(StrEnum):
    """Which pods of the store download the same data."""

    workload = "workload"
    namespace = "namespace"
    all = "all"


class Downloads(NamedTuple):
    """Starts of pods in the period, each of which downloads the same data; each holds `gpus` meanwhile."""

    name: str
    starts: float
    gpus: float = 0.0


@record
class DescribedStarts(OptionGroup):
    """Starts that options describe, all of the same data."""

    starts_per_day: Annotated[float | None, Option("Pod starts a day, of all nodes.", above=True)] = None
    days: flags.Days = flags.DAYS


@record
class Transfer(OptionGroup):
    """Data of each start, and what moving and keeping it costs. A month has 730 hours."""

    gb_per_start: Annotated[Decimal | None, Option("GB that each pod start downloads.", "GB", above=True)] = (
        None
    )
    same_data: Annotated[SameData, Option("Pods that share a copy of the data.", is_shown=True)] = (
        SameData.workload
    )
    # public list prices from general knowledge, of no certain day
    price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of downloading a GB. Default: 0.09.",
            says="download",
            unit="money per GB",
            source="default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
        ),
    ] = Decimal("0.09")
    changes: Annotated[
        int,
        Option(
            "Versions of the data in the period: the cache downloads each.",
            least=1,
            is_shown=True,
            says="versions of the data",
            unit="in the period; the cache downloads each once",
        ),
    ] = 1
    cache_price_per_gb_month: Annotated[
        Decimal,
        Option(
            "Price of keeping a GB in the cache for a month. Default: 0.30.",
            says="cache",
            unit="money per GB-month",
            source="default, from general knowledge: AWS EFS Standard, us-east-1",
        ),
    ] = Decimal("0.30")
    cache_read_price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of reading a GB from the cache. Default: 0.",
            says="cache reads",
            unit="money per GB",
            source="default: one zone",
        ),
    ] = Decimal(0)
    download_gbit_per_second: Annotated[
        float,
        Option(
            "Speed of a download. Default: 1.",
            above=True,
            says="download speed",
            unit="Gbit/s",
            source=_GUESS,
        ),
    ] = 1.0
    cache_gbit_per_second: Annotated[
        float,
        Option(
            "Speed of reading the cache. Default: 10.",
            above=True,
            says="cache speed",
            unit="Gbit/s",
            source=_GUESS,
        ),
    ] = 10.0

    @property
    def gb(self) -> Decimal:
        """GB of each start; 0 if nothing is downloaded."""
        return self.gb_per_start or Decimal(0)

    def seconds(self, is_cached: bool) -> float:
        """How long a pod waits for its data."""
        speed = self.cache_gbit_per_second if is_cached else self.download_gbit_per_second
        return float(self.gb) * _BITS / speed


def starts_of(fleet: Fleet, period: Period, same_data: SameData) -> list[Downloads]:
    """Pod starts in the period by what downloads the same data, most starts first.

    A pod that was there when the period, or what was collected of it, began did not start in it.
    """
    begins: dict[str, int] = {}
    for node in fleet.nodes:
        begins[node.cluster] = min(node.from_ms, begins.get(node.cluster, node.from_ms))
    earlier = {pod.key for pod in fleet.pods if pod.from_ms <= max(period.start_ms, begins[pod.cluster])}
    starts: dict[str, dict[PodKey, float]] = defaultdict(dict)
    for pod in fleet.pods:
        if pod.key not in earlier:
            names = {SameData.workload: f"{pod.namespace}/{pod.workload}", SameData.namespace: pod.namespace}
            # a node that was not collected for a while has a pod in several parts: it started once
            starts[names.get(same_data, "all pods")].setdefault(pod.key, pod.gpus)
    downloads = [Downloads(name, len(gpus), sum(gpus.values()) / len(gpus)) for name, gpus in starts.items()]
    return sorted(downloads, key=lambda one: (-one.starts, one.name))


class _Set(NamedTuple):
    """Downloads of the same data: their cost today and with a cache."""

    of: Downloads
    today: Decimal
    cache: Decimal

    @property
    def is_cached(self) -> bool:
        """Whether a cache costs less."""
        return self.cache < self.today

    def line(self, transfer: Transfer) -> Line:
        """The row of a table."""
        return (
            self.of.name,
            self.of.starts,
            transfer.gb * to_decimal(self.of.starts),
            self.today,
            self.cache,
            self.today - self.cache,
            "yes" if self.is_cached else "no",
        )


def answer(
    downloads: Sequence[Downloads],
    transfer: Transfer,
    starts: Assumption,
    *,
    hours: float,
    currency: str,
    period: str,
) -> Answer:
    """The cost of downloading at every start over `hours`, and that of a shared cache for data where it costs less.

    `starts` states where the starts come from. Data that a cache makes no cheaper stays as it is.
    """
    months = hours / HOURS_PER_MONTH
    sets = [_set(one, transfer, months) for one in downloads]
    today, scenario = (_position(sets, transfer, currency, with_cache) for with_cache in (False, True))
    even = _break_even(transfer, months)
    cached = sum(one.is_cached for one in sets)
    findings = []
    if cached < len(sets):
        findings.append(f"For {len(sets) - cached:,} of {len(sets):,} sets of data a cache costs more.")
    if cached and not transfer.cache_read_price_per_gb:
        findings.append("Reads of the cache are free, as in one zone: --cache-read-price-per-gb.")
    figures: dict[str, Value] = {
        "starts": sum(one.starts for one in downloads),
        "cached_gb": transfer.gb * cached,
        "break_even_starts": even,
        "seconds_per_start": round(transfer.seconds(False), 6),
        "seconds_per_start_with_cache": round(transfer.seconds(True), 6),
    }
    for name, value in today.more.items():
        figures |= {name: value, f"{name}_with_cache": scenario.more[name]}
    lines = [one.line(transfer) for one in sets]
    return Answer(
        kind="move",
        title="A shared cache instead of a download at every pod start",
        period=period,
        today=today,
        scenario=scenario,
        figures=figures,
        assumptions=(
            Assumption("data", transfer.gb, "GB per start", "option"),
            starts,
            *stated(transfer),
            Assumption("copies in the cache", "are kept for the whole period", "", "default"),
        ),
        break_even=(
            "The cache never pays: reading from it costs as much as downloading."
            if even is None
            else f"The cache pays for itself if the same data is read more than {even:,.1f} times in the period.",
        ),
        time=(
            f"A start waits {transfer.seconds(True):,.0f} s for cached data, {transfer.seconds(False):,.0f} s for a download.",
            "GPUs that pods hold while they wait are paid, and not part of the saving.",
        ),
        findings=tuple(findings),
        tables=Rows.top("downloads", _COLUMNS, lines, "And {} with no more starts."),
    )


def _set(one: Downloads, transfer: Transfer, months: float) -> _Set:
    """The data downloaded at each start; or fetched once per version, kept, and read at each start."""
    download = transfer.gb * transfer.price_per_gb
    today = charge(download, one.starts).cost
    fetched = charge(download, transfer.changes).cost
    kept = charge(transfer.gb * transfer.cache_price_per_gb_month, months).cost
    read = charge(transfer.gb * transfer.cache_read_price_per_gb, one.starts).cost
    return _Set(one, today, fetched + kept + read)


def _break_even(transfer: Transfer, months: float) -> float | None:
    """Readers of the same data from which on a cache costs less; None if reading costs as much as downloading."""
    gained = transfer.price_per_gb - transfer.cache_read_price_per_gb
    spent = transfer.price_per_gb * transfer.changes + transfer.cache_price_per_gb_month * to_decimal(months)
    return round(float(spent / gained), 6) if gained > 0 else None


_COLUMNS = ("of the same data", "starts", "downloaded GB", "today", "with a cache", "saving", "cached")


def _position(sets: Sequence[_Set], transfer: Transfer, currency: str, with_cache: bool) -> Position:
    """The cost, the data in GB, and the time that pods wait for it.

    `wait_hours` are of all starts, `gpu_hours_waiting` those of the GPUs that pods hold meanwhile.
    """
    cost, gb, seconds, gpu_seconds = Decimal(0), Decimal(0), 0.0, 0.0
    for one in sets:
        is_cached = with_cache and one.is_cached
        waits = one.of.starts * transfer.seconds(is_cached)
        cost += one.cache if is_cached else one.today
        gb += transfer.gb * (transfer.changes if is_cached else to_decimal(one.of.starts))
        seconds += waits
        gpu_seconds += waits * one.of.gpus
    hours = {"wait_hours": seconds / _SECONDS, "gpu_hours_waiting": gpu_seconds / _SECONDS}
    rounded: dict[str, Value] = {name: round(value, 6) for name, value in hours.items()}
    return Position(cost, currency, more={"downloaded_gb": gb, **rounded})
