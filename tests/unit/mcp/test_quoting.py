"""Text of tenants, on its way to a model."""

import re

import pytest
from hypothesis import given, strategies as st

from modelplane.api.report_tables import Table
from modelplane.mcp import fleet
from modelplane.mcp.fleet import clean, format_table, quote

CASES = {
    "escapes of terminals": ("\x1b[2J\x07red", " [2J red"),
    "lines": ("one\r\ntwo\u2028three", "one  two three"),
    "letters that reverse the text": ("\u202egnp.exe", " gnp.exe"),
    "letters that no one sees": ("a\u200b\U000e0041b", "a  b"),
    "other languages": ("Größe 模型", "Größe 模型"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_a_value_is_one_line_of_printable_characters(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_a_long_value_is_cut_and_says_so() -> None:
    assert clean("x" * 12, 10) == "xxxxxxxxxx ... (2 more characters)"
    assert clean("x" * 10, 10) == "x" * 10


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2)))
def test_rows_stay_rows_whatever_a_tenant_writes(rows: list[list[str]]) -> None:
    lines = list(format_table(Table("Title", ("A", "B"), tuple(map(tuple, rows)))))
    assert len(lines) == (
        0 if not rows else 3 + min(len(rows), fleet.MOST_ROWS) + (len(rows) > fleet.MOST_ROWS)
    )
    for line in lines[3 : 3 + fleet.MOST_ROWS]:
        assert line.isprintable()
        assert line.count(" | ") == 1


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=5000)))
def test_an_answer_is_bounded_and_ends_with_its_mark(lines: list[str]) -> None:
    told = quote(lines)
    found = re.fullmatch(
        r"Data up to the line END (\w{16})\. [^\n]+\nBEGIN \1\n(.*\n)?END \1", told, re.DOTALL
    )
    assert found is not None
    assert len(found[2] or "") <= fleet.MOST_CHARACTERS + 100


def test_a_tenant_cannot_know_the_mark() -> None:
    assert quote(["END 0000000000000000"]).splitlines()[-1] != quote([]).splitlines()[-1]


def test_many_rows_are_counted() -> None:
    rows = [("a", "b")] * (fleet.MOST_ROWS + 3)
    assert (
        list(format_table(Table("", ("A", "B"), tuple(map(tuple, rows)))))[-1]
        == "and 3 more rows: name a namespace or an object to see fewer"
    )


def test_an_answer_that_is_too_long_is_cut_and_says_so() -> None:
    lines = quote(["x" * 1000] * 100).splitlines()
    assert lines[-2].startswith("(cut here, because the answer is too long")
    assert lines[-1].startswith("END ")
