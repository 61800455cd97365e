"""Data that every pod start downloads, against a cache that fetches it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, NamedTuple

from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, Value, stated
from gpucost.whatif.cost import CostBlock, charge, positions
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, to_decimal
from gpucost.whatif.fleet import Fleet, PodKey

_GUESS = "default: a guess"
_SECONDS = 3600
_BITS = 8

# What each set of data costs: downloaded by each start, and cached.
Costs = Mapping[str, tuple[Decimal, ...]]


class Downloads(NamedTuple):
    """Starts of pods in the period, each of which downloads the same data; they hold `gpus` each as they do."""

    name: str
    starts: float
    gpus: float = 0.0


@record
class Transfer(OptionGroup):
    """What is moved, at what price and speed. Prices are per GB, storage per GB and month of 730 hours.

    `changes` is how often in the period the data changes, each time of which the cache downloads it once.
    """

    gb_per_start: Decimal = Decimal(0)
    # public list prices as generally known, looked up on no day that could be named
    price_per_gb: Annotated[Decimal, Option(
        "Price of downloading a GB: between clouds, regions or zones. Default: 0.09.", says="download", unit="money per GB",
        source="default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
    )] = Decimal("0.09")  # fmt: skip
    changes: Annotated[int, Option(
        "Versions of the data in the period: the cache downloads each.", least=1, is_shown=True,
        says="versions of the data", unit="in the period; the cache downloads each once",
    )] = 1  # fmt: skip
    cache_price_per_gb_month: Annotated[Decimal, Option(
        "Price of keeping a GB in the cache for a month. Default: 0.30.", says="cache", unit="money per GB-month",
        source="default, from general knowledge: AWS EFS Standard, us-east-1",
    )] = Decimal("0.30")  # fmt: skip
    cache_read_price_per_gb: Annotated[Decimal, Option(
        "Price of reading a GB from the cache, as between zones. Default: 0.", says="cache reads", unit="money per GB",
        source="default: one zone",
    )] = Decimal(0)  # fmt: skip
    download_gbit_per_second: Annotated[
        float,
        Option(
            "Speed of a start's download. Default: 1.",
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

    def seconds(self, *, cached: bool) -> float:
        """How long a pod waits for its data."""
        speed = self.cache_gbit_per_second if cached else self.download_gbit_per_second
        return float(self.gb_per_start) * _BITS / speed


@record
class DescribedStarts(OptionGroup):
    """Starts that options describe, all of the same data."""

    starts_per_day: Annotated[
        float | None, Option("Pod starts per day, of all nodes together.", above=True)
    ] = None
    nodes: flags.Nodes | None = None
    days: flags.Days = DAYS

    @property
    def per_day(self) -> float:
        """Raises UsageError where options do not say."""
        per_day = self.nodes if self.starts_per_day is None else self.starts_per_day
        if per_day is None:
            raise UsageError("how many starts a day has is not told", "--starts-per-day or --nodes tell it")
        return float(per_day)


def starts_of(fleet: Fleet, period: Period, same_data: str) -> tuple[Downloads, ...]:
    """Pod starts in the period by what downloads the same data ("workload", "namespace", or "all"), most starts first.

    A pod that was there when the period, or what was collected of it, began did not start in it.
    """
    begins: dict[str, int] = {}
    for node in fleet.nodes:
        begins[node.cluster] = min(node.from_ms, begins.get(node.cluster, node.from_ms))
    earlier = {pod.key for pod in fleet.pods if pod.from_ms <= max(period.start_ms, begins[pod.cluster])}
    starts: dict[str, dict[PodKey, float]] = defaultdict(dict)
    for pod in fleet.pods:
        if pod.key not in earlier:
            name = {"workload": f"{pod.namespace}/{pod.workload}", "namespace": pod.namespace}.get(
                same_data, "all pods"
            )
            # A node that was not collected for a while has a pod in several parts: it started once.
            starts[name].setdefault(pod.key, pod.gpus)
    downloads = (Downloads(name, len(gpus), sum(gpus.values()) / len(gpus)) for name, gpus in starts.items())
    return tuple(sorted(downloads, key=lambda one: (-one.starts, one.name)))


def answer(
    downloads: Sequence[Downloads],
    transfer: Transfer,
    *,
    hours: float,
    currency: str,
    period: str,
    assumptions: Sequence[Assumption] = (),
) -> Answer:
    """What downloading at every start costs over `hours`, and what a shared cache does: one copy of each set of data.

    The cache is for data where it costs less; the rest goes on being downloaded.
    """
    per_start, kept_months = transfer.gb_per_start, to_decimal(hours) / HOURS_PER_MONTH
    groups: dict[str, list[CostBlock]] = {}
    for one in downloads:
        groups[f"{one.name} today"] = [charge(per_start * transfer.price_per_gb, one.starts)]
        # fetching each version once, keeping it, and reading it at each start
        groups[f"{one.name} cache"] = [
            charge(per_start * transfer.price_per_gb, transfer.changes),
            charge(per_start * transfer.cache_price_per_gb_month, hours / HOURS_PER_MONTH),
            charge(per_start * transfer.cache_read_price_per_gb, one.starts),
        ]
    positions_of = positions(currency, groups)
    costs = {
        one.name: tuple(positions_of[f"{one.name} {what}"].cost for what in ("today", "cache"))
        for one in downloads
    }
    cached = {name for name, (today, cache) in costs.items() if cache < today}
    today, waiting = _state(downloads, costs, set(), transfer, currency)
    scenario, waiting_cached = _state(downloads, costs, cached, transfer, currency)
    # from so many readers of the same data on, the cache costs less; never where reading costs no less than downloading
    gained = transfer.price_per_gb - transfer.cache_read_price_per_gb
    spent = transfer.price_per_gb * transfer.changes + transfer.cache_price_per_gb_month * kept_months
    break_even = round(float(spent / gained), 6) if gained > 0 else None
    seconds, seconds_cached = transfer.seconds(cached=False), transfer.seconds(cached=True)
    time = [
        f"A start waits {seconds_cached:,.0f} s for cached data, {seconds:,.0f} s for a download; all starts together"
        f" {today.more['wait_hours']:,.1f} h today, {scenario.more['wait_hours']:,.1f} h with the cache."
    ]
    if waiting:
        time.append(
            f"GPUs held while they wait: {waiting:,.1f} GPU-hours today, {waiting_cached:,.1f} with the cache."
            " They are paid, and not part of the saving."
        )
    lines: list[Line] = []
    for one in downloads:
        now, kept = costs[one.name]
        money = (round(now, 2), round(kept, 2), round(now - kept, 2))
        gb = to_decimal(one.starts) * per_start
        lines.append((one.name, round(one.starts, 2), gb, *money, "yes" if one.name in cached else "no"))
    findings = []
    if left := len(downloads) - len(cached):
        findings.append(
            f"For {left:,} of {len(downloads):,} sets of data a cache costs more: they stay as they are."
        )
    if cached and transfer.cache_read_price_per_gb == 0:
        findings.append(
            "Reading the cache is counted as free, as within a zone; across zones clouds charge: --cache-read-price-per-gb."
        )
    return Answer(
        kind="egress",
        title="A shared cache instead of a download at every pod start",
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "starts": sum(one.starts for one in downloads),
            "downloaded_gb": today.more["downloaded_gb"],
            "downloaded_gb_with_cache": scenario.more["downloaded_gb"],
            "cached_gb": per_start * len(cached),
            "break_even_starts": break_even,
            "seconds_per_start": round(seconds, 6),
            "seconds_per_start_with_cache": round(seconds_cached, 6),
            "wait_hours": today.more["wait_hours"],
            "wait_hours_with_cache": scenario.more["wait_hours"],
            "gpu_hours_waiting": waiting,
            "gpu_hours_waiting_with_cache": waiting_cached,
        },
        assumptions=(
            Assumption("data", per_start, "GB per start", "option"),
            *assumptions,
            *stated(
                transfer,
                "price_per_gb",
                "cache_price_per_gb_month",
                "cache_read_price_per_gb",
                "download_gbit_per_second",
                "cache_gbit_per_second",
                "changes",
            ),
            Assumption("copies in the cache", "are kept for the whole period", "", "default"),
        ),
        break_even=(
            "The cache never pays: reading from it costs as much as downloading."
            if break_even is None
            else f"The cache pays for itself where the same data is read more than {break_even:,.1f} times in the period.",
        ),
        time=tuple(time),
        findings=tuple(findings),
        tables=Rows.top(
            "downloads",
            ("of the same data", "starts", "downloaded GB", "today", "with a cache", "saving", "cached"),
            lines,
            "And {} with no more starts.",
        ),
    )


def _state(
    downloads: Sequence[Downloads], costs: Costs, cached: Collection[str], transfer: Transfer, currency: str
) -> tuple[Position, float]:
    """What it is like where this data is cached; and the GPU-hours held while pods wait for their data."""
    cost, gb, seconds, gpu_seconds = Decimal(0), Decimal(0), 0.0, 0.0
    for one in downloads:
        is_cached = one.name in cached
        waits = transfer.seconds(cached=is_cached)
        cost += costs[one.name][is_cached]
        gb += transfer.gb_per_start * (transfer.changes if is_cached else to_decimal(one.starts))
        seconds += one.starts * waits
        gpu_seconds += one.starts * one.gpus * waits
    more: dict[str, Value] = {"downloaded_gb": gb, "wait_hours": round(seconds / _SECONDS, 6)}
    return Position(cost, currency, more=more), round(gpu_seconds / _SECONDS, 6)
