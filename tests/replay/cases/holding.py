"""Cases about when a pod holds GPUs."""

from tests.replay.cases.words import BOOK, Case, at, busy, fleet, node, pod

HOLDING = [
    Case(
        "whole-gpus",
        "g6 on demand ($1.20 a GPU-hour): notebook 1x10 h, active 4 h; spot p4de ($2): 3 GPUs x 6 h all active. "
        "Allocated 10 + 18 = 28, cost 12 + 36 = 48; nodes 12 x 4.80 + 12 x 16 = 249.60.",
        fleet(
            12,
            [node("w", "g6.12xlarge", 0, 12), node("s", "p4de.24xlarge", 0, 12, "spot")],
            [
                pod("notebook", "w", [0], 2, 12, "labs", owner=["StatefulSet", "notebook"]),
                pod("tune-x7", "s", [1, 2, 5], 1, 7, owner=["Job", "tune"], labels={"app": "tune"}),
            ],
            {**busy("w", [0], 3, 7, 35), **busy("s", [1, 2, 5], 1, 7, 91)},
            namespaces={"labs": {"team": "research"}, "train": {"team": "product"}},
        ),
        {
            "allocated_gpu_hours": "28",
            "active_gpu_hours": "22",
            "idle_gpu_hours": "6",
            "cost": "48",
            "node_cost": "249.6",
            "spot_gpu_hours": "18",
        },
        BOOK,
    ),
    Case(
        "same-name-twice",
        "A StatefulSet pod of 3 H100s ($8) runs hours 0-4 and, as a new uid, hours 6-9: 12 + 9 = 21 GPU-hours, $168; never 27.",
        fleet(
            10,
            [node("h", "p5.48xlarge", 0, 10)],
            [
                pod("db-0", "h", [0, 1, 2], 0, 4, uid="first", owner=["StatefulSet", "db"]),
                pod("db-0", "h", [0, 1, 2], 6, 9, uid="second", owner=["StatefulSet", "db"]),
            ],
            busy("h", [0, 1, 2], 0, 10),
        ),
        {"allocated_gpu_hours": "21", "active_gpu_hours": "21", "cost": "168", "node_cost": "640"},
        BOOK,
    ),
    Case(
        "requeued-within-the-hour",
        "Same name, same device: 00:05-00:20, 00:24-00:41 and 00:45-02:00 make 15 + 17 + 75 = 107 min at $1.20; only "
        "the second is active.",
        fleet(
            3,
            [node("w", "g6.12xlarge", 0, 3)],
            [
                pod("retry", "w", [2], 5 / 60, 20 / 60, uid="r1", end_phase="Failed", keep_until=at(24 / 60)),
                pod(
                    "retry", "w", [2], 24 / 60, 41 / 60, uid="r2", end_phase="Failed", keep_until=at(45 / 60)
                ),
                pod("retry", "w", [2], 45 / 60, 2, uid="r3"),
            ],
            busy("w", [2], 24 / 60, 41 / 60, 66),
        ),
        {
            "allocated_gpu_hours": "107/60",
            "active_gpu_hours": "17/60",
            "idle_gpu_hours": "90/60",
            "cost": "2.14",
            "node_cost": "14.4",
        },
        BOOK,
    ),
    Case(
        "short-pods",
        "Forty pods of 70 s each, one after the other on one A10G ($1.20), scraped every 15 s: 2800 s = 7/9 h, all active.",
        fleet(
            2,
            [node("q", "g5.xlarge", 0, 2)],
            [
                pod(f"trial-{i}", "q", [0], (100 + 150 * i) / 3600, (170 + 150 * i) / 3600, "sweep")
                for i in range(40)
            ],
            busy("q", [0], 0, 2, 88),
            scrape=15,
            offset=4,
        ),
        {"allocated_gpu_hours": "7/9", "active_gpu_hours": "7/9", "cost": "28/30", "node_cost": "2.4"},
        BOOK,
    ),
    Case(
        "completed-pending-pulling",
        "Succeeded 2x3 h and Failed 1x2 h stop holding though listed on; never bound holds nothing; pulling 1 h of 5 h "
        "on 2 GPUs is idle. "
        "6 + 2 + 10 = 18 GPU-hours at $5, idle 2.",
        fleet(
            8,
            [node("p", "p4de.24xlarge", 0, 8)],
            [
                pod("done", "p", [0, 1], 0, 3, "batch", keep_until=at(8)),
                pod("crashed", "p", [2], 1, 3, "batch", end_phase="Failed", keep_until=at(8)),
                pod("waiting", None, [], 0, 8, "queue", count=8, keep_until=at(8)),
                pod("pulling", "p", [3, 4], 2, 7, "pull", **{"from": at(3)}),
            ],
            {**busy("p", [0, 1], 0, 3), **busy("p", [2], 1, 3), **busy("p", [3, 4], 3, 7)},
        ),
        {
            "allocated_gpu_hours": "18",
            "active_gpu_hours": "16",
            "idle_gpu_hours": "2",
            "cost": "90",
            "idle_cost": "10",
            "node_cost": "320",
        },
        BOOK,
    ),
    Case(
        "completion-time-while-running",
        "Containers ended at 01:30 and 04:10 and were started again; the pod holds 2 L4s for all 6 h: 12 GPU-hours, $14.40.",
        fleet(
            6,
            [node("w", "g6.12xlarge", 0, 6)],
            [pod("crashy", "w", [0, 3], 0, 6, "svc", restarts=[at(1.5), at(4) + 600], keep_until=at(6))],
            busy("w", [0, 3], 0, 6, 40),
        ),
        {"allocated_gpu_hours": "12", "active_gpu_hours": "12", "cost": "14.4", "node_cost": "28.8"},
        BOOK,
    ),
    Case(
        "init-containers-and-sidecars",
        "Pod a: main 1 + main 2 + init 2 holds 3; pod b: main 1 + init 4 holds 4; pod c: main 1 + sidecar 1 holds 2: 9 "
        "GPUs x 2 h at $5: "
        "18 GPU-hours, $90.",
        fleet(
            2,
            [node("p", "p4de.24xlarge", 0, 2), node("r", "p4de.24xlarge", 0, 2)],
            [
                pod(
                    "a",
                    "p",
                    [0, 1, 2],
                    0,
                    2,
                    containers=[
                        {"name": "m", "count": 1},
                        {"name": "n", "count": 2},
                        {"name": "i", "count": 2, "role": "init"},
                    ],
                ),
                pod(
                    "b",
                    "p",
                    [3, 4, 5, 6],
                    0,
                    2,
                    containers=[{"name": "m", "count": 1}, {"name": "i", "count": 4, "role": "init"}],
                ),
                pod(
                    "c",
                    "r",
                    [0, 7],
                    0,
                    2,
                    containers=[{"name": "m", "count": 1}, {"name": "s", "count": 1, "role": "sidecar"}],
                ),
            ],
            {**busy("p", [0, 1, 2, 3, 4, 5, 6], 0, 2), **busy("r", [0, 7], 0, 1)},
        ),
        {
            "allocated_gpu_hours": "18",
            "active_gpu_hours": "16",
            "idle_gpu_hours": "2",
            "cost": "90",
            "node_cost": "160",
        },
        BOOK,
    ),
    Case(
        "deleted-without-timestamps",
        "No scheduled or start time, deleted while running: 2 L4s from 01:00 to 03:30 are 5 GPU-hours, $6, known to a "
        "scrape at each edge.",
        fleet(
            5,
            [node("w", "g6.12xlarge", 0, 5)],
            [pod("bare", "w", [0, 1], 1, 3.5, keep_until=at(3.5), timestamps=False)],
            busy("w", [0, 1], 1, 3.5),
        ),
        {"allocated_gpu_hours": "5", "active_gpu_hours": "5", "cost": "6", "node_cost": "24"},
        BOOK,
    ),
    Case(
        "moved-across-hour-edges",
        "A pod moves from one L4 node to another: until 01:00 sharp on w, 01:00-02:20 on x, then 02:20-04:00 on w "
        "again as new uids: 4 h, $4.80.",
        fleet(
            4,
            [node("w", "g6.12xlarge", 0, 4), node("x", "g6.12xlarge", 0, 4)],
            [
                pod("api", "w", [1], 0, 1, uid="m1", keep_until=at(1)),
                pod("api", "x", [1], 1, 2 + 20 / 60, uid="m2", keep_until=at(2 + 20 / 60)),
                pod("api", "w", [3], 2 + 20 / 60, 4, uid="m3", keep_until=at(4)),
            ],
            {**busy("w", [1], 0, 1), **busy("x", [1], 1, 2), **busy("w", [3], 3, 4)},
        ),
        {
            "allocated_gpu_hours": "4",
            "active_gpu_hours": "3",
            "idle_gpu_hours": "1",
            "cost": "4.8",
            "node_cost": "38.4",
        },
        BOOK,
    ),
    Case(
        "held-since-before-the-window",
        "Node created and pod bound 30 h before the collected 3 h: only those count, 2 GPUs x 3 h at $5; $120 for the node.",
        fleet(
            3,
            [node("p", "p4de.24xlarge", 0, 3, created=at(-30))],
            [pod("old", "p", [6, 7], -29, 3, created=at(-29), keep_until=at(3))],
            busy("p", [6, 7], 0, 3),
        ),
        {"allocated_gpu_hours": "6", "active_gpu_hours": "6", "cost": "30", "node_cost": "120"},
        BOOK,
    ),
    Case(
        "over-allocated",
        "Three pods of 2 hold 6 of 4 L4s during hours 2-4: 8 + 12 + 8 = 28 GPU-hours stay as held, 4 of them over; "
        "nothing is unallocated and all together pay the node, 6 x $4.80 = $28.80.",
        fleet(
            6,
            [node("w", "g6.12xlarge", 0, 6)],
            [
                pod("a", "w", [0, 1], 0, 4, keep_until=at(4)),
                pod("b", "w", [2, 3], 0, 6, keep_until=at(6)),
                pod("c", "w", [0, 1], 2, 6, keep_until=at(6)),
            ],
            busy("w", [0, 1, 2, 3], 0, 6),
        ),
        {
            "allocated_gpu_hours": "28",
            "over_allocated_gpu_hours": "4",
            "unallocated_gpu_hours": "0",
            "cost": "28.8",
            "node_cost": "28.8",
        },
        BOOK,
    ),
]
