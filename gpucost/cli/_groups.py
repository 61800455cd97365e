"""A group that is a command too: `gpucost prices H100` beside `gpucost prices history …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

# The name that the group's own command is registered under, hidden.
DEFAULT = "list"


class DefaultCommandGroup(TyperGroup):
    """Words that begin with no command's name go to the command called DEFAULT; the group's help shows that one's, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else None
        if first not in self.commands and not ctx.resilient_parsing:
            wants_help = any(word in ctx.help_option_names for word in _options(args))
            args = [ctx.help_option_names[0]] if wants_help else [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        self._default.format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, self.subcommand_metavar, prefix="       ")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        self._default.format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self._default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    @property
    def _default(self) -> Any:
        return self.commands[DEFAULT]


def default_command(group: Any, words: Sequence[str]) -> str | None:
    """The command of `group` that takes `words` although none of them names it; None where the first word is a command's name."""
    if not isinstance(group, DefaultCommandGroup) or (words and words[0] in group.commands):
        return None
    return DEFAULT


def _options(args: Sequence[str]) -> Sequence[str]:
    """`args` up to a `--`, behind which everything is a value."""
    return args[: args.index("--")] if "--" in args else args
