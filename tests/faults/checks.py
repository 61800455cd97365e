"""What a report may say of a fleet that was collected through trouble."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from gpucost.config.model import Config
from tests.faults.worlds import Answer, World, held

Rows = dict[tuple[Any, ...], dict[str, float]]

#: How many samples next to a gap may be told otherwise than with those that lie in it.
EDGE_SCRAPES = 3
EXACT = 1e-6


def check_said(its: World, config: Config, report: Answer, what: object) -> set[int]:
    """What the report claims to know is true, and what it does not know it names: the hours that it says were not collected."""
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
    """The report is that of a store that nothing ever disturbed, in every figure and every word."""
    assert report.code == 0, (report, what)
    assert report.json() == its.truth, what


def _hours_of(its: World, gaps: list[dict[str, str]]) -> dict[str, set[int]]:
    """The hours of the fleet that gaps touch, by cluster; under "" those of any."""
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
    """What of a cluster's hour is not true: to the last digit where all of it and of the hours around it was seen.

    An hour that was seen in part may lack something, not have more. What is active or idle may be unmeasured.
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
    """Who came or went within a bridged silence is not known: what they held may be unallocated, and their node be missing."""
    for measures in (("allocated",), ("cost",), ("allocated", "unallocated"), ("cost", "unallocated_cost")):
        one, other = _sum(reported, *measures), _sum(true, *measures)
        if one > other + _slack(its, true, measures[0]):
            yield f"{' + '.join(measures)} is {one}, more than {other}"


def _slack(its: World, true: Rows, measure: str) -> float:
    """How far a measure of hours or money may be off where samples next to a gap are told otherwise."""
    alike = ("cost", "unallocated_cost") if "cost" in measure else ("allocated", "unallocated")
    return float(EDGE_SCRAPES * its.fleet["scrape"] / 3600 * _sum(true, *alike) + EXACT)


def _sum(rows: Rows, *measures: str) -> float:
    return sum(row[measure] for row in rows.values() for measure in measures)
