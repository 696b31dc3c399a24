"""Contents of the site: its sections, in the order of the navigation, and the pages that list them."""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the navigation: its folder, its title, and a sentence about it.

    ``first`` are the pages that come first, by their names; the others follow in the order of their titles.
    """

    folder: str
    title: str
    about: str = ""
    first: tuple[str, ...] = ()


SECTIONS: Final = (
    Section("examples", "Tutorials and examples"),
    Section(
        "how-to",
        "How-to guides",
        "Steps for one task each.",
        ("install", "register", "hardware", "gateway", "deploy", "expose"),
    ),
    Section(
        "explanation",
        "Explanation",
        "Background: how Modelplane decides, and why.",
        ("why", "how-it-works", "faq", "scheduling", "replica", "request-path"),
    ),
    Section(
        "reference",
        "Reference",
        "Every field, condition, metric and command.",
        ("glossary", "commands", "conditions", "metrics", "gateway"),
    ),
    Section("skills", "Skills for agents", "Instructions for AI agents that work with Modelplane."),
    Section("decisions", "Decisions", "Design decisions, with the evidence."),
)
"""Sections in the order of the navigation."""

FURTHER: Final = ("changelog", "contributing", "security-policy", "gateway-module/index")
"""Pages outside of the sections."""

_ROOT: Final = PurePosixPath("index.md")
_HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def title(text: str) -> str:
    """Return the title of a page. Raises ValueError if it has none."""
    match = _HEADING.search(text)
    if match is None:
        raise ValueError("a page has no title: begin it with a line `# Title`")
    return match[1]


def short(text: str) -> str:
    """Return the title of a page for the navigation, where "How to" would begin every line."""
    found = title(text).removeprefix("How to ").replace("`", "")
    return found[0].upper() + found[1:]


def lists(pages: Mapping[PurePosixPath, str]) -> dict[PurePosixPath, str]:
    """Return a page that lists the pages of each section which has no page of its own for that.

    Links are right for pages at their paths, and at ``index.md`` below them.
    """
    found = {}
    for section in SECTIONS:
        index = PurePosixPath(section.folder, "index.md")
        if index not in pages:
            within = sorted(path for path in pages if path.parts[0] == section.folder)
            entries = "".join(
                f"- [{short(pages[path])}]({path.relative_to(index.parent)})\n" for path in within
            )
            found[index] = f"# {section.title}\n\n{section.about}\n\n{entries}"
    return found


def with_contents(pages: Mapping[PurePosixPath, str]) -> dict[PurePosixPath, str]:
    """Return the pages with the lists that the navigation is made of."""
    result = {**pages, **lists(pages)}
    order = {
        PurePosixPath(each.folder, f"{name}.md"): at
        for each in SECTIONS
        for at, name in enumerate(each.first)
    }
    for index in [path for path in result if path.name == "index.md" and path != _ROOT]:
        children = sorted(_children(index, result), key=lambda path: _rank(path, result[path], order))
        if children:
            entries = (f"{short(result[path])} <{path.relative_to(index.parent)}>" for path in children)
            result[index] += f"\n{_toctree(entries)}"
    sections = [f"{section.title} <{section.folder}/index>" for section in SECTIONS]
    result[_ROOT] += f"\n{_toctree(['Overview <overview>', *sections, *FURTHER])}"
    return result


def _children(index: PurePosixPath, pages: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return the pages right below an index: those of its folder, and the indexes of folders below."""
    indexes = {path for path in pages if path.name == "index.md"}
    return [path for path in pages if path != index and _parent(path, indexes) == index]


def _parent(path: PurePosixPath, indexes: Container[PurePosixPath]) -> PurePosixPath:
    folders = path.parents if path.name != "index.md" else list(path.parents)[1:]
    return next((folder / "index.md" for folder in folders if folder / "index.md" in indexes), _ROOT)


def _rank(path: PurePosixPath, text: str, order: Mapping[PurePosixPath, int]) -> tuple[int, str]:
    """Return a key that sorts pages: numbered ones, then those to come first, then by title."""
    name = path.parent.name if path.name == "index.md" else path.name
    if name[0].isdigit():
        return -1, name
    return order.get(path, len(order)), short(text).lower()


def _toctree(entries: Iterable[str]) -> str:
    lines = "\n".join(entry.replace(".md>", ">") for entry in entries)
    return f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```\n"
