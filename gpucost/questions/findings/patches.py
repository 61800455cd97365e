"""Kubernetes objects of reports/patches for a finding, with names and numbers of the store.

A name in angle brackets is missing in the store: `kubectl apply` refuses the object until you fill it in.
"""

from __future__ import annotations

import re

from gpucost.render.templates import fill

_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def _object(subject: str, namespace: str) -> tuple[str, str] | None:
    """Kind and name of a single workload that `kubectl scale` can change.

    None for names that Kubernetes does not allow: they would add lines to the patch.
    """
    kind, _, name = subject.partition("/")
    return (kind, name) if kind in _API and _NAME.fullmatch(name) and _NAME.fullmatch(namespace) else None


def smaller_request(subject: str, namespace: str, requested: float, used: int) -> str | None:
    """The object, or the part of a pod template, with as many GPUs as were used at most."""
    if used < 1 or requested <= used:
        return None
    kind, name = _object(subject, namespace) or ("", "")
    return fill(
        "patches/smaller-request.yml",
        api=_API.get(kind),
        kind=kind,
        name=name,
        namespace=namespace,
        asked=f"{requested:g}",
        used=used,
    )


def fewer_nodes(peak_gpus: int) -> str | None:
    """A NodePool that removes empty nodes, limited to the most GPUs that pods ever held at once."""
    return fill("patches/empty-nodes.yml", peak=peak_gpus) if peak_gpus else None


def scaled_down(
    subject: str, namespace: str, timezone: str, hours: str, days: str, *, replicas: int
) -> str | None:
    """CronJobs that scale a service to one replica outside of `hours` and back to `replicas`; None without a change."""
    target = _object(subject, namespace)
    if replicas <= 1 or target is None:
        return None
    opens, _, closes = hours.partition("-")
    up_days, next_days = ("*", "*") if days == "mon-sun" else ("1-5", "2-6")
    # a service that closes after midnight does so on the next day
    down_days = next_days if closes < opens else up_days
    kind, name = target
    return fill(
        "patches/scaled-down.yml",
        kind=kind,
        name=name,
        namespace=namespace,
        timezone=timezone,
        times={"down": _cron(closes, down_days), "up": _cron(opens, up_days)},
        replicas={"down": 1, "up": replicas},
    )


def _cron(moment: str, days: str) -> str:
    # midnight belongs to the day that ends
    hour, _, minute = moment.replace("24:00", "23:59").partition(":")
    return f"{int(minute)} {int(hour)} * * {days}"
