"""OpenAI's costs: answers of its API (`/v1/organization/costs`), and its dashboard's CSV export.

Sources: OpenAI API reference, "Usage", Costs object (read 2026-11-26); headers of the dashboard's exports of
2025 and 2026.
"""

from gpucost.collect.bill.formats import Format, spelled

# In API results, `amount_value` is the value of `amount`, and has_more is the page's.
_NAMES = """
    start_time end_time start_time_iso end_time_iso amount_value amount_currency quantity quantity_unit line_item project_id
    project_name organization_id api_key_id user_id has_more
"""

FORMATS = (
    Format(
        name="openai",
        title="OpenAI's costs",
        provider="openai",
        columns=spelled(_NAMES, {}),
        required="start_time end_time amount_value amount_currency",
        sql="openai",
        times=("start_time_iso", "end_time_iso", None, None),
        numbers="amount_value quantity",
    ),
)
