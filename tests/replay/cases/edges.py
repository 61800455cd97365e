"""Cases in which one thing could be taken for another: two lives of a name, slots and slices, two exporters."""

from typing import Any

from tests.replay.cases.words import BOOK, Case, at, busy, fleet, node, pod

_SEVENTHS = [{"gi": 7 + i, "profile": "1g.5gb"} for i in range(7)]
_THIRDS = [{"gi": 1, "profile": "3g.20gb"}, {"gi": 2, "profile": "3g.20gb"}]


def _again(name: str, instance_type: str, count: int, **more: Any) -> dict[str, Any]:
    """The next node of a name, 36 seconds after the last, with GPUs of its own."""
    return node(name, instance_type, 2.01, 5, gpus=[f"GPU-{name}2-{i}" for i in range(count)], **more)


def _on_second(name: str, start: float, end: float) -> dict[str, Any]:
    return pod(f"{name}-next", name, [0], start, end, devices=[{"uuid": f"GPU-{name}2-0"}])


EDGES = [
    Case(
        "names-reused-within-a-scrape",
        "Nodes x, y, z die at 02:00 and are others 36 seconds later, before anything of the first could be out of date. One GPU "
        "x 1 h and x 1.5 h each: x spot $1.40 + on demand $6.30; y 1 of 8 $5 + 1 of 4 $1.80; z a quarter $0.30 + whole $1.80. "
        "Nodes 2 x (2.8 + 40 + 1.2) + 2.99 x (8.4 + 4.8 + 1.2) = $131.056.",
        fleet(
            5,
            [
                node("x", "a2-highgpu-2g", 0, 2, "spot"),
                _again("x", "a2-highgpu-2g", 2),
                node("y", "p4de.24xlarge", 0, 2),
                _again("y", "g6.12xlarge", 4),
                node("z", "g5.xlarge", 0, 2, replicas=4),
                _again("z", "g5.xlarge", 1),
            ],
            [
                *(pod(f"{name}-first", name, [0], 0.5, 1.5) for name in "xyz"),
                *(_on_second(name, 3, 4.5) for name in "xyz"),
            ],
            {**busy("x", [0], 0, 2), **busy("y2", [0], 3, 5), **busy("z2", [0], 3, 5)},
            offset=50,
        ),
        {
            "allocated_gpu_hours": "6.75",
            "active_gpu_hours": "4",
            "spot_gpu_hours": "1",
            "cost": "16.6",
            "node_cost": "131.056",
        },
        BOOK,
    ),
    Case(
        "bound-just-before-its-node-was-replaced",
        "A pod bound at 01:58 to a node that dies at 02:00 and is another one 36 seconds later; listed until 02:06, it held one "
        "GPU for 2 minutes, $5 x 1/30 h = 1/6, and nothing of the second.",
        fleet(
            5,
            [node("n", "p4de.24xlarge", 0, 2), _again("n", "p4de.24xlarge", 8)],
            [pod("late", "n", [0], 2 - 1 / 30, 2.1, keep_until=at(2.1))],
            {},
        ),
        {"allocated_gpu_hours": "1/30", "cost": "1/6", "node_cost": "199.6"},
        BOOK,
    ),
    Case(
        "killed-long-after-a-helper-ended",
        "One container of a pod ends at 00:30, the others are evicted at 03:00: Failed, with no completion time but the "
        "first one's. 2 of 4 L4s x 3 h at $1.20 = $7.20.",
        fleet(
            5,
            [node("w", "g6.12xlarge", 0, 5)],
            [
                pod(
                    "trainer",
                    "w",
                    [0, 1],
                    0,
                    3,
                    end_phase="Failed",
                    restarts=[at(0.5)],
                    completes=False,
                    keep_until=at(4),
                )
            ],
            busy("w", [0, 1], 0, 3),
        ),
        {"allocated_gpu_hours": "6", "active_gpu_hours": "6", "cost": "7.2", "node_cost": "24"},
        BOOK,
    ),
    Case(
        "over-before-it-was-seen",
        "A pod bound at 01:00:36 is over at 01:01:12, between two scrapes 5 minutes apart, listed as Succeeded until 02:00: "
        "it held 4 L4s for 36 seconds, 0.04 GPU-hours at $1.20 = $0.048.",
        fleet(
            3,
            [node("w", "g6.12xlarge", 0, 3)],
            [pod("blink", "w", [0, 1, 2, 3], 1.01, 1.02, keep_until=at(2))],
            {},
            scrape=300,
        ),
        {"allocated_gpu_hours": "0.04", "cost": "0.048", "node_cost": "14.4"},
        BOOK,
    ),
    Case(
        "slots-of-whole-gpus-and-of-slices",
        "gpu.replicas speaks of whole GPUs, mig-1g.5gb.replicas of slices. u: slot of 4 x 3.5 h = 7/8, slice x 3.5 h = 1/2; "
        "v: one of 4 slots of a slice x 3.5 h = 1/8. 1.5 GPU-hours at $4.20 = $6.30.",
        fleet(
            3.5,
            [
                node("u", "a2-highgpu-2g", 0, 3.5, replicas=4, mig={"GPU-u-1": _SEVENTHS}),
                node("v", "a2-highgpu-2g", 0, 3.5, mig={"GPU-v-0": _SEVENTHS}, mig_replicas={"1g.5gb": 4}),
            ],
            [
                pod("slot", "u", [0], 0, 3.5),
                pod("slice", "u", [(1, 7)], 0, 3.5, resource="nvidia_com_mig_1g_5gb"),
                pod("slot-of-slice", "v", [(0, 8)], 0, 3.5, resource="nvidia_com_mig_1g_5gb"),
            ],
            {**busy("u", [(1, 7)], 0, 4), **busy("v", [(0, 8)], 0, 4)},
        ),
        {
            "allocated_gpu_hours": "1.5",
            "active_gpu_hours": "5/8",
            "idle_gpu_hours": "7/8",
            "cost": "6.3",
            "node_cost": "58.8",
        },
        BOOK,
    ),
    Case(
        "mig-single-without-a-suffix",
        "The strategy says single, the product's name says nothing: what the exporter shows says 3g. One plain nvidia.com/gpu "
        "is 3/7 GPU: x 3.5 h = 1.5 GPU-hours at $4.20 = $6.30.",
        fleet(
            3.5,
            [
                node(
                    "g",
                    "a2-highgpu-2g",
                    0,
                    3.5,
                    mig={"GPU-g-0": _THIRDS, "GPU-g-1": _THIRDS},
                    mig_single="3g.20gb",
                    labels={"label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-40GB"},
                )
            ],
            [pod("a", "g", [(1, 2)], 0, 3.5)],
            busy("g", [(1, 2)], 0, 4),
        ),
        {"allocated_gpu_hours": "1.5", "active_gpu_hours": "1.5", "cost": "6.3", "node_cost": "29.4"},
        BOOK,
    ),
    Case(
        "two-kube-state-metrics-one-slow",
        "One is scraped every 15 seconds, one every 5 minutes: what is gone from the quick one's last scrape on is gone. Node s "
        "ends at 02:01:48, $2.436; so does a pod without a trace on t: 1.78 h at $1.20 = $2.136.",
        fleet(
            4,
            [node("s", "g5.xlarge", 0, 2.03), node("t", "g5.xlarge", 0, 4)],
            [pod("a", "t", [0], 0.25, 2.03, keep_until=at(2.03))],
            busy("t", [0], 0, 4),
            scrape=15,
            ksm_scrapes=[15, 300],
        ),
        {"allocated_gpu_hours": "1.78", "capacity_gpu_hours": "6.03", "cost": "2.136", "node_cost": "7.236"},
        BOOK,
    ),
    Case(
        "short-of-two-resources",
        "No 1g slice of seven can be had, and one 3g of two, while the other is held: 1 + 3/7 of the 11/7 GPUs that are free "
        "are unavailable for 3.5 h, 5 GPU-hours of 5.5; 1.5 are held at $4.20 = $6.30.",
        fleet(
            3.5,
            [
                node(
                    "g",
                    "a2-highgpu-2g",
                    0,
                    3.5,
                    mig={"GPU-g-0": _SEVENTHS, "GPU-g-1": _THIRDS},
                    allocatable=[
                        [at(0), at(3.5), 0, "nvidia_com_mig_1g_5gb"],
                        [at(0), at(3.5), 1, "nvidia_com_mig_3g_20gb"],
                    ],
                )
            ],
            [pod("a", "g", [(1, 1)], 0, 3.5, resource="nvidia_com_mig_3g_20gb")],
            busy("g", [(1, 1)], 0, 4),
        ),
        {
            "allocated_gpu_hours": "1.5",
            "unallocated_gpu_hours": "5.5",
            "unavailable_gpu_hours": "5",
            "cost": "6.3",
        },
        BOOK,
    ),
]
