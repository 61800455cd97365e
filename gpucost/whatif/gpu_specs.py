"""GPU models of the catalog: memory, MIG profiles, and the date of these facts."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from gpucost import catalog


class Profile(NamedTuple):
    """A MIG profile: the slices of its GPU that it takes."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_slices_total: int
    max_per_gpu: int


class GpuModel(NamedTuple):
    """A GPU model. `memory_mib` is None if unknown, `mig_slices` 0 if it cannot be cut. `as_of` dates the facts."""

    name: str
    memory_mib: int | None
    mig_slices: int
    profiles: tuple[Profile, ...]
    as_of: str | None


# models by name
GpuSpecs = Mapping[str, GpuModel]

_MODELS = """
SELECT gpu_model, memory_mib, mig_slices, source_id
FROM gpu_models"""
_PROFILES = """
SELECT gpu_model, profile, compute_slices, memory_slices, memory_slices_total, max_per_gpu
FROM mig_profiles
ORDER BY ALL"""


def load_facts() -> GpuSpecs:
    """The shipped GPU models."""
    from gpucost.store.connection import scratch_store

    # the day on which each source was read
    dates = {row["source_id"]: row["as_of"] for row in catalog.facts("sources.csv")}
    profiles: dict[str, list[Profile]] = defaultdict(list)
    with scratch_store() as con:
        catalog.load_catalog(con)
        for model, *profile in con.execute(_PROFILES).fetchall():
            profiles[model].append(Profile(*profile))
        return {
            name: GpuModel._make((name, *model, tuple(profiles[name]), dates.get(source)))
            for name, *model, source in con.execute(_MODELS).fetchall()
        }
