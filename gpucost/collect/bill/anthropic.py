"""Anthropic's costs: answers of its Admin API (`/v1/organizations/cost_report`), and the Console's cost CSV.

Sources: Claude API reference, "Get Cost Report" (platform.claude.com, read 2026-11-26); headers of the
Console's exports of 2025 and 2026.
"""

from gpucost.collect.bill.formats import Format, spelled

# In API results, amounts are hundredths of the currency, and has_more is the page's.
_REPORT = """
    starting_at ending_at amount currency description cost_type model token_type context_window service_tier inference_geo
    workspace_id has_more
"""
_CONSOLE = "usage_date_utc cost_usd list_price_usd workspace api_key api_key_id usage_type speed"


def _format(name: str, title: str, times: tuple[str | None, ...], required: str) -> Format:
    columns = spelled(_REPORT + _CONSOLE, {})
    numbers = "amount cost_usd list_price_usd"
    return Format(name, title, "anthropic", columns, required, "anthropic", times=times, numbers=numbers)


FORMATS = (
    _format(
        "anthropic",
        "Anthropic's cost report",
        ("starting_at", "ending_at", None, None),
        "starting_at ending_at amount currency",
    ),
    _format(
        "anthropic-console",
        "the costs of Anthropic's Console",
        ("usage_date_utc", None, None, None),
        "usage_date_utc cost_usd token_type",
    ),
)
