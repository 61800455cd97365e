"""The cost of an hour of an own node.

Purchase, power, space and people, spread over its hours.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from gpucost.catalog import load_catalog
from gpucost.config.load import parse_file, plain_words
from gpucost.errors import ConfigError, UsageError
from gpucost.price.listing import aliases_of, gpu_models_called, nearest, spelled
from gpucost.records import frozen_dataclass
from gpucost.resources import pricing_dir
from gpucost.shapes import Shape
from gpucost.store.connection import scratch_store
from gpucost.suggest import did_you_mean

_Number = Annotated[Decimal, Field(allow_inf_nan=False, le=10**12)]
_Above = Annotated[_Number, Field(gt=0)]
_FromZero = Annotated[_Number, Field(ge=0)]
_Percent = Annotated[_FromZero, Field(le=100)]


@frozen_dataclass
class Inputs:
    """One node, with money in `currency`.

    None means not given, and counts as zero for a part of the price.
    """

    currency: Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True, pattern="^[A-Za-z]{3}$")]
    purchase_price: _Above  # of one node, GPUs included
    gpus_per_node: Annotated[_Number, Field(ge=1, multiple_of=1)]
    years: Annotated[_Above, Field(le=50)]  # until it is written off
    price_per_kwh: _FromZero
    gpu_model: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] | None = None
    gpu_watts: _Above | None = None  # of one GPU; None: the model's TDP
    residual_percent: _Percent | None = None  # of purchase_price, recovered at the end
    other_watts: _FromZero | None = None  # of the node without its GPUs
    pue: Annotated[_Number, Field(ge=1, le=10)] | None = None  # power of the site ÷ power of its machines
    colocation_per_kw_month: _FromZero | None = None
    staff_per_year: _FromZero | None = None
    staff_nodes: _Above | None = None  # nodes that this staff runs
    network_per_node: _FromZero | None = None  # once
    maintenance_percent_per_year: _Percent | None = None  # of purchase_price
    utilization_percent: Annotated[_Above, Field(le=100)] | None = None

    @property
    def not_given(self) -> tuple[str, ...]:
        """Keys of the parts that count as zero because they were not given."""
        return tuple(key for key in _COUNTED if getattr(self, key) is None)


_KEYS = [field.name for field in fields(Inputs)]
_COUNTED = (
    "other_watts",
    "pue",
    "colocation_per_kw_month",
    "staff_per_year",
    "network_per_node",
    "maintenance_percent_per_year",
)
_EXAMPLES = {
    "currency": "it must be a currency, for example USD",
    "gpu_model": "it must be a GPU model, for example H100-80GB-HBM3; gpucost prices lists them",
}


def _example() -> Path:
    return pricing_dir() / "onprem.toml"


def read_file(path: Path) -> dict[str, Any]:
    """Read a TOML file of Inputs.

    Raises ConfigError naming the problem; for an unknown key, also the nearest one.
    """
    try:
        values, _ = parse_file(path)
    except ConfigError as error:
        raise ConfigError(error.message, f"see the example {_example()}") from None
    for key in values.keys() - set(_KEYS):
        hint = did_you_mean(key, _KEYS, f"keys: {', '.join(_KEYS)}")
        raise ConfigError(f"{path}: {key}: no such key; {hint}", f"see every key in {_example()}")
    return values


def read_inputs(
    file: Mapping[str, Any], options: Mapping[str, str], path: Path | None, currency: str
) -> Inputs:
    """Merge `options` over the file's values.

    `options` are texts of --years and others, by key; `currency` is the default. Raises ConfigError naming
    the key that is missing or cannot be used, UsageError if it is an option.
    """
    try:
        inputs = TypeAdapter(Inputs).validate_python({"currency": currency, **file, **options})
    except ValidationError as error:
        raise _wrong(error, options, path) from None
    incomplete, where = (ConfigError, f"{path}: ") if path else (UsageError, "")
    if inputs.gpu_model is None and inputs.gpu_watts is None:
        raise incomplete(
            f"{where}neither gpu_model nor gpu_watts is given",
            "add --gpu-model or --gpu-watts, which give the GPUs' power",
        )
    if inputs.staff_per_year and inputs.staff_nodes is None:
        raise incomplete(
            f"{where}staff_nodes is missing", "set --staff-nodes to the number of nodes that this staff runs"
        )
    return inputs


def _wrong(error: ValidationError, options: Mapping[str, str], path: Path | None) -> ConfigError | UsageError:
    """The error for an invalid value, otherwise for missing ones."""
    details = error.errors(include_url=False)
    for detail in details:
        key, value = str(detail["loc"][0]), detail["input"]
        if detail["type"] != "missing":
            fix = _EXAMPLES.get(key) or f"it {plain_words(detail)}"
            if key in options:
                return UsageError(f"--{key.replace('_', '-')} is {value}", fix)
            return ConfigError(
                f"{path}: {key} is {value if isinstance(value, Decimal) else repr(value)}", fix
            )
    missing = [str(detail["loc"][0]) for detail in details]
    return (ConfigError if path else UsageError)(
        f"{f'{path}: ' if path else ''}{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
        f"add {' '.join('--' + key.replace('_', '-') for key in missing)}, or copy the example {_example()}",
    )


HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = 730  # HOURS_PER_YEAR / 12

_KEPT = Decimal("1e-9")


@frozen_dataclass
class TcoPart:
    """One part of the price, and its formula in words."""

    name: str
    price_per_hour: Decimal
    basis: str


@frozen_dataclass
class Tco:
    """Prices per hour in the inputs' currency, 9 decimals.

    The price of a GPU in use is None without a utilization.
    """

    inputs: Inputs
    parts: tuple[TcoPart, ...]
    gpu_watts: Decimal
    gpu_watts_source: str  # 'given', or 'tdp' for the model's rated power
    node_watts: Decimal  # without the site's overhead
    price_per_hour: Decimal  # of the node, in use or not
    price_per_gpu_hour: Decimal
    price_per_utilized_gpu_hour: Decimal | None


@frozen_dataclass
class TcoAnswer(Shape):
    """The answer of `gpucost prices tco`."""

    currency: str
    tco: Tco
    not_given: tuple[str, ...]

    FLAT = ("tco",)


def tco(inputs: Inputs, tdp_watts: Decimal | None) -> Tco:
    """Compute the price of a node-hour, and of a GPU-hour.

    A GPU-hour is priced over all hours and over the hours in use. Straight-line depreciation to the residual
    value (IAS 16.62), over all hours of the years; a year has 8,760 hours, a month 730. Site power is machine
    power × PUE (ISO/IEC 30134-2). `tdp_watts` is the model's rated power: it replaces a missing gpu_watts,
    and is the minimum for colocation, which is contracted by rated power. At least one of the two must be
    given.
    """
    watts = tdp_watts if inputs.gpu_watts is None else inputs.gpu_watts
    if watts is None:
        raise ValueError("neither gpu_watts nor the model's rated power is known")
    none = Decimal(0)
    other, pue = inputs.other_watts or none, inputs.pue or Decimal(1)
    node_watts = inputs.gpus_per_node * watts + other
    rated_kw = (inputs.gpus_per_node * max(watts, tdp_watts or watts) + other) / 1000
    price, years, kwh = inputs.purchase_price, inputs.years, inputs.price_per_kwh
    residual, maintenance = inputs.residual_percent or none, inputs.maintenance_percent_per_year or none
    network, colocation = inputs.network_per_node or none, inputs.colocation_per_kw_month or none
    staff, nodes = inputs.staff_per_year or none, inputs.staff_nodes or Decimal(1)
    hours = years * HOURS_PER_YEAR
    reckoned = {
        "depreciation": (
            price * (100 - residual) / 100 / hours,
            f"{_n(price)} less {_n(residual)} % over {_n(years)} years",
        ),
        "maintenance": (
            price * maintenance / 100 / HOURS_PER_YEAR,
            f"{_n(maintenance)} % of {_n(price)} a year",
        ),
        "network": (network / hours, f"{_n(network)} over {_n(years)} years"),
        "power": (node_watts / 1000 * pue * kwh, f"{_n(node_watts)} W × PUE {_n(pue)} × {_n(kwh)} per kWh"),
        "colocation": (
            rated_kw * colocation / HOURS_PER_MONTH,
            f"{_n(rated_kw)} kW × {_n(colocation)} a month",
        ),
        "staff": (
            staff / nodes / HOURS_PER_YEAR,
            f"{_n(staff)} a year for {_n(nodes)} nodes" if staff else "0 a year",
        ),
    }
    parts = tuple(TcoPart(name, amount.quantize(_KEPT), basis) for name, (amount, basis) in reckoned.items())
    total = sum((part.price_per_hour for part in parts), none)
    per_gpu, in_use = total / inputs.gpus_per_node, inputs.utilization_percent
    return Tco(
        inputs=inputs,
        parts=parts,
        gpu_watts=watts,
        gpu_watts_source="tdp" if inputs.gpu_watts is None else "given",
        node_watts=node_watts,
        price_per_hour=total,
        price_per_gpu_hour=per_gpu.quantize(_KEPT),
        price_per_utilized_gpu_hour=None if in_use is None else (per_gpu * 100 / in_use).quantize(_KEPT),
    )


def _n(number: Decimal) -> str:
    """A number with thousands separators, without trailing zeros."""
    return f"{number.normalize():,f}"


def node_cost(inputs: Inputs) -> Tco:
    """Compute `tco` with the catalog's rated power of the GPU model.

    The answer has the model's canonical name. Raises ConfigError if the power is needed and unknown, and for
    a name of several GPUs.
    """
    name, needed = inputs.gpu_model, inputs.gpu_watts is None
    if name is None:
        return tco(inputs, None)
    with scratch_store() as con:
        load_catalog(con)
        watts = dict(con.execute("SELECT gpu_model, tdp_watts FROM gpu_models").fetchall())
        aliases = aliases_of(con)
    exact = aliases.get(spelled(name))
    models = (exact,) if exact else gpu_models_called(name, watts, aliases)
    if len(models) > 1:
        raise ConfigError(f"gpu_model {name!r} may be {', '.join(models)}", "name one of them")
    if needed and not models:
        raise ConfigError(
            f"no GPU is called {name!r}; did you mean {', '.join(nearest(name, watts))}?",
            "for another GPU, set the power of one GPU with --gpu-watts",
        )
    model = models[0] if models else name
    tdp = watts.get(model)
    if needed and tdp is None:
        raise ConfigError(
            f"the power of {model} is not in the catalog", "set the power of one GPU with --gpu-watts"
        )
    return tco(replace(inputs, gpu_model=model), None if tdp is None else Decimal(tdp))
