"""The files ``llms.txt`` and ``llms-full.txt``."""

from modelplane.mcp import documentation_tools
from modelplane.mcp.documentation import OPTIONAL, build_full, build_index, parse
from modelplane.mcp.documentation_tools import GROUPS

TEXTS = {
    "docs/decisions/0001-x.md": "# 1. X\n\n**Decision.** X it is.",
    "docs/how-to/drain.md": "# Drain\n\nA drain moves replicas. More.\n\n## Part\n\nText.",
    "docs/how-to/empty.md": "# Empty",
    "other.md": "# Other",
}
INDEX = """\
# Product

> What it is.

## How to

- [Drain](https://docs.example/docs/how-to/drain/index.md): A drain moves replicas.
- [Empty](https://docs.example/docs/how-to/empty/index.md)

## Optional

- [1. X](https://docs.example/docs/decisions/0001-x/index.md): X it is.
"""
FULL = """\
# Product

> What it is.

---

# Drain

Source: docs/how-to/drain.md

A drain moves replicas. More.

## Part

Text.

---

# other.md

Source: other.md

Only text.
"""


def test_the_index_has_every_page_below_the_heading_of_its_folder() -> None:
    groups = {"docs/how-to/": "How to", "docs/decisions/": OPTIONAL}
    told = build_index(
        "Product",
        "What it is.",
        parse(TEXTS),
        groups,
        lambda path: f"https://docs.example/{path.removesuffix('.md')}/index.md",
    )
    assert told == INDEX


def test_the_full_file_has_each_page_with_its_source() -> None:
    texts = {"docs/how-to/drain.md": TEXTS["docs/how-to/drain.md"], "other.md": "Only text."}
    assert build_full("Product", "What it is.", parse(texts)) == FULL


def test_no_page_of_the_documentation_is_left_out_and_each_has_a_title() -> None:
    found = parse(documentation_tools.load_pages())
    told = build_index("Product", "What it is.", found, GROUPS)
    assert [page.path for page in found if f"]({page.path})" not in told] == []
    assert [page.path for page in found if page.title == page.path] == []
