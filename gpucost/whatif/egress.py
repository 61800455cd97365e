"""Data that every pod start downloads, against a cache that fetches it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucost.periods import Period
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.cost import Block, charge, positions
from gpucost.whatif.fleet import HOURS_PER_MONTH, Fleet, Scenario

_COLUMNS = ("of the same data", "starts", "downloaded GB", "today", "with a cache", "saving", "cached")
_ROWS = 20
_SECONDS = 3600
_BITS = 8


@dataclass(frozen=True, slots=True)
class Downloads:
    """Starts of pods in the period, each of which downloads the same data; they hold `gpus` each as they do."""

    name: str
    starts: float
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is moved, at what price and speed. Prices are per GB, storage per GB and month of 730 hours.

    `changes` is how often in the period the data changes, each time of which the cache downloads it once.
    """

    gb_per_start: Decimal
    price_per_gb: Decimal
    cache_price_per_gb_month: Decimal
    cache_read_price_per_gb: Decimal
    changes: int
    download_gbit_per_second: float
    cache_gbit_per_second: float

    def seconds(self, *, cached: bool) -> float:
        """How long a pod waits for its data."""
        speed = self.cache_gbit_per_second if cached else self.download_gbit_per_second
        return float(self.gb_per_start) * _BITS / speed


def starts_of(fleet: Fleet, period: Period, same_data: str) -> tuple[Downloads, ...]:
    """Pod starts in the period by what downloads the same data ("workload", "namespace", or "all"), most starts first.

    A pod that was there when the period, or what was collected of it, began did not start in it.
    """
    first: dict[str, int] = {}
    for node in fleet.nodes:
        first[node.cluster] = min(node.from_ms, first.get(node.cluster, node.from_ms))
    starts: dict[str, dict[tuple[str, str], float]] = {}
    for pod in fleet.pods:
        if pod.from_ms > max(period.start_ms, first[pod.cluster]):
            # A node that was not collected for a while has a pod in several parts: it started once.
            name = {"workload": f"{pod.namespace}/{pod.workload}", "namespace": pod.namespace}.get(same_data, "all pods")
            starts.setdefault(name, {}).setdefault((pod.cluster, pod.uid), pod.gpus)
    earlier = {(pod.cluster, pod.uid) for pod in fleet.pods if pod.from_ms <= max(period.start_ms, first[pod.cluster])}
    found = []
    for name, pods in starts.items():
        begun = {pod: gpus for pod, gpus in pods.items() if pod not in earlier}
        if begun:
            found.append(Downloads(name, len(begun), sum(begun.values()) / len(begun)))
    return tuple(sorted(found, key=lambda one: (-one.starts, one.name)))


def answer(
    downloads: Sequence[Downloads],
    transfer: Transfer,
    *,
    hours: float,
    currency: str,
    period: str,
    assumptions: Sequence[Assumption] = (),
) -> Scenario[Answer]:
    """What downloading at every start costs over `hours`, and what a shared cache does: one copy of each set of data.

    The cache is for data where it costs less; the rest goes on being downloaded.
    """
    groups: dict[str, list[Block]] = {}
    for one in downloads:
        groups[f"{one.name} today"] = [charge(transfer.gb_per_start * transfer.price_per_gb, one.starts)]
        groups[f"{one.name} cache"] = _cached(one, transfer, hours)
    told = yield from positions(currency, groups)
    gb = {one.name: Decimal(repr(one.starts)) * transfer.gb_per_start for one in downloads}
    cached = {one.name for one in downloads if told[f"{one.name} cache"].cost < told[f"{one.name} today"].cost}
    today, scenario = _total(downloads, told, set(), transfer, currency), _total(downloads, told, cached, transfer, currency)
    breaks = _break_even_starts(transfer, hours)
    gpu_waits = _gpu_waits(downloads, set(), transfer), _gpu_waits(downloads, cached, transfer)
    return Answer(
        kind="egress",
        title="A shared cache instead of a download at every pod start",
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "starts": sum(one.starts for one in downloads),
            "downloaded_gb": sum(gb.values(), Decimal(0)),
            "downloaded_gb_with_cache": scenario.more["downloaded_gb"],
            "cached_gb": transfer.gb_per_start * len(cached),
            "break_even_starts": breaks,
            "seconds_per_start": round(transfer.seconds(cached=False), 6),
            "seconds_per_start_with_cache": round(transfer.seconds(cached=True), 6),
            "wait_hours": today.more["wait_hours"],
            "wait_hours_with_cache": scenario.more["wait_hours"],
            "gpu_hours_waiting": gpu_waits[0],
            "gpu_hours_waiting_with_cache": gpu_waits[1],
        },
        assumptions=(*assumptions, *_assumptions(transfer)),
        break_even=(_break_even(breaks),),
        time=_time(transfer, today, scenario, gpu_waits),
        findings=_findings(transfer, downloads, cached),
        tables=(_table(downloads, told, gb, cached),),
    )


