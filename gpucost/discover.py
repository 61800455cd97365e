"""What `gpucost init` can find out by itself: a Prometheus nearby, how long it remembers, and the local time zone."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

LOCAL = "http://127.0.0.1:9090"

# Service names of the usual installations, as pods in the same cluster reach them.
IN_CLUSTER = (
    "http://prometheus-operated.monitoring.svc:9090",
    "http://kube-prometheus-stack-prometheus.monitoring.svc:9090",
    "http://prometheus-k8s.monitoring.svc:9090",
    "http://prometheus-server.monitoring.svc",
)


@dataclass(frozen=True)
class Server:
    """A server that speaks Prometheus' HTTP API. `retention` is its own words, None where it does not tell."""

    url: str
    needs_login: bool = False
    version: str | None = None
    retention: str | None = None


def candidates(environ: Mapping[str, str]) -> list[str]:
    """URLs where a Prometheus may be, the likeliest first."""
    named = [environ[name] for name in ("PROMETHEUS_URL", "PROMETHEUS_ADDRESS", "PROMETHEUS_HOST") if environ.get(name)]
    urls = [url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}" for url in named]
    return list(dict.fromkeys([*urls, LOCAL, *(IN_CLUSTER if "KUBERNETES_SERVICE_HOST" in environ else ())]))


def first_server(urls: Iterable[str], timeout_seconds: float = 2.0) -> Server | None:
    """The first of `urls` that answers as Prometheus does, also where it wants a login first; None if none does."""
    return next((server for url in urls if (server := probe(url, timeout_seconds))), None)


def probe(url: str, timeout_seconds: float = 2.0) -> Server | None:
    """The server at `url`; None where nothing answers or something else does. Sends no credentials."""
    try:
        if _data(url, "query?query=1", timeout_seconds).get("resultType") not in ("scalar", "vector"):
            return None
    except urllib.error.HTTPError as error:
        return Server(url, needs_login=True) if error.code in (401, 403) else None
    except (OSError, ValueError, AttributeError):
        return None
    return Server(url, version=_said(url, "buildinfo", ("version",), timeout_seconds), retention=retention(url, timeout_seconds))


def retention(url: str, timeout_seconds: float = 2.0) -> str | None:
    """How long the server at `url` keeps samples, in its own words (`15d`); None where it does not tell."""
    return _said(url, "runtimeinfo", ("storageRetention",), timeout_seconds) or _said(
        url, "flags", ("storage.tsdb.retention.time", "storage.tsdb.retention"), timeout_seconds
    )


def timezone(environ: Mapping[str, str] = os.environ, etc: Path = Path("/etc")) -> str:
    """The IANA name of the machine's time zone; UTC where it cannot be told."""
    link = os.path.realpath(etc / "localtime").partition("/zoneinfo/")[2]
    written = (etc / "timezone").read_text(encoding="utf-8").strip() if (etc / "timezone").is_file() else ""
    for name in (environ.get("TZ", "").removeprefix(":"), link, written):
        try:
            if name and name not in ("Etc/UTC", "localtime"):
                return ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            continue
    return "UTC"


def _said(url: str, page: str, keys: tuple[str, ...], timeout_seconds: float) -> str | None:
    """The first of `keys` that the server's status page holds; many servers lack some of these pages."""
    try:
        data = _data(url, f"status/{page}", timeout_seconds)
    except (OSError, ValueError, AttributeError):
        return None
    return next((str(data[key]) for key in keys if data.get(key) and data[key] != "0s"), None)


def _data(url: str, path: str, timeout_seconds: float) -> dict[str, Any]:
    # A proxy is of no use on the way to this machine itself.
    proxies = [urllib.request.ProxyHandler({})] if "//127.0.0.1" in url or "//localhost" in url else []
    with urllib.request.build_opener(*proxies).open(f"{url}/api/v1/{path}", timeout=timeout_seconds) as answer:
        data = json.load(answer)["data"]
    return data if isinstance(data, dict) else {}
