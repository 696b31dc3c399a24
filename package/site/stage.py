"""Stage the pages of the site: copy Markdown from the repository, and make its links fit the site.

The pages stay where they are read on a Git host: ``docs``, the README pages of ``examples``, and the pages of
the root. Here each gets a path of the site, links between pages follow, and a file that a page links to,
such as a manifest, is copied beside them as it is.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

FILES: Final = PurePosixPath("files")
"""Folder of the site for files that pages link to, by their path in the repository."""

_OWN: Final = {
    "docs/README.md": "index.md",
    "ARCHITECTURE.md": "explanation/structure-of-the-code.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "README.md": "overview.md",
}
"""Pages whose path on the site does not follow from their path in the repository."""

_CODE: Final = re.compile(r"^```.*?^```$|(?<!`)`[^`\n]+`(?!`)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")

Paths = Mapping[PurePosixPath, PurePosixPath]


@dataclass(frozen=True, slots=True)
class Site:
    """Pages by path of the site, as Markdown, and the files of the repository that they link to."""

    pages: Mapping[PurePosixPath, str]
    files: frozenset[PurePosixPath]


def paths(root: Path = ROOT) -> dict[PurePosixPath, PurePosixPath]:
    """Return the path on the site of each page, by its path in the repository."""
    return dict(_paths(root))


def place(page: PurePosixPath) -> PurePosixPath:
    """Return the path on the site of a page below ``docs``, ``examples`` or ``gateway-module``."""
    shown = page.relative_to("docs") if page.parts[0] == "docs" else page
    return shown.with_name("index.md") if shown.name == "README.md" else shown


def published(path: PurePosixPath) -> PurePosixPath:
    """Return the path of a page as Markdown on the site: `index.md` below the address of the page."""
    return path if path.name == "index.md" else path.with_suffix("") / "index.md"


def read(places: Paths, root: Path = ROOT) -> dict[PurePosixPath, str]:
    """Return the text of each page, by its path in the repository."""
    return {source: (root / source).read_text() for source in places}


def collect(texts: Mapping[PurePosixPath, str], places: Paths, root: Path = ROOT) -> Site:
    """Return the pages at the given places. Raises ValueError for a link that leads nowhere."""
    files: set[PurePosixPath] = set()
    pages = {places[source]: _relinked(text, source, places, root, files) for source, text in texts.items()}
    return Site(pages, frozenset(files))


def write(site: Site, folder: Path, root: Path = ROOT) -> None:
    """Write pages and files into a folder."""
    for path, text in site.pages.items():
        _place(folder / path).write_text(text)
    for path in site.files:
        source, target = root / path, folder / FILES / path
        if source.is_dir():
            listed = sorted(each.name for each in source.iterdir() if not each.name.startswith("."))
            _place(target / "index.txt").write_text("\n".join(listed) + "\n")
        else:
            shutil.copyfile(source, _place(target))


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _paths(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    for source, target in _OWN.items():
        yield PurePosixPath(source), PurePosixPath(target)
    for page in sorted((root / "skills").glob("*/SKILL.md")):
        path = PurePosixPath(page.relative_to(root))
        yield path, path.parent.with_suffix(".md")
    for folder in ("docs", "examples", "gateway-module"):
        for page in sorted((root / folder).rglob("*.md")):
            path = PurePosixPath(page.relative_to(root))
            if str(path) in _OWN or "target" in path.parts:
                continue
            yield path, place(path)


def _relinked(text: str, source: PurePosixPath, places: Paths, root: Path, files: set[PurePosixPath]) -> str:
    """Return the text of a page with the links that it has at its place on the site."""
    folder = f"/{places[source].parent}"
    spans: list[str] = []

    def hidden(match: re.Match[str]) -> str:
        spans.append(match[0])
        return f"\0{len(spans) - 1}\0"

    def link(match: re.Match[str]) -> str:
        path, hash_, anchor = match[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        meant = PurePosixPath(normpath(source.parent / path))
        page = places.get(meant) or places.get(meant / "README.md")
        if page is not None:
            return f"{match[1]}{relpath(f'/{page}', folder)}{hash_}{anchor}{match[3]}"
        if not (root / meant).exists():
            raise ValueError(f"{source}: the link to {match[2]} leads nowhere")
        files.add(meant)
        shown = FILES / meant / "index.txt" if (root / meant).is_dir() else FILES / meant
        return f"{match[1]}{relpath(f'/{shown}', folder)}{match[3]}"

    # Code may contain what looks like a link, and a link may have code as its text.
    relinked = _LINK.sub(link, _CODE.sub(hidden, text))
    return re.sub(r"\0(\d+)\0", lambda match: spans[int(match[1])], relinked)
