"""The text of notifications: short enough for a chat, and safe for any name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from gpucost.publish.notify import Message, as_html, as_slack, as_text
from gpucost.texts import one_line, shortened


def _message(lines: int, name: str = "team") -> Message:
    rows = tuple((f"{name}{index}", "$1,234.56", "$12.00 idle, 1.0 %") for index in range(lines))
    return Message(
        "A title", "a subtitle", (("Idle", "$1.00", "2 % of cost"),), "Cost by team", rows, "", (), None
    )


@pytest.mark.parametrize("lines", [0, 1, 40, 100])
def test_slack_blocks_are_within_its_limits(lines: int) -> None:
    blocks = as_slack(_message(lines, "n" * 45))["blocks"]
    assert len(blocks) <= 50
    texts = [block["text"]["text"] for block in blocks]
    assert all(0 < len(text) <= 3000 for text in texts)
    assert all(text.count("```") % 2 == 0 for text in texts)
    assert sum(text.count("n" * 45) for text in texts) == lines


def test_message_without_teams_has_no_table() -> None:
    message = _message(0)
    assert "Cost by team" not in as_text(message) + as_html(message) + json.dumps(as_slack(message))


@settings(max_examples=6)
@given(st.text(max_size=300))
def test_names_stay_on_one_line_without_markup(name: str) -> None:
    plain = shortened(name, 48)
    assert len(plain) <= 48
    message = Message(one_line(name), "", ((one_line(name), "", ""),), "t", ((plain, "1", ""),), "", (), None)
    text = "\n".join(block["text"]["text"] for block in as_slack(message)["blocks"][1:])
    assert "<" not in text and text.count("```") == 2
    html = as_html(message)
    assert html.count("<script") == 0 and html.count("<tr>") == 2
    assert len(as_text(message).splitlines()) == len(as_text(_message(1)).splitlines())
