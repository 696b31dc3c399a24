"""The search of the documentation: its quality over known questions, and its rules."""

from pathlib import Path

import pytest
import yaml

from modelplane.mcp import documentation_tools
from modelplane.mcp.documentation import Index, parse, split_terms

QUESTIONS = yaml.safe_load((Path(__file__).parent / "questions.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def documentation() -> Index:
    return Index(parse(documentation_tools.load_pages()), documentation_tools.WEIGHTS)


def test_a_page_that_answers_is_among_the_first_three(documentation: Index) -> None:
    """At least nine in ten of the questions find a page that answers them; ``-s`` prints the figures."""
    found = [
        (
            [hit.page.path for hit in documentation.search(each["question"], 3)],
            set(each["pages"]),
            each["question"],
        )
        for each in QUESTIONS
    ]
    first = sum(paths[0] in wanted for paths, wanted, _ in found)
    missed = [(question, paths) for paths, wanted, question in found if not wanted & set(paths)]
    print(f"recall at 1: {first / len(found):.3f}, at 3: {1 - len(missed) / len(found):.3f}")  # noqa: T201  the figure

    assert len(found) == 60
    assert len(missed) <= 6, missed


def test_the_questions_name_pages_that_exist() -> None:
    texts = documentation_tools.load_pages()
    assert {page for each in QUESTIONS for page in each["pages"]} - set(texts) == set()
    assert len({each["question"] for each in QUESTIONS}) == len(QUESTIONS)


CASES = {
    "the title counts more than the text": (
        {"a.md": "# Drain\n\nSomething.", "b.md": "# Other\n\nA drain, a drain."},
        "drain",
        ["a.md", "b.md"],
    ),
    "endings do not matter": (
        {"a.md": "# Deletion\n\nText.", "b.md": "# Other\n\nText."},
        "what deletes it?",
        ["a.md"],
    ),
    "the name of a kind is found by its words": (
        {"a.md": "# ModelDeployment\n\nText.", "b.md": "# Other\n\nText."},
        "deployment of a model",
        ["a.md"],
    ),
    "words of several sections count together": (
        {"a.md": "# A\n\n## One\n\ncordon\n\n## Two\n\nregion", "b.md": "# B\n\n## One\n\ncordon"},
        "cordon region",
        ["a.md", "b.md"],
    ),
    "what others call a page counts for it": (
        {"a.md": "# A\n\nText.", "b.md": "# B\n\n| maintenance | [page](a.md) |", "c.md": "# C\n\nText."},
        "maintenance",
        ["a.md", "b.md"],
    ),
    "words that are in every question find nothing": ({"a.md": "# A\n\nHow do I use it"}, "how do I", []),
    "an empty question finds nothing": ({"a.md": "# A\n\nText."}, " ", []),
}


@pytest.mark.parametrize(("texts", "question", "expected"), CASES.values(), ids=CASES.keys())
def test_pages_are_ranked(texts: dict[str, str], question: str, expected: list[str]) -> None:
    assert [hit.page.path for hit in Index(parse(texts)).search(question, 10)] == expected


def test_a_weight_moves_a_folder_back() -> None:
    texts = {"decisions/a.md": "# Drain\n\nText.", "how-to/b.md": "# Drain\n\nText, and more of it."}
    equal = Index(parse(texts)).search("drain", 1)
    weighted = Index(parse(texts), {"decisions/": 0.5}).search("drain", 1)
    assert (equal[0].page.path, weighted[0].page.path) == ("decisions/a.md", "how-to/b.md")


def test_a_hit_has_the_section_that_fits_and_the_place_in_it() -> None:
    text = (
        "# A\n\n## One\n\nText.\n\n## Two\n\n"
        + "Filler words stand here. " * 30
        + "Then the turbine. "
        + "More. " * 80
    )
    [hit] = Index(parse({"a.md": text})).search("turbine", 1)
    assert (hit.section.trail, hit.section.anchor) == (("A", "Two"), "two")
    assert "turbine" in hit.snippet
    assert hit.snippet.startswith("... ")
    assert hit.snippet.endswith(" ...")


def test_words_of_identifiers_are_terms() -> None:
    assert list(split_terms("spec.nodePools[].maxNodeCount")) == [
        "spec",
        "nodepool",
        "node",
        "pool",
        "maxnodecount",
        "max",
        "node",
        "count",
    ]
