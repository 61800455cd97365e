"""Waits for GPUs and fair shares."""

from dataclasses import replace
from typing import Annotated, Any

from gpucost.errors import GpucostError
from gpucost.options import Names, Option
from gpucost.pipeline import read_attributed
from gpucost.questions.queue.waits import Queues, SlurmShare, SlurmWait, queues, slurm
from gpucost.questions.report.query import nearest
from gpucost.questions.request import ClusterRequest
from gpucost.records import DuckDBPyConnection
from gpucost.render.schema import table
from gpucost.render.view import (
    Document,
    Table,
    Texts,
    ValueColumn,
    amount,
    count,
    figure,
    money,
    number,
    share,
    text,
)
from gpucost.store.sqlfiles import column

_KNOWN = "SELECT DISTINCT queue.name FROM queue_sums ORDER BY ALL"


def queue(
    request: ClusterRequest,
    name: Annotated[Names, Option("Limit to this queue; repeatable.", "NAME", flag="--queue")] = (),
) -> Document:
    """Show waits for GPUs, their cost, and fair shares in queues.

    Kueue, KAI and Volcano: quota and use of queues, borrowing, waits and evictions of workloads. Waiting cost is
    the cost of GPUs that were unallocated, or that others borrowed, while requests were pending. Fair share
    compares, over the last 7 days of the period, a ClusterQueue's share of its cohort's quota with its share of the
    use; use counts half for every 2 days of age. docs/kueue.md has the formulas.

    Slurm: waits of jobs by partition, QOS and account, their cost, the cost lost to preemption, and fair share from
    sshare next to cost. docs/slurm.md has the details.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost queue
      gpucost queue --last 7d
      gpucost queue --month 2026-10 --queue research --format json
    """
    period = request.period

    def read(con: DuckDBPyConnection) -> Queues:
        jobs = (None, None) if name else slurm(con, period, request.clusters)
        answer = Queues(period, *queues(con, period, request.clusters, name), *jobs)
        known = column(con, _KNOWN)
        for unknown in known and set(name).difference(known):
            raise GpucostError(
                f"no queue {unknown!r} in {request.period_name}",
                f"use a known name: {', '.join(nearest(unknown, known)[:5])}",
            )
        return answer

    answer = read_attributed(request.settings, request.store, read, period)
    found, waits, shares = answer.queues, answer.slurm_waits or [], answer.slurm_shares or []
    if not found and not waits:
        what = "no such queue" if request.clusters else "no queues"
        request.check_names(request.query())
        raise GpucostError(
            f"Kueue, KAI and Volcano reported {what} in {request.period_name}",
            "let Prometheus scrape the scheduler's metrics, and run gpucost collect prometheus",
        )
    clusters = {row.cluster for row in found} | {row.cluster for row in waits}
    cluster = (text("cluster"),) if len(clusters) > 1 else ()
    tables = (*_of_queues(answer, cluster), *_of_jobs(waits, cluster), _of_shares(shares, cluster))
    return Document(
        title=f"Queues: {request.period_name}",
        currency=request.settings.currency,
        sections=(
            *(each for each in tables if each.lines),
            *([Texts("Not exported", tuple(answer.missing))] if answer.missing else ()),
        ),
        name="queue",
        data=replace(answer, slurm_waits=waits or None, slurm_shares=shares or None),
        flat=table(found or waits),
    )


