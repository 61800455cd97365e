"""Coverage: gaps are covered by another server, bridged, not collected, off or signed. One day."""

from __future__ import annotations

from typing import Any

from tests.fleets.case import Case, Edit, case, drop, relabel
from tests.replay.cases.words import at, fleet, pod
from tests.replay.edits import relabel as relabeled, revalue as revalued
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.text_tables import text_rows, words

SIGNED = """[[coverage.accept]]
cluster = "CLUSTER"
from = "2026-03-10T06:00"
to = "2026-03-10T{}"
who = "Dana"
why = "moved"
"""
NIGHT = '[[clusters]]\nname = "CLUSTER"\nhours = ["15:00-05:00"]\n'
PODS, REQUESTS = "kube_pod_.*", "kube_pod_container_resource_.*"
# while no metrics describe nodes, or for a node without metrics
UNPLACED = "unplaced_device GPUs measured on host"


def day(*silences: tuple[float, float], ends: float = 24, **more: Any) -> Fleet:
    """Return a node with eight GPUs for a day; `train` holds four all day, `early` two until 10:00, `late` two from 20:00."""
    pods = [f"train | n | 0 1 2 3 | 0 | {ends}", "early | n | 4 5 | 0 | 10", "late | n | 6 7 | 20 | 24"]
    silent = [[at(start), at(end)] for start, end in silences]
    return fleet(24, ["n | p4de.24xlarge | 0 | 24"], pods, {}, ksm_silent=silent, **more)


HELD = """
    pod   | held
    train | {}
    early | {}
    late  | {}

    | node_cost
    | {}"""


def held(name: str, described: Fleet, hours: str, cost: str, *changes: Edit, **more: Any) -> Case:
    """Return a table of the GPU-hours of `train`, `early` and `late`, and the node's cost."""
    return case(name, described, HELD.format(*hours.split(), cost), *changes, **more)


def all_day(name: str, *changes: Edit, of: Fleet | None = None, **more: Any) -> Case:
    return held(name, of or day(), "96 20 8", "960", *changes, **more)


def other_server(series: list[Series]) -> list[Series]:
    """Add the same series from a second server that ends at 16:00."""
    whole = relabel("kube_.*", "prometheus=b")(drop("kube_.*", hours=(16, 99))(scrape(day(), lean=True)))
    return [*series, *whole]


def one_named(name: str, since: float, until: float, start: float, end: float) -> Case:
    """Return a case with a pod that only an exporter names while all other metrics are silent."""
    pods, silence = [pod("a", "n", [0, 1], start, end, keep_until=at(end))], [[at(since), at(until)]]
    described = fleet(
        2, ["n | p4de.24xlarge | 0 | 2"], pods, f"n | 0 1 | {start} | {end} | 50", ksm_silent=silence
    )
    return case(name, described, "| node_cost\n| 80", gaps=f"bridged {since:g} {until:g}")


def shard(series: list[Series], ordinal: int, *silent: float) -> list[Series]:
    """Return the series with the number of one of two shards."""
    beat = next(one for one in series if one.labels["__name__"] == "kube_node_info")
    found = []
    for name, value in (("total_shards", 2), ("shard_ordinal", ordinal)):
        labels = {"__name__": f"kube_state_metrics_{name}", "instance": f"shard-{ordinal}:8081", "node": None}
        found += revalued(relabeled([beat], ".*", labels), ".*", value)
    return drop(".*", hours=silent)(found) if silent else found


SECOND = "instance=10.4.0.2:8080"


def targets(name: str, *changes: Edit, names: str = "nop", dies: bool = True, **more: Any) -> Case:
    """Return two targets; the second reports o (and p) with their pods, fails at 10:00 and returns at 15:00, or as another."""
    nodes = [f"{name} | p4de.24xlarge | 0 | 24" for name in names]
    pods = [pod(f"pod-{name}", name, [0, 1], 0, 24, keep_until=at(24)) for name in names]
    for label in ("node=[op]", "pod=pod-[op]"):
        changes += (relabel("kube_.*", SECOND, label),)
        if not dies:
            changes += (relabel("kube_.*", "instance=10.4.0.3:8080", label, (10, 99)),)
    if dies:
        changes += (drop("kube_.*", SECOND, (10, 15)),)
    return case(name, fleet(24, nodes, pods, {}), "", *changes, **more)


