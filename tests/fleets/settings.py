"""Effects of settings of the whole configuration: max_bridge, the default memory of HAMi, the cost basis."""

from __future__ import annotations

import math
from typing import Any

from tests.fleets.activity import ENGINE, RATIO, UTIL, WHOLE, measured, to_ratio
from tests.fleets.case import Edit, alone, case, drop, scale
from tests.fleets.coverage import day, held
from tests.fleets.hosts import paused
from tests.fleets.shares import claiming, given
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.scrape import scrape

BRIDGES = (
    '[coverage]\nmax_bridge = "20m"\n[hami]\ndefault_mem = 6144\n'
    '[team_labels]\npod = "crew"\n[[teams]]\nname = "all"\nnamespaces = ["*"]\n'
)
#: Four GPUs are held for a day with ten hours not collected; two of them are never used.
UNSEEN = fleet(
    24, ["n | p4de.24xlarge | 0 | 24"], ["train | n | 0 1 2 3 | 0 | 24"], "n | 0 1 | 0 | 24",
    ksm_silent=[[at(5), at(15)]],
)  # fmt: skip
ALONE = [case("unseen", UNSEEN, """
    pod   | held active idle
    train |   56     28   28""", series=lambda: scrape(UNSEEN), gaps="not_collected 5 15")]  # fmt: skip
BRIDGED = [
    paused("a gap longer than max_bridge is not charged", "23.5", "190", "stopped_node 0.5 h of node box-1 are not charged"),
    held(
        "gaps longer than max_bridge", day((5, 6), (10, 14)), "76 18 8", "760",
        gaps="not_collected 5 6, not_collected 10 14",
    ),
    case(
        "each pod belongs to the team in its own label",
        alone(
            6, "g6.12xlarge", pod("a", "w", [0], 0, 4, labels={"crew": "red"}), pod("b", "w", [1], 2, 5, labels={"crew": "blue"}),
        ), """
        pod team | held
        a   red  |    4
        b   blue |    3""",
    ),
    case(
        "bare pods of HAMi hold the default memory",
        alone(
            6, "g6.12xlarge", "bare | w | 0 | 0 | 6", pod("cores", "w", [1], 0, 6, asks={"nvidia_com_gpucores": 50}),
            of={"offers": {"nvidia_com_gpu": 40}},
        ), """
        pod   | held
        bare  |  1.5
        cores |    3""",
    ),
]  # fmt: skip


def basis(name: str, table: str, *changes: Edit, **more: Any) -> Any:
    """Return a pod with a GPU and half of a node's cores and memory, and a pod without a GPU and with a quarter of them."""
    pods = [
        pod("a", "n", [0], 0, 4, cpu=2, memory_gib=8),
        pod("b", "n", [], 0, 4, "labs", cpu=1, memory_gib=4),
    ]
    nodes = [node("n", "g5.xlarge", 0, 4, vcpus=4, memory_gib=16)]
    described = fleet(4, nodes, pods, "n | 0 | 0 | 2", cost_basis=more.pop("cost_basis", "scad"))
    return case(name, described, "pod | cost unallocated_cost\n" + table, *changes, **more)


SCAD = "[activity]\ndevice_scale = 100\n"
HOST = "resource=cpu|memory"
#: $1.42 an hour: 0.90 for the GPU, 0.36 for the cores and 0.16 for the memory.
SCAD_BOOK = [",,,g5.xlarge,on_demand,1.42,USD,", ",,,g6.12xlarge,on_demand,4.80,USD,"]
NEEDS = "basis_needs_requests"
SPLIT = [
    basis("cores and memory are paid by request", "a | 4.64 0\nb | 0.52 0\n- | 0 0.52"),
    basis("no capacity and no request of cores and memory", "a | 5.68 0", drop(".*", HOST), warnings=NEEDS),
    basis(
        "capacity and requests of cores and memory from 02h on", "a | 5.16 0\nb | 0.26 0\n- | 0 0.26",
        drop(".*", HOST, hours=(-math.inf, 2)), warnings=NEEDS,
    ),
    # 0.90 for the GPU and 0.52 for cores and memory: a quarter of the latter on node n, and the GPU of node w
    case(
        "a claim leaves cores and memory to other pods",
        fleet(
            6, [node(name, "g5.xlarge", 0, 6, vcpus=4, memory_gib=16) for name in ("n", "w")],
            [pod("b", "n", [], 0, 6, "labs", cpu=1, memory_gib=4), claiming("c", 0, 6)], {}, cost_basis="scad",
        ), """
        pod | cost unallocated_cost
        b   | 0.78             0
        c   |  5.4             0
        -   |    0         10.86""",
        given("shared", "gpu-0"),
    ),
    # percentages under the other name are detected by their values
    measured(
        "a setting decides the scale of its own metric only", WHOLE, to_ratio((3, 99)), scale(UTIL, 0.01), drop(ENGINE),
        warnings=f"""{NEEDS}
            activity_scale cluster CLUSTER: {RATIO} of 4 GPU(s), on w holds percentages under the name of a ratio: read as percentages; fix: None
        """,  # noqa: E501
    ),
]  # fmt: skip
#: With the basis `node`, the GPU pays for everything.
USUAL = [basis("the GPU pays for cores and memory", "a | 4.8 0", cost_basis="node")]
