"""Hours, shares and money to the millisecond and the ninth decimal, and the ends of deleted pods."""

from __future__ import annotations

from typing import Any

from tests.fleets.case import alone, case, drop, duplicate, machine, relabel, revalue
from tests.replay.cases.words import at, fleet, pod

L4, A10G = "g6.12xlarge", "g5.xlarge"  # four GPUs for $4.80, one for $1.20
PARTLY = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, 77] for hour in range(5)]}
NAMELESS = {
    f"{prefix}{label}": None for prefix in ("", "exported_") for label in ("namespace", "pod", "container")
}
SILENT = [["w", at(2) + 1801, at(2) + 1920], ["w", at(2) + 2401, at(2) + 2640]]
EDGES = [["w", at(2) - 59, at(2) + 60], ["w", at(3) - 119, at(3) + 120]]
SLICES = {1: (7, "1g.10gb"), 2: (3, "2g.20gb"), 3: (1, "3g.40gb")}
SEVENTH: dict[str, Any] = {"resource": "nvidia_com_mig_1g_10gb"}


def sliced(parts: list[dict[str, Any]], *pods: dict[str, Any]) -> dict[str, Any]:
    """Return an A100 in slices, $1 an hour."""
    return fleet(
        5, [machine("w", 1, end=5, gpu_model="NVIDIA A100 80GB PCIe", mig={"GPU-w-0": parts})], list(pods), {}
    )


SEVEN = [{"gi": gi, "profile": "1g.10gb"} for gi in range(7, 14)]

