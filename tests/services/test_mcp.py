"""`gpucost mcp`, asked by a real client of the protocol."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.mcp import tools, use
from gpucost.texts import visible

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.sample.build import build, last_months

    return build(
        tmp_path_factory.mktemp("demo"), last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None
    ).path


def talk(config: Path, asked: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    """What `asked` makes of a session with a server of its own."""

    async def main() -> Any:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "gpucost", "mcp", "--config", str(config)]
        )
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            return await asked(session)

    return anyio.run(main)


def printed(config: Path, *words: str) -> Any:
    return json.loads(CliRunner().invoke(app, [*words, "--config", str(config), "--format", "json"]).stdout)


def test_tools_say_what_they_take_and_only_read(config: Path) -> None:
    listed = {tool.name: tool for tool in talk(config, lambda session: session.list_tools()).tools}
    assert (
        set(listed)
        == set(tools())
        >= {"report", "waste", "findings", "prices", "whatif_spot", "whatif_schedule", "unit_tokens"}
    )
    for name, tool in listed.items():
        assert tool.annotations is not None and tool.annotations.read_only_hint, name
        assert tool.description
        Draft202012Validator.check_schema(tool.input_schema)
        taken = tool.input_schema["properties"]
        assert all(one["description"] for one in taken.values())
        assert not set(taken) & {
            "config",
            "store",
            "lake",
            "output",
            "save",
            "trace",
            "file",
            "junit",
            "rules",
        }, name
    assert listed["explain_team"].input_schema["required"] == ["name"]
    assert listed["report"].input_schema["properties"]["share_unallocated"]["enum"] == [
        "proportional",
        "even",
    ]


@pytest.mark.ci
def test_answers_are_those_of_the_commands(config: Path) -> None:
    asked = [
        (
            "report",
            {"month": "2026-10", "by": ["team", "gpu_model"]},
            "report --month 2026-10 --by team,gpu_model",
        ),
        ("waste", {"from": "2026-10-01", "to": "2026-10-08"}, "waste --from 2026-10-01 --to 2026-10-08"),
        ("prices", {"name": "L40S"}, "prices L40S"),
        (
            "whatif_schedule",
            {"month": "2026-10", "idle_minutes": 30},
            "whatif schedule --month 2026-10 --idle-minutes 30",
        ),
        ("budget_check", {"month": "2026-10"}, "budget check --month 2026-10"),
    ]

    async def every(session: ClientSession) -> list[Any]:
        return [await session.call_tool(name, {**given, "max_rows": 500}) for name, given, _ in asked]

    for answer, (name, _, words) in zip(talk(config, every), asked, strict=True):
        assert not answer.is_error, name
        assert json.loads(answer.content[0].text)["answer"] == printed(config, *words.split()), name


def test_every_tool_takes_the_places_of_the_server(config: Path) -> None:
    given = {
        "purchase_price": 250000,
        "gpus_per_node": 8,
        "gpu_watts": 700,
        "years": 4,
        "price_per_kwh": 0.12,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(config.parent)
        answer = use("prices_tco", dict(given), str(config), str(config.parent / "gpucost.duckdb"))
    assert answer["answer"]["parts"]


def test_long_answers_are_cut_and_say_so(config: Path) -> None:
    whole = printed(config, "diff", "2026-09", "2026-10")
    answer = talk(
        config, lambda one: one.call_tool("diff", {"before": "2026-09", "after": "2026-10", "max_rows": 3})
    )
    told = json.loads(answer.content[0].text)
    assert told["answer"]["workloads"] == whole["workloads"][:3]
    assert told["left_out"]["workloads"] == len(whole["workloads"]) - 3


def test_what_is_no_agents_to_choose_is_refused(config: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in config.parent.rglob("*"))
    other = Path(shutil.copy(config, tmp_path / "other.toml"))
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("report", {"config": str(other)}, "report takes no config"),
        ("report", {"output": str(tmp_path / "out.md")}, "report takes no output"),
        ("report", {"month": "October"}, "--month 'October' is no month"),
        ("whatif_spot", {"trace": "/etc/passwd"}, "whatif_spot takes no trace"),
        ("explain_team", {"name": f"--config={other}"}, "no team '--config="),
        ("report", {"team": ["x --output=y"]}, "no team 'x --output=y'"),
        ("report", {"team": ["x\x1b[2J\u202e\u3164"]}, "no team 'x"),
        ("report", {"team": True}, "team takes a value, not True"),
        ("report", {"max_rows": 0}, "max_rows is 0"),
        ("sql", {"statement": "SELECT 1"}, "there is no tool 'sql'"),
        ("collect_prometheus", {}, "there is no tool 'collect_prometheus'"),
    ]

    async def every(session: ClientSession) -> list[Any]:
        return [await session.call_tool(name, given) for name, given, _ in asked]

    for answer, (name, _, message) in zip(talk(config, every), asked, strict=True):
        assert answer.is_error, name
        assert message in answer.content[0].text
        assert visible(answer.content[0].text) == answer.content[0].text
    assert (
        sorted(path.name for path in config.parent.rglob("*")) == before
        and not (tmp_path / "out.md").exists()
    )


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    result = CliRunner().invoke(app, ["mcp"])
    assert result.exit_code == 1 and "pip install 'gpucost[mcp]'" in result.stderr and result.stdout == ""