def boots(*moments: float, **labels: str) -> Edit:
    """Add node_exporter's boot times of the node while kube-state-metrics has samples."""

    def change(series: list[Series]) -> list[Series]:
        beat = next(one for one in series if one.labels["__name__"] == "kube_node_info")
        kept = {label: None for label in beat.labels if label not in ("__name__", "cluster")}
        exported = relabeled(
            [beat], ".*", {**kept, "__name__": "node_boot_time_seconds", "job": "node-exporter", **labels}
        )
        for moment in moments:
            exported = revalued(exported, ".*", float(at(moment)), hours=(moment, 1e9))
        return [*series, *exported]

    return change


def boots_alone(series: list[Series]) -> list[Series]:
    """Add the boot times of the day's node, which no gap interrupts."""
    return [*series, *boots(-100, instance="n")(scrape(day(), lean=True))]


def late_requests(name: str, kind: str, percent: str, gaps: str) -> Case:
    """Return a case without request samples from 05:12 to 18:00 and with pod b on GPUs at this utilization."""
    pods = [pod("a", "n", [0, 1], 0, 4.99, keep_until=at(5)), "b | n | 0 1 | 6 | 11", "e | n | 0 1 | 19 | 24"]
    described = fleet(24, ["n | p4de.24xlarge | 0 | 24"], pods, f"n | 0 1 | 6 | 11 | {percent}")
    changes = drop(REQUESTS, hours=(5.2, 18)), relabel("kube_pod_info", f"created_by_kind={kind}")
    return case(name, described, "", *changes, gaps=gaps)


#: Settings of the gaps below.
SETTINGS = {
    "": "",
    "signed": SIGNED.format("15:00"),
    "night": NIGHT,
    "declared": NIGHT + 'from = 2026-03-10\nuntil = "2026-03-11T00:00"\n',
}
#: Hours without samples, GPU-hours of the pods, cost of the node, gaps, settings.
SILENCES = """
a restart is not a gap                              | 12   | 12.05 | 96 20 8    | 960 | |
a gap of at most two hours is bridged               | 9.5  | 11    | 96 19 8    | 960 | bridged 9.5 11 |
a longer gap is not collected and costs nothing     | 5    | 15    | 56 10 8    | 560 | not_collected 5 15 |
signed time stays not collected, with its signer    | 5    | 15    | 56 10 8    | 560 | not_collected 5 6, not_collected 6 15 nodes phases pods requests: kube-state-metrics was silent; Dana: moved | signed
declared off time is not a gap                      | 4.95 | 15.05 | 55.6 9.9 8 | 556 | off 4.95 5, off 5 15, off 15 15.05 | declared
hours before a declared night are a gap             | 3.5  | 15    | 50 7 8     | 500 | not_collected 3.5 5, off 5 15 | night
"""  # noqa: E501
#: Metrics without samples from one hour to another.
LOST = f"""
a gap of pods alone                                | kube_pod_info         | 5  | 9  | not_collected 5 9 pods: kube-state-metrics reported no pods
a gap of requests alone                            | {REQUESTS}            | 5  | 9  | not_collected 5 9 requests: kube-state-metrics reported no requests
a gap of phases alone                              | kube_pod_status_phase | 5  | 9  | not_collected 5 9 phases: kube-state-metrics reported no phases
a gap of nodes alone                               | kube_node_.*          | 5  | 9  | not_collected 5 9 nodes: kube-state-metrics reported no nodes
requests that end for good are a gap if pods go on | {REQUESTS}            | 15 | 99 | not_collected 15 24 requests
all pods gone is a gap if an exporter names them   | {PODS}                | 8  | 99 | not_collected 8 24
"""  # noqa: E501
LATE = """
a job on busy GPUs shows that requests were silent | Job       | 90 | not_collected 5 19
a job on idle GPUs proves no silent requests       | Job       | 0  |
a DaemonSet on busy GPUs proves no silent requests | DaemonSet | 90 |
"""

