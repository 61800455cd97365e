"""What was collected is what was seen: gaps are covered, bridged, not collected, off or signed, and bills tell of them. A day."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from tests.fleets.case import Case, Edit, case, drop, relabel
from tests.replay import bill_files
from tests.replay.billing import Charge, charges
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.edits import relabel as relabeled
from tests.replay.edits import revalue as revalued
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.text_tables import words
from tests.unit.bills import csv_text

P4DE = "p4de.24xlarge"  # eight GPUs, $40 an hour
SIGNED = """[[coverage.accept]]
cluster = "CLUSTER"
from = "2026-03-10T06:00"
to = "2026-03-10T{}"
who = "Dana"
why = "moved"
"""
NIGHT = '[[clusters]]\nname = "CLUSTER"\nhours = ["15:00-05:00"]\n'
PODS, REQUESTS = "kube_pod_.*", "kube_pod_container_resource_.*"
INSTANCES = count(1)
UNPLACED = {
    "unplaced_device": "GPUs measured on host "
}  # while nothing tells of nodes, or of one that is gone


def day(*silences: tuple[float, float], ends: float = 24, **more: Any) -> Fleet:
    """A node of eight GPUs for a day; `train` holds four of them all day, `early` two until 10:00, `late` two from 20:00."""
    pods = [f"train | n | 0 1 2 3 | 0 | {ends}", "early | n | 4 5 | 0 | 10", "late | n | 6 7 | 20 | 24"]
    return fleet(
        24,
        ["n | p4de.24xlarge | 0 | 24"],
        pods,
        {},
        ksm_silent=[[at(start), at(end)] for start, end in silences],
        **more,
    )


def held(name: str, described: Fleet, hours: str, cost: str, *changes: Edit, **more: Any) -> Case:
    """What `train`, `early` and `late` hold in GPU-hours, and what the node costs."""
    rows = "\n".join(
        f"{pod} | {figure}" for pod, figure in zip(("train", "early", "late"), hours.split(), strict=True)
    )
    return case(name, described, f"pod | held\n{rows}\n\n| node_cost\n| {cost}", *changes, **more)


def all_day(name: str, *changes: Edit, of: Fleet | None = None, **more: Any) -> Case:
    return held(name, of or day(), "96 20 8", "960", *changes, **more)


def gone(name: str, hours: tuple[float, float] | float, metrics: str = PODS, **more: Any) -> Case:
    """Some metrics are not scraped for some hours, or from one on."""
    return case(
        name,
        day(),
        more.pop("table", ""),
        drop(metrics, hours=hours if isinstance(hours, tuple) else (hours, 99)),
        **more,
    )


FAMILIES = words(f"pods=kube_pod_info requests={REQUESTS} phases=kube_pod_status_phase nodes=kube_node_.*")


def other_server(series: list[Series]) -> list[Series]:
    """The same as a second server has it, which ends at 16:00."""
    whole = relabel("kube_.*", {"prometheus": "b"})(drop("kube_.*", hours=(16, 99))(scrape(day(), lean=True)))
    return [*series, *whole]


def one_named(name: str, since: float, until: float, start: float, end: float) -> Case:
    """A pod that an exporter names within a silence of all else."""
    pods, silence = [pod("a", "n", [0, 1], start, end, keep_until=at(end))], [[at(since), at(until)]]
    described = fleet(
        2, ["n | p4de.24xlarge | 0 | 2"], pods, f"n | 0 1 | {start} | {end} | 50", ksm_silent=silence
    )
    return case(name, described, "| node_cost\n| 80", gaps=f"bridged {since:g} {until:g}")


def shard(series: list[Series], ordinal: int, *silent: float) -> list[Series]:
    """The series in which one of two shards tells its number."""
    beat = next(one for one in series if one.labels["__name__"] == "kube_node_info")
    found = []
    for name, value in (
        ("kube_state_metrics_total_shards", 2.0),
        ("kube_state_metrics_shard_ordinal", float(ordinal)),
    ):
        labels = {"__name__": name, "instance": f"shard-{ordinal}:8081", "node": None}
        found += revalued(relabeled([beat], ".*", labels), ".*", value)
    return drop(".*", hours=silent)(found) if silent else found


def targets(
    name: str, *changes: Edit, names: str = "nop", dies: bool = True, gaps: str = "", **more: Any
) -> Case:
    """Two targets; the second reports o (and p) and their pods, dies at 10:00 and is back at 15:00, or is another then."""
    nodes = [f"{name} | p4de.24xlarge | 0 | 24" for name in names]
    pods = [pod(f"pod-{name}", name, [0, 1], 0, 24, keep_until=at(24)) for name in names]
    for label in ({"node": "[op]"}, {"pod": "pod-[op]"}):
        changes += (relabel("kube_.*", {"instance": "10.4.0.2:8080"}, label),)
        if not dies:
            changes += (relabel("kube_.*", {"instance": "10.4.0.3:8080"}, label, (10, 99)),)
    if dies:
        changes += (drop("kube_.*", {"instance": "10.4.0.2:8080"}, (10, 15)),)
    return case(name, fleet(24, nodes, pods, {}), "", *changes, gaps=(gaps,) if gaps else (), **more)


def boots(*moments: float, **labels: str) -> Edit:
    """The hours at which the node booted, as node_exporter tells them while kube-state-metrics is heard."""

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


def boots_of(described: Fleet) -> Edit:
    """The boots of a fleet's node alone."""
    return lambda series: [*series, *boots(-100, instance="n")(scrape(described, lean=True))]


