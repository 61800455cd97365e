"""Kubernetes objects of reports/patches for a finding, filled in with names and numbers of the store.

A name in angle brackets is missing in the store: `kubectl apply` refuses the object until you fill it in.
"""

from __future__ import annotations

import re

from gpucost.render.templates import fill

_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def _object(subject: str, namespace: str) -> tuple[str, str] | None:
    """Kind and name of a workload that `kubectl scale` can set to 0, if it is one by itself.

    None for names that Kubernetes does not allow: they would add lines of their own.
    """
    kind, _, name = subject.partition("/")
    return (kind, name) if kind in _API and _NAME.fullmatch(name) and _NAME.fullmatch(namespace) else None


def smaller_request(subject: str, namespace: str, asked: float, used: int) -> str | None:
    """The object, or the part of a pod template, with as many GPUs as were ever used."""
    if used < 1 or asked <= used:
        return None
    kind, name = _object(subject, namespace) or ("", "")
    values = {"api": _API.get(kind), "kind": kind, "name": name, "namespace": namespace}
    return fill("patches/smaller-request.yml", **values, asked=f"{asked:g}", used=used)


def fewer_nodes(peak_gpus: int) -> str | None:
    """A NodePool that removes empty nodes, limited to the most GPUs that pods ever held at once."""
    return fill("patches/empty-nodes.yml", peak=peak_gpus) if peak_gpus else None


def scaled_down(
    subject: str, namespace: str, timezone: str, hours: str, days: str, *, replicas: int
) -> str | None:
    """CronJobs that scale a service to one replica outside of `hours` and back to `replicas`; None if that changes nothing."""
    target = _object(subject, namespace)
    if replicas <= 1 or target is None:
        return None
    opens, _, closes = hours.partition("-")
    # a service that closes after midnight does so on the next day
    times = {
        "down": _cron(closes, _weekdays(days, later=closes < opens)),
        "up": _cron(opens, _weekdays(days)),
    }
    kind, name = target
    return fill(
        "patches/scaled-down.yml",
        kind=kind,
        name=name,
        namespace=namespace,
        timezone=timezone,
        times=times,
        replicas={"down": 1, "up": replicas},
    )


def _weekdays(days: str, *, later: bool = False) -> str:
    """mon-fri or mon-sun as cron has it; a day `later`, work days are Tuesday to Saturday."""
    if days == "mon-sun":
        return "*"
    return "2-6" if later else "1-5"


def _cron(moment: str, days: str) -> str:
    # midnight belongs to the day that ends
    hour, _, minute = moment.replace("24:00", "23:59").partition(":")
    return f"{int(minute)} {int(hour)} * * {days}"
