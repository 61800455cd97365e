"""`gpucost mcp`: read-only tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from gpucost import __version__
from gpucost.cli import answers
from gpucost.cli.command import Call, command, switch
from gpucost.errors import GpucostError, UsageError
from gpucost.texts import readable_json, visible

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server

# Of this machine, or where an answer would go: the one who starts the server decides that, not an agent.
_NOT_OFFERED = frozenset(
    (
        "config",
        "store",
        "lake",
        "output",
        "format",
        "quiet",
        "verbose",
        "profile",
        "save",
        "brief",
        "focus_version",
        "strict",
    )
)
# What names a file or an address: nothing but the store is read.
_OUTSIDE = ("FILE", "PATH", "DIR", "URL")
_OF_FILES = ("whatif plan", "whatif compare")
_NUMBERS = {
    "COUNT": "integer",
    "NUMBER": "number",
    "HOURS": "number",
    "DAYS": "number",
    "GB": "number",
    "MONEY": "number",
}
_MOST = 500
_INSTRUCTIONS = (
    "What GPUs cost, who used them and what was wasted, from the store of gpucost. Money is in the `currency` of the answer. Say "
    "what `coverage` says: time that was not collected is not unused. A saving depends on the assumptions beside it."
)


def tools() -> dict[str, tuple[str, Any]]:
    """The commands that are offered, by the names of their tools: those that read nothing but the store."""
    return {
        words.replace(" ", "_"): (words, one)
        for words, one in answers.answering().items()
        if words not in _OF_FILES
    }


def parameters_of(one: Any) -> dict[str, Any]:
    """What a tool takes: the command's options, as they are typed, and arguments, but those that are no agent's to choose."""
    named = {
        (part.name if part.param_type_name == "argument" else answers.option_name(part)): part
        for part in one.params
    }
    return {
        name: part
        for name, part in named.items()
        if name not in _NOT_OFFERED and part.metavar not in _OUTSIDE
    }


def schema_of(one: Any) -> dict[str, Any]:
    """The JSON Schema of what a tool takes."""
    fields: dict[str, Any] = {}
    for name, part in parameters_of(one).items():
        choices = getattr(part.type_descriptor, "choices", None)
        is_flag = getattr(part, "is_flag", False)
        kind = "boolean" if is_flag else _NUMBERS.get(part.metavar or "", "string")
        field: dict[str, Any] = {"type": kind} | (
            {"enum": [str(choice) for choice in choices]} if choices else {}
        )
        if getattr(part, "multiple", False):
            field = {"type": "array", "items": field}
        how = f" ({part.metavar})" if part.metavar and kind == "string" and not choices else ""
        fields[name] = field | {"description": f"{part.help or name}{how}"}
    fields["max_rows"] = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST,
        "default": 50,
        "description": "Most rows of each list.",
    }
    required = [name for name, part in parameters_of(one).items() if part.required]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def use(name: str, given: dict[str, Any], config: str | None, store: str | None) -> dict[str, Any]:
    """What the tool answers: the command's JSON, lists cut to `max_rows`, and in `left_out` how many rows of which are not there.

    Raises GpucostError, with the command's message.
    """
    if name not in tools():
        raise UsageError(f"there is no tool {name!r}", f"tools are {', '.join(tools())}")
    words, one = tools()[name]
    known = parameters_of(one)
    rows = given.pop("max_rows", 50)
    if not isinstance(rows, int) or not 1 <= rows <= _MOST:
        raise UsageError(f"max_rows is {rows!r}", f"it takes a number from 1 to {_MOST}")
    if unknown := sorted(set(given) - set(known)):
        raise UsageError(
            f"{name} takes no {', '.join(unknown)}", f"it takes {', '.join((*known, 'max_rows'))}"
        )
    named = [part.name for part in one.params if part.param_type_name == "argument"]
    arguments = [given.pop(part) for part in named if given.get(part) is not None]
    there = {answers.option_name(part) for part in one.params}
    places = {place: value for place, value in (("config", config), ("store", store)) if place in there}
    asked = answers.ask(words, arguments, places | given)
    left_out: dict[str, int] = {}
    answer = _cut(asked.answer, rows, "", left_out)
    beside = {"left_out": left_out} if left_out else {}
    return {"answer": answer, **beside, **({"notes": list(asked.notes)} if asked.notes else {})}


def _cut(value: Any, most: int, path: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner, most, f"{path}.{key}".lstrip("."), left_out) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > most:
        left_out[path] = left_out.get(path, 0) + len(value) - most
    return [_cut(inner, most, path, left_out) for inner in value[:most]]


@command()
def mcp(
    call: Call,
    list_tools: Annotated[bool, switch("--list", "Only list the tools, and what they take.")] = False,
) -> None:
    """Serve what gpucost knows to an agent: read-only tools over stdin and stdout (Model Context Protocol).

    Tools are the commands that read the store: report, waste, findings, prices, what-ifs and more, with the same figures. None
    collects, writes a file or reads another one. Your MCP client starts this command (docs/mcp.md).

    \b
    Examples:
      gpucost mcp --list
      gpucost mcp --config /etc/gpucost/gpucost.toml
    """
    if list_tools:
        for name, (words, one) in tools().items():
            call.write(f"{name}: gpucost {words}; {', '.join(parameters_of(one))}\n")
        return
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        raise GpucostError(
            "gpucost mcp needs the MCP SDK, which is not installed", "pip install 'gpucost[mcp]'"
        ) from None
    server = _server(*(str(path) if path else None for path in (call.config_file, call.store_file)))

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def _server(config: str | None, store: str | None) -> Server[Any]:
    import anyio.to_thread
    from mcp import types
    from mcp.server import Server

    only_reads = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        offered = [
            # what the command's help says before its examples
            types.Tool(
                name=name,
                description=" ".join(str(one.help or "").partition("\b")[0].split()),
                input_schema=schema_of(one),
                annotations=only_reads,
            )
            for name, (_, one) in tools().items()
        ]
        return types.ListToolsResult(tools=offered)

    async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await anyio.to_thread.run_sync(
                use, asked.name, dict(asked.arguments or {}), config, store
            )
        except GpucostError as error:
            text = visible(error.message + (f"\nfix: {error.fix}" if error.fix else ""))
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        text = readable_json(answer)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server(
        "gpucost",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
