"""Machines without Kubernetes or Slurm: [[hosts]] settings, the users of their GPUs, and their uptime. One day."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.fleets.case import Case, case, machine
from tests.replay.cases.words import at, fleet
from tests.replay.edits import drop as dropped, relabel as relabeled
from tests.replay.fleet import Fleet
from tests.replay.plain import USERS, UTIL, boxes, dcgm, machine as box, smi, uuid
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.text_tables import words

RULE = '[[hosts]]\nname = "box-*"\ncluster = "CLUSTER"\ninstance_type = "box-2"\nregion = "berlin"\nzone = "room-2"\n'
BY_USER = RULE + 'user_label = "user"\n'
#: A cluster with hosts only.
PLAIN: Fleet = fleet(24, [machine("unused", 1, end=24)], [], {})
NOT_USED = "their time is unallocated, but never counts as empty; the GPUs were active in {} % of their samples; fix: {}"
NO_LABEL = "set [[hosts]] user_label to the label of activity metrics that names the user"
ADDRESSES = '[[hosts]]\nname = "10.*"\ncluster = "CLUSTER"\n'
ANY = '[[hosts]]\nname = "*"\ncluster = "CLUSTER"\ninstance_type = "box-2"\nuser_label = "user"\n'


def kube(**more: Any) -> Fleet:
    """Return kube-1, at a dollar an hour, and its pod from 02:00 to 10:00."""
    return fleet(24, [machine("kube-1", 1, end=24)], ["a | kube-1 | 0 | 2 | 10"], {}, **more)


def beside(described: Fleet, *others: list[Series]) -> list[Series]:
    """Return hosts next to a Kubernetes cluster without an exporter."""
    return [*dropped(scrape(described, lean=True), "DCGM_.*"), *(one for part in others for one in part)]


def hosts(name: str, series: list[Series], table: str, settings: str = BY_USER, **more: Any) -> Case:
    return case(name, PLAIN, table, series=lambda: series, settings=settings, **more)


mine = partial(box, [smi("box-1", 0), smi("box-1", 1)])
ADDRESS = [{**smi("box-1", gpu), "instance": "10.0.0.5:9835"} for gpu in (0, 1)]
NAMES_POD = dcgm("10.0.0.7", 0) | words("exported_namespace=train exported_pod=a")


def paused(name: str, hours: str, cost: str, warned: str = "") -> Case:
    """Return a case with box 1 down from 05:15 to 05:45; its user holds a GPU before and after."""
    return hosts(
        name, [*mine(users=[(0, 0, 24, "fay")], down=[(5.25, 5.75)]), *box([smi("box-2", 0)])],
        f"pod | held\nbox-1 | {hours}\n\n| node_cost\n| {cost}", warnings="host_without_users (box-2)\n" + warned,
    )  # fmt: skip


CASES = [
    paused("a gap within an hour is bridged", "24", "192"),
    # two boxes at $4 for 24 h; 6 + 1 + 24 of 96 GPU-hours were active: 32.3 %
    hosts(
        "hosts without a user label are unallocated", boxes(), """
        node  gpu_model      gpu_count capacity_type instance_type region zone   | capacity unallocated node_cost over
        box-1 A100-SXM4-80GB 2         on_demand     box-2         berlin room-2 |       48          48        96    0
        box-2 A100-SXM4-80GB 2         on_demand     box-2         berlin room-2 |       48          48        96    0""",
        settings=RULE, warnings="host_without_users (box-1, box-2): " + NOT_USED.format("32.3", NO_LABEL),
    ),
    # Alice 12 h of GPU 0 and 4.5 h of GPU 1, Bob 4 h, at $2 per GPU-hour; Alice's are active for 6 h and 1 h
    hosts(
        "users hold the GPUs whose series have their label", boxes(USERS), """
        namespace workload   pod   | held active idle unmeasured cost
        alice     Host/box-1 box-1 | 16.5      7  9.5          0   33
        bob       Host/box-1 box-1 |    4      0    4          0    8

        | capacity unallocated node_cost unallocated_cost over
        |       96        75.5       192              151    0""",
        warnings="host_without_users (box-2): "
        + NOT_USED.format("50.0", "no activity metric of these hosts has the label user: correct [[hosts]] user_label"),
    ),
    # box 2 is down for 1 h (bridged) and for 5.5 h (not bridged): $4 x 18.5 h; its user held the GPU through the hour. One GPU
    # of box 1 is lost for 6 h: its user did not hold it then, though the box was up
    hosts(
        "a long silent host costs nothing",
        [
            *dropped(mine(users=[(1, 6, 16, "gil")]), ".*", {"uuid": uuid("box-1", 1)}, hours=(8, 14)),
            *box([smi("box-2", 0), smi("box-2", 1)], [], [(0, 4, 7, "carol"), (0, 10, 20, "carol")], down=[(5, 6), (12, 17.5)]),
        ], """
        namespace pod   | held active idle unmeasured cost
        carol     box-2 |  7.5      0  6.5          1   15
        gil       box-1 |    4      0    4          0    8

        | capacity unallocated node_cost
        |       85        73.5       170""",
        warnings="stopped_node 5.5 h of node box-2 are not charged: no exporter reported its GPUs; fix: None",
    ),
    hosts(
        "hosts that are all silent are a gap", mine(down=[(8, 12)]), """
        | capacity unallocated node_cost
        |       40          40        80""",
        settings=RULE, warnings="host_without_users (box-1)",
        gaps="not_collected 8 12 : its exporters were silent",
    ),
    # box-1 costs $4 with four GPUs. Series that name kube-1 in a label, or its pod, belong to kube-1
    case(
        "a plain host next to Kubernetes is a node if named", kube(), """
        node   gpu_model      gpu_count capacity_type | capacity unallocated node_cost unallocated_cost over
        box-1  A100-SXM4-80GB 4         reserved      |       96          72        96               72    0
        kube-1 A30            1         on_demand     |       24          16        24               16    0

        namespace pod   | held active idle unmeasured cost
        train     a     |    8      0    6          2    8
        carol     box-1 |   24      0   24          0   24""",
        series=lambda: beside(
            kube(), box([dcgm("box-1", 0), dcgm("box-1", 1)], users=[(0, 0, 24, "carol")]), box([dcgm("other", 0)]),
            box([{**dcgm("box-kube-1.local", 0), "node": "kube-1"}]), dropped(box([NAMES_POD], hours=8), ".*", hours=(-1, 2)),
        ),
        settings=ADDRESSES + BY_USER + 'gpus = 4\nprovider = "lab"\ncapacity_type = "reserved"\n',
        warnings="unplaced_device 1 GPUs measured on host other belong to no known node",
    ),
    # kube-state-metrics is silent from 14 to 18 h: pods are unknown then, even if a host's exporter has samples
    case(
        "hosts do not cover a Kubernetes cluster", kube(ksm_silent=[[at(14), at(18)]]), """
        | capacity node_cost
        |       60       100""",
        series=lambda: beside(kube(ksm_silent=[[at(14), at(18)]]), mine()), settings=RULE,
        warnings="host_without_users (box-1)", gaps="not_collected 14 18",
    ),
    # one exporter reports the host, another its address and the user; a third measures a GPU of kube-1 under an address
    case(
        "two exporters on a machine are one machine", kube(), """
        node   gpu_count | node_cost
        box-1  2         |        96
        kube-1 1         |        24

        namespace pod   | held active idle unmeasured cost
        train     a     |    8      0    8          0    8
        dan       box-1 |   12      0   12          0   24""",
        series=lambda: beside(
            kube(), box([dcgm("box-1", 0), dcgm("box-1", 1)]), box(ADDRESS, users=[(1, 0, 12, "dan")]), box([dcgm("kube-1", 0)]),
            relabeled(box([smi("kube-1", 0)]), ".*", "instance=10.0.0.9:9835"),
        ),
        settings=ANY,
    ),
    hosts(
        "the first setting that names a host wins", boxes(), """
        node  gpu_count capacity_type  | capacity
        box-1 2         flex_start     |       48
        box-2 8         capacity_block |      192""",
        settings=RULE.replace("*",
        "1") + 'capacity_type = "flex_start"\n' + RULE + 'capacity_type = "capacity_block"\ngpus = 8\n',
        warnings="host_without_users (box-1, box-2)",
    ),
    hosts(
        "a slice of a plain host is a part of its GPU",
        relabeled(
            box([dcgm("box-1", 0) | words("GPU_I_ID=7 GPU_I_PROFILE=1g.10gb")], [(0, 0, 12, 0.9)], [(0, 0, 24, "eve")]),
            UTIL, "__name__=DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        ), """
        namespace pod   | held active idle unmeasured cost
        eve       box-1 | 24/7   12/7 12/7          0 96/7""",
    ),
    hosts(
        "hosts without settings are nodes of a cluster of hosts", boxes(labels=("bare-1", "bare-2")), """
        node   capacity_type | unallocated
        bare-1 unknown       |          48
        bare-2 unknown       |          48""",
        settings="",
        warnings={
            "unknown_capacity_type": ("add a machine without Kubernetes to [[hosts]]",) * 2,
            "no_kube_state_metrics": "",
        },
    ),
]  # fmt: skip
