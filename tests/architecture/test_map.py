"""The tables of ARCHITECTURE.md name files that exist, each by a question of its own."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
DECIDED: Final = "Where is it decided?"
FOUND: Final = "Where do I find..."

_PLACE: Final = re.compile(r"`([\w./-]+(?:\.(?:py|rs|txt|json|yaml)|/))`")
"""A file, or a folder, which ends with a slash."""


def _rows(heading: str) -> list[tuple[str, str]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(row[0], row[1]) for row in rows[1:] if len(row) == 2]


def _exists(place: str) -> bool:
    return any((folder / place).exists() for folder in (ROOT / "src" / "modelplane", ROOT))


def test_every_file_and_folder_on_the_page_exists() -> None:
    places = _PLACE.findall(PAGE)
    assert len(places) > 100
    assert [place for place in places if not _exists(place)] == []


@pytest.mark.parametrize("heading", [DECIDED, FOUND])
def test_every_row_answers_a_question_of_its_own(heading: str) -> None:
    questions = [question for question, _ in _rows(heading)]
    assert len(questions) > 25
    assert len(questions) == len(set(questions))


def test_every_decision_is_in_a_file() -> None:
    assert [question for question, answer in _rows(DECIDED) if not re.search(r"\.(py|rs|txt)`", answer)] == []


def test_every_module_that_a_page_names_exists() -> None:
    named = re.compile(r"`(?:src/modelplane/)?([a-z_]+/[\w/]+\.py)`")
    lost = {
        f"{page.relative_to(ROOT)}: {place}"
        for page in (ROOT / "docs").rglob("*.md")
        for place in named.findall(page.read_text(encoding="utf-8"))
        if not (_exists(place) or (ROOT / "src" / place).exists())
    }
    assert lost == set()
