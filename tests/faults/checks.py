"""Permitted contents of a report on a fleet that was collected with faults."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from gpucost.config.model import Config
from tests.faults.worlds import Answer, World, held

Rows = dict[tuple[Any, ...], dict[str, float]]

#: Number of samples next to a gap that may count differently than with the gap's samples.
EDGE_SCRAPES = 3
EXACT = 1e-6


def check_said(its: World, config: Config, report: Answer, what: object) -> set[int]:
    """Check that reported figures are true, and that the report names all other hours as not collected."""
    assert report.code in (0, 4), (report, what)
    coverage = report.json()["coverage"]
    missing = _hours_of(its, coverage["not_collected"])
    partial = _hours_of(its, coverage.get("partial", []))
    bridged = _hours_of(its, coverage.get("bridged", []))
    assert bool(missing) == (coverage["not_collected_hours"] > 0), (coverage, what)
    assert not missing or coverage["warnings"], (coverage, what)
    assert report.code == (4 if missing else 0), (report.err, coverage, what)
    figures, truth = held(config, its), held(its.calm, its)
    wrong = []
    for hour in range(its.hours):
        for cluster in sorted({node["cluster"] for node in its.fleet["nodes"]}):
            reported, true = (
                {key: row for key, row in rows.get(hour, {}).items() if key[1] == cluster}
                for rows in (figures, truth)
            )
            unknown = missing.get(cluster, missing.get("", set())) | partial.get(
                cluster, partial.get("", set())
            )
            near = bool({hour - 1, hour + 1} & unknown)
            if hour in bridged.get(cluster, set()) and hour not in unknown:
                wrong += [
                    f"bridged hour {hour} of {cluster}: {text}"
                    for text in _wrong_bridged(its, reported, true)
                ]
                continue
            wrong += [
                f"hour {hour} of {cluster}: {text}"
                for text in _wrong(its, reported, true, hour in unknown, near)
            ]
    assert not wrong, "\n".join([*wrong, str(coverage), str(what)])
    return missing.get("", set())


def check_undisturbed(its: World, report: Answer, what: object) -> None:
    """Check that the report equals an undisturbed store's, in every figure and text."""
    assert report.code == 0, (report, what)
    assert report.json() == its.truth, what


def _hours_of(its: World, gaps: list[dict[str, str]]) -> dict[str, set[int]]:
    """Return the fleet's hours with gaps by cluster; the key "" has the gaps of any cluster."""
    by_cluster = {}
    for gap in gaps:
        start, end = (
            (datetime.fromisoformat(gap[edge]) - its.at(0)) / timedelta(hours=1) for edge in ("from", "to")
        )
        hours = {hour for hour in range(its.hours) if start < hour + 1 and hour < end}
        for name in (gap["cluster"], ""):
            by_cluster.setdefault(name, set()).update(hours)
    return by_cluster


def _wrong(its: World, reported: Rows, true: Rows, is_unknown: bool, is_near: bool) -> Iterator[str]:
    """Yield the wrong figures of a cluster's hour, exact if it and the hours around it were fully collected.

    A partly collected hour may have less, not more. Active or idle time may be unmeasured.
    """
    is_exact = not (is_unknown or is_near)
    for measure in ("allocated", "unallocated", "cost", "unallocated_cost", "active", "idle"):
        one, other = _sum(reported, measure), _sum(true, measure)
        slack = EXACT if is_exact else _slack(its, true, measure)
        if one > other + slack:
            yield f"{measure} is {one}, more than {other}"
        may_lack = is_unknown or (
            measure in ("active", "idle") and _sum(reported, "unmeasured") > _sum(true, "unmeasured") + EXACT
        )
        if one < other - slack and not may_lack:
            yield f"{measure} is {one}, less than {other}"
    if is_exact:
        for key in reported.keys() | true.keys():
            for measure in ("allocated", "cost", "unallocated", "unallocated_cost"):
                one, other = (rows.get(key, {}).get(measure, 0.0) for rows in (reported, true))
                if abs(one - other) > EXACT:
                    yield f"{measure} of {key} is {one}, not {other}"


def _wrong_bridged(its: World, reported: Rows, true: Rows) -> Iterator[str]:
    """Pods and nodes that came or went within a bridged gap are unknown: time may be unallocated, and a node missing."""
    for measures in (("allocated",), ("cost",), ("allocated", "unallocated"), ("cost", "unallocated_cost")):
        one, other = _sum(reported, *measures), _sum(true, *measures)
        if one > other + _slack(its, true, measures[0]):
            yield f"{' + '.join(measures)} is {one}, more than {other}"


def _slack(its: World, true: Rows, measure: str) -> float:
    """Return the tolerance of a measure if samples next to a gap count differently."""
    alike = ("cost", "unallocated_cost") if "cost" in measure else ("allocated", "unallocated")
    return float(EDGE_SCRAPES * its.fleet["scrape"] / 3600 * _sum(true, *alike) + EXACT)


def _sum(rows: Rows, *measures: str) -> float:
    return sum(row[measure] for row in rows.values() for measure in measures)
