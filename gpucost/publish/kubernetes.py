"""Kubernetes: a CronJob that collects and reports with the volume of its store, as a manifest, or as a Helm chart."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpucost import __version__
from gpucost.errors import UsageError
from gpucost.render.templates import fill
from gpucost.resources import reports_dir

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_NAME}(\.{_NAME})*"
_QUANTITY = r"[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"


def _cron_field(low: int, high: int, names: str = "") -> str:
    """The pattern of a field of cron: values between `low` and `high` or names, ranges, steps and lists of them."""
    value = f"(0*({'|'.join(map(str, range(low, high + 1)))}){names})"
    part = rf"([*?]|{value}(-{value})?)(/0*[1-9][0-9]*)?"
    return rf"{part}(,{part})*"


_MONTHS = "|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_WEEKDAYS = "|sun|mon|tue|wed|thu|fri|sat"
_CRON = r"\s+".join(
    [
        _cron_field(0, 59),
        _cron_field(0, 23),
        _cron_field(1, 31),
        _cron_field(1, 12, _MONTHS),
        _cron_field(0, 7, _WEEKDAYS),
    ]
)
_A_NAME = "names in Kubernetes are lower-case letters, digits and -"
_A_SIZE = "for example 10Gi"
# The pattern of each option that Kubernetes takes, and what to write instead of anything else.
_RULES = {
    # host, port, path, tag and digest
    "image": (r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", "for example registry.example.com/gpucost:1.0"),
    # Kubernetes appends eleven characters to the names of a CronJob's jobs
    "name": (rf"(?!.{{53}}){_SUBDOMAIN}", "a CronJob's name has at most 52 lower-case letters, digits and -"),
    "namespace": (_NAME, _A_NAME),
    "schedule": (
        rf"@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(?i:\s*{_CRON}\s*)",
        "five fields as cron has them, for example '30 2 * * *': each day at 2:30",
    ),
    "claim": (_SUBDOMAIN, _A_NAME),
    "config_map": (_SUBDOMAIN, _A_NAME),
    "secret": (_SUBDOMAIN, _A_NAME),
    "storage_class": (_SUBDOMAIN, _A_NAME),
    "service_account": (_SUBDOMAIN, _A_NAME),
    "claim_size": (_QUANTITY, _A_SIZE),
    "memory": (_QUANTITY, _A_SIZE),
}


def cronjob(options: Mapping[str, Any], runs: Sequence[Sequence[str]], timezone: str) -> str:
    """The manifest (YAML): a claim, unless it exists, and a CronJob; every run but the last is an init container.

    `options` are those of _RULES and `existing_claim`; `runs` are the words of commands. Raises UsageError for what Kubernetes
    would refuse.
    """
    for name in _RULES:
        if options[name] is not None:
            _check(name, options[name])
    # Kubernetes replaces $(NAME) by a variable's value
    steps = [json.dumps(words).replace("$(", "$$(") for words in runs]
    return fill("cronjob.yml.j2", options=options, steps=steps, timezone=timezone)


def chart(image: str, timezone: str) -> dict[str, str]:
    """The files of a Helm chart by their paths in it: jobs that collect and charge, and what they need. Values are the user's.

    Raises UsageError for what Kubernetes would refuse.
    """
    _check("image", image)
    patterns = {name: pattern for name, (pattern, _) in _RULES.items()}
    values = {"image": image, "timezone": timezone, "version": __version__, "patterns": patterns}
    folder = reports_dir() / "chart"
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.*"))]
    return {path.removesuffix(".j2"): fill(f"chart/{path}", **values) for path in paths}


def _check(name: str, value: str) -> None:
    pattern, fix = _RULES[name]
    if not re.fullmatch(pattern, value) or len(value) > 253:
        raise UsageError(f"--{name.replace('_', '-')} {value!r} is not valid in Kubernetes", fix)
