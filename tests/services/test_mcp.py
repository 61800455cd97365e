"""`gpucost mcp` with a real client of the protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from gpucost.mcp import tools
from gpucost.texts import visible
from tests.text_tables import text_rows
from tests.unit.command import call

if TYPE_CHECKING:
    from mcp import ClientSession

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.sample.build import build, last_months

    return build(
        tmp_path_factory.mktemp("demo"), last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None
    ).path


def talk(config: Path, talking: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    """Return the result of `talking` in a session with a new server."""
    from mcp import ClientSession, StdioServerParameters  # slow to import
    from mcp.client.stdio import stdio_client

    async def main() -> Any:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "gpucost", "mcp", "--config", str(config)]
        )
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            return await talking(session)

    return anyio.run(main)


def printed(config: Path, *words: str, code: int = 0) -> Any:
    return json.loads(call(*words, "--config", str(config), "--format", "json", code=code)[0])


def test_tools_describe_their_parameters_and_are_read_only(config: Path) -> None:
    listed = {tool.name: tool for tool in talk(config, lambda session: session.list_tools()).tools}
    assert set(listed) == set(tools()) >= {"report", "waste", "findings", "whatif_spot", "unit_tokens"}
    withheld = {"config", "store", "lake", "output", "save", "trace", "file", "rules"}
    for name, tool in listed.items():
        assert tool.annotations is not None and tool.annotations.read_only_hint, name
        Draft202012Validator.check_schema(tool.input_schema)
        taken = tool.input_schema["properties"]
        assert tool.description and all(one["description"] for one in taken.values())
        assert not set(taken) & withheld, name
    assert listed["explain_team"].input_schema["required"] == ["name"]


#: A tool, its arguments, and the equivalent command with its exit code.
ASKED = """
report          | {"month": "2026-10", "by": ["team", "gpu_model"]} | 0 | report --month 2026-10 --by team,gpu_model
waste           | {"from": "2026-10-01", "to": "2026-10-08"}        | 0 | waste --from 2026-10-01 --to 2026-10-08
prices          | {"name": "L40S"}                                  | 0 | prices L40S
whatif_schedule | {"month": "2026-10", "idle_minutes": 30}          | 0 | whatif schedule --month 2026-10 --idle-minutes 30
budget_check    | {"month": "2026-10"}                              | 3 | budget check --month 2026-10
"""
#: A tool, arguments that agents may not set, and the error.
REFUSED = r"""
report             | {"config": "other.toml"}            | report takes no config
report             | {"output": "out.md"}                | report takes no output
report             | {"month": "October"}                | invalid month 'October'
whatif_spot        | {"trace": "/etc/passwd"}            | whatif_spot takes no trace
explain_team       | {"name": "--config=other.toml"}     | no team '--config=
report             | {"team": ["x\u001b[2J\u202e\u3164"]} | no team 'x
report             | {"team": true}                      | team takes a value, not True
report             | {"max_rows": 0}                     | invalid max_rows: 0
sql                | {"statement": "SELECT 1"}           | tool not found: 'sql'
collect_prometheus | {}                                  | tool not found: 'collect_prometheus'
"""
CALLS, REFUSALS = (
    [(name, json.loads(given), *more) for name, given, *more in text_rows(table)]
    for table in (ASKED, REFUSED)
)


@pytest.mark.ci
def test_answers_match_the_commands_and_other_arguments_are_refused(config: Path) -> None:
    before = sorted(path.name for path in config.parent.rglob("*"))

    async def every(session: ClientSession) -> list[Any]:
        good = [await session.call_tool(name, {**given, "max_rows": 500}) for name, given, *_ in CALLS]
        cut = await session.call_tool("report", {"month": "2026-10", "by": ["workload"], "max_rows": 3})
        return [*good, cut, *[await session.call_tool(name, given) for name, given, _ in REFUSALS]]

    heard = talk(config, every)
    answers, cut, refused = heard[: len(CALLS)], heard[len(CALLS)], heard[len(CALLS) + 1 :]
    for answer, (name, _, code, words) in zip(answers, CALLS, strict=True):
        assert json.loads(answer.content[0].text)["answer"] == printed(
            config, *words.split(), code=int(code)
        ), name
    whole = printed(config, "report", "--month", "2026-10", "--by", "workload")
    short = json.loads(cut.content[0].text)
    assert short["answer"]["rows"] == whole["rows"][:3]
    assert short["left_out"]["rows"] == len(whole["rows"]) - 3
    for answer, (name, _, message) in zip(refused, REFUSALS, strict=True):
        text = answer.content[0].text
        assert answer.is_error and message in text and visible(text) == text, name
    assert sorted(path.name for path in config.parent.rglob("*")) == before


def test_missing_sdk_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    out, err = call("mcp", code=1)
    assert "pip install 'gpucost[mcp]'" in err and out == ""
