"""Nobody is logged in: the one failure of a collector that is none."""

from __future__ import annotations

from gpucost.errors import GpucostError


class NoCredentials(GpucostError):
    """No credentials were found for this cloud: it is skipped in one line."""
