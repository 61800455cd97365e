"""Which metrics count work, and what their labels mean: the ready-made mappings, and those of the configuration."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib.resources import files

from gpucost.collect.prometheus.queries import one_of
from gpucost.config.model import Config, UnitSettings
from gpucost.store import bill_files
from gpucost.store.progress import ProgressSeries

# Values of a tenant label that name no tenant.
_UNKNOWN = (*bill_files.BLANK, "unknown", "-")
# Units that gpucost unit answers about; requests --count shows any other.
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
    """The mappings of the configuration, and the ready-made ones whose names it does not use."""
    own = {unit.name for unit in config.units}
    return [*config.units, *(unit for unit in ready_made() if unit.name not in own)]


def ready_made() -> list[UnitSettings]:
    """The mappings that gpucost brings, from mappings.toml."""
    text = (files("gpucost.collect.progress") / "mappings.toml").read_text(encoding="utf-8")
    return [UnitSettings.model_validate(item) for item in tomllib.loads(text)["units"]]


def unit_of(text: str) -> str:
    """The unit that a word means: `gpucost unit` knows UNITS, also in the plural; other words stand for themselves."""
    return text[:-1] if text.endswith("s") and text[:-1] in UNITS else text


def selector(unit: UnitSettings) -> str:
    """The PromQL selector of a mapping by metric."""
    matchers = [one_of(label, values) for label, values in unit.match.items()]
    return f"{unit.metric}{{{','.join(matchers)}}}"


def series_of(unit: UnitSettings, labels: Mapping[str, str], cluster: str) -> ProgressSeries:
    """What one series of a mapping is about. Labels that an exporter had to rename (`exported_*`) win, as for GPUs."""

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
    """Moments (ms) and the level from then on, of entries (moment, step, number of the epoch); fractions are cut off.

    The first keeps its fraction: 0.3 is under way, where 0 may be the first epoch, done.

    An epoch that is logged again (its number falls back, or repeats without a later step) was done again: the level falls, just
    after the last entry, to what had been done before it.
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