def late_requests(name: str, kind: str, percent: float, gaps: tuple[str, ...]) -> Case:
    """Requests are not scraped from 05:12 to 18:00, and pod b is on GPUs that are this busy."""
    pods = [pod("a", "n", [0, 1], 0, 4.99, keep_until=at(5)), "b | n | 0 1 | 6 | 11", "e | n | 0 1 | 19 | 24"]
    described = fleet(24, ["n | p4de.24xlarge | 0 | 24"], pods, f"n | 0 1 | 6 | 11 | {percent}")
    return case(
        name,
        described,
        "",
        drop(REQUESTS, hours=(5.2, 18)),
        relabel("kube_pod_info", {"created_by_kind": kind}),
        gaps=gaps,
    )


COLLECTED = [
    # an exporter's series and boots alone are no state metrics
    *(
        case(
            f"nothing of kube-state-metrics{suffix}", day((0, 24)), "pod | held", *changes, drop("kube_.*"),
            warnings={"no_kube_state_metrics": "", "unknown_capacity_type": ""},
        )
        for suffix, changes in (("", ()), (" beside boots", (boots_of(day()),)))
    ),
    all_day("a cluster that is declared beside others", settings='[[clusters]]\nname = "CLUSTER-never"\nfrom = 2026-03-10\n'),
    case(
        "a cluster that is declared beside others never", day(), "pod | held", series=list,
        gaps="not_collected 0 ever : nothing was ever collected of it",
    ),
    all_day("a restart is no gap", of=day((12, 12.05))),
    held("a silence of two hours at most is bridged", day((9.5, 11)), "96 19 8", "960", gaps="bridged 9.5 11"),
    held("a longer silence is not collected and costs nothing", day((5, 15)), "56 10 8", "560", gaps="not_collected 5 15"),
    case(
        "before the first and after the last sample nothing is collected", day((0, 6), (18, 24)), "| capacity\n| 96",
        gaps=("not_collected ever 6", "not_collected 18 ever"), warnings=UNPLACED,
    ),
    all_day("a gap is covered by another server", other_server, of=day((5, 15))),
    *(
        gone(
            f"a gap of {family} alone", (5, 9), metric,
            gaps=f"not_collected 5 9 {family}: kube-state-metrics reported no {family}",
        )
        for family, metric in FAMILIES.items()
    ),
    gone("requests that end for good are a gap if pods go on", 15, REQUESTS, gaps="not_collected 15 24 requests"),
    case("all pods gone is no gap if none may be left", {
        **day(ends=8),
        "pods": [pod("train", "n", [0], 0, 8, keep_until=at(8)), pod("early", "n", [4, 5], 0, 8, keep_until=at(8))],
    }, "pod | held\ntrain | 8\nearly | 16\n\n| node_cost\n| 960"),
    gone("all pods gone is a gap if an exporter names them", 8, gaps="not_collected 8 24"),
    one_named("a pod that is gone before kube-state-metrics is back proves nothing", 0.5, 1, 0.25, 0.9),
    one_named("a pod that came after kube-state-metrics was last heard proves nothing", 0.1, 0.4, 0.15, 2),
    case(
        "one dead shard of two is a gap", day(), "", lambda series: [*series, *shard(series, 0), *shard(series, 1, 4, 10)],
        gaps="not_collected 4 10 shard 2 of 2",
    ),
    targets(
        "a dead target whose objects no other reports is a gap",
        gaps="not_collected 10 15 nodes pods: target kube-state-metrics 10.4.0.2:8080 was silent",
    ),
    targets("a dead target of one machine is a gap if its exporter goes on", names="no", gaps="not_collected 10 15"),
    targets(
        "a dead target of one machine is none if its exporter ends too", drop("DCGM.*", {"Hostname": "o"}, (10, 15)), names="no",
    ),
    targets("a target that is another after a restart is no gap", dies=False),
    all_day(
        "one of two that report the same may end", drop("kube_.*", {"instance": ".*31:8080"}, (10, 99)), of=day(ksm_replicas=2),
    ),
    all_day("the last pod of a small target may end", relabel("kube_.*", {"instance": "10.4.0.2:8080"}, {"pod": "early"})),
    held(
        "signed time stays not collected and names who", day((5, 15)), "56 10 8", "560", settings=SIGNED.format("15:00"),
        gaps=("not_collected 5 6", "not_collected 6 15 nodes phases pods requests: kube-state-metrics was silent; Dana: moved"),
    ),
    held(
        "declared off time is no gap", day((4.95, 15.05)), "55.6 9.9 8", "556", gaps=("off 4.95 5", "off 5 15", "off 15 15.05"),
        settings='[[clusters]]\nname = "CLUSTER"\nfrom = 2026-03-10\nuntil = "2026-03-11T00:00"\nhours = ["15:00-05:00"]\n',
    ),
    held(
        "hours before a declared night are a gap", day((3.5, 15)), "50 7 8", "500", settings=NIGHT,
        gaps=("not_collected 3.5 5", "off 5 15"),
    ),
    # node_exporter's moment of boot, by host, address or label: nothing shows that the node ran from 09:30 to 10:15
    *(
        held(
            f"a node that booted within a silence did not run before {number}", day((9.5, 11)), "93 19 8", "930",
            relabel("kube_node_info", {"internal_ip": "10.0.0.1"}), boots(-100, 10.25, **labels), gaps="bridged 9.5 11",
            warnings={
                "stopped_node": "0.8 h of node n are not charged: it was started again while nothing was collected, and nothing "
                "shows that it ran before"
            },
        )
        for number, labels in enumerate(({"instance": "n:9100"}, {"instance": "10.0.0.1:9100"}, {"instance": "x", "node": "n"}))
    ),
    held(
        "a node that booted while it was seen is charged on", day((9.5, 11)), "96 19 8", "960", boots(-100, 6, 12, instance="n"),
        gaps="bridged 9.5 11",
    ),
    *(
        held(f"{family} that begin late are missing until then", day(), "48 0 8", "480", drop(metrics, hours=(-9, 12)),
            gaps=f"not_collected 0 12 {family}")
        for family, metrics in (("requests", REQUESTS), ("pods requests", PODS))
    ),
    # without an exporter that names them
    case(
        "pods that were seen late are missing since they were bound",
        fleet(24, ["n | p4de.24xlarge | 0 | 24"], ["a | n | 0 1 | 6 | 24"], {}), "pod | held\na | 24",
        drop(PODS, hours=(-9, 12)), drop("DCGM.*"), gaps="not_collected 6 12",
    ),
    *(
        case(
            f"pods that begin after their nodes are no gap {start:g}",
            fleet(24, ["n | p4de.24xlarge | 0 | 24"], [f"a | n | 0 1 | {start} | 24"], {}, scrape=900),
            f"pod | held\na | {hours}", warnings=warnings,
        )
        for start, hours, warnings in ((-30, 0, {"pod_without_node": "train/a ran on node n"}), (0, 48, {}), (9, 30, {}))
    ),
    late_requests("a job on busy GPUs shows that requests were silent", "Job", 90, ("not_collected 5 19",)),
    late_requests("a job on idle GPUs shows nothing of requests", "Job", 0, ()),
    late_requests("a DaemonSet on busy GPUs shows nothing of requests", "DaemonSet", 90, ()),
]  # fmt: skip


