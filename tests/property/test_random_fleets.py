"""Random fleets: the product's figures against the second calculation, and exact conservation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.store.connection import Store
from tests.oracle import Bill, Figures, calculate, read_book
from tests.property.fleets import ONE, books, by_basis, fleets, many, period, priced
from tests.property.slack import Slack
from tests.replay.compare import FLEET_HOURS, FLEET_MONEY, HOURS, MONEY, differences
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.result import by_pod, total, unpaid
from tests.replay.scrape import scrape

WINDOWS = st.sampled_from([1, 3, 24])


@pytest.mark.ci
@settings(ONE, max_examples=20)
@given(data=st.data(), fleet=fleets(), hours_per_window=WINDOWS)
def test_figures_are_those_of_the_second_calculation(
    data: st.DataObject, fleet: Fleet, hours_per_window: int
) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        series = scrape(fleet, lean=True)
        store = load(fleet, series, config, hours_per_window)
        pipeline.attribute(config, store, period(fleet["start"], fleet["end"]))
        assert not unpaid(store)
        assert config.prices.book is not None
        book = read_book(config.prices.book)
        dearest = max(float(row["price"]) for row in book)
        wrong = wrong_figures(fleet, calculate(fleet, book, series=series), store, dearest)
        for hour in range(fleet["start"], fleet["end"], 3600):
            truth = calculate(fleet, book, (hour, hour + 3600), series=series).total
            wrong += _wrong_total(fleet, truth, store, (hour, hour + 3600), dearest)
        assert not wrong, "\n".join(wrong)


OTHER_BASES = given(data=st.data(), fleet=fleets().flatmap(by_basis), hours_per_window=st.just(24))
test_figures_by_every_other_cost_basis = many(
    test_figures_are_those_of_the_second_calculation, OTHER_BASES, ONE
)


def wrong_figures(fleet: Fleet, bill: Bill, store: Store, dearest: float) -> list[str]:
    """One line per figure of the store that is further off the calculated one than scraping explains."""
    slack, wrong = Slack(fleet), []
    pods = by_pod(store, fleet["start"] * 1000, fleet["end"] * 1000)
    for pod in fleet["pods"]:
        key = (pod["cluster"], pod["namespace"], pod["name"], pod["uid"])
        held = slack.gpus(pod) * slack.pod(pod) / 3600
        # a device's sample speaks for whoever is on it: at each of a pod's edges the last and the next may disagree
        measured = held + slack.gpus(pod) * 2 * slack.interval / 3600
        allowed = {**dict.fromkeys(HOURS, measured), "allocated_gpu_hours": held, "spot_gpu_hours": held}
        extra = (slack.beside(pod) + slack.host(pod)) / 3600
        allowed |= {
            "cost": (held + extra) * dearest,
            "idle_cost": (measured + extra + slack.mixed(pod) / 3600) * dearest,
        }
        truth = bill.pods.get(key, Figures()).rounded()
        wrong += differences(pod["uid"], pods.pop(key, Figures()).rounded(), truth, (*HOURS, *MONEY), allowed)
    wrong += [f"{key} was not there" for key, figures in pods.items() if figures.allocated_gpu_hours]
    return wrong + _wrong_total(fleet, bill.total, store, (fleet["start"], fleet["end"]), dearest)


def _wrong_total(
    fleet: Fleet, truth: Figures, store: Store, span: tuple[int, int], dearest: float
) -> list[str]:
    slack = Slack(fleet)
    start, end = span
    host = (
        sum(slack.host(p) for p in fleet["pods"] if p["scheduled"] < end + 3600 and p["to"] > start - 3600)
        / 3600
    )
    held = (
        sum(
            slack.gpus(p) * slack.pod(p)
            for p in fleet["pods"]
            if p["scheduled"] < end + 3600 and p["to"] > start - 3600
        )
        / 3600
    )
    edges = (
        sum(slack.gpus(p) for p in fleet["pods"] if p["scheduled"] < end and p["to"] > start)
        * 2
        * slack.interval
        / 3600
    )
    nodes = (
        sum(
            len(n["gpus"]) * slack.node(n)
            for n in fleet["nodes"]
            if n["from"] < end + 3600 and n["to"] > start - 3600
        )
        / 3600
    )
    closed = sum(len(n["gpus"]) * slack.closed(n) for n in fleet["nodes"]) / 3600
    allowed = {
        **dict.fromkeys(HOURS, held + edges),
        **dict.fromkeys(FLEET_HOURS, held + nodes),
        **dict.fromkeys((*MONEY, *FLEET_MONEY), (held + nodes + host) * dearest),
        "allocated_gpu_hours": held,
        "spot_gpu_hours": held,
        "unavailable_gpu_hours": held + nodes + closed,
        "capacity_gpu_hours": nodes,
        "node_cost": nodes * dearest,
        "idle_cost": (held + edges + host) * dearest,
    }
    stored_total = total(store, start * 1000, end * 1000).rounded()
    return differences(
        f"{span}", stored_total, truth.rounded(), (*HOURS, *FLEET_HOURS, *MONEY, *FLEET_MONEY), allowed
    )
