"""Cases about nodes: where they are, how they were bought, what they cost and when they could be used."""

from tests.replay.cases.words import BOOK, HEADER, Case, at, busy, fleet, node, pod

PLACES = [
    Case(
        "price-steps-and-idle-edges",
        "Spot p4de at $16, from 02:24 at $32, from 05:00 at $8: a GPU costs $2, $4, $1. Pod 01:00-06:00 = 1.4x2 + "
        "2.6x4 + 1x1 = $14.20; "
        "idle 02:12-03:00 = 0.2x2 + 0.6x4 = $2.80 and 05:30-06:00 = $0.50. Node 2.4x16 + 2.6x32 + 2x8 = $137.60.",
        fleet(
            7,
            [node("s", "p4de.24xlarge", 0, 7, "spot")],
            [pod("j", "s", [3], 1, 6)],
            {"GPU-s-3": [[at(1), at(2.2), 80], [at(3), at(5.5), 80]]},
        ),
        {
            "allocated_gpu_hours": "5",
            "idle_gpu_hours": "1.3",
            "cost": "14.2",
            "idle_cost": "3.3",
            "node_cost": "137.6",
            "spot_gpu_hours": "5",
        },
        [
            *BOOK,
            ",us-west-2,us-west-2b,p4de.24xlarge,spot,16.00,USD,",
            ",us-west-2,us-west-2b,p4de.24xlarge,spot,32.00,USD,2026-03-10T02:24:00Z",
            ",us-west-2,us-west-2b,p4de.24xlarge,spot,8.00,USD,2026-03-10T05:00:00Z",
            ",us-west-2,us-west-2a,p4de.24xlarge,spot,99.00,USD,",
        ],
    ),
    Case(
        "most-specific-price",
        "A node_selector beats an instance type, per gpu counts GPUs: node r 4 x $0.75 = $3 until 03:00, then $5; "
        "w by its region $6, not by its type $4.80. Pods 1 x 6 h: 3 x 0.75 + 3 x 1.25 = $6 and 6 x 1.50 = $9.",
        fleet(
            6,
            [
                node("r", "g6.12xlarge", 0, 6, labels={"label_billing_example_com_pool": "leased"}),
                node("w", "g6.12xlarge", 0, 6),
            ],
            [pod("a", "r", [0], 0, 6), pod("b", "w", [0], 0, 6)],
            {**busy("r", [0], 0, 6), **busy("w", [0], 0, 6)},
        ),
        {"allocated_gpu_hours": "12", "cost": "15", "node_cost": "60"},
        [
            *(row + ",," for row in BOOK),
            ",us-west-2,,g6.12xlarge,on_demand,6.00,USD,,,",
            ",us-west-2,us-west-2a,g6.12xlarge,on_demand,7.00,USD,,,",
            ",,,,on_demand,0.75,USD,,gpu,billing.example.com/pool=leased",
            ",,,,on_demand,5.00,USD,2026-03-10T03:00:00Z,node,billing.example.com/pool=leased",
        ],
        header=HEADER + ",per,node_selector",
    ),
    Case(
        "spot-churn",
        "Spot nodes die and are replaced: x 00:10-02:40, y 02:45-06:00, each 8 GPUs held from 5 minutes on: 2 h 25 min "
        "and 3 h 10 min less "
        "the last 20 = 8 x 5.25 h = 42 GPU-hours at $2 = $84; nodes 5.75 h x $16 = $92.",
        fleet(
            6,
            [
                node("x", "p4de.24xlarge", 1 / 6, 2 + 2 / 3, "spot"),
                node("y", "p4de.24xlarge", 2.75, 6, "spot"),
            ],
            [
                pod("ft-0", "x", list(range(8)), 0.25, 2 + 2 / 3, end_phase="Failed", owner=["Job", "ft"]),
                pod("ft-1", "y", list(range(8)), 2 + 5 / 6, 5 + 2 / 3, owner=["Job", "ft"]),
            ],
            {**busy("x", list(range(8)), 0, 6), **busy("y", list(range(8)), 0, 6)},
        ),
        {
            "allocated_gpu_hours": "42",
            "active_gpu_hours": "42",
            "cost": "84",
            "node_cost": "92",
            "spot_gpu_hours": "42",
        },
        BOOK,
    ),
    Case(
        "node-name-reused",
        "Node n is a spot p4de 00:00-02:00 and, recreated on demand at 02:30, lives to 05:00. The orphan listed until "
        "03:30 ends with the first: "
        "4 x 2 h x $2 = $16; on the second 2 x 2 h x $5 = $20. Nodes 2 x 16 + 2.5 x 40 = $132.",
        fleet(
            5,
            [
                node("n", "p4de.24xlarge", 0, 2, "spot"),
                node("n", "p4de.24xlarge", 2.5, 5, gpus=[f"GPU-n2-{i}" for i in range(8)]),
            ],
            [
                pod("orphan", "n", [0, 1, 2, 3], 0, 3.5, keep_until=at(3.5)),
                pod("next", "n", [0, 1], 3, 5, devices=[{"uuid": "GPU-n2-0"}, {"uuid": "GPU-n2-1"}]),
            ],
            {**busy("n", [0, 1, 2, 3], 0, 2), **busy("n2", [0], 3, 5)},
        ),
        {
            "allocated_gpu_hours": "12",
            "active_gpu_hours": "10",
            "idle_gpu_hours": "2",
            "cost": "36",
            "node_cost": "132",
            "spot_gpu_hours": "8",
        },
        BOOK,
    ),
    Case(
        "two-clusters",
        "The same node, namespace and pod in two clusters: 2 H100s x 4 h = $64 in north, 1 L4 x 4 h = $4.80 in south.",
        fleet(
            4,
            [
                node("n", "p5.48xlarge", 0, 4, cluster="north", gpus=[f"GPU-north-{i}" for i in range(8)]),
                node("n", "g6.12xlarge", 0, 4, cluster="south", gpus=[f"GPU-south-{i}" for i in range(4)]),
            ],
            [
                pod(
                    "job",
                    "n",
                    [0, 1],
                    0,
                    4,
                    "ml",
                    cluster="north",
                    uid="u-north",
                    devices=[{"uuid": "GPU-north-0"}, {"uuid": "GPU-north-1"}],
                ),
                pod(
                    "job",
                    "n",
                    [0],
                    0,
                    4,
                    "ml",
                    cluster="south",
                    uid="u-south",
                    devices=[{"uuid": "GPU-south-0"}],
                ),
            ],
            {**busy("north", [0, 1], 0, 4), **busy("south", [0], 0, 1)},
            honor_labels=False,
        ),
        {
            "allocated_gpu_hours": "12",
            "active_gpu_hours": "9",
            "idle_gpu_hours": "3",
            "cost": "68.8",
            "node_cost": "275.2",
        },
        BOOK,
    ),
    Case(
        "clouds-and-spot-labels",
        "EKS on demand, GKE spot, AKS spot and AKS on demand by the absence of a label: 5 h of one GPU each at $1.20, "
        "$1.40, $1.44, $3.60 = $38.20.",
        fleet(
            5,
            [
                node("e", "g6.12xlarge", 0, 5, provider="eks"),
                node("g", "a2-highgpu-2g", 0, 5, "spot"),
                node("a", "Standard_NC24ads_A100_v4", 0, 5, "spot"),
                node("b", "Standard_NC24ads_A100_v4", 0, 5),
            ],
            [pod(name, name, [0], 0, 5, keep_until=at(5)) for name in "egab"],
            {**busy("g", [0], 0, 5), **busy("a", [0], 0, 5)},
            exporter_labels=True,
        ),
        {
            "allocated_gpu_hours": "20",
            "active_gpu_hours": "10",
            "spot_gpu_hours": "10",
            "cost": "38.2",
            "node_cost": "63.2",
        },
        BOOK,
    ),
    Case(
        "reserved-capacity-block",
        "A capacity block is priced by its own row, $30 a node-hour, never as on demand: 8 GPUs x 2 h of 3 h = $60 of $90.",
        fleet(
            3,
            [node("k", "p5.48xlarge", 0, 3, "capacity_block", provider="eks")],
            [pod("run", "k", list(range(8)), 1, 3, keep_until=at(3))],
            busy("k", list(range(8)), 1, 3),
        ),
        {"allocated_gpu_hours": "16", "active_gpu_hours": "16", "cost": "60", "node_cost": "90"},
        [*BOOK, ",,,p5.48xlarge,capacity_block,30.00,USD,"],
    ),
    Case(
        "reservation-block-and-flex-start",
        "Four ways to be sure of capacity, two hours each: a reservation at its own row, $4; one that only an on-demand row "
        "prices, $40; a capacity block that Karpenter tells by the reservation's type, $30; flex start, $4.20, not as calendar "
        "mode. 2 h x ($4 + $40 + $30 + $4.20) = $156.40, and 2 h x (4 + 8 + 8 + 2) GPUs = 44 GPU-hours, none of them spot.",
        fleet(
            2,
            [
                node("r", "g6.12xlarge", 0, 2, "reserved"),
                node("o", "p4de.24xlarge", 0, 2, "reserved"),
                node(
                    "b",
                    "p5.48xlarge",
                    0,
                    2,
                    "capacity_block",
                    labels={
                        "label_karpenter_sh_capacity_type": "reserved",
                        "label_karpenter_k8s_aws_capacity_reservation_id": "cr-1",
                        "label_karpenter_k8s_aws_capacity_reservation_type": "capacity-block",
                    },
                ),
                node(
                    "f",
                    "a2-highgpu-2g",
                    0,
                    2,
                    "flex_start",
                    labels={"label_cloud_google_com_gke_flex_start": "true"},
                ),
            ],
            [
                pod(name, name, list(range(count)), 0, 2, keep_until=at(2))
                for name, count in (("r", 4), ("o", 8), ("b", 8), ("f", 2))
            ],
            {},
        ),
        {"allocated_gpu_hours": "44", "spot_gpu_hours": "0", "cost": "156.4", "node_cost": "156.4"},
        [
            *BOOK,
            ",,,g6.12xlarge,reserved,4.00,USD,",
            ",,,p5.48xlarge,capacity_block,30.00,USD,",
            ",,,a2-highgpu-2g,calendar,6.00,USD,",
            ",,,a2-highgpu-2g,flex_start,4.20,USD,",
        ],
    ),
    Case(
        "no-node-labels",
        "No node labels at all, though the node was spot: unknown, priced on demand by the row that asks for nothing, $10; "
        "four GPUs by their UUIDs. 2 x 3 h = 6 GPU-hours at $2.50 = $15, none of them spot.",
        fleet(
            4,
            [node("w", "g6.12xlarge", 0, 4, "spot")],
            [pod("a", "w", [0, 1], 0, 3)],
            busy("w", [0, 1], 0, 3),
            node_labels=False,
        ),
        {"allocated_gpu_hours": "6", "cost": "15", "spot_gpu_hours": "0", "node_cost": "40"},
        [*BOOK, ",,,,on_demand,10.00,USD,"],
    ),
    Case(
        "beta-labels",
        "Instance type, region and zone only by their deprecated beta labels; the price stands by zone: 1 of 4 L4s x 5 "
        "h at $2 = $10 of $40.",
        fleet(
            5,
            [node("w", "g6.12xlarge", 0, 5, beta_labels=True, gfd=False)],
            [pod("a", "w", [2], 0, 5, keep_until=at(5))],
            busy("w", [2], 0, 5),
        ),
        {"allocated_gpu_hours": "5", "active_gpu_hours": "5", "cost": "10", "node_cost": "40"},
        [*BOOK, ",us-west-2,us-west-2b,g6.12xlarge,on_demand,8.00,USD,"],
    ),
    Case(
        "cordoned-and-not-ready",
        "w: 1 of 4 held, cordoned 1 h: 3 unavailable; x: not ready 30 min: 2; y: one of four not allocatable for 2 h: 2. "
        "Of 3 x 4 x 4 - 4 = 44 unallocated, 7 are unavailable.",
        fleet(
            4,
            [
                node("w", "g6.12xlarge", 0, 4, cordoned=[[at(1), at(2)]]),
                node("x", "g6.12xlarge", 0, 4, not_ready=[[at(2), at(2.5)]]),
                node("y", "g6.12xlarge", 0, 4, allocatable=[[at(1), at(3), 3]]),
            ],
            [pod("a", "w", [0], 0, 4, keep_until=at(4))],
            busy("w", [0], 0, 4),
        ),
        {
            "allocated_gpu_hours": "4",
            "unallocated_gpu_hours": "44",
            "unavailable_gpu_hours": "7",
            "cost": "4.8",
            "unallocated_cost": "52.8",
        },
        BOOK,
    ),
    Case(
        "idle-fleet",
        "Nobody but one notebook that never ran anything: 5 of 24 L4 GPU-hours at $1.20 idle, $6; $22.80 unallocated.",
        fleet(
            6,
            [node("w", "g6.12xlarge", 0, 6)],
            [pod("nb", "w", [3], 1, 6, "labs", keep_until=at(6))],
            {},
            exporter_labels=True,
        ),
        {
            "allocated_gpu_hours": "5",
            "idle_gpu_hours": "5",
            "cost": "6",
            "idle_cost": "6",
            "unallocated_cost": "22.8",
        },
        BOOK,
    ),
    Case(
        "local-midnight-half-hour",
        "Asia/Kolkata: midnight is 18:30 UTC. One L4 from 12:00 to 24:00 UTC costs 6.5 h x $1.20 = $7.80 on the 10th, "
        "5.5 h = $6.60 on the 11th.",
        fleet(
            24,
            [node("w", "g6.12xlarge", 0, 24)],
            [pod("a", "w", [0], 12, 24, keep_until=at(24))],
            busy("w", [0], 12, 18),
            timezone="Asia/Kolkata",
        ),
        {"allocated_gpu_hours": "12", "active_gpu_hours": "6", "cost": "14.4", "node_cost": "115.2"},
        BOOK,
        by_day={"2026-03-10": (at(0), at(18.5)), "2026-03-11": (at(18.5), at(24))},
    ),
    Case(
        "mid-hour-report-ends",
        "Asked for 01:20-03:50 only: pod a 2 GPUs x 2.5 h, pod b 1 x 1.5 h (from 02:20), b idle until 03:00: 6.5 "
        "GPU-hours at $1.20 = $7.80.",
        fleet(
            6,
            [node("w", "g6.12xlarge", 0, 6)],
            [pod("a", "w", [0, 1], 0, 6, keep_until=at(6)), pod("b", "w", [2], 2 + 1 / 3, 5)],
            {**busy("w", [0, 1], 0, 6), **busy("w", [2], 3, 5)},
            report=[at(1 + 1 / 3), at(3 + 5 / 6)],
        ),
        {
            "allocated_gpu_hours": "6.5",
            "active_gpu_hours": "35/6",
            "idle_gpu_hours": "4/6",
            "cost": "7.8",
            "node_cost": "12",
        },
        BOOK,
    ),
]