def own(described: Fleet) -> Fleet:
    """The fleet with machines of its own, for bills name them."""
    for one in described["nodes"]:
        if one["provider"] == "karpenter":
            one["provider_id"] = f"aws:///{one['zone']}/i-{next(INSTANCES):017x}"
    return described


def cur(
    described: Fleet,
    keep: Callable[[Charge], bool] = lambda _charge: True,
    cells: Callable[[dict[str, str]], dict[str, str]] = lambda _row: {},
) -> str:
    """A bill of those hours of the fleet at $21.96, `cells` of each row replaced."""
    billed = [
        one for one in charges(described, lambda _node, _hour: ("on_demand", Decimal("21.96"))) if keep(one)
    ]
    rows = list(csv.DictReader(io.StringIO(bill_files.aws_cur(billed))))
    return csv_text([row | cells(row) for row in rows])


def outside(charge: Charge) -> bool:
    """The charge is not of the hours from 5:00 to 15:00."""
    return not at(5) <= charge.start < at(15)


def pair(kind: str = P4DE, hours: tuple[float, float] = (0, 24)) -> Fleet:
    """Two machines, n of AWS and m of a kind, silent from 5:00 to 15:00."""
    nodes = ["n | p4de.24xlarge | 0 | 24", node("m", kind, *hours)]
    return own(fleet(24, nodes, ["train | n | 0 | 0 | 24"], {}, ksm_silent=[[at(5), at(15)]]))


