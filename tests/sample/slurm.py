"""The sample fleet's Slurm cluster: a few owned nodes, and the output of sacct, scontrol, sacctmgr and sshare."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpucost.collect.slurm.collector import import_files
from gpucost.collect.slurm.sacct import DELIMITER, FIELDS, SacctFormat
from tests.sample.fleet import DAY, HOUR, months

if TYPE_CHECKING:
    from pathlib import Path

    from gpucost.periods import Period
    from gpucost.store.connection import Store

#: Names of its files in a demo's folder.
FILES = "slurm-*"
_CLUSTER, _MODEL, _GPUS = "hpc", "l40s", 4
_NODES = ("gpu01", "gpu02", "gpu03")
#: Each account with its parent, its shares and its users.
_ACCOUNTS = {
    "root": ("", 1, ()),
    "ai": ("root", 60, ()),
    "nlp-lab": ("ai", 50, ("mira", "jonas")),
    "vision-lab": ("ai", 50, ("lena",)),
    "life-science": ("root", 40, ()),
    "genomics": ("life-science", 70, ("priya",)),
    "cryo-em": ("life-science", 30, ("tomas",)),
}


class _Work(NamedTuple):
    """Jobs of one name: GPUs on each of `nodes`, median hours, jobs per day, and tasks if it is an array."""

    account: str
    user: str
    name: str
    qos: str
    gpus: int
    hours: float
    per_day: float
    partition: str = "gpu"
    nodes: int = 1
    tasks: int = 0


_WORK = (
    _Work("nlp-lab", "mira", "prompt-eval", "normal", 1, 3, 0.9, tasks=6),
    _Work("nlp-lab", "jonas", "adapter-7b", "normal", 4, 13, 0.7),
    _Work("nlp-lab", "jonas", "debug", "high", 1, 0.4, 2),
    _Work("vision-lab", "lena", "pose-net", "normal", 2, 9, 1.3),
    _Work("vision-lab", "lena", "pose-net-ddp", "high", 4, 8, 0.25, nodes=2),
    _Work("cryo-em", "tomas", "refine3d", "normal", 2, 7, 1.1),
    # jobs in partition gpu preempt these, and they start again
    _Work("genomics", "priya", "basecalling", "low", 1, 3.5, 1.6, partition="scavenge", tasks=8),
)
_RANK = {"high": 0, "normal": 1, "low": 2}
#: Jobs that have waited this long are not overtaken.
_PATIENCE = 12 * HOUR
_LIMIT_HOURS = 36
_RESTART = 121  # seconds until a requeued job may run again


@dataclass(slots=True, eq=False)
class _Run:
    """A run of a job from its submission on; `state` is its final state, even before its end."""

    work: _Work
    job: str
    number: int
    submit: int
    eligible: int
    seconds: int
    state: str
    busy: float
    start: int | None = None
    end: int | None = None
    nodes: tuple[str, ...] = ()
    reservation: str = ""


def load(store: Store, period: Period, folder: Path) -> None:
    """Write the output of Slurm's commands for `period` into `folder`, and load it like `gpucost collect slurm`."""
    cluster = played(period)
    texts = {"slurm-jobs.psv": jobs(cluster)} | facts()
    texts["slurm-reservations.txt"] = "".join(f"{reservation(*row)}\n" for row in cluster.reservations)
    texts["slurm-events.psv"] += "".join(f"{event(*row)}\n" for row in cluster.events)
    texts["slurm-shares.psv"] = shares(cluster.runs, cluster.end)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    import_files(store, [folder / name for name in texts], SacctFormat(), period, period.end)


def played(period: Period) -> Scheduler:
    """Return the scheduler after the period."""
    cluster = Scheduler(period)
    cluster.run()
    return cluster


def facts() -> dict[str, str]:
    """Return output that does not depend on the period by file, with only the header of events."""
    nodes = (
        f"NodeName={node} Gres=gpu:{_MODEL}:{_GPUS} ActiveFeatures={_MODEL} Partitions=gpu,scavenge State=IDLE\n"
        for node in _NODES
    )
    return {
        "slurm-nodes.txt": "".join(nodes),
        "slurm-accounts.psv": _associations(),
        "slurm-events.psv": "Cluster|NodeName|TimeStart|TimeEnd|State|Reason\n",
    }