def _of_queues(answer: Queues, cluster: tuple[ValueColumn, ...]) -> list[Table]:
    """Quota, use and waits of queues; the cost of waits, evictions, and pairs of queues."""
    scheduler = (text("scheduler"),) if {row.scheduler for row in answer.queues} != {"Kueue"} else ()
    queue = (*cluster, *scheduler, text("cluster_queue", "Queue"))
    columns = (
        *queue,
        text("cohort", weight=2),
        text("resource", weight=1),
        number("quota"),
        number(
            lambda queue: "none" if queue.is_borrowing_unlimited else queue.borrowing_limit,
            "Borrow limit",
            weight=2,
        ),
        number("used_average", "In use"),
        number("used_p95", "In use p95", weight=3),
        number("used_max", "In use max", weight=2),
        number("borrowed_average", "Borrowed"),
        number("pending_average", "Pending"),
        count("admitted", "Admitted", weight=3),
        _time("wait_mean_seconds", "Wait"),
        _time("wait_p50_seconds", "Wait p50", weight=3),
        _time("wait_p95_seconds", "Wait p95", weight=2),
        share("share_of_quota", "Share of quota", decimals=0, weight=len(queue) - 1),
        share("share_of_use", "Share of use", decimals=0, weight=len(queue) - 1),
    )
    waiting = (
        *queue,
        amount("pending_gpu_hours", "Pending GPU-hours"),
        text("pending_source", "From", weight=2),
        money("waiting_unallocated_cost", "Unallocated"),
        money("waiting_borrowed_cost", "Borrowed"),
        money("waiting_cost", "Waiting cost"),
    )
    evictions = (*queue, text("reason"), count("workloads"))
    pairs = (
        *queue,
        text("other_queue"),
        text("quota", "Its quota"),
        amount("gpu_hours", "GPU-hours"),
        money("cost"),
    )
    waited = {
        (row.cluster, row.scheduler, row.cluster_queue): row for row in answer.queues if row.pending_gpu_hours
    }
    return [
        Table.of("Quota, use and waits", answer.queues, columns, note=_OF_QUEUES),
        Table.of("Cost of waiting", waited.values(), waiting, note=_OF_WAITING),
        Table.of("Queues that waited while others had quota", answer.pairs, pairs, note=_OF_PAIRS),
        Table.of("Evictions", answer.evictions, evictions),
    ]


def _of_jobs(waits: list[SlurmWait], cluster: tuple[ValueColumn, ...]) -> list[Table]:
    """Waits of Slurm jobs by partition, QOS and account."""
    columns = (
        *cluster,
        text("name"),
        count("started"),
        _time("wait_p50_seconds", "Wait p50"),
        _time("wait_p95_seconds", "Wait p95"),
        _time("eligible_wait_p95_seconds", "Wait once eligible p95", weight=2),
        number("gpu_hours", "GPU-hours"),
        money("cost"),
        count("preempted", weight=2),
        money("preempted_cost", "Lost to preemption", weight=1),
    )
    titles = {"partition": "Jobs by partition", "qos": "Jobs by QOS", "account": "Jobs by account"}
    return [
        Table.of(
            title, [row for row in waits if row.by == by], columns, note=_OF_JOBS if by == "account" else None
        )
        for by, title in titles.items()
    ]


def _of_shares(shares: list[SlurmShare], cluster: tuple[ValueColumn, ...]) -> Table:
    """Slurm's fair share next to cost."""
    columns = (
        *cluster,
        text("account"),
        text("user"),
        share("norm_shares", "Granted", decimals=1),
        share("effective_usage", "Used", decimals=1),
        figure(lambda share: None if share.fair_share is None else f"{share.fair_share:.3f}", "Factor"),
        money("cost"),
        share("cost_share", "Share of cost", decimals=1),
    )
    return Table.of("Fair share, from sshare", shares, columns, note=_OF_SHARES)


_OF_QUEUES = (
    "Averages are over the period, in units of the resource. Wait: from creation to admission. Shares: of "
    "the cohort's quota, and of its use in the last 7 days; use counts half for every 2 days of age. "
    "A queue whose share of use is above its share of quota borrows from others."
)
_OF_WAITING = (
    "Pending GPU-hours: GPUs of requests x their wait, from the scheduler's metrics or from pods with the queue's "
    "label. Unallocated and borrowed: the cost of GPUs of the same model that were free, or that other queues of "
    "the cohort borrowed of the queue's unused quota, meanwhile. A GPU counts once; LocalQueues repeat their ClusterQueue."
)
_OF_PAIRS = (
    "Idle: the other queue did not use its quota, and GPUs were unallocated. Borrowed: it used more than its quota, "
    "and the waiting queue less."
)
_OF_JOBS = (
    "Wait: from submission to start. Wait once eligible: without the time that dependencies and limits "
    "held a job back. Lost to preemption: the cost of preempted runs."
)
_OF_SHARES = (
    "Granted and used: shares among siblings, from sshare. A higher factor means an earlier start of the "
    "next job. Share of cost: of the cluster's cost, which counts half for every 7 days of age."
)


def _time(name: str, title: str, weight: int = 0) -> ValueColumn:
    """A column for the seconds in `name`, in a suitable unit."""

    def display(row: Any) -> str | None:
        seconds: float | None = getattr(row, name)
        if seconds is None:
            return None
        if seconds < 120:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

    return figure(display, title, weight=weight)
