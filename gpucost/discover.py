"""Discovery for `gpucost init`: a nearby Prometheus, its retention, and the local time zone."""

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

from gpucost.errors import SourceError
from gpucost.records import frozen_dataclass

LOCAL = "http://127.0.0.1:9090"

# Service names of the usual installations, as pods in the same cluster reach them.
IN_CLUSTER = (
    "http://prometheus-operated.monitoring.svc:9090",
    "http://kube-prometheus-stack-prometheus.monitoring.svc:9090",
    "http://prometheus-k8s.monitoring.svc:9090",
    "http://prometheus-server.monitoring.svc",
)


@frozen_dataclass
class Server:
    """A server with Prometheus' HTTP API; `retention` as it reports it, None if it does not."""

    url: str
    needs_login: bool = False
    version: str | None = None
    retention: str | None = None


def candidates(environ: Mapping[str, str]) -> list[str]:
    """Possible URLs of a Prometheus, the likeliest first."""
    named = [
        environ[name]
        for name in ("PROMETHEUS_URL", "PROMETHEUS_ADDRESS", "PROMETHEUS_HOST")
        if environ.get(name)
    ]
    urls = [url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}" for url in named]
    return list(dict.fromkeys([*urls, LOCAL, *(IN_CLUSTER if "KUBERNETES_SERVICE_HOST" in environ else ())]))


def probe(url: str) -> Server | None:
    """The server at `url`; None without an answer like Prometheus'. Sends no credentials."""
    from gpucost.collect.prometheus.client import PrometheusClient, Retries, Unauthorized, status
    from gpucost.config.model import PrometheusSource

    try:
        client = PrometheusClient(PrometheusSource(url=url, timeout_seconds=2.0), Retries(attempts=1))
    except ValueError:  # not a usable URL
        return None
    with closing(client):
        try:
            answer = client.get("query", {"query": "1"})
        except Unauthorized:
            return Server(url, needs_login=True)
        except SourceError:
            return None
        if not isinstance(answer, dict) or answer.get("resultType") not in ("scalar", "vector"):
            return None
        retention = status(client.get, "runtimeinfo", "storageRetention")
        retention = retention or status(
            client.get, "flags", "storage.tsdb.retention.time", "storage.tsdb.retention"
        )
        return Server(url, version=status(client.get, "buildinfo", "version"), retention=retention)


def timezone(environ: Mapping[str, str] = os.environ, etc: Path = Path("/etc")) -> str:
    """The IANA name of the machine's time zone; UTC if it is unknown."""
    link = os.path.realpath(etc / "localtime").partition("/zoneinfo/")[2]
    written = (etc / "timezone").read_text("utf-8").strip() if (etc / "timezone").is_file() else ""
    for name in (environ.get("TZ", "").removeprefix(":"), link, written):
        try:
            if name and name not in ("Etc/UTC", "localtime"):
                return ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            continue
    return "UTC"