HOURS = [
    # sampled at full minutes, active in 21 of 60; $4.80 / 4 per GPU
    case(
        "whole hours that are idle in part",
        alone(5, L4, "a | w | 0 | 0 | 5", util=PARTLY),
        """
        hour pod | held active idle unmeasured cost idle_cost
        1    a   |    1   0.35 0.65          0  1.2      0.78
        2    a   |    1   0.35 0.65          0  1.2      0.78
        3    a   |    1   0.35 0.65          0  1.2      0.78""",
        hours=(1, 4),
    ),
    # held from 02:15; no samples for 2 minutes after 02:30 and 4 after 02:40: only the latter is a gap, from 02:41 to 02:44
    case(
        "a sample before a gap is valid for one interval",
        alone(5, L4, "a | w | 0 | 2.25 | 5", util="w | 0 | 0 | 5", silent=SILENT),
        """
        pod | held active unmeasured
        a   | 0.75    0.7       0.05""",
        hours=(2, 3),
    ),
    # no samples for 2 minutes after 01:59 (not a gap) and for 4 after 02:58: 02:59-03:02 is unmeasured
    case(
        "a gap across the edge of whole hours",
        alone(5, L4, "a | w | 0 | 0 | 5", silent=EDGES),
        """
        hour pod |  idle unmeasured
        1    a   |     1          0
        2    a   | 59/60       1/60
        3    a   | 58/60       2/60""",
        hours=(1, 4),
    ),
    # holds 01:15-02:45 a GPU that is active in the first 21 minutes of each hour, also while unallocated
    case(
        "a pod on an unlabeled device has the activity of its own minutes",
        alone(5, A10G, "a | w | 0 | 1.25 | 2.75", util=PARTLY),
        """
        hour pod | active idle unmeasured idle_cost
        1    a   |    0.1 0.65          0      0.78
        2    a   |   0.35  0.4          0      0.48""",
        relabel("DCGM_.*", NAMELESS),
    ),
    # $4.80 for four GPUs; one is held all day, another until 03:20
    case(
        "equal hours cost alike up to the minute that one changes",
        alone(5, L4, "a | w | 0 | 0 | 5", f"b | w | 1 | 0 | {3 + 1 / 3}", util="w | 0 1 | 0 | 5"),
        """
        hour pod | cost
        0    a   |  1.2
        0    b   |  1.2
        1    a   |  1.2
        1    b   |  1.2
        2    a   |  1.2
        2    b   |  1.2
        3    a   |  1.2
        3    b   |  0.4
        4    a   |  1.2""",
    ),
    # a plugin first offers one GPU, later four slots of it; a label reports slots without a count: a quarter each
    case(
        "a slot has the size of the node's last offer",
        alone(5, A10G, "a | w | 0 | 2 | 5", util="w | 0 | 0 | 5"),
        """
        pod | held active cost
        a   | 0.75   0.75  0.9""",
        revalue("kube_node_status_.*", 4, "resource=nvidia_com_gpu", (1, 5)),
        relabel(
            "kube_node_labels",
            "label_nvidia_com_gpu_replicas= label_nvidia_com_gpu_sharing_strategy=time-slicing",
        ),
    ),
    # five GPUs held on a node with four: each pod pays four fifths of $4.80 / 4 per GPU
    case(
        "more GPUs held than the node has",
        alone(5, L4, "a | w | 0 1 | 0 | 5", "b | w | 1 2 3 | 0 | 5"),
        """
        pod | held cost unallocated
        a   |   10  9.6           0
        b   |   15 14.4           0

        | capacity over node_cost
        |       20    5        24""",
        warnings="over_allocated than node w has between 2026-03-10T00:00Z and 2026-03-10T05:00Z",
    ),
    # $1 in sevenths: 0.142857143 + 0.285714286 + 0.428571429 plus an unallocated seventh equals 1.000000001
    case(
        "rounding is settled with the largest share",
        sliced(
            [{"gi": gi, "profile": profile} for gi, profile in SLICES.values()],
            *(
                pod(str(size), "w", [(0, gi)], 0, 5, resource="nvidia_com_mig_" + profile.replace(".", "_"))
                for size, (gi, profile) in SLICES.items()
            ),
        ),
        """
        pod |        cost unallocated_cost
        1   | 0.142857143                0
        2   | 0.285714286                0
        3   | 0.428571428                0
        -   |           0      0.142857143""",
        hours=(2, 3),
    ),
    # $1 for seven pods with a seventh each: 7 x 0.142857143 is 1.000000001
    case(
        "rounding is settled with the smallest uid of equal shares",
        sliced(
            SEVEN, *(pod(f"p{n}", "w", [(0, 13 - n)], 0, 5, uid=f"u{9 - n}", **SEVENTH) for n in range(7))
        ),
        """
        pod |        cost
        p0  | 0.142857143
        p1  | 0.142857143
        p2  | 0.142857143
        p3  | 0.142857143
        p4  | 0.142857143
        p5  | 0.142857143
        p6  | 0.142857142""",
        hours=(2, 3),
    ),
]

# Scraped at full minutes: the last sample of a pod deleted at 02:00:30 is at 02:00, so it ended by 02:01. Its successor is
# bound at 02:00:40: no GPU is held twice, and no over-allocation is reported.
LAST, BOUND = 2 + 30 / 3600, 2 + 40 / 3600


def deleted(name: str, numbers: list[Any], **more: Any) -> dict[str, Any]:
    """Return a pod without an exported end."""
    return pod(
        name, "w", numbers, 0, LAST, completes=False, keep_until=at(LAST), uid=more.pop("uid", name), **more
    )


def bound(name: str, numbers: list[Any], end: float = 4, late: int = 0, **more: Any) -> dict[str, Any]:
    return pod(name, "w", numbers, BOUND + late / 3600, end, uid=more.pop("uid", name), **more)


OVER = "over_allocated than node w has between 2026-03-10T02:00Z and 2026-03-10T02:01Z: their cost is scaled"
GIVES_WAY = """
    uid    |      held cost
    first  | 7240/3600 {}
    second | 7160/3600 {}

    | over
    |    0"""
