"""The page that finds what to do by what a user sees."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.conditions.reasons import ROWS, Row

PACKAGE = Path(__file__).parents[3] / "package"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PACKAGE))
    return importlib.import_module("troubleshoot_page")


def test_a_reason_is_on_the_page_if_it_asks_for_more_than_to_wait(page: Any) -> None:
    text = page.troubleshoot_page()
    assert [row for row in ROWS if (_line(row) in text) is not _asks(row)] == []


def _line(row: Row) -> str:
    return f"| `{row.reason}` | `{row.reason.type}` | {row.reason.meaning} | {row.reason.remedy} |"


def _asks(row: Row) -> bool:
    return row.reason.remedy != "" and "No action" not in row.reason.remedy


def test_the_reasons_of_a_new_kind_need_a_symptom(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {place: kinds for place, kinds in page._SYMPTOMS.items() if place != "weights"}
    monkeypatch.setattr(page, "_SYMPTOMS", fewer)
    with pytest.raises(ValueError, match="put the kinds under a symptom of _SYMPTOMS: ModelCache"):
        page.troubleshoot_page()
