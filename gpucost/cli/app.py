"""The program: every command is a row of a table and is imported when it runs."""

import csv
from collections import UserDict
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # type: ignore[attr-defined]
from typer.exceptions import TyperException

from gpucost import __version__
from gpucost.questions import QUESTIONS


class CommandTable(UserDict[str, Any]):
    """Commands by name; commands of `rows` are imported on demand, as group_name from their module in `gpucost.cli`."""

    def __init__(self, group: str, rows: Mapping[str, str], others: Mapping[str, Any]) -> None:
        super().__init__({**dict.fromkeys(rows), **others})
        self._group = group

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            function = self._function(name)
            program = typer.Typer(add_completion=False, rich_markup_mode=None)
            program.command(name, cls=PanelCommand, hidden=name == DEFAULT)(function)
            command = self[name] = typer.main.get_command(program)
            for param in command.params:
                if param.param_type_name == "argument":  # otherwise help shows Python's type behind its name
                    vars(param)["display_type_rich"] = lambda **_: None
        return command

    def _function(self, name: str) -> Any:
        """The command's function in `gpucost.cli`, otherwise the command of a question in the registry."""
        parts = [part for part in (self._group, name) if part not in ("", DEFAULT)]
        words, group = " ".join(parts), parts[0]
        module = TABLE[words]["module"] if words in TABLE else ""
        if words in QUESTIONS and not module:
            from gpucost.cli.asking import question_command

            return question_command(words)
        commands = import_module(f"gpucost.cli.{module or TABLE[group]['module'] or group}")
        return getattr(commands, "_".join(parts).replace("-", "_"))


class TextParams:
    """A command that parses only options with values, and none during shell completion: parsing takes the most time."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            from gpucost.texts import visible  # help does not need it

            if isinstance(message := getattr(error, "message", None), str):
                vars(error)["message"] = visible(message)
            raise
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            vars(param)["process_value"] = partial(_as_typed, param)
        return params


def _as_typed(param: Any, ctx: Any, value: Any) -> Any:
    # typer would make a validator for every option, even without a value
    is_unused = value is None and not param.required
    return value if is_unused or ctx.resilient_parsing else type(param).process_value(param, ctx, value)


class NamedContext(TyperCommand.context_class):  # type: ignore[misc,valid-type]
    """Show the group's name for its default command, whose own name users do not type."""

    @property
    def command_path(self) -> str:
        return str(super().command_path).removesuffix(f" {DEFAULT}")


class PanelCommand(TextParams, TyperCommand):
    """A command whose help lists options in panels: its own first, the common ones last."""

    context_class = NamedContext

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from gpucost.options import EVERYWHERE, PANELS

        rows = [
            (param.rich_help_panel or EVERYWHERE, param.get_help_record(ctx))
            for param in self.get_params(ctx)
        ]
        for panel in PANELS:
            if within := [row for place, row in rows if row and place == panel]:
                with formatter.section(panel):
                    formatter.write_dl(within)


class CommandGroup(TextParams, TyperGroup):
    """A group whose help comes from the table, without importing its commands; `topics` are its headings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        group = self.name if self.name and self.name in GROUPS else ""
        self.rows, self.topics = command_rows()[group], {} if group else _topics()
        self.commands = CommandTable(group, self.rows, self.commands)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for topic, names in (self.topics or {"Commands": self.list_commands(ctx)}).items():
            with formatter.section(topic):
                formatter.write_dl([(name, self.rows[name]) for name in names if name != DEFAULT])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            options: list[Any] = super(TyperGroup, self).shell_complete(ctx, incomplete)
            return options
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete) and name != DEFAULT]
        return [CompletionItem(name, help=self.rows[name]) for name in names]


# Name of a group's default command, which help does not list.
DEFAULT = "list"


class DefaultCommandGroup(CommandGroup):
    """A group that is also a command: `gpucost prices H100` and `gpucost prices history …`.

    Words that do not begin with a command's name go to the command DEFAULT; the group's help includes its help.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else None
        if ctx.resilient_parsing:
            args = [DEFAULT, *args] if args and first not in self.commands else args
        elif first not in self.commands:
            # after a -- every word is a value
            options = args[: args.index("--")] if "--" in args else args
            wants_help = any(word in ctx.help_option_names for word in options)
            args = [ctx.help_option_names[0]] if wants_help else [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return [
            *super().shell_complete(ctx, incomplete),
            *self.commands[DEFAULT].shell_complete(ctx, incomplete),
        ]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, self.subcommand_metavar, prefix="       ")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


with Path(__file__).with_name("commands.csv").open(encoding="utf-8", newline="") as _file:
    # Commands and groups: topic, module (if it has another name) and help line.
    TABLE = {row["command"]: row for row in csv.DictReader(_file)}
_FIRST_WORDS = {words.split()[0] for words in (*TABLE, *QUESTIONS) if " " in words}
GROUPS = [name for name in TABLE if name in _FIRST_WORDS]


def command_rows() -> dict[str, dict[str, str]]:
    """Commands by group ("" for the top level) with their help lines, including the questions of the registry."""
    rows: dict[str, dict[str, str]] = {group: {} for group in ("", *GROUPS)}
    summaries = {words: row["summary"] for words, row in TABLE.items() if row["summary"] or row["topic"]}
    summaries |= {words: question.summary for words, question in QUESTIONS.items()}
    for words, summary in summaries.items():
        first, _, rest = words.partition(" ")
        if rest:
            rows[first][rest] = summary
            continue
        rows[""][words] = summary
        if words in GROUPS and words in QUESTIONS:
            rows[words][DEFAULT] = summary
    return rows


def _topics() -> dict[str, list[str]]:
    """Commands by topic; questions of the registry that are not in the table come last."""
    found = {words: row["topic"] for words, row in TABLE.items()}
    found |= {words: question.topic for words, question in QUESTIONS.items() if words not in TABLE}
    topics: dict[str, list[str]] = {}
    for words, topic in found.items():
        if topic:
            topics.setdefault(topic, []).append(words)
    return topics


def _group(help: str, base: type[CommandGroup] = CommandGroup) -> typer.Typer:
    return typer.Typer(
        help=help,
        cls=base,
        no_args_is_help=True,
        # Plain help takes a third of the time of boxes, and looks the same in a pipe.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpucost {__version__}")
        raise typer.Exit


app = _group("Show what your GPUs cost, who used them, and how to save money.")
for _name in GROUPS:
    _base = DefaultCommandGroup if DEFAULT in command_rows()[_name] else CommandGroup
    app.add_typer(_group(TABLE[_name]["summary"], _base), name=_name)


@app.callback(
    epilog="Start with: gpucost demo. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a budget or target is missed, "
    "4 the period is incomplete, 130 interrupted."
)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Config file.")] = None,
    store: Annotated[Path | None, typer.Option(metavar="FILE", help="Store file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more detail.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Print the time of each stage.")] = False,
) -> None:
    """Show what your GPUs cost, who used them, and how to save money."""
