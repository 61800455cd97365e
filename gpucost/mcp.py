"""Questions as read-only tools for agents over the Model Context Protocol.

The registry of questions defines the tools.
"""

from __future__ import annotations

import inspect
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost import __version__
from gpucost.api import Gpucost
from gpucost.errors import GpucostError, UsageError
from gpucost.installation import with_extra
from gpucost.options import Parameter, parameters
from gpucost.questions import QUESTIONS
from gpucost.texts import readable_json, visible

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server

# Options that name a file or an address are left out: tools read only the store.
_OUTSIDE = ("FILE", "PATH", "DIR", "URL")
_NUMBERS: dict[Any, str] = {int: "integer", float: "number", Decimal: "number", bool: "boolean"}
_MOST = 500
_INSTRUCTIONS = (
    "GPU costs, usage and waste, from the store of gpucost. Money is in the `currency` of the answer. "
    "Always report `coverage`: time that was not collected is not unused. "
    "A saving depends on the assumptions listed next to it."
)


def tools() -> dict[str, str]:
    """Questions that read only the store, by tool name."""
    return {
        words.replace(" ", "_"): words for words, question in QUESTIONS.items() if not question.reads_files
    }


def parameters_of(words: str) -> dict[str, Parameter]:
    """A tool's input: options and arguments of its question, except files and addresses."""
    return {
        each.key: each
        for each in parameters(QUESTIONS[words].function)
        if each.option.metavar not in _OUTSIDE and each.key not in ("save", "strict")
    }


def schema_of(words: str) -> dict[str, Any]:
    """The JSON Schema of a tool's input."""
    by_key = parameters_of(words)
    fields = {key: _field(key, param) for key, param in by_key.items()}
    fields["max_rows"] = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST,
        "default": 50,
        "description": "Maximum number of rows in each list.",
    }
    required = [key for key, param in by_key.items() if param.is_required]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _field(key: str, param: Parameter) -> dict[str, Any]:
    kind = _NUMBERS.get(param.kind, "string")
    field: dict[str, Any] = {"type": kind} | ({"enum": list(param.choices)} if param.choices else {})
    if param.is_repeated:
        field = {"type": "array", "items": field}
    how = (
        f" ({param.option.metavar})"
        if param.option.metavar and kind == "string" and not param.choices
        else ""
    )
    return field | {"description": f"{param.option.help or key}{how}"}


def use(name: str, explicit: dict[str, Any], config: str | None, store: str | None) -> dict[str, Any]:
    """A tool's answer: the question's JSON, with lists cut to `max_rows`.

    `left_out` counts the rows cut from each list. Raises GpucostError, with the command's message.
    """
    if name not in tools():
        raise UsageError(f"tool not found: {name!r}", f"tools are {', '.join(tools())}")
    words = tools()[name]
    existing = parameters_of(words)
    rows = explicit.pop("max_rows", 50)
    if not isinstance(rows, int) or not 1 <= rows <= _MOST:
        raise UsageError(f"invalid max_rows: {rows!r}", f"give a number from 1 to {_MOST}")
    if unknown := sorted(set(explicit) - set(existing)):
        raise UsageError(
            f"{name} takes no {', '.join(unknown)}", f"it takes {', '.join((*existing, 'max_rows'))}"
        )
    answer = Gpucost(config, store).ask(words, **explicit, format="json")
    left_out: dict[str, int] = {}
    cut = _cut(json.loads(answer.json()), rows, "", left_out)
    remarks = {"left_out": left_out} if left_out else {}
    return {"answer": cut, **remarks, **({"notes": list(answer.notes)} if answer.notes else {})}


def _cut(value: Any, most: int, path: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner, most, f"{path}.{key}".lstrip("."), left_out) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > most:
        left_out[path] = left_out.get(path, 0) + len(value) - most
    return [_cut(inner, most, path, left_out) for inner in value[:most]]


def serve(config: str | None, store: str | None) -> None:
    """Serve the tools over stdin and stdout until the client disconnects.

    Raises GpucostError if the MCP SDK is missing.
    """
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        raise GpucostError(
            "gpucost mcp needs the MCP SDK, which is not installed", with_extra("mcp")
        ) from None
    server = _server(config, store)

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)


def _description(words: str) -> str:
    """The command's help without its examples."""
    text = inspect.getdoc(QUESTIONS[words].function) or ""
    return " ".join(text.partition("\b")[0].split())


def _server(config: str | None, store: str | None) -> Server[Any]:
    import anyio.to_thread
    from mcp import types
    from mcp.server import Server

    only_reads = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        offered = [
            types.Tool(
                name=name,
                description=_description(words),
                input_schema=schema_of(words),
                annotations=only_reads,
            )
            for name, words in tools().items()
        ]
        return types.ListToolsResult(tools=offered)

    async def call_tool(_: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        is_error = False
        try:
            text = readable_json(
                await anyio.to_thread.run_sync(
                    use, request.name, dict(request.arguments or {}), config, store
                )
            )
        except GpucostError as error:
            text, is_error = visible(error.message + (f"\nfix: {error.fix}" if error.fix else "")), True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return Server(
        "gpucost",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
