"""A Helm chart of CronJobs that collect and charge, with the volume of their store."""

import re

from gpucost import __version__
from gpucost.errors import UsageError
from gpucost.render.templates import fill
from gpucost.resources import reports_dir

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# Patterns of valid Kubernetes values, by their names in the chart's schema. An image has host, port, path, tag and
# digest.
_PATTERNS = {
    "image": r"[A-Za-z0-9][A-Za-z0-9._:/@-]*",
    "name": _NAME,
    "subdomain": rf"{_NAME}(\.{_NAME})*",
    "quantity": r"[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?",
}


def chart(image: str, timezone: str) -> dict[str, str]:
    """The files of a Helm chart by path: jobs that collect and charge, and their objects.

    The user supplies the values. Raises UsageError for an image that Kubernetes would refuse.
    """
    if not re.fullmatch(_PATTERNS["image"], image) or len(image) > 253:
        raise UsageError(
            f"invalid --image {image!r} for Kubernetes", "for example registry.example.com/gpucost:1.0"
        )
    values = {"image": image, "timezone": timezone, "version": __version__, "patterns": _PATTERNS}
    folder = reports_dir() / "chart"
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.*"))]
    return {path.removesuffix(".j2"): fill(f"chart/{path}", **values) for path in paths}
