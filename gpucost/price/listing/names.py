"""What a name on the command line means: a GPU in any spelling, or an instance type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

FIX_UNPRICED = "gpucost collect prices asks the clouds; what they do not list, your price book prices"

_OFFERED = 4
_NOT_SOLD = """
SELECT provider, instance_type, sold_as, fact, as_of, source_id FROM not_sold_on_demand AS n
WHERE list_contains($1::VARCHAR[], lower(instance_type)) AND NOT EXISTS (
    FROM listed_prices AS p
    WHERE p.provider = n.provider AND lower(p.instance_type) = lower(n.instance_type) AND p.purchase_option = 'on_demand'
        AND p.status = 'current'
)
ORDER BY ALL"""
_SOLD_AS = {"capacity_block": "capacity blocks", "cud": "commitments", "flex_start": "flex start", "calendar": "calendar mode"}
_MAKERS = {"nvidia", "tesla", "amd", "aws", "habana", "intel"}


@dataclass(frozen=True, slots=True)
class Meant:
    """Either GPU models by their one name, or instance types in lower case; the other is empty."""

    gpu_models: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()


def resolve(con: DuckDBPyConnection, name: str) -> Meant:
    """What `name` means; `H100` is every H100 model. Raises GpucostError, offering the nearest names, where it means nothing.

    Reads listed_prices, listed_instances, gpu_models and gpu_aliases.
    """
    types = [str(row[0]) for row in con.execute("SELECT DISTINCT instance_type FROM listed_prices ORDER BY 1").fetchall()]
    wanted = name.strip().lower()
    for typed in (wanted, f"standard_{wanted}"):  # Azure's sizes are called without it, too
        if any(known.lower() == typed for known in types):
            return Meant(instance_types=(typed,))
    models = [str(row[0]) for row in con.execute("SELECT gpu_model FROM gpu_models ORDER BY 1").fetchall()]
    if found := gpu_models_called(name, models, aliases_of(con)):
        return Meant(gpu_models=found)
    if facts := not_sold_on_demand(con, [wanted]):
        raise GpucostError("; ".join(facts), FIX_UNPRICED)
    if con.execute("SELECT 1 FROM listed_instances WHERE instance_type = ? LIMIT 1", [wanted]).fetchone():
        raise GpucostError(f"no list price of {name} is known", FIX_UNPRICED)
    near = nearest(name, [*models, *types])
    raise GpucostError(
        f"no GPU or instance type is called {name!r}; did you mean {', '.join(near)}?", "gpucost prices lists every GPU"
    )


def not_sold_on_demand(con: DuckDBPyConnection, instance_types: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each of `instance_types`, in lower case, that its cloud does not sell on demand: how it is sold instead.

    A current list price on demand, such as one collected since, says otherwise. Reads not_sold_on_demand and listed_prices.
    """
    rows = con.execute(_NOT_SOLD, [list(instance_types)]).fetchall()
    sentences = []
    for provider, name, sold_as, fact, as_of, source in rows:
        ways = [_SOLD_AS.get(option, option.replace("_", " ")) for option in sold_as]
        instead = f"sold as {' and '.join(filter(None, [', '.join(ways[:-1]), ways[-1]]))}" if ways else "no price is public"
        sentences.append(f"{name} is not sold on demand by {provider}: {instead} ({fact}; {source}, {as_of})")
    return tuple(sentences)


def aliases_of(con: DuckDBPyConnection) -> dict[str, str]:
    """Letters and digits of a spelling -> the model's one name. Reads gpu_aliases."""
    return {str(alias): str(model) for alias, model in con.execute("SELECT alias, gpu_model FROM gpu_aliases").fetchall()}


def gpu_models_called(name: str, models: Iterable[str], aliases: dict[str, str]) -> tuple[str, ...]:
    """The models whose name has every word of `name`, in any order; else the one that spells itself so; else none.

    A MIG or shared suffix, as nvidia.com/gpu.product has it, is of no account.
    """
    bare = _bare(name)
    words = set(re.findall(r"[a-z0-9]+", bare)) - _MAKERS
    found = tuple(model for model in models if words and words <= set(re.findall(r"[a-z0-9]+", model.lower())))
    if found:
        return found
    alias = spelled(name)
    return (aliases[alias],) if alias in aliases else ()


def spelled(name: str) -> str:
    """`name` as gpu_aliases spells it: letters and digits alone, in lower case, without its maker."""
    return re.sub(r"^(nvidia|tesla)+", "", re.sub(r"[^a-z0-9]", "", _bare(name)))


def _bare(name: str) -> str:
    return re.sub(r"-(shared|mig-.*)$", "", name.strip().lower())


def nearest(word: str, names: Iterable[str], count: int = _OFFERED) -> list[str]:
    """The `count` names most alike `word`, best first: those that begin with it, then by the whole name or one of its words."""
    asked = word.strip().lower()

    def rank(name: str) -> tuple[bool, float, str]:
        pieces = {name.lower(), *re.findall(r"[a-z0-9]+", name.lower())}
        alike = max(SequenceMatcher(None, asked, piece).ratio() for piece in pieces)
        return (not name.lower().startswith(asked), -alike, name)

    return sorted(names, key=rank)[:count]