def _cached(one: Downloads, transfer: Transfer, hours: float) -> list[Block]:
    """Fetching each version once, keeping it, and reading it at each start."""
    return [
        charge(transfer.gb_per_start * transfer.price_per_gb, transfer.changes),
        charge(transfer.gb_per_start * transfer.cache_price_per_gb_month, hours / HOURS_PER_MONTH),
        charge(transfer.gb_per_start * transfer.cache_read_price_per_gb, one.starts),
    ]


def _total(
    downloads: Sequence[Downloads], told: dict[str, Position], cached: set[str], transfer: Transfer, currency: str
) -> Position:
    cost, gb, seconds = Decimal(0), Decimal(0), 0.0
    for one in downloads:
        is_cached = one.name in cached
        cost += told[f"{one.name} {'cache' if is_cached else 'today'}"].cost
        gb += transfer.gb_per_start * (transfer.changes if is_cached else Decimal(repr(one.starts)))
        seconds += one.starts * transfer.seconds(cached=is_cached)
    return Position(cost, currency, 0.0, 0.0, {"downloaded_gb": gb, "wait_hours": round(seconds / _SECONDS, 6)})


def _gpu_waits(downloads: Sequence[Downloads], cached: set[str], transfer: Transfer) -> float:
    """GPU-hours held while pods wait for their data."""
    waits = (one.starts * one.gpus * transfer.seconds(cached=one.name in cached) for one in downloads)
    return round(sum(waits) / _SECONDS, 6)


def _break_even_starts(transfer: Transfer, hours: float) -> float | None:
    """Starts that read the same data from which on the cache costs less; None where reading costs no less than downloading."""
    gained = transfer.price_per_gb - transfer.cache_read_price_per_gb
    if gained <= 0:
        return None
    stored = transfer.cache_price_per_gb_month * Decimal(repr(hours)) / HOURS_PER_MONTH
    return round(float((transfer.price_per_gb * transfer.changes + stored) / gained), 6)


def _break_even(starts: float | None) -> str:
    if starts is None:
        return "The cache never pays: reading from it costs as much as downloading."
    return f"The cache pays for itself where the same data is read more than {starts:,.1f} times in the period."


def _time(transfer: Transfer, today: Position, scenario: Position, gpu_waits: tuple[float, float]) -> tuple[str, ...]:
    once, then = transfer.seconds(cached=False), transfer.seconds(cached=True)
    said = [
        f"A start waits {then:,.0f} s for cached data, {once:,.0f} s for a download; all starts together"
        f" {today.more['wait_hours']:,.1f} h today, {scenario.more['wait_hours']:,.1f} h with the cache."
    ]
    if gpu_waits[0]:
        said.append(
            f"GPUs held while they wait: {gpu_waits[0]:,.1f} GPU-hours today, {gpu_waits[1]:,.1f} with the cache."
            " They are paid, and not part of the saving."
        )
    return tuple(said)


def _findings(transfer: Transfer, downloads: Sequence[Downloads], cached: set[str]) -> tuple[str, ...]:
    said = []
    if len(cached) < len(downloads):
        said.append(
            f"For {len(downloads) - len(cached):,} of {len(downloads):,} sets of data a cache costs more: they stay as they are."
        )
    if cached and transfer.cache_read_price_per_gb == 0:
        said.append(
            "Reading the cache is counted as free, as within a zone; across zones clouds charge: --cache-read-price-per-gb."
        )
    return tuple(said)


def _table(downloads: Sequence[Downloads], told: dict[str, Position], gb: dict[str, Decimal], cached: set[str]) -> Rows:
    lines: list[tuple[Value, ...]] = []
    for one in downloads[:_ROWS]:
        today, then = told[f"{one.name} today"].cost, told[f"{one.name} cache"].cost
        money = (round(today, 2), round(then, 2), round(today - then, 2))
        lines.append((one.name, round(one.starts, 2), gb[one.name], *money, "yes" if one.name in cached else "no"))
    left = len(downloads) - _ROWS
    return Rows("downloads", _COLUMNS, tuple(lines), note=f"And {left} with no more starts." if left > 0 else None)


def _assumptions(transfer: Transfer) -> list[Assumption]:
    return [
        Assumption(
            "versions of the data",
            transfer.changes,
            "in the period; the cache downloads each once",
            "default" if transfer.changes == 1 else "option",
        ),
        Assumption("copies in the cache", "are kept for the whole period", "", "default"),
    ]
