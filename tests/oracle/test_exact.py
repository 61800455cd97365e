"""Compare the exact bill of the scrapes with the stored cells: equal in every cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from tests.oracle.exact.compare import check_equal
from tests.oracle.shared_cases import replayed, shared_cases
from tests.replay.edits import move
from tests.replay.fleet import Fleet, all_cases, period_of, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.shared import shared

ZONES = ("Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
#: If cores and memory are charged too, or a pod reserves GPUs for others (KAI), the only second calculation is the bill from
#: the fleet's description.
ON_GPUS_ALONE = [
    case for case in all_cases() if "cost_basis" not in read_fleet(case) and case.name != "kai-fractions"
]


@dataclass
class Together:
    """Cases that share one store: their price books do not contradict each other, and days and periods have the same edges."""

    alike: tuple[object, ...]
    cases: list[Path] = field(default_factory=list)
    book: dict[str, list[str]] = field(default_factory=dict)  # the header, then lines by instance type


def together() -> list[Together]:
    groups = []
    for case in ON_GPUS_ALONE:
        fleet = read_fleet(case)
        header, *lines = (case / "prices.csv").read_text().splitlines()
        place = header.split(",").index("instance_type")
        types = {node["instance_type"] for node in fleet["nodes"]} | {""}
        book = {kind: [line for line in lines if line.split(",")[place] == kind] for kind in types}
        is_alone = fleet.get("teams") or any(edge % 3600 for edge in period_of(fleet))
        alike = (header, fleet.get("timezone", "UTC"), case.name if is_alone else "")
        for group in groups:
            if group.alike == alike and all(group.book.get(kind, own) == own for kind, own in book.items()):
                break
        else:
            group = Together(alike)
            groups.append(group)
        group.cases.append(case)
        group.book |= book
    return groups


#: Single cases that resemble another case; `.ci/run` runs small groups.
SLOW = (
    "no-node-labels",
    "reservation-block-and-flex-start",
    "short-of-two-resources",
    "slots-of-whole-gpus-and-of-slices",
)


def tier(group: Together) -> list[pytest.MarkDecorator]:
    if group.cases[0].name in SLOW:
        return [pytest.mark.slow]
    return [pytest.mark.ci] * (len(group.cases) < 5)


def name_of(group: Together) -> str:
    """Return the group's test id."""
    return f"{group.cases[0].name} and {len(group.cases) - 1} more"


def side_by_side(group: Together, folder: Path) -> tuple[Fleet, list[Series], Path]:
    """Return the group as one fleet, its series, and its price book in `folder`; clusters are named after their cases."""
    prices = folder / "book.csv"
    lines = [str(group.alike[0]), *(line for lines in group.book.values() for line in lines)]
    prices.write_text("\n".join(lines) + "\n")
    fleets = {case.name: read_fleet(case) for case in group.cases}
    series = []
    nodes = []
    for name, fleet in fleets.items():
        cluster = fleet["nodes"][0]["cluster"]
        for one in scrape(fleet, lean=True):
            series += move([one], f"{name} {one.labels.get('cluster', cluster)}")
        nodes += [{**node, "cluster": f"{name} {node['cluster']}"} for node in fleet["nodes"]]
    end = max(fleet["end"] for fleet in fleets.values())
    return {**fleets[group.cases[0].name], "nodes": nodes, "end": end}, series, prices


GROUPS = together()


@pytest.mark.parametrize("group", [pytest.param(group, marks=tier(group)) for group in GROUPS], ids=name_of)
def test_stored_cells_match_the_exact_bill(group: Together, tmp_path: Path) -> None:
    _compare(*side_by_side(group, tmp_path), tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize("group", GROUPS, ids=name_of)
def test_stored_cells_of_other_time_zones_match_the_exact_bill(group: Together, tmp_path: Path) -> None:
    _compare(*side_by_side(group, tmp_path), tmp_path, zones=ZONES)


@pytest.mark.shared
@pytest.mark.ci
@pytest.mark.parametrize("name", shared_cases() or ["none"])
def test_stored_cells_of_shared_fleets_match_the_exact_bill(name: str, tmp_path: Path) -> None:
    case = shared(f"replay/cases/{name}")
    fleet = read_fleet(case)
    # the bill supports the names and units of one exporter
    known = replayed({key: value for key, value in fleet.items() if key != "rename"})
    _compare(fleet, replayed(fleet), case / "prices.csv", tmp_path, known)


def _compare(
    fleet: Fleet,
    series: list[Series],
    prices: Path,
    folder: Path,
    known: list[Series] | None = None,
    zones: tuple[str, ...] = (),
) -> None:
    """Check the stored cells against the exact bill of `known`: `series`, or their equivalent from another exporter."""
    config = write_config(fleet, folder, prices)
    store = load(fleet, series, config)
    period = Period(*(datetime.fromtimestamp(second, UTC) for second in period_of(fleet)))
    for zone in zones or (config.timezone,):
        in_zone = config.model_copy(update={"timezone": zone})
        pipeline.attribute(in_zone, store, period)
        check_equal(fleet, known or series, in_zone, store)
