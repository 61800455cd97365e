"""A question is a function and a line in the registry; every client offers it."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from types import ModuleType
from typing import Annotated

import pytest
from typer.testing import CliRunner

from gpucost import questions
from gpucost.api import Gpucost
from gpucost.cli import app as program
from gpucost.cli.asking import question_command
from gpucost.mcp import schema_of, tools, use
from gpucost.options import Option, count
from gpucost.questions import Question
from gpucost.questions.request import Request
from gpucost.records import frozen_dataclass
from gpucost.render.view import Document, Table, money, text
from gpucost.shapes import Shape


@frozen_dataclass
class Dish:
    """A dish and its price."""

    name: str
    cost: Decimal


@frozen_dataclass
class MenuAnswer(Shape):
    """The answer of the menu question."""

    dishes: list[Dish]


def menu(
    request: Request,
    kind: Annotated[str | None, Option("Only dishes of this kind.", "NAME")] = None,
    top: Annotated[int, count("How many dishes to list.", 1)] = 2,
) -> Document:
    """Show the dishes on the menu.

    \b
    Examples:
      gpucost menu --top 1
    """
    del request
    dishes = [Dish(f"{kind or 'plain'} soup", Decimal(3)), Dish("bread", Decimal("1.5"))][:top]
    return Document(
        title="Menu",
        currency="USD",
        sections=(Table.of("Dishes", dishes, (text("name"), money("cost"))),),
        name="menu",
        data=MenuAnswer(dishes),
        flat=(("name", "cost"), [(dish.name, dish.cost) for dish in dishes]),
    )


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("gpucost.questions.toy")
    vars(module).update(menu=menu, MenuAnswer=MenuAnswer)
    monkeypatch.setitem(sys.modules, "gpucost.questions.toy", module)
    question = Question("menu", "toy", "The dishes on the menu.", "toy:MenuAnswer", "See")
    monkeypatch.setitem(questions.QUESTIONS, "menu", question)
    monkeypatch.setitem(questions.SCHEMAS, "menu", question.answer)


@pytest.mark.usefixtures("_registered")
def test_registered_question_has_a_command_method_tool_and_schema() -> None:
    import typer

    app = typer.Typer()
    app.command()(question_command("menu"))
    printed = json.loads(CliRunner().invoke(app, ["--kind", "hot", "--top", "1", "--format", "json"]).stdout)
    assert printed == {"schema": "gpucost.menu/1", "dishes": [{"name": "hot soup", "cost": 3.0}]}
    assert "How many dishes to list." in CliRunner().invoke(app, ["--help"]).stdout
    assert "menu" in program.command_rows()[""] and "menu" in program._topics()["See"]

    answer = Gpucost().menu(kind="hot", top=1)
    assert json.loads(answer.json()) == printed
    assert answer.df().to_dict("records") == printed["dishes"] and "| hot soup | $3.00 |" in answer.page()

    assert tools()["menu"] == "menu" and schema_of("menu")["properties"]["top"]["type"] == "integer"
    assert use("menu", {"kind": "hot", "top": 1}, None, None)["answer"] == printed
    assert json.loads(questions.schema("menu"))["title"] == "gpucost.menu/1"
