"""Pages of Markdown: titles, sections, anchors, first sentences, and what others call a page."""

import pytest

from modelplane.mcp.documentation import Page, parse, split_front_matter

TEXT = """\
<!-- Generated; do not edit. -->

# How to `drain`

```bash
# not a heading
modelplane cluster drain
```

A drain moves replicas of [a cluster](cluster.md) elsewhere: the replacement comes first. It takes time.

## See what moves

First.

### In detail

~~~~
```
## not a heading either
~~~~

## See what moves

Second.
"""


def page(text: str) -> Page:
    [found] = parse({"docs/page.md": text})
    return found


def test_a_page_has_its_title_and_first_sentence() -> None:
    found = page(TEXT)
    assert found.title == "How to drain"
    assert found.summary == "A drain moves replicas of a cluster elsewhere: the replacement comes first."
    assert found.markdown.startswith("# How to `drain`\n")


def test_headings_in_code_are_none_and_equal_ones_get_anchors_of_their_own() -> None:
    assert [(each.trail, each.anchor) for each in page(TEXT).sections] == [
        (("How to drain",), ""),
        (("How to drain", "See what moves"), "see-what-moves"),
        (("How to drain", "See what moves", "In detail"), "in-detail"),
        (("How to drain", "See what moves"), "see-what-moves-1"),
    ]


SUMMARIES = {
    "a sentence over two lines": ("# A\n\nOne\ntwo. Three.", "One two."),
    "a sentence with a version": (
        "# A\n\nKubernetes 1.34 or later is needed. Yes.",
        "Kubernetes 1.34 or later is needed.",
    ),
    "a sentence after its label": ("# A\n\n**Decision.** It is so. Why.", "It is so."),
    "a sentence that leads to a list": ("# A\n\nOne of:\n\n- b", "One of:"),
    "prose after a table": ("# A\n\n| a | b |\n|---|---|\n\nText.", "Text."),
    "prose of a section below": ("# A\n\n## B\n\nText of B.", "Text of B."),
    "no end": ("# A\n\nText without end", "Text without end"),
    "no prose": ("# A\n\n- one\n- two", ""),
}


@pytest.mark.parametrize(("text", "expected"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_the_summary_is_the_first_sentence_of_prose(text: str, expected: str) -> None:
    assert page(text).summary == expected


def test_a_page_without_a_title_is_called_by_its_path() -> None:
    assert (page("Only text.").title, page("").title) == ("docs/page.md", "docs/page.md")


def test_front_matter_is_no_part_of_a_page() -> None:
    text = "---\nname: drain\ndescription: Drain: a cluster.\n---\n\n# A\n\nText.\n"
    assert split_front_matter(text) == (
        {"name": "drain", "description": "Drain: a cluster."},
        "# A\n\nText.\n",
    )
    assert page(text).markdown == "# A\n\nText.\n"
    assert split_front_matter("# A\n---\n") == ({}, "# A\n---\n")


def test_a_page_is_called_by_the_links_to_it() -> None:
    texts = {
        "docs/a.md": "# A\n\nRead [about b](sub/b.md), [one part](sub/b.md#part) and [this](a.md).",
        "docs/sub/b.md": "# B\n\n[outside](https://example.com/a.md)",
        "docs/README.md": "# Index\n\n| to do this | [b](sub/b.md) |",
    }
    _, b, _ = parse(texts)
    assert [" ".join(each.split()) for each in b.linked_as] == ["about b", "| to do this | b |"]