CASES = [
    # an exporter's series and boot times alone do not replace state metrics
    *(
        case(
            f"no series of kube-state-metrics{suffix}", day((0, 24)), "pod | held", *changes, drop("kube_.*"),
            warnings="no_kube_state_metrics\nunknown_capacity_type",
        )
        for suffix, changes in (("", ()), (" but boot times", (boots_alone,)))
    ),
    all_day("a further declared cluster", settings='[[clusters]]\nname = "CLUSTER-without-samples"\nfrom = 2026-03-10\n'),
    case(
        "a further declared cluster without samples", day(), "pod | held", series=list,
        gaps="not_collected 0 ever : never collected",
    ),
    *(
        held(name, day((float(start), float(end))), hours, cost, gaps=gaps, settings=SETTINGS[kind])
        for name, start, end, hours, cost, gaps, kind in text_rows(SILENCES)
    ),
    case(
        "hours before the first and after the last sample are not collected", day((0, 6), (18, 24)), "| capacity\n| 96",
        gaps="not_collected ever 6, not_collected 18 ever", warnings=UNPLACED,
    ),
    all_day("a gap is covered by another server", other_server, of=day((5, 15))),
    *(
        case(name, day(), "", drop(metrics, hours=(float(start), float(end))), gaps=gap)
        for name, metrics, start, end, gap in text_rows(LOST)
    ),
    case("all pods gone is not a gap if none may be left", {
        **day(ends=8),
        "pods": [pod("train", "n", [0], 0, 8, keep_until=at(8)), pod("early", "n", [4, 5], 0, 8, keep_until=at(8))],
    }, "pod | held\ntrain | 8\nearly | 16\n\n| node_cost\n| 960"),
    one_named("a pod that is gone before kube-state-metrics is back proves nothing", 0.5, 1, 0.25, 0.9),
    one_named("a pod that came after the last sample of kube-state-metrics proves nothing", 0.1, 0.4, 0.15, 2),
    case(
        "one dead shard of two is a gap", day(), "", lambda series: [*series, *shard(series, 0), *shard(series, 1, 4, 10)],
        gaps="not_collected 4 10 shard 2 of 2",
    ),
    targets(
        "a dead target with its own objects is a gap",
        gaps="not_collected 10 15 nodes pods: target kube-state-metrics 10.4.0.2:8080 was silent",
    ),
    targets("a dead target of one machine is a gap if its exporter goes on", names="no", gaps="not_collected 10 15"),
    targets(
        "a dead target of one machine is not a gap if its exporter ends too", drop("DCGM.*", "Hostname=o", (10, 15)), names="no",
    ),
    targets("a target with a new name after a restart is not a gap", dies=False),
    all_day(
        "one of two that report the same may end", drop("kube_.*", "instance=.*31:8080", (10, 99)), of=day(ksm_replicas=2),
    ),
    all_day("the last pod of a small target may end", relabel("kube_.*", "instance=10.4.0.2:8080", "pod=early")),
    # node_exporter's boot time, by host, address or label: no metric shows that the node ran from 09:30 to 10:15
    *(
        held(
            f"a node that booted within a gap did not run before {number}", day((9.5, 11)), "93 19 8", "930",
            relabel("kube_node_info", "internal_ip=10.0.0.1"), boots(-100, 10.25, **words(labels)), gaps="bridged 9.5 11",
            warnings="stopped_node 0.8 h of node n are not charged: it booted during a coverage gap, and "
            "may have been off before that",
        )
        for number, labels in enumerate(("instance=n:9100", "instance=10.0.0.1:9100", "instance=x node=n"))
    ),
    held(
        "a node that booted while collected stays charged", day((9.5, 11)), "96 19 8", "960", boots(-100, 6, 12, instance="n"),
        gaps="bridged 9.5 11",
    ),
    *(
        held(f"{family} that begin late are missing until then", day(), "48 0 8", "480", drop(metrics, hours=(-9, 12)),
            gaps=f"not_collected 0 12 {family}")
        for family, metrics in (("requests", REQUESTS), ("pods requests", PODS))
    ),
    # no exporter names them
    case(
        "pods with late samples are missing since they were bound",
        fleet(24, ["n | p4de.24xlarge | 0 | 24"], ["a | n | 0 1 | 6 | 24"], {}), "pod | held\na | 24",
        drop(PODS, hours=(-9, 12)), drop("DCGM.*"), gaps="not_collected 6 12",
    ),
    *(
        case(
            f"pods that begin after their nodes are not a gap {start:g}",
            fleet(24, ["n | p4de.24xlarge | 0 | 24"], [f"a | n | 0 1 | {start} | 24"], {}, scrape=900),
            f"pod | held\na | {hours}", warnings=warnings,
        )
        for start, hours, warnings in ((-30, 0, "pod_without_node train/a ran on node n"), (0, 48, ""), (9, 30, ""))
    ),
    *(late_requests(*row) for row in text_rows(LATE)),
]  # fmt: skip
