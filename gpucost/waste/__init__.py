"""The anatomy of waste: every held or paid GPU-hour in exactly one bucket (docs/waste.md)."""

from gpucost.waste.build import build
from gpucost.waste.view import BUCKETS, Bucket, Filters, Slot, Waste, WasteRow, WorkloadWaste

__all__ = ["BUCKETS", "Bucket", "Filters", "Slot", "Waste", "WasteRow", "WorkloadWaste", "build"]
