"""A real proxy of LiteLLM before a stand-in for whom it passes calls on to, with a Prometheus that scrapes it.

The proxy is 0.5 GB to install, so it is no test dependency: GPUCOST_LITELLM names the program, else it is found on the PATH.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Quiet, serving
from tests.programs import program
from tests.replay.server import free_port, stop

#: A key names its team.
_TENANTS = """
from litellm.proxy._types import UserAPIKeyAuth

async def authorize(request, api_key):
    team = api_key.removeprefix("sk-")
    return UserAPIKeyAuth(
        api_key=api_key, team_id=f"id-{team}", team_alias=team, key_alias=f"{team}-key", user_id=f"{team}-user"
    )
"""
#: Each call as a line of JSON: LiteLLM's standard logging payload, but for what was said.
_CALLS = """
import json
from litellm.integrations.custom_logger import CustomLogger

class Lines(CustomLogger):
    def put(self, call):
        with open("calls.jsonl", "a") as out:
            print(json.dumps({**call, "messages": None, "response": None}, default=str), file=out)

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.put(kwargs["standard_logging_object"])

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.put(kwargs["standard_logging_object"])

lines = Lines()
"""
#: What was said is the answer's token counts: prompt, generated and cached ones. Fewer than none: it fails.
_ANSWERED = {"id": "x", "created": 1, "model": "x"}


@dataclass(frozen=True)
class Call:
    """What a team asks of a model, and how many tokens that is."""

    team: str
    model: str
    prompt: int
    generated: int
    cached: int = 0
    is_streamed: bool = False

    @property
    def fails(self) -> bool:
        return self.generated < 0


class _Upstream(Quiet):
    """Answers as OpenAI's API does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, generated, cached = map(int, body["messages"][-1]["content"].split())
        if generated < 0:
            self._reply(500, "application/json", json.dumps({"error": {"message": "no", "type": "x", "code": "x"}}))
            return
        usage = {
            "prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
            self._reply(
                200,
                "application/json",
                json.dumps(_ANSWERED | {"object": "chat.completion", "choices": [choice], "usage": usage}),
            )
            return
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({"choices": [], "usage": usage})
        lines = [json.dumps(_ANSWERED | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks]
        self._reply(200, "text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))

    def _reply(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@dataclass(frozen=True)
class Proxy:
    """Where it listens, where the Prometheus does that scrapes it every second, and the file of its calls."""

    url: str
    prometheus: str
    calls: Path

    def send(self, calls: list[Call]) -> list[int]:
        """The statuses of these calls, eight at a time."""

        def one(call: Call) -> int:
            said = f"{call.prompt} {call.generated} {call.cached}"
            body = {"model": call.model, "messages": [{"role": "user", "content": said}], "stream": call.is_streamed}
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer sk-{call.team}"}
            request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(), headers)  # noqa: S310
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                    answer.read()
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, calls))

    def total(self, metric: str) -> float:
        """The sum of a metric's series, as Prometheus has it."""
        query = urllib.parse.urlencode({"query": f"sum({metric})"})
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/query?{query}", timeout=10) as answer:  # noqa: S310
            result = json.load(answer)["data"]["result"]
        return float(result[0]["value"][1]) if result else 0.0


def wait_until(is_so: Callable[[], bool], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Returns once `is_so`; fails after three minutes, or where the process ends."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail(f"{what} did not come")


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
        return bool(answer.status == 200)


@contextmanager
def proxy(folder: Path) -> Iterator[Proxy]:
    """A proxy that sells `gpt-4o-mini`, and passes `chat` on to a vLLM of one's own; alive within the `with`.

    Skips the test where LiteLLM's proxy is not installed; fails it under CI=true.
    """
    command = program("GPUCOST_LITELLM", "litellm")
    (folder / "tenants.py").write_text(_TENANTS)
    (folder / "calls.py").write_text(_CALLS)
    with serving(_Upstream) as upstream:
        models = {
            "gpt-4o-mini": {"model": "openai/gpt-4o-mini", "api_base": f"{upstream}/v1", "api_key": "none"},
            "chat": {"model": "hosted_vllm/qwen", "api_base": f"{upstream}/v1"},
        }
        settings = {
            "model_list": [{"model_name": name, "litellm_params": params} for name, params in models.items()],
            "litellm_settings": {"callbacks": ["prometheus", "calls.lines"], "num_retries": 0},
            "general_settings": {"custom_auth": "tenants.authorize"},
        }
        (folder / "proxy.yaml").write_text(json.dumps(settings))
        port = free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GPUCOST"))}
        # it asks nobody for prices
        environment |= {"LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        arguments = ["--config", "proxy.yaml", "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([command, *arguments], stdout=log, stderr=log, cwd=folder, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _answers(f"{url}/health/liveliness"), f"litellm's proxy ({folder / 'log'})", process)
            with _scraping(folder / "prometheus", port) as prometheus:
                yield Proxy(url, prometheus, folder / "calls.jsonl")
        finally:
            stop(process)


@contextmanager
def _scraping(folder: Path, target: int) -> Iterator[str]:
    folder.mkdir()
    scraped = {"job_name": "litellm", "metrics_path": "/metrics/", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scraped]}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    process = subprocess.Popen([*command, f"--web.listen-address={address}", "--log.level=error"])
    try:
        wait_until(lambda: _answers(f"http://{address}/-/ready"), "Prometheus", process)
        yield f"http://{address}"
    finally:
        stop(process)
