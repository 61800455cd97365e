"""What gateways passed on: to whom, for whom, and whether own pods served it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.catalog import SELLERS
from gpucost.engine import run_stage
from gpucost.report.units.query import PACKAGE
from gpucost.store.charges import has_gateways

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import GatewaySettings

UNITS = ("request", "prompt_token", "cached_token", "generation_token", "spend")
# Who sells by their own name.
_OTHERS = (
    "ai21", "ai21_chat", "baseten", "cerebras", "dashscope", "databricks", "deepinfra", "deepseek", "fireworks_ai", "friendliai",
    "github", "groq", "hyperbolic", "lambda_ai", "meta_llama", "mistral", "moonshot", "nebius", "novita", "nscale", "nvidia_nim",
    "openrouter", "ovhcloud", "perplexity", "replicate", "sambanova", "scaleway", "snowflake", "together_ai", "vercel_ai_gateway",
    "volcengine", "voyage", "watsonx", "xai",
)  # fmt: skip
# Servers that run where their user puts them.
_SELF_HOSTING = (
    "docker_model_runner", "hosted_vllm", "infinity", "lemonade", "llamafile", "lm_studio", "ollama", "ollama_chat", "oobabooga",
    "triton", "vllm", "xinference",
)  # fmt: skip
# What speaks OpenAI's API may be anybody's.
_COMPATIBLE = ("openai", "text-completion-openai", "openai_like", "custom_openai", "custom", "huggingface", "litellm_proxy")
# Series of gateways are of no pod.
_NO_CANDIDATES = "CREATE TEMP TABLE IF NOT EXISTS unit_candidates (series_id BIGINT, held_from_ms BIGINT)"
_NO_INCREASES = "CREATE OR REPLACE TEMP TABLE unit_increases (series_id BIGINT, at_ms BIGINT, amount DOUBLE)"


def gateway_usage(con: DuckDBPyConnection, settings: GatewaySettings, from_ms: int, to_ms: int) -> None:
    """Makes the temporary table gateway_usage: what gateways passed on in [from_ms, to_ms), a row per quarter of an hour.

    Columns: `at_ms`; `gateway`; `provider` (who sells it: openai, anthropic, aws, gcp, azure, else as the gateway names it; null
    where it does not); `is_own` (own pods served it: it was not bought); `model` without the provider; `team`; `tenant`; `unit`
    (of UNITS); `currency` of spend; `amount`; `failed`. Empty, and cheap, where no gateway was ever collected. Replaces
    unit_increases.
    """
    span = {"from_ms": from_ms, "to_ms": to_ms}
    if has_gateways(con):
        con.execute(_NO_CANDIDATES)
        run_stage(con, PACKAGE, "40_increases", {"units": list(UNITS), "is_passed_on": True, **span})
    else:
        con.execute(_NO_INCREASES)
    sellers = {**SELLERS, **{name: name for name in (*_OTHERS, *_SELF_HOSTING, *_COMPATIBLE) if name not in SELLERS}}
    run_stage(
        con,
        PACKAGE,
        "45_gateway_usage",
        {
            **span,
            "globs": list(sellers),
            "sellers": list(sellers.values()),
            "self_hosting": list(_SELF_HOSTING),
            "compatible": list(_COMPATIBLE),
            "own": [name.lower() for name in settings.own],
            "bought": [name.lower() for name in settings.bought],
        },
    )
