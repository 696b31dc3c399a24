"""Manifests on pages: a directive names the file, and the block below it is the file's text."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FILES = {
    "one.yaml": "# Says why.\n# Twice.\nkind: A\nmetadata: {name: a}\nspec: {}  # kept\n",
    "two.yaml": "# First.\nkind: A\nmetadata: {name: a}\n---\n# Second.\nkind: B\nmetadata:\n  name: b\n"
    "---\nkind: A\nmetadata: {name: c}\n",
}
ONE = "kind: A\nmetadata: {name: a}\nspec: {}  # kept\n"


@pytest.fixture
def included(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "package"))
    return importlib.import_module("included_manifests")


def fill(included: Any, page: str) -> str:
    return str(included.fill(page, {ROOT / name: text for name, text in FILES.items()}))


@pytest.mark.parametrize(
    ("page", "filled"),
    [
        pytest.param(
            "<!-- include: one.yaml -->\n```yaml\nstale: true\n```\n\nNext.\n",
            f"<!-- include: one.yaml -->\n```yaml\n{ONE}```\n\nNext.\n",
            id="a stale block is written again",
        ),
        pytest.param(
            "<!-- include: one.yaml -->\n\n```yaml\nother: true\n```\n",
            f"<!-- include: one.yaml -->\n```yaml\n{ONE}```\n\n```yaml\nother: true\n```\n",
            id="a block that is not directly below is another one",
        ),
        pytest.param(
            "1. Save it:\n\n   <!-- include: two.yaml#B -->\n   ```yaml\n   ```\n",
            "1. Save it:\n\n   <!-- include: two.yaml#B -->\n"
            "   ```yaml\n   kind: B\n   metadata:\n     name: b\n   ```\n",
            id="one document of a file, within a step",
        ),
        pytest.param(
            "<!-- include: two.yaml#A/c -->\n",
            "<!-- include: two.yaml#A/c -->\n```yaml\nkind: A\nmetadata: {name: c}\n```\n",
            id="one of several documents of a kind",
        ),
        pytest.param("No directive.\n", "No directive.\n", id="another page does not change"),
    ],
)
def test_a_block_below_a_directive_is_the_file(included: Any, page: str, filled: str) -> None:
    assert fill(included, page) == filled
    assert fill(included, filled) == filled


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        pytest.param("three.yaml", "no such file", id="a file that does not exist"),
        pytest.param("two.yaml#A", "2 documents fit", id="a kind that two documents have"),
        pytest.param("two.yaml#C", "0 documents fit", id="a kind that no document has"),
    ],
)
def test_a_directive_that_names_no_one_document_is_refused(included: Any, directive: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fill(included, f"<!-- include: {directive} -->\n")
