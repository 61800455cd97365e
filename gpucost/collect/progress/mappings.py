"""Metrics that count work, and the meaning of their labels: built-in mappings and configured ones."""

import math
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from gpucost.collect.prometheus.queries import one_of
from gpucost.config.model import Config, UnitSettings
from gpucost.resources import shipped
from gpucost.store import bill_files
from gpucost.store.progress import ProgressSeries

# Values of a tenant label that mean no tenant.
_UNKNOWN = (*bill_files.BLANK, "unknown", "-")
# Units with their own report in gpucost unit; requests --count shows any other.
UNITS = (
    "epoch",
    "request",
    "prompt_token",
    "cached_token",
    "generation_token",
    "prefill_second",
    "decode_second",
    "batch_item",
)


def mappings(config: Config) -> list[UnitSettings]:
    """The configured mappings, and the built-in ones with other names."""
    configured = {unit.name for unit in config.units}
    return [*config.units, *(unit for unit in ready_made() if unit.name not in configured)]


def ready_made() -> list[UnitSettings]:
    """The built-in mappings, from mappings.toml."""
    text = shipped("collect/progress/mappings.toml")
    return [UnitSettings.model_validate(item) for item in tomllib.loads(text)["units"]]


def unit_of(text: str) -> str:
    """The unit of a word: one of UNITS, also in the plural; other words are their own unit."""
    return text[:-1] if text.endswith("s") and text[:-1] in UNITS else text


def selector(unit: UnitSettings) -> str:
    """The PromQL selector of a mapping with a metric."""
    matchers = [one_of(label, values) for label, values in unit.match.items()]
    return f"{unit.metric}{{{','.join(matchers)}}}"


def series_of(unit: UnitSettings, labels: Mapping[str, str], cluster: str) -> ProgressSeries:
    """The subject of one series of a mapping. Labels that an exporter renamed (`exported_*`) win, as for
    GPUs.
    """

    def label(*names: str | None) -> str:
        return next((labels[name] for name in names if name and labels.get(name)), "")

    failed = any(_is_failure(labels, name, values) for name, values in unit.failure.items())
    return ProgressSeries(
        mapping=unit.name,
        unit=unit_of(unit.unit),
        kind=unit.kind,
        labels=tuple(sorted((name, value) for name, value in labels.items() if value)),
        cluster=cluster,
        namespace=label("exported_namespace", "namespace", "kubernetes_namespace"),
        pod=label("exported_pod", "pod", "pod_name", "kubernetes_pod_name"),
        workload=label(unit.workload_label),
        model=label(*unit.model_label),
        run_id=label(unit.run_label),
        marks=unit.marks or ("end" if unit.kind == "counter" else "begin"),
        resumes=unit.resumes,
        is_failure=failed,
        tenant=next((labels[name] for name in unit.tenant_label if labels.get(name, "") not in _UNKNOWN), ""),
    )


def _is_failure(labels: Mapping[str, str], name: str, values: list[str]) -> bool:
    if name == "*":
        return True
    return any(fnmatchcase(labels.get(name, ""), value) for value in values)


def levels(logged: Iterable[tuple[int, float, float]], marks: str) -> tuple[list[int], list[float]]:
    """Times (ms) and the level from then on, from entries (time, step, number of the epoch), rounded down.

    The first entry keeps its fraction: 0.3 is in progress, but 0 can be the first epoch, completed.

    An epoch that is logged again (its number decreases, or repeats without a later step) was repeated: just
    after the last entry, the level falls to the state before that epoch.
    """
    times: list[int] = []
    reached: list[float] = []
    last: tuple[int, float] | None = None
    for at_ms, step, number in sorted(logged):
        if not math.isfinite(number):
            continue
        level = math.floor(number)
        again = last is not None and (
            level < last[0] or (level == last[0] and step <= last[1] and at_ms > times[-1])
        )
        if again and marks == "end":
            times.append(times[-1] + 1)
            reached.append(level - 1)
        reached.append(level if times else number)
        times.append(at_ms)
        last = (level, step)
    return times, reached
