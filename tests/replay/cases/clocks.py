"""Cases about how, and how often, was scraped."""

from tests.replay.cases.words import BOOK, Case, at, busy, fleet, node, pod

_PLAIN = (
    [node("w", "g6.12xlarge", 0, 8)],
    [pod("a", "w", [0], 0.5, 7.5), pod("b", "w", [1, 2], 2, 5, "labs")],
    {**busy("w", [0], 0.5, 4), **busy("w", [1, 2], 2, 5)},
)
_PLAIN_HAND = {
    "allocated_gpu_hours": "13",
    "active_gpu_hours": "9.5",
    "idle_gpu_hours": "3.5",
    "cost": "15.6",
    "node_cost": "38.4",
}
_PLAIN_SUM = "1 x 7 h, half of it active, and 2 x 3 h at $1.20: 13 GPU-hours, $15.60."

CLOCKS = [
    Case(
        "scraped-every-30s",
        f"Every 30 s, 11 s off the half minute. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, scrape=30, offset=11),
        _PLAIN_HAND,
        BOOK,
    ),
    Case(
        "scraped-every-5min",
        f"Every 5 minutes. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, scrape=300, offset=40),
        _PLAIN_HAND,
        BOOK,
    ),
    Case(
        "jittered",
        f"Every minute give or take 12 s. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, offset=15, jitter=12),
        _PLAIN_HAND,
        BOOK,
    ),
    Case(
        "prometheus-pair",
        f"Two Prometheus replicas scraped everything, a replica label apart and out of step; counted once. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, prometheus_replicas=2, jitter=2),
        _PLAIN_HAND,
        BOOK,
    ),
    Case(
        "three-kube-state-metrics",
        f"Three kube-state-metrics say the same, and all fall silent for 50 minutes within the pods' lives. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, ksm_replicas=3, ksm_silent=[[at(3), at(3) + 3000]], jitter=4, offset=5),
        _PLAIN_HAND,
        BOOK,
    ),
    Case(
        "exporter-silent-and-nonsense",
        "8 H100s x 6 h: exporter unreachable 1 h = 8 unmeasured; single nonsense samples change nothing; GPU 7 idle 5 "
        "h: 48 = 35 + 5 + 8, $384.",
        fleet(
            6,
            [node("h", "p5.48xlarge", 0, 6)],
            [pod("run", "h", list(range(8)), 0, 6)],
            busy("h", list(range(7)), 0, 6, 93),
            silent=[["h", at(4), at(5)]],
            raw={
                "GPU-h-1": [[at(1), 2147483633], [at(2), 808334905]],
                "GPU-h-7": [[at(1.5), 140737488355330.0]],
            },
        ),
        {
            "allocated_gpu_hours": "48",
            "active_gpu_hours": "35",
            "idle_gpu_hours": "5",
            "unmeasured_gpu_hours": "8",
            "cost": "384",
            "idle_cost": "40",
        },
        BOOK,
    ),
    Case(
        "sentinels",
        "Two hours of each of DCGM's blanks and of NaN on 4 L4s and on a MIG instance are unmeasured: 4 x 2 + 2/7 x 2 "
        "of 4 x 5 + 2/7 x 5.",
        fleet(
            5,
            [
                node("w", "g6.12xlarge", 0, 5),
                node("m", "p5.48xlarge", 0, 5, mig={"GPU-m-3": [{"gi": 5, "profile": "2g.20gb"}]}),
            ],
            [
                pod("run", "w", [0, 1, 2, 3], 0, 5),
                pod("part", "m", [(3, 5)], 0, 5, resource="nvidia_com_mig_2g_20gb"),
            ],
            {**busy("w", [0, 1], 0, 5), **busy("m", [(3, 5)], 0, 5)},
            invalid={
                "GPU-w-0": [[at(1), at(3), 2147483635]],
                "GPU-w-1": [[at(1), at(3), 4294967295]],
                "GPU-w-2": [[at(1), at(3), 9.223372036854776e18]],
                "GPU-w-3": [[at(1), at(3), "NaN"]],
                "GPU-m-3/5": [[at(2), at(4), 140737488355329]],
            },
        ),
        {
            "allocated_gpu_hours": "150/7",
            "unmeasured_gpu_hours": "60/7",
            "idle_gpu_hours": "6",
            "active_gpu_hours": "48/7",
            "node_cost": "344",
        },
        BOOK,
    ),
    Case(
        "relabeled-exporter",
        f"The exporter's own pod stands in namespace, pod and container, the holder in exported_*; the host is spelled "
        f"hostname. {_PLAIN_SUM}",
        fleet(8, *_PLAIN, honor_labels=False, hostname_label="hostname"),
        _PLAIN_HAND,
        BOOK,
    ),
]
