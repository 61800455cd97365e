"""`gpucost policy rules`: the built-in rules."""

from gpucost.cli.command import Call, command


@command(without="config store")
def policy_rules(call: Call) -> None:
    """Print the built-in rules, as a file to start from.

    \b
    Examples:
      gpucost policy rules > policy.toml
    """
    from gpucost.questions.policy.rules import shipped_rules

    call.write(shipped_rules())