def costs(name: str, described: Fleet, bill: str, table: str, *changes: Edit, **more: Any) -> Case:
    return case(
        name,
        described,
        "kind | cost unallocated_cost not_collected_cost not_collected\n" + table.lstrip(),
        *changes,
        bill=bill,
        **more,
    )


def unbilled(begins: float, ends: float, kind: str) -> Case:
    """Of m, which is on no bill, no bill tells whether it ran; what is signed in part is one gap."""
    described = pair("metal-mi300x", (begins, ends))
    return case(
        f"a node on no bill from {begins:g} to {ends:g} beside a gap", described, "", settings=SIGNED.format("07:00"),
        bill=cur(described, lambda one: one.node["name"] == "n" and outside(one)),
        gaps=[f"{kind} {hours}" for hours in ("5 6", "6 7", "7 15")],
    )  # fmt: skip


def minutes(billed: int, gaps: tuple[str, ...]) -> Case:
    """Both machines are billed so many minutes of the hour at 8:00."""
    described, part = pair(), {"line_item_usage_amount": str(billed / 60)}
    bill = cur(
        described, lambda one: outside(one) or one.start == at(8),
        lambda row: part if "T08:" in row["line_item_usage_start_date"] and row["pricing_unit"] == "Hrs" else {},
    )  # fmt: skip
    return case(f"{billed} minutes of two machines in a gap", described, "", bill=bill, gaps=gaps)


def two_accounts(name: str, until: int, gap: str) -> Case:
    """n and m are of two accounts, and m's bill ends at some hour of its gap; n's next bill is there already."""
    described = pair()
    first = {"line_item_usage_account_id": "SECOND-ACCOUNT"}
    april = first | {"bill_billing_period_start_date": "2026-04-01T00:00:00Z"}
    bills = [
        cur(described, lambda one: one.node["name"] == "n" and outside(one), lambda _row: first),
        cur(described, lambda one: one.node["name"] == "m" and outside(one) and one.start < at(until)),
        cur(described, lambda one: one.node["name"] == "n" and one.start in (at(0), at(20)), lambda _row: april),
    ]  # fmt: skip
    return case(
        name, described, "", bill=bills[0] + "".join(bill.partition("\n")[2] for bill in bills[1:]), gaps=gap
    )


FIVE_TO_15, FIVE_ON, LEFT_OUT, WITHIN = (
    own(day(silence)) for silence in ((5, 15), (5, 24), (9.5, 11), (10.2, 10.7))
)
PART, DECLARED, OFF, OTHERS, FEE, USE = (
    own(day(silence)) for silence in ((10 + 4 / 60, 11 + 56 / 60), *[(5, 15)] * 5)
)
UNSEEN = own(fleet(
    24, ["n | p4de.24xlarge | 0 | 24", "x | p4de.24xlarge | 6 | 14"], ["train | n | 0 | 0 | 24"], {}, ksm_silent=[[at(5), at(15)]]
))  # fmt: skip
MONTH = words("line_item_usage_start_date=2026-03-01T00:00:00Z line_item_usage_end_date=2026-04-01T00:00:00Z")


