"""Safe names of files for teams, whatever they are called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

_LONGEST = 60


def file_names(teams: Iterable[str]) -> dict[str, str]:
    """A name of a file, without its suffix, for each team: of `a-z`, `0-9`, `-` and `_`, at most 80 long, unique in any case.

    A team that is called so keeps its name; others get what is left of theirs, and a digest of the whole of it, so that a
    team's file is called the same whichever other teams there are.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for team in sorted(set(teams), key=lambda team: (not _is_safe(team), team)):
        name = team
        if not _is_safe(team):
            digest = sha256(team.encode("utf-8", "surrogatepass")).hexdigest()
            rest = re.sub(r"[^a-z0-9_]+", "-", team.lower()).strip("-")[:_LONGEST].strip("-") or "team"
            name = next(made for size in (8, 16, 64) if (made := f"{rest}-{digest[:size]}") not in taken)
        names[team] = name
        taken.add(name)
    return names


def _is_safe(team: str) -> bool:
    return re.fullmatch(rf"[a-z0-9][a-z0-9_-]{{0,{_LONGEST - 1}}}", team) is not None