def reservation(name: str, start: object, end: object, node: str, account: str) -> str:
    """Return a line of `scontrol show reservation -o`."""
    return f"ReservationName={name} StartTime={start} EndTime={end} Nodes={node} Flags=SPEC_NODES Accounts={account}"


def event(node: str, start: object, end: object, state: str, why: str) -> str:
    """Return a line of `sacctmgr -P show event`."""
    return f"{_CLUSTER}|{node}|{start}|{end}|{state}|{why}"


class Scheduler:
    """Simulates Slurm: fitting jobs by QOS and submission; jobs in partition scavenge are preempted."""

    def __init__(self, period: Period) -> None:
        self.start, self.end = period.start_ms // 1000, period.end_ms // 1000
        self.months = [month.start_ms // 1000 for month in months(period)]
        self.dice = np.random.default_rng([self.start, 16])
        self.runs: list[_Run] = []
        self.running: list[_Run] = []
        self.pending: list[_Run] = []
        self.free = dict.fromkeys(_NODES, _GPUS)
        self.closed: set[str] = set()
        self.events: list[tuple[str, int, int, str, str]] = []
        self.reservations: list[tuple[str, int, int, str, str]] = []
        self.agenda: list[tuple[int, int, str, _Run | str]] = []
        self.order = count()
        self.number = 40_000

    def run(self) -> None:
        """Process all events of the period in order."""
        for work in _WORK:
            moment = self.start + int(self.dice.exponential(DAY / work.per_day))
            while moment < self.end:
                self._submit(work, moment)
                moment += int(self.dice.exponential(DAY / work.per_day))
        for month in self.months:
            self._repair(month + 10 * DAY + 9 * HOUR)
            crash = month + 19 * DAY + 3 * HOUR
            self.events.append(("gpu03", crash, crash + 5 * HOUR, "DOWN", "Not responding"))
            self._plan(crash, "crash", "gpu03")
            self._plan(crash + 5 * HOUR, "open", "gpu03")
        while self.agenda:
            moment, _, what, who = heapq.heappop(self.agenda)
            if isinstance(who, str):
                if what == "open":
                    self.closed.discard(who)
                else:
                    self.closed.add(who)
                if what == "crash":
                    for run in [run for run in self.running if who in run.nodes]:
                        self._stop(run, moment, "NODE_FAIL")
            elif what == "submit":
                self.pending.append(who)
            elif who.end is None:  # it was not preempted earlier
                self._stop(who, moment, who.state)
            self._schedule(moment)

    def _plan(self, moment: int, what: str, who: _Run | str) -> None:
        if moment < self.end:
            heapq.heappush(self.agenda, (moment, next(self.order), what, who))

    def _repair(self, drained: int) -> None:
        """Drain and repair a node, then reserve it for a course whose students need less than half of it."""
        mended, over = drained + 30 * HOUR, drained + 56 * HOUR
        self.events.append(("gpu02", drained, mended, "DRAINED", "replace fan"))
        self.reservations.append(("course", mended, over, "gpu02", "nlp-lab"))
        self._plan(drained, "close", "gpu02")
        self._plan(over, "open", "gpu02")
        lesson = _Work("nlp-lab", "mira", "course-lab", "normal", 1, 3, 0)
        for hour in (1, 3, 18, 20, 21):
            begin = mended + hour * HOUR
            run = self._new(lesson, begin - 30, f"{self._next()}")
            run.start, run.end, run.nodes, run.reservation = begin, begin + 3 * HOUR, ("gpu02",), "course"
            run.state = "COMPLETED"
            self.runs.append(run)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _submit(self, work: _Work, moment: int) -> None:
        first = self._next()
        for task in range(work.tasks or 1):
            run = self._new(work, moment, f"{first}_{task}" if work.tasks else f"{first}")
            if task:
                run.number = self._next()
            self._plan(moment, "submit", run)

    def _new(self, work: _Work, moment: int, job: str) -> _Run:
        hours = float(self.dice.lognormal(np.log(work.hours), 0.5))
        state = str(
            self.dice.choice(
                ["COMPLETED", "FAILED", "CANCELLED by 1004", "OUT_OF_MEMORY"], p=[0.84, 0.09, 0.05, 0.02]
            )
        )
        hours *= 1 if state == "COMPLETED" else float(self.dice.random())
        busy = float(np.clip(self.dice.normal(78, 11), 20, 99))
        if self.dice.random() < 0.06:  # it hangs until its time limit
            hours, state, busy = _LIMIT_HOURS, "TIMEOUT", 1.0
        seconds = max(40, int(min(hours, _LIMIT_HOURS) * HOUR))
        return _Run(work, job, self.number, moment, moment, seconds, state, busy)

    def _schedule(self, now: int) -> None:
        for run in sorted(self.pending, key=lambda run: (_RANK[run.work.qos], run.submit, run.number)):
            nodes = self._room(run, now)
            if nodes:
                self.pending.remove(run)
                run.start, run.nodes = now, nodes
                for node in nodes:
                    self.free[node] -= run.work.gpus
                self.runs.append(run)
                self.running.append(run)
                self._plan(now + run.seconds, "end", run)
            elif now - run.submit > _PATIENCE and run.work.partition == "gpu":
                break

    def _room(self, run: _Run, now: int) -> tuple[str, ...]:
        """Return nodes with room for the run, after preempting scavengers if needed; none without room."""
        if now < run.eligible:
            return ()
        work = run.work
        guests = {
            node: [
                one for one in self.running
                if node in one.nodes and one.work.partition == "scavenge" and work.partition == "gpu"
            ]
            for node in _NODES
        }  # fmt: skip
        fits = [
            node
            for node in _NODES
            if node not in self.closed and self.free[node] + len(guests[node]) >= work.gpus
        ]
        chosen = sorted(fits, key=lambda node: (self.free[node] < work.gpus, self.free[node]))[: work.nodes]
        if len(chosen) < work.nodes:
            return ()
        for node in chosen:
            while self.free[node] < work.gpus:
                self._stop(guests[node].pop(), now, "PREEMPTED")
        return tuple(sorted(chosen))

    def _stop(self, run: _Run, now: int, state: str) -> None:
        self.running.remove(run)
        run.end, run.state = now, state
        for node in run.nodes:
            self.free[node] += run.work.gpus
        if state in ("PREEMPTED", "NODE_FAIL"):
            again = self._new(run.work, now, run.job)
            again.number, again.eligible = run.number, now + _RESTART
            self._plan(again.eligible, "submit", again)


def jobs(cluster: Scheduler) -> str:
    """Return `sacct -a -D --parsable2` with steps, in order of submission."""
    known = sorted([*cluster.runs, *cluster.pending], key=lambda run: (run.submit, run.number))
    # jobs are planned by kind; Slurm numbers them by submission
    numbers = {}
    for run in known:
        numbers.setdefault(run.number, 40_001 + len(numbers))
    lines = [DELIMITER.join(FIELDS)]
    for run in known:
        first, _, task = run.job.partition("_")
        run.number, run.job = numbers[run.number], "_".join([str(numbers[int(first)]), *filter(None, [task])])
        row = _row(run, cluster.end)
        lines.append(DELIMITER.join(row[name] for name in FIELDS))
        if run.start is None:
            continue
        spread = len(run.nodes) > 1
        steps = [
            ("batch", run.nodes[:1], 0.0 if spread else run.busy),
            *([("0", run.nodes, run.busy)] if spread else []),
        ]
        for step, nodes, busy in steps:
            own = {
                "JobID": f"{row['JobID']}.{step}",
                "JobIDRaw": f"{row['JobIDRaw']}.{step}",
                "JobName": "batch" if step == "batch" else "train",
                "NNodes": str(len(nodes)),
                "NodeList": _listed(nodes),
                "AllocTRES": _tres(run.work, len(nodes)),
                "TRESUsageInAve": f"cpu=01:00:00,gres/gpuutil={busy * run.work.gpus:.0f}",
                "TRESUsageInTot": f"cpu=01:00:00,gres/gpuutil={busy * (run.work.gpus * len(nodes)):.0f}",
            }
            absent = dict.fromkeys(("User", "Partition", "QOS", "Reason", "Reservation", "ReqTRES"), "")
            step_row = row | absent | own
            lines.append(DELIMITER.join(step_row[name] for name in FIELDS))
    return "\n".join(lines) + "\n"


def _row(run: _Run, now: int) -> dict[str, str]:
    work, ended = run.work, run.end is not None
    state = run.state if ended else "PENDING" if run.start is None else "RUNNING"
    elapsed = 0 if run.start is None else (run.end or now) - run.start
    return {
        "JobID": run.job, "JobIDRaw": str(run.number), "JobName": work.name, "Cluster": _CLUSTER, "Partition": work.partition,
        "Account": work.account, "User": work.user, "QOS": work.qos, "State": state,
        "Reason": "Resources" if state == "PENDING" else "None", "Submit": str(run.submit), "Eligible": str(run.eligible),
        "Start": str(run.start or "Unknown"), "End": str(run.end or "Unknown"), "ElapsedRaw": str(elapsed),
        "Suspended": "00:00:00", "NNodes": str(work.nodes), "NodeList": _listed(run.nodes), "ReqTRES": _tres(work, work.nodes),
        "AllocTRES": _tres(work, work.nodes) if run.nodes else "", "TRESUsageInAve": "", "TRESUsageInTot": "",
        "Reservation": run.reservation,
    }  # fmt: skip


def _listed(nodes: tuple[str, ...]) -> str:
    numbers = ",".join(node.removeprefix("gpu") for node in nodes)
    return f"gpu[{numbers}]" if len(nodes) > 1 else nodes[0] if nodes else "None assigned"


def _tres(work: _Work, nodes: int) -> str:
    gpus = work.gpus * nodes
    return f"billing={8 * gpus},cpu={8 * gpus},gres/gpu:{_MODEL}={gpus},gres/gpu={gpus},mem={48 * gpus}G,node={nodes}"


def _indented(account: str) -> str:
    return " " * (len(_above(account)) - 1) + account


def _associations() -> str:
    """Return `sacctmgr -P show assoc tree`."""
    lines = ["Cluster|Account|User|ParentName"]
    for account, (parent, _, users) in _ACCOUNTS.items():
        lines.append(f"{_CLUSTER}|{_indented(account)}||{parent}")
        lines += [f"{_CLUSTER}| {_indented(account)}|{user}|" for user in users]
    return "\n".join(lines) + "\n"


def shares(runs: Sequence[_Run], now: int) -> str:
    """Return `sshare -a -P -l`: usage has a half-life of a week, and all levels above users determine their rank (Fair Tree)."""
    used = defaultdict(float)
    for run in runs:
        end = run.end or now
        gpu_seconds = run.work.gpus * run.work.nodes * (end - (run.start or end))
        for key in (
            (run.work.account, run.work.user),
            *((account, "") for account in _above(run.work.account)),
        ):
            used[key] += gpu_seconds * 0.5 ** ((now - end) / (7 * DAY))

    def level(account: str, user: str = "") -> tuple[float, float]:
        """Return its part of its siblings' shares, and of their usage."""
        parent, shares, users = _ACCOUNTS[account]
        if user:
            return 1 / len(users), used[account, user] / (used[account, ""] or 1.0)
        siblings = sum(other[1] for other in _ACCOUNTS.values() if other[0] == parent)
        return shares / siblings, used[account, ""] / (used[parent or account, ""] or 1.0)

    def fairness(share: float, use: float) -> float:
        return share / use if use else float("inf")

    users = [(account, user) for account, (_, _, names) in _ACCOUNTS.items() for user in names]
    ranked = sorted(
        users,
        key=lambda one: [
            *(fairness(*level(account)) for account in reversed(_above(one[0]))),
            fairness(*level(*one)),
        ],
    )
    lines = ["Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS"]
    for account, (_, shares, names) in _ACCOUNTS.items():
        for user in ("", *names):
            share, use = level(account, user)
            fair = f"{(1 + ranked.index((account, user))) / len(users):.6f}" if user else ""
            raw = used[account, user]
            lines.append(
                f"{_indented(account)}|{user}|{1 if user else shares}|{share:.6f}|{raw:.0f}|"
                f"{raw / (used['root', ''] or 1.0):.6f}|{use:.6f}|{fair}|{fairness(share, use):.6f}"
            )
    return "\n".join(lines) + "\n"


def _above(account: str) -> list[str]:
    """Return the account and all of its ancestors."""
    parent = _ACCOUNTS[account][0]
    return [account, *(_above(parent) if parent else [])]