def partly() -> str:
    """A bill of 5 minutes of the hour at 10:00 and 6 of that at 11:00, at $60."""
    part = {at(10): 300, at(11): 360}
    whole = charges(PART, lambda _node, _hour: ("on_demand", Decimal(60)))
    seconds = [(one, part.get(one.start, 3600)) for one in whole]
    return bill_files.aws_cur([replace(one, seconds=ran, cost=Decimal(ran) / 60) for one, ran in seconds])


# train 56, early 10 and late 8 GPU-hours of 112 that were seen, at $2.745
SEEN = "allocated | 203.13 0 0 0\nunallocated | 0 104.31 0 0\n"
MISSED = "not_collected | 0 0 219.6 80"
BILLED = [
    costs(
        "billed hours that were not seen cost what the bill says", FIVE_TO_15, cur(FIVE_TO_15),
        SEEN + MISSED + "\n\n| capacity\n| 112",
        gaps="not_collected 5 15",
    ),
    costs("billed hours after the last sample cost what the bill says", FIVE_ON, cur(FIVE_ON), """
        allocated     | 82.35     0      0   0
        unallocated   |     0 27.45      0   0
        not_collected |     0     0 417.24 152""", gaps="not_collected 5 ever", warnings=UNPLACED),
    costs("hours in which nothing was billed are off", OFF, cur(OFF, outside), SEEN, gaps="off 5 15"),
    case(
        "a fee or tax of the month covers none of its hours", FEE, "", gaps="not_collected 5 15",
        bill=cur(
            FEE, lambda one: one.start < at(5), lambda row: {} if row["line_item_line_item_type"] == "Usage" else MONTH
        ),
    ),
    case(
        "usage that is billed by the month covers none of its hours", USE, "",
        bill=cur(USE, lambda one: one.start < at(5), lambda row: {} if "Box" in row["line_item_usage_type"] else MONTH),
        gaps="not_collected 5 15",
    ),
    unbilled(0, 24, "not_collected"), unbilled(0, 5, "not_collected"), unbilled(15, 24, "not_collected"), unbilled(18, 24, "off"),
    minutes(4, ("off 5 15",)), minutes(6, ("off 5 8", "not_collected 8 9", "off 9 15")),
    two_accounts("a later bill of one account is none of another", 5, "not_collected 5 15"),
    two_accounts("bills of all accounts show that machines were off", 24, "off 5 15"),
    costs(
        "a bridged hour that the bill leaves out costs nothing", LEFT_OUT, cur(LEFT_OUT, lambda one: one.start != at(10)), """
        allocated   | 326.655       0 0 0
        unallocated |       0 178.425 0 0""",
        boots(-100, 10.25, instance="n"), gaps="bridged 9.5 11", warnings={"stopped_node": "1.0 h of node n are not charged"},
    ),
    # the one hour costs what the price book says
    held(
        "a bill without an hour that was seen says nothing of its silence", WITHIN, "96 20 8", "545.08",
        bill=cur(WITHIN, lambda one: one.start != at(10)), gaps="bridged 10.2 10.7",
    ),
    # stopped at 10:05 and started at 11:54, within a silence from 10:04 to 11:56
    costs(
        "the billed part of a bridged hour ran", PART, partly(), """
        allocated   | 1751/2     0 0 0
        unallocated |      0 911/2 0 0

        pod   | held
        train | 1331/15
        early | 20
        late  | 8""", boots(-100, 11.9, instance="n"), gaps="bridged 10.07 11.93",
        warnings={"stopped_node": "1.8 h of node n are not charged: nothing was collected then, and its bill has no such hours"},
    ),
    costs(
        "hours that are declared off and billed cost what the bill says", DECLARED, cur(DECLARED), SEEN + MISSED,
        settings=NIGHT, gaps="off 5 15",
        warnings={"off_but_billed": "cluster CLUSTER was declared off, but billed: 10.0 hours of its machines and 219.60 USD"},
    ),
    case(
        "machines that were billed only while nothing was collected", UNSEEN, "", bill=cur(UNSEEN), gaps="not_collected 5 15",
        warnings={
            "unplaced_device": "",
            "billed_unseen": "one machine with GPUs was billed only while nothing was collected … CLUSTER: 8.0 hours and 175.68 "
        },
    ),
    case(
        "machines that metrics would have shown are others", OTHERS, "", gaps="not_collected 5 15",
        bill=cur(OTHERS | {"nodes": OTHERS["nodes"] + own(fleet(24, ["x | p4de.24xlarge | 2 | 14"], [], {}))["nodes"]}),
    ),
]  # fmt: skip
CASES = [*COLLECTED, *BILLED]
