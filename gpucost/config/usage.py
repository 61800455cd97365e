"""How GPU usage is measured and judged: activity, idleness, MIG slices, targets, waste, findings."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from gpucost.config.section import Section
from gpucost.model import MS_PER_HOUR


class Idle(Section):
    """When a held GPU counts as idle."""

    threshold_percent: float = Field(default=5.0, ge=0, le=100, description="A measured GPU under this activity is idle.")
    min_measured: float = Field(
        default=0.8, ge=0, le=1, description="Under this measured share of allocated GPU-hours, the efficiency target is unknown."
    )


class Activity(Section):
    """What measures a GPU's activity."""

    device_metric: str = Field(default="DCGM_FI_DEV_GPU_UTIL", description="Metric of whole devices.")
    device_scale: float = Field(default=1.0, gt=0, description="Factor that makes it a percentage.")
    mig_metric: str = Field(default="DCGM_FI_PROF_GR_ENGINE_ACTIVE", description="Metric of MIG instances.")
    mig_scale: float = Field(default=100.0, gt=0, description="Factor that makes it a percentage.")
    memory: bool = Field(
        default=False, description="Also collect used GPU memory, `DCGM_FI_DEV_FB_USED`: as many samples again as of activity."
    )


class Mig(Section):
    """How MIG slices share a GPU."""

    share: Literal["compute", "max_compute_memory"] = Field(
        default="compute",
        description="What a slice is of its GPU: its share of compute slices, or the larger of its compute and memory shares.",
    )


class Hami(Section):
    """How HAMi shares GPUs."""

    default_mem: int | None = Field(
        default=None,
        gt=0,
        description="MiB of a virtual GPU that names no memory, as HAMi's `scheduler.defaultMem` says; else the whole GPU.",
    )


class Targets(Section):
    """What the report measures teams against."""

    efficiency: Decimal = Field(default=Decimal("0.80"), ge=0, le=1, description="Least active share of measured GPU-hours.")
    spot_ratio: Decimal = Field(default=Decimal("0.70"), ge=0, le=1, description="Least spot share of allocated GPU-hours.")


class Waste(Section):
    """What counts as which kind of waste (docs/waste.md)."""

    target_utilization: float = Field(
        default=0.7, gt=0, le=1, description="How busy the replicas of a serving workload may be at its peak."
    )
    forgotten_after: str = Field(
        default="24h", pattern=r"^[1-9]\d{0,3}[hdw]$", description="Idle for longer, until its end, and a notebook is forgotten."
    )
    empty_after: str = Field(
        default="1h",
        pattern=r"^[1-9]\d{0,3}[hdw]$",
        description="A node that nobody holds for this long is empty, not between jobs.",
    )

    @property
    def forgotten_after_ms(self) -> int:
        """`forgotten_after` in milliseconds."""
        return _span_ms(self.forgotten_after)

    @property
    def empty_after_ms(self) -> int:
        """`empty_after` in milliseconds."""
        return _span_ms(self.empty_after)


class FindingsSettings(Section):
    """What is worth saying (docs/findings.md)."""

    minimum_per_month: Decimal = Field(
        default=Decimal(50), ge=0, description="Money a month under which a saving is left out of `gpucost findings`."
    )


def _span_ms(span: str) -> int:
    return int(span[:-1]) * {"h": 1, "d": 24, "w": 168}[span[-1]] * MS_PER_HOUR
