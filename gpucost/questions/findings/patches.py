"""What to apply for a finding: Kubernetes objects of reports/patches, filled in with names and numbers of the store.

A name in angle brackets is what the store lacks: `kubectl apply` refuses the object until it is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpucost.render.templates import fill

_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_DAYS = {"mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6, "sun": 7}
_NIGHT = "0 20 * * *"


def _object(subject: str, namespace: str) -> tuple[str, str] | None:
    """Kind and name of a workload that `kubectl scale` can set to 0, if it is one by itself.

    None for names that Kubernetes does not allow: they would add lines of their own.
    """
    kind, _, name = subject.partition("/")
    return (kind, name) if kind in _API and _NAME.fullmatch(name) and _NAME.fullmatch(namespace) else None


def smaller_request(subject: str, namespace: str, asked: float, used: int) -> str | None:
    """As many GPUs as were ever used: of the whole object where its kind is known, else of a container."""
    if used < 1 or asked <= used:
        return None
    kind, name = _object(subject, namespace) or ("", "")
    values = {"api": _API.get(kind), "kind": kind, "name": name, "namespace": namespace}
    return fill("patches/smaller-request.yml", **values, asked=f"{asked:g}", used=used)


def fewer_nodes(peak_gpus: int) -> str | None:
    """A NodePool that removes empty nodes, limited to the most GPUs that pods ever held at once."""
    return fill("patches/empty-nodes.yml", peak=peak_gpus) if peak_gpus else None


def joined(parts: Iterable[str | None]) -> str | None:
    """Several objects in one text."""
    known = [part for part in parts if part]
    return "---\n".join(known) if known else None


def scaled_down(
    subject: str,
    namespace: str,
    timezone: str,
    options: Mapping[str, str | None],
    replicas: int,
    least: int = 0,
) -> str | None:
    """CronJobs that scale a workload down to `least` and up to `replicas` by office hours; without any, down every evening.

    None if nothing would change.
    """
    if replicas <= least:
        return None
    target = _object(subject, namespace)
    if target is None:
        return None
    times = {"down": _NIGHT}
    if hours := options.get("--office-hours"):
        opens, _, closes = hours.partition("-")
        days = options.get("--weekdays") or "mon-sun"
        # what closes after midnight does so on the day after
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
        replicas={"down": least, "up": replicas},
    )


def _weekdays(text: str, *, later: bool = False) -> str:
    """mon-fri as cron has it: 1-5, a day `later` 2-6."""
    first, _, last = text.partition("-")
    return "*" if text == "mon-sun" else f"{_DAYS[first] + later}-{_DAYS[last or first] + later}"


def _cron(moment: str, days: str) -> str:
    # midnight belongs to the day that ends
    hour, _, minute = moment.replace("24:00", "23:59").partition(":")
    return f"{int(minute)} {int(hour)} * * {days}"
