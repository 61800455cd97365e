"""The fleets of ../shared and the series of their own replay."""

from __future__ import annotations

import importlib.util
import io
from types import ModuleType
from typing import Any

import numpy as np

from tests.replay.fleet import Fleet
from tests.replay.series import Series
from tests.shared import SHARED

#: Metrics that the bill does not use.
_UNUSED = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE")


def shared_cases() -> list[str]:
    """Return the names of the fleets; none without ../shared next to the checkout."""
    return [file.parent.name for file in sorted((SHARED / "replay" / "cases").glob("*/fleet.json"))]


def replayed(fleet: Fleet) -> list[Series]:
    """Return every series that the bill uses, as the replay would pass it to Prometheus."""
    replay = _replay()
    chunks = {}

    class Writer(replay.Writer):  # type: ignore[misc, name-defined]
        """Keep samples instead of writing them as text."""

        def put(self, name: str, labels: dict[str, Any], value: Any, t: float) -> None:
            if name not in _UNUSED:
                key = (
                    ("__name__", name),
                    *sorted((k, str(v)) for k, v in labels.items() if v is not None and v != ""),
                )
                times, values = chunks.setdefault(key, ([], []))
                times.append(round(float(f"{t:.3f}") * 1000))
                values.append(float(value))

        def flush(self) -> None:
            pass

    replay.Writer = Writer  # type: ignore[attr-defined]
    replay.metrics(fleet, io.StringIO())
    series = []
    for labels, (times, values) in chunks.items():
        ordered, first = np.unique(np.array(times, dtype=np.int64), return_index=True)
        series.append(Series(dict(labels), ordered, np.array(values, dtype=np.float64)[first]))
    return series


def _replay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared_replay", SHARED / "replay" / "replay.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
