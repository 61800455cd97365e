"""Which GPU a name means, and its rated power, by the catalog."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.errors import ConfigError
from gpucost.price.listing.names import aliases_of, gpu_models_called, nearest, spelled

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def rated_power(con: DuckDBPyConnection, name: str, *, needed: bool) -> tuple[str, Decimal | None]:
    """The one name of the GPU that `name` means, and its rated power in watts; `name` and None where it is not known.

    Reads the catalog on `con`. Raises ConfigError where the power is needed and not known, and for a name of several GPUs.
    """
    load_catalog(con)
    watts = {str(model): tdp for model, tdp in con.execute("SELECT gpu_model, tdp_watts FROM gpu_models").fetchall()}
    aliases = aliases_of(con)
    exact = aliases.get(spelled(name))
    found = (exact,) if exact else gpu_models_called(name, watts, aliases)
    if len(found) > 1:
        raise ConfigError(f"gpu_model {name!r} may be {', '.join(found)}", "name one of them")
    if not found:
        if needed:
            near = ", ".join(nearest(name, watts))
            raise ConfigError(
                f"no GPU is called {name!r}; did you mean {near}?",
                "where it is none of these, --gpu-watts gives the power of one GPU",
            )
        return name, None
    if watts[found[0]] is None and needed:
        raise ConfigError(f"the catalog does not know the power of {found[0]}", "--gpu-watts gives the power of one GPU")
    return found[0], None if watts[found[0]] is None else Decimal(watts[found[0]])