TEAMS = [
    # a second exporter reports another value from 02:00 on: if several report a label, the newest value counts
    case(
        "the newest value of a label that two exporters report",
        alone(5, A10G, "a | w | 0 | 0 | 5"),
        """
        team | held
        old  |    2
        new  |    3""",
        relabel("kube_namespace_labels", "label_team=old"),
        duplicate("kube_namespace_labels", "label_team=new instance=10.9.9.9:8080"),
        drop("kube_namespace_labels", "instance=10.9.9.9:8080", (-1, 2)),
    ),
    # samples at 02:00 and then at 02:10
    case(
        "a gap of exactly ten minutes",
        alone(5, A10G, "a | w | 0 | 0 | 5", scrape=60, ksm_silent=[[at(2) + 1, at(2) + 599]]),
        """
        pod | held
        a   |    5""",
    ),
    # reported from 01:00 on, without a node until 02:00:20
    case(
        "a pod that waits for a node",
        alone(5, A10G, pod("a", "w", [0], 2 + 20 / 3600, 5, created=at(1))),
        """
        pod | held
        a   | 539/180""",
    ),
]

ENDS = [
    *(
        case(
            f"the end of a deleted pod gives way to {after}",
            alone(5, A10G, deleted(before, [0], uid="first"), bound(after, [0], uid="second")),
            GIVES_WAY.format("7240/3000", "7160/3000"),
        )
        for before, after in (("db-0", "db-0"), ("api-7d4f-x2x", "api-7d4f-k9p"))
    ),
    case(
        "an estimated end stays if the node has room", alone(5, L4, deleted("first", [0]), bound("second", [1])), """
        uid    |      held
        first  | 7260/3600
        second | 7160/3600""",
    ),
    # on four GPUs, two pods with one each and one pod with two are deleted; three pods follow, two of them 10 s later
    case(
        "several ends give way to several successors",
        alone(
            5, L4, *(deleted(name, [number]) for number, name in enumerate("ab")), deleted("c", [2, 3]),
            bound("d", [0]), bound("e", [1], late=10), bound("f", [2, 3], late=10),
        ), """
        uid |       held
        a   |  7240/3600
        b   |  7250/3600
        c   | 14500/3600
        d   |  7160/3600
        e   |  7150/3600
        f   | 14300/3600

        | over
        |    0""",
    ),
    case(
        "the end of a slice gives way",
        sliced(
            SEVEN,
            *(pod(f"stays-{gi}", "w", [(0, gi)], 0, 5, "serve", uid=f"stays-{gi}", **SEVENTH) for gi in range(8, 14)),
            deleted("first", [(0, 7)], **SEVENTH), bound("second", [(0, 7)], 5, **SEVENTH),
        ),
        """
        uid      |        held
        first    |  7240/25200
        second   | 10760/25200
        stays-8  |         5/7
        stays-9  |         5/7
        stays-10 |         5/7
        stays-11 |         5/7
        stays-12 |         5/7
        stays-13 |         5/7

        | over
        |    0""",
    ),
    case(
        "the end of a slot gives way",
        alone(
            5, A10G, *(pod(f"stays-{number}", "w", [0], 0, 5, uid=f"stays-{number}") for number in range(3)),
            deleted("first", [0]), bound("second", [0], 5), of={"replicas": 4},
        ), """
        uid     |        held
        stays-0 |        1.25
        stays-1 |        1.25
        stays-2 |        1.25
        first   |  7240/14400
        second  | 10760/14400

        | over
        |    0""",
    ),
    # both ends are exported: by their clocks, the pods overlap by so many seconds
    *(
        case(
            f"over-allocation of {seconds} s is {'' if warned else 'not '}reported",
            alone(5, A10G, f"a | w | 0 | 0 | {2 + seconds / 3600}", "b | w | 0 | 2 | 4"),
            f"| over\n| {seconds}/3600",
            warnings=OVER if warned else "",
        )
        for seconds, warned in ((30, False), (60, True))
    ),
]  # fmt: skip
CASES = [*HOURS, *TEAMS, *ENDS]
