"""`gpucost mcp`: read-only tools for agents, over the Model Context Protocol."""

from gpucost.cli.command import Call, command


@command()
def mcp(call: Call) -> None:
    """Serve read-only tools to an agent over stdin and stdout (Model Context Protocol).

    The tools are the commands that read the store: report, waste, findings, prices, what-ifs and more, with the same figures.
    They do not collect data, write files or read other files. Your MCP client starts this command (docs/mcp.md).

    \b
    Examples:
      gpucost mcp --config /etc/gpucost/gpucost.toml
    """
    from gpucost.mcp import serve

    serve(*(str(path) if path else None for path in (call.config_file, call.store_file)))
