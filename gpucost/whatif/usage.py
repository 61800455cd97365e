"""Actual usage as a fleet: what was up and held in a period, at the prices it was attributed with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.store.names import nothing_used
from gpucost.store.usage import read_usage
from gpucost.whatif.fleet import Fleet, Node, Pod, Price

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.model import Period

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose usage a question is about; nothing named is the whole fleet."""

    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_narrowed(self) -> bool:
        return bool(self.teams or self.namespaces or self.workloads or self.clusters)

    def __str__(self) -> str:
        named = [*self.teams, *self.namespaces, *self.workloads, *self.clusters]
        return ", ".join(named) or "the whole fleet"


def read_fleet(con: DuckDBPyConnection, period: Period, scope: Scope) -> Fleet:
    """What the attributed store says was used in `period` by whom `scope` names. Raises GpucostError where there is nothing."""
    filters: dict[str, tuple[str, ...]] = {
        "teams": scope.teams,
        "namespaces": scope.namespaces,
        "workloads": scope.workloads,
        "clusters": scope.clusters,
    }
    rows = read_usage(con, period.start_ms, period.end_ms, **filters)
    if not rows.nodes:
        raise nothing_used(con, period.start_ms, period.end_ms, str(period), **filters)
    return fleet_of(rows.nodes, rows.prices, rows.pods)


def fleet_of(nodes: Iterable[Row], prices: Iterable[Row], pods: Iterable[Row]) -> Fleet:
    """The fleet of rows that the store's usage is told in; a node of which parts were not collected becomes one node per part."""
    segments: dict[int, list[Row]] = defaultdict(list)
    for price in prices:
        segments[price["node_id"]].append(price)
    parts: dict[int, list[Node]] = defaultdict(list)
    taken: dict[tuple[str, str], int] = defaultdict(int)
    for row in nodes:
        key = (row["cluster"], row["node"])
        taken[key] += 1
        parts[row["node_id"]].append(
            Node(
                name=row["node"] if taken[key] == 1 else f"{row['node']}#{taken[key]}",
                gpus=row["gpu_count"],
                from_ms=row["from_ms"],
                to_ms=row["to_ms"],
                prices=tuple(_prices(segments[row["node_id"]], row["from_ms"], row["to_ms"])),
                capacity_type=row["capacity_type"],
                cluster=row["cluster"],
                provider=row["provider"],
                region=row["region"],
                zone=row["zone"],
                zone_id=row["zone_id"],
                instance_type=row["instance_type"],
                gpu_model=row["gpu_model"],
            )
        )
    held = tuple(
        Pod(
            node=part.name,
            workload=row["workload"],
            gpus=row["gpus"],
            from_ms=max(row["held_from_ms"], part.from_ms),
            to_ms=min(row["held_to_ms"], part.to_ms),
            namespace=row["namespace"],
            team=row["team"],
            uid=row["uid"],
            cluster=row["cluster"],
        )
        for row in pods
        for part in parts[row["node_id"]]
        if row["held_from_ms"] < part.to_ms and part.from_ms < row["held_to_ms"]
    )
    return Fleet(tuple(node for several in parts.values() for node in several), held)


def _prices(segments: Iterable[Row], from_ms: int, to_ms: int) -> Iterator[Price]:
    """The steps of these segments in [from_ms, to_ms), of which at least one is there; nothing and `none` where none is known."""
    known_until = from_ms
    for segment in segments:
        if segment["to_ms"] <= from_ms or to_ms <= segment["from_ms"]:
            continue
        if known_until < segment["from_ms"]:
            yield Price(Decimal(0), "none", None, known_until)
        as_of = str(segment["price_as_of"]) if segment["price_as_of"] else None
        yield Price(segment["price_per_hour"], segment["price_source"], as_of, segment["from_ms"])
        known_until = segment["to_ms"]
    if known_until < to_ms:
        yield Price(Decimal(0), "none", None, known_until)
