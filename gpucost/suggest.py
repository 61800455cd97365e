"""The text "did you mean …?"."""

from collections.abc import Callable, Iterable


def did_you_mean(
    name: str,
    existing: Iterable[str],
    otherwise: str = "",
    *,
    most: int = 1,
    cutoff: float = 0.6,
    shown: Callable[[str], str] = str,
) -> str:
    """`did you mean X or Y?` for names similar to `name`, or `otherwise` if there are none.

    At most `most` names, with a similarity of at least `cutoff` (0 to 1).
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(existing), most, cutoff)
    return f"did you mean {' or '.join(map(shown, near))}?" if near else otherwise
