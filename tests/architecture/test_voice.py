"""Pages and messages are in plain English: the counts of some habits may only fall."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from support.voice import measure, read_prose, read_strings

ROOT = Path(__file__).parents[2]


def _read(*patterns: str) -> Iterable[str]:
    return (read_prose(path.read_text()) for pattern in patterns for path in sorted(ROOT.glob(pattern)))


PLACES: dict[str, Callable[[], Iterable[str]]] = {
    "how-to pages": lambda: _read("docs/how-to/*.md"),
    "explanations": lambda: _read("docs/explanation/*.md"),
    "reference": lambda: _read("docs/reference/**/*.md"),
    "examples": lambda: _read("examples/**/*.md"),
    "pages of the repository": lambda: _read("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"),
    "changelog": lambda: _read("CHANGELOG.md"),
    "texts of the program": lambda: read_strings(ROOT / "src" / "modelplane"),
}

LIMITS = {
    # says so, stay, has the, clause as a noun, "its, their", bookish, is no, you
    "how-to pages": (0.1, 0.5, 1.2, 0.4, 6, 0.15, 0.4, 10),
    "explanations": (0.1, 0.5, 1.2, 0.4, 6, 0.15, 0.4, 5.6),
    "reference": (0.1, 0.5, 1.2, 0.4, 6, 0.15, 0.4, 2.7),
    "examples": (0.1, 0.5, 1.2, 0.4, 6, 0.15, 0.4, 10),
    "pages of the repository": (0.1, 0.5, 1.2, 0.95, 6, 0.15, 0.4, 2.6),
    "changelog": (0.1, 0.5, 1.2, 0.4, 6, 0.15, 0.4, 6.7),
    "texts of the program": (0.1, 0.5, 1.2, 0.44, 6, 0.15, 0.6, 1.7),
}
"""For each habit the most, and for words to the reader the least, per 1,000 words. Limits only tighten."""


def test_every_place_has_limits() -> None:
    assert list(LIMITS) == list(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_the_counts_do_not_rise(place: str) -> None:
    counts = measure(PLACES[place]())
    limits = dict(zip(counts, LIMITS[place], strict=True))
    more = {name: count for name, count in counts.items() if name != "you" and count > limits[name]}
    assert more == {}, f"rewrite the texts of the {place}: {limits}"
    assert counts["you"] >= limits["you"]


PAGES = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
    if "decisions" not in path.parts
)
_BY_NAME = re.compile(r"pip install\s+(?:-\S+\s+)*['\"]?modelplane(?![\w-])")
_PUBLISHED = re.compile(r"ghcr\.io/modelplane/[\w-]+:v?\d")
_SAYS_NOTHING_IS = re.compile(
    r"\b(?:no|not|none|isn't|aren't|nothing)\b[^.]{0,60}\b(?:published|exist)\b|images\.md|crossplane-packages\.md",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_takes_nothing_for_published(page: Path) -> None:
    """Until a release is published: a package of that name, or an image, would be another project's."""
    text = page.read_text()
    assert not _BY_NAME.findall(text), "install an extra from the checkout: pip install '.[EXTRA]'"
    assert not _PUBLISHED.search(text) or _SAYS_NOTHING_IS.search(text), "say that no image is published yet"
