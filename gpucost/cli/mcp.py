"""`gpucost mcp`: read-only tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

from gpucost.cli.command import Call, command
from gpucost.options import Option


@command()
def mcp(
    call: Call,
    list_tools: Annotated[bool, Option("Only list the tools, and what they take.", flag="--list")] = False,
) -> None:
    """Serve what gpucost knows to an agent: read-only tools over stdin and stdout (Model Context Protocol).

    Tools are the commands that read the store: report, waste, findings, prices, what-ifs and more, with the same figures. None
    collects, writes a file or reads another one. Your MCP client starts this command (docs/mcp.md).

    \b
    Examples:
      gpucost mcp --list
      gpucost mcp --config /etc/gpucost/gpucost.toml
    """
    from gpucost.mcp import parameters_of, serve, tools

    if list_tools:
        for name, words in tools().items():
            call.write(f"{name}: gpucost {words}; {', '.join(parameters_of(words))}\n")
        return
    serve(*(str(path) if path else None for path in (call.config_file, call.store_file)))
