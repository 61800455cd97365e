"""How fast one GPU model is beside another: dense FP16 throughput of the catalog, or a table of the user's own."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucost.errors import DataError
from gpucost.whatif.facts import Facts

_COLUMNS = ("gpu_model", "relative_speed")


@dataclass(frozen=True, slots=True)
class Speeds:
    """Speeds by model, in any one unit. `across_vendors`: they are measured, so that work may move to another vendor's GPUs."""

    of: Mapping[str, float]
    source: str
    as_of: str | None = None
    across_vendors: bool = False

    def ratio(self, model: str, base: str) -> float | None:
        """How many GPUs of `base` one of `model` is worth; None where either is not known."""
        speed, other = self.of.get(model), self.of.get(base)
        return speed / other if speed and other else None


def catalog_speeds(facts: Facts) -> Speeds:
    """Dense FP16 throughput: right for large matrix products, too good for what waits for memory or input."""
    dates = [model.as_of for model in facts.models.values() if model.tflops and model.as_of]
    return Speeds(
        {model.name: model.tflops for model in facts.models.values() if model.tflops},
        "catalog (dense FP16 TFLOPS)",
        max(dates, default=None),
    )


def read_speeds(path: Path, facts: Facts) -> Speeds:
    """The user's table: CSV with the columns gpu_model, relative_speed. Raises DataError, naming file and line."""
    speeds: dict[str, float] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ())[: len(_COLUMNS)] != _COLUMNS:
                raise DataError(f"{path}, line 1: the columns are {', '.join(reader.fieldnames or ()) or 'missing'}", _HINT)
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                try:
                    speed = float(row["relative_speed"] or "")
                except ValueError:
                    speed = 0.0
                if not 0 < speed < float("inf"):
                    raise DataError(f"{where}: {row['relative_speed']!r} is no speed above 0", _HINT)
                speeds[facts.model(row["gpu_model"] or "", where).name] = speed
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    if not speeds:
        raise DataError(f"{path} holds no speeds", _HINT)
    return Speeds(speeds, str(path), across_vendors=True)


_HINT = "its lines are gpu_model,relative_speed: A100-SXM4-40GB,1 and H100-80GB-HBM3,2.2"
