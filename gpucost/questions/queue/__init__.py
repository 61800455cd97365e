"""Waits for GPUs and fair shares."""

from typing import Annotated, Any

from gpucost.errors import GpucostError
from gpucost.options import Names, Option
from gpucost.pipeline import read_attributed
from gpucost.questions.queue.waits import Queue, Queues, SlurmShare, SlurmWait, queues, slurm
from gpucost.questions.request import ClusterRequest
from gpucost.render.schema import table
from gpucost.render.view import Document, Table, ValueColumn, count, figure, money, number, share, text


def queue(
    request: ClusterRequest,
    name: Annotated[Names, Option("Limit to this ClusterQueue; repeatable.", "NAME", flag="--queue")] = (),
) -> Document:
    """Show waits for GPUs and fair shares: Kueue's ClusterQueues, and Slurm's partitions and accounts.

    Kueue: quota and use of ClusterQueues, borrowing, and waits of workloads. Fair share compares, over the last 7
    days of the period, a queue's share of its cohort's quota with its share of the use; use counts half for every 2
    days of age. docs/kueue.md has the formulas.

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
    with request.store.read() as con:
        found = queues(con, period, request.clusters, name or ())
    waits: list[SlurmWait] = []
    shares: list[SlurmShare] = []
    if not name:
        waits, shares = read_attributed(
            request.settings, request.store, lambda con: slurm(con, period, request.clusters), period
        )
    if not found and not waits:
        what = "no such ClusterQueue" if name or request.clusters else "no ClusterQueues"
        request.check_names(request.query())
        raise GpucostError(
            f"Kueue reported {what} in {request.period_name}",
            "let Prometheus scrape Kueue's manager (kueue_* metrics), and run gpucost collect prometheus",
        )
    clusters = {row.cluster for row in found} | {row.cluster for row in waits}
    cluster = (text("cluster"),) if len(clusters) > 1 else ()
    return Document(
        title=f"{'Queues' if waits else 'ClusterQueues'}: {request.period_name}",
        currency=request.settings.currency,
        sections=(*_of_kueue(found, cluster), *_of_jobs(waits, cluster), *_of_shares(shares, cluster)),
        name="queue",
        data=Queues(period, found, waits or None, shares or None),
        flat=table(found or waits),
    )


def _of_kueue(queues: list[Queue], cluster: tuple[ValueColumn, ...]) -> list[Table]:
    """Quota, use and waits of ClusterQueues."""
    columns = (
        *cluster,
        text("cluster_queue", "Queue"),
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
        share("share_of_quota", "Share of quota", decimals=0),
        share("share_of_use", "Share of use", decimals=0),
    )
    return [Table.of("Quota, use and waits", queues, columns, note=_OF_QUEUES)] if queues else []


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
    tables = [
        Table.of(
            title, [row for row in waits if row.by == by], columns, note=_OF_JOBS if by == "account" else None
        )
        for by, title in titles.items()
    ]
    return tables if waits else []


def _of_shares(shares: list[SlurmShare], cluster: tuple[ValueColumn, ...]) -> list[Table]:
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
    return [Table.of("Fair share, from sshare", shares, columns, note=_OF_SHARES)] if shares else []


_OF_QUEUES = (
    "Averages are over the period, in units of the resource. Wait: from creation to admission. Shares: of "
    "the cohort's quota, and of its use in the last 7 days; use counts half for every 2 days of age. "
    "A queue whose share of use is above its share of quota borrows from others."
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
