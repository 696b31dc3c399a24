"""Build the site: pages for readers, and the same as Markdown for programs. ``make docs`` runs it."""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import contents
import for_assistants
import npm
import search_pages
import stage

HERE: Final = Path(__file__).resolve().parent

_MERMAID: Final = "mermaid@12.3.0"
"""Draws the diagrams in the browser. The site carries it, so that pages need no other host."""

_PLAYER: Final = "asciinema-player@3.18.0"
"""Plays recordings of a terminal."""

SEARCH: Final = "minisearch@7.2.0"
"""Searches the pages in the browser."""

SEARCH_FILE: Final = r"dist/umd/(index\.js)"

_PLAYED: Final = r"dist/bundle/(asciinema-player\.(?:css|min\.js))"

_FONT: Final = "@fontsource-variable/inter@5.2.8"
"""The typeface Inter, under the SIL Open Font License."""

_FONT_FILE: Final = r"files/(inter-latin-wght-normal\.woff2)"

_MODULES: Final = r"dist/(mermaid\.esm\.min\.mjs|chunks/mermaid\.esm\.min/[\w.-]+\.mjs)"


def main() -> int:
    """Build the site into a folder, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=stage.ROOT / "build" / "site")
    parser.add_argument(
        "--no-diagrams",
        action="store_true",
        help="leave out what comes from npm: the search, and drawn diagrams and recordings",
    )
    arguments = parser.parse_args()
    output: Path = arguments.output
    work = output.with_name(f"{output.name}-work")
    shutil.rmtree(output, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    places = stage.paths()
    sections = contents.read_sections(places)
    texts = contents.add_sections(stage.read(places), sections)
    places |= {section.page: stage.place(section.page) for section in sections}
    site = stage.collect(texts, places)
    stage.write(stage.Site(contents.add_trees(site.pages, sections, places), site.files), work / "source")
    shutil.copytree(HERE / "static", work / "static")
    (work / "static" / "search-pages.js").write_text(search_pages.build(texts, sections, places))
    if not arguments.no_diagrams:
        npm.extract(SEARCH, SEARCH_FILE, work / "static" / "minisearch")
        npm.extract(_FONT, _FONT_FILE, work / "static" / "fonts")
        npm.extract(_MERMAID, _MODULES, work / "static" / "mermaid")
        npm.extract(_PLAYER, _PLAYED, work / "static" / "asciinema")
    if status := _sphinx(work, output):
        return status
    published = {source: stage.published(path) for source, path in places.items()}
    markdown = stage.collect(texts, published)
    stage.write(markdown, output)
    for_assistants.write(markdown.pages, sections, published, output)
    print(f"{len(site.pages)} pages: open {output / 'index.html'}, or serve the folder")
    return 0


def _sphinx(work: Path, output: Path) -> int:
    version = tomllib.loads((stage.ROOT / "pyproject.toml").read_text())["project"]["version"]
    environment = os.environ | {
        "MODELPLANE_VERSION": version,
        "MODELPLANE_SITE_STATIC": str(work / "static"),
        "MODELPLANE_SITE_TEMPLATES": str(HERE / "templates"),
    }
    options = ["-b", "dirhtml", "-W", "--keep-going", "-q", "-c", str(HERE), "-d", str(work / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(work / "source"), str(output)]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
