"""The files ``llms.txt`` and ``llms-full.txt``: an index of pages, and all pages in one file.

The form is that of https://llmstxt.org: a title, a summary as a quotation, and a list of links below each
heading. The section ``Optional`` holds what a reader with little room leaves out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from modelplane.mcp.documentation.markdown import Page

OPTIONAL = "Optional"


def build_index(
    title: str,
    summary: str,
    pages: Iterable[Page],
    groups: Mapping[str, str],
    address: Callable[[str], str] = str,
) -> str:
    """Return ``llms.txt``.

    ``groups`` maps the beginning of a path to the heading of its section: the first one that fits counts,
    and the sections have the order of the headings. A page that fits none is left out. ``address`` maps a
    path to the target of its link.
    """
    sections: dict[str, list[str]] = {heading: [] for heading in groups.values()}
    for page in pages:
        heading = next((name for start, name in groups.items() if page.path.startswith(start)), None)
        if heading is not None:
            about = f": {page.summary}" if page.summary else ""
            sections[heading].append(f"- [{page.title}]({address(page.path)}){about}")
    told = (f"## {heading}\n\n" + "\n".join(lines) for heading, lines in sections.items() if lines)
    return "\n\n".join((f"# {title}", f"> {summary}", *told)) + "\n"


def build_full(title: str, summary: str, pages: Sequence[Page], address: Callable[[str], str] = str) -> str:
    """Return ``llms-full.txt``: each page with its source, separated by rules."""
    told = (_with_source(page, address(page.path)) for page in pages)
    return "\n---\n\n".join((f"# {title}\n\n> {summary}\n", *told))


def _with_source(page: Page, source: str) -> str:
    body = page.markdown.strip()
    heading = f"# {page.title}"
    if body.startswith("# "):
        heading, _, body = body.partition("\n")
    return f"{heading}\n\nSource: {source}\n\n{body.strip()}\n"
