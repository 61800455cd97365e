"""MIG: the profile that a pod needs, and the layouts that one GPU allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpucost.whatif.facts import Model, Profile
from gpucost.whatif.share.packing import Fits, Item


def profile_for(model: Model, activity: float, memory_mib: float) -> Profile | None:
    """The smallest profile with this share of the GPU's compute (0-1) and this memory; None where only a whole GPU has it.

    Profiles with media extensions (+me) are left out: one GPU has a single one.
    """
    fitting = [
        profile
        for profile in model.profiles
        if "+" not in profile.name
        and profile.compute_slices < model.mig_slices
        and profile.compute_slices / model.mig_slices >= activity - 1e-9
        and _memory_mib(model, profile) >= memory_mib
    ]
    return min(fitting, key=lambda p: (p.compute_slices, p.memory_slices), default=None)


def layouts(model: Model) -> Fits:
    """Whether a GPU of this model can be cut into the profiles that all of the items need.

    Slices of compute and of memory are counted, and each profile's most per GPU: instances begin where their profile allows
    (NVIDIA MIG user guide, "MIG device profiles"), and with these counts the layouts of every model in the catalog have room.
    """

    def fits(items: Sequence[Item]) -> bool:
        profiles = [profile_for(model, item.activity, item.memory_mib) for item in items]
        chosen = [profile for profile in profiles if profile is not None]
        counts = Counter(chosen)
        return (
            len(chosen) == len(profiles)
            and sum(profile.compute_slices for profile in chosen) <= model.mig_slices
            and sum(profile.memory_slices for profile in chosen) <= (chosen[0].memory_slices_total if chosen else 0)
            and all(count <= profile.max_per_gpu for profile, count in counts.items())
        )

    return fits


def layout_name(model: Model, items: Sequence[Item]) -> str:
    """`2 x 1g.5gb + 1 x 3g.20gb`."""
    profiles = [profile_for(model, item.activity, item.memory_mib) for item in items]
    counts = Counter(profile.name for profile in profiles if profile is not None)
    return " + ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _memory_mib(model: Model, profile: Profile) -> float:
    return (model.memory_mib or 0) * profile.memory_slices / profile.memory_slices_total
