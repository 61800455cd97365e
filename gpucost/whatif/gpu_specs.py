"""What the catalog knows of GPU models: memory, MIG profiles; and the date of that knowledge."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from gpucost import catalog
from gpucost.errors import UsageError
from gpucost.records import record
from gpucost.suggest import did_you_mean


class Profile(NamedTuple):
    """A MIG profile: the slices it takes of its GPU's."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_slices_total: int
    max_per_gpu: int


class GpuModel(NamedTuple):
    """A GPU model; None where the catalog does not know. `mig_slices` is 0 where it cannot be cut. `as_of` dates the facts."""

    name: str
    memory_mib: int | None
    mig_slices: int
    profiles: tuple[Profile, ...]
    as_of: str | None


@record
class Facts:
    """Models by name, and names by spelling."""

    models: dict[str, GpuModel]
    aliases: dict[str, str]

    def model(self, spelling: str) -> GpuModel:
        """The model that `spelling` means. Raises UsageError, naming the nearest."""
        name = self.aliases.get(catalog.spelled(spelling), spelling)
        if name in self.models:
            return self.models[name]
        by_lower = {known.lower(): known for known in self.models}
        lists = "gpucost prices lists the models known"
        hint = did_you_mean(spelling.lower(), by_lower, lists, most=3, cutoff=0.4, shown=by_lower.__getitem__)
        raise UsageError(f"--gpu-model {spelling!r} is no GPU model known", hint)


_MODELS = """
SELECT gpu_model, memory_mib, mig_slices, source_id
FROM gpu_models"""
_PROFILES = """
SELECT gpu_model, profile, compute_slices, memory_slices, memory_slices_total, max_per_gpu
FROM mig_profiles
ORDER BY ALL"""


def load_facts() -> Facts:
    """The shipped facts."""
    from gpucost.store.connection import scratch_store

    # the day as of which each source was read
    dates = {row["source_id"]: row["as_of"] for row in catalog.facts("sources.csv")}
    profiles: dict[str, list[Profile]] = defaultdict(list)
    with scratch_store() as con:
        catalog.load_catalog(con)
        for model, *profile in con.execute(_PROFILES).fetchall():
            profiles[model].append(Profile(*profile))
        models = {
            name: GpuModel._make((name, *facts, tuple(profiles[name]), dates.get(source)))
            for name, *facts, source in con.execute(_MODELS).fetchall()
        }
        return Facts(models, dict(con.execute("SELECT alias, gpu_model FROM gpu_aliases").fetchall()))
