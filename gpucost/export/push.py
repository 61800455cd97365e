"""Sends metrics to a Pushgateway, in place of those it had from the same job."""

from __future__ import annotations

from urllib.parse import quote

from gpucost.errors import GpucostError, UsageError
from gpucost.outgoing import Request, send

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def group_url(url: str, job: str) -> str:
    """Where the group of `job` is at the Pushgateway whose base URL is `url`. Raises UsageError for what cannot be."""
    if not url.startswith(("http://", "https://")) or "@" in url or "?" in url or "#" in url:
        raise UsageError("--pushgateway takes a base URL without password, ? or #", "for example http://pushgateway:9091")
    if not job or "/" in job:
        raise UsageError(f"--job {job!r} is no name of a job", "leave --job out, or give a word such as gpucost")
    return f"{url.rstrip('/')}/metrics/job/{quote(job, safe='')}"


def push(metrics: str, group: str) -> None:
    """PUT `metrics` at the URL of their group. Raises GpucostError where the Pushgateway does not take them."""
    answer = send(Request("PUT", group, metrics.encode(), {"Content-Type": _TYPE}, what="the Pushgateway", repeatable=True))
    if answer.status not in (200, 202):
        raise GpucostError(
            f"the Pushgateway at {answer.host} answered {answer.status}: {answer.text or 'nothing'}",
            "gpucost export openmetrics, without --pushgateway, shows what was sent",
        )
