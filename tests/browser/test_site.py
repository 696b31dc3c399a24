"""The site of the documentation in a real browser: legible, accessible, searchable, without another host.

axe-core comes from its npm package.
"""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.browser import CHROMIUM, Tab, tab
from support.site_queries import QUERIES

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm, for diagrams and axe-core"),
]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "package" / "site"
PATHS = (
    "/",
    "/how-to/rollouts/",
    "/explanation/structure-of-the-code/",
    "/reference/model_service/",
    "/reference/commands/",
    "/decisions/0067-site/",
    "/search/?q=drain",
)
"""The first page, steps, a diagram, the fields of a kind, commands, a decision, the search."""

WINDOWS = ((1280, 800), (390, 844))
AXE = "axe-core@4.13.0"
SERIOUS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => {
  window.found = found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target).slice(0, 3).join(", ")}`);
}, (error) => { window.found = [String(error)]; });
0
"""
COMPLETE = (
    """[...document.querySelectorAll("article a[href$='.cast']")]"""
    """.every(() => document.querySelector(".cast .ap-term")) && """
    """[...document.querySelectorAll("pre.mermaid")].every((each) => each.querySelector("svg .node"))"""
)
"""Recordings and diagrams, which scripts draw, are there."""

WIDE = """
[...document.querySelectorAll("article table")]
  .some((table) => table.offsetWidth > table.parentElement.clientWidth + 1)
"""

MENU = "[...document.querySelectorAll('.page-menu li > *')]"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("built") / "site"
    subprocess.run(
        [sys.executable, str(FOLDER / "build.py"), "--output", str(output)], check=True, timeout=600
    )
    return output


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is given)
            pass

    handler = functools.partial(Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    command = f"import npm, pathlib; npm.extract({AXE!r}, r'(axe\\.min\\.js)', pathlib.Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", command], cwd=FOLDER, check=True, timeout=300)
    return (folder / "axe.min.js").read_text()


@pytest.fixture
async def opened() -> AsyncIterator[Tab]:
    async with tab() as found:
        await found.look()
        yield found
        await found.send("Page.navigate", url="about:blank")


async def test_pages_load_nothing_from_another_host_and_no_script_fails(opened: Tab, address: str) -> None:
    for path in PATHS:
        await opened.open(address + path)
        await opened.until(COMPLETE)
    assert [each for each in opened.requests if not each.startswith((address, "data:", "blob:"))] == []
    assert opened.complaints == []


@pytest.mark.parametrize(("width", "height"), WINDOWS, ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing_serious_and_pages_fit_the_window(
    opened: Tab, address: str, axe: str, dark: bool, width: int, height: int
) -> None:
    await opened.look(dark=dark, width=width, height=height, touch=width < 500)
    for path in PATHS:
        await opened.open(address + path)
        await opened.until(COMPLETE)
        assert not await opened.evaluate("document.documentElement.scrollWidth > window.innerWidth"), path
        await opened.evaluate(axe)
        await opened.evaluate(SERIOUS)
        await opened.until("window.found !== undefined")
        assert await opened.evaluate("window.found") == [], path


@pytest.fixture
def with_tables(built: Path) -> list[Path]:
    """The pages of the site that have a table."""
    pages = sorted(path for path in built.rglob("index.html") if "<table" in path.read_text())
    return [path.parent.relative_to(built) for path in pages]


def _pages_with_tables(built: Path) -> list[str]:
    pages = sorted(built.rglob("index.html"))
    return [str(page.parent.relative_to(built)) for page in pages if "<table" in page.read_text()]


async def test_no_table_is_wider_than_the_text(opened: Tab, with_tables: list[Path], address: str) -> None:
    wide = []
    for page in with_tables:
        await opened.open(f"{address}/{page}/")
        if await opened.evaluate(WIDE):
            wide.append(str(page))
    assert wide == []


async def test_axe_would_tell_of_a_text_that_is_too_faint(opened: Tab, address: str, axe: str) -> None:
    await opened.open(address)
    await opened.evaluate("document.querySelector('article p').style.color = '#aaa'")
    await opened.evaluate(axe)
    await opened.evaluate(SERIOUS)
    await opened.until("window.found !== undefined")
    assert [each.partition(":")[0] for each in await opened.evaluate("window.found")] == ["color-contrast"]


async def test_the_page_that_a_person_looks_for_is_the_first_result(opened: Tab, address: str) -> None:
    await opened.open(f"{address}/search/")
    for query, page in QUERIES.items():
        await opened.evaluate(
            "(() => { const box = document.getElementById('search-query');"
            f" box.value = {json.dumps(query)}; box.dispatchEvent(new Event('input')); }})()"
        )
        assert await opened.evaluate("document.querySelector('.search-title').pathname") == f"/{page}/", query


async def test_the_search_of_the_sidebar_shows_results_with_the_words_marked(
    opened: Tab, address: str
) -> None:
    await opened.open(f"{address}/how-to/deploy/")
    await opened.evaluate("document.querySelector('.sidebar-search').value = 'etcd decision'")
    await opened.evaluate("document.querySelector('.sidebar-search-container').submit()")
    await opened.until("document.querySelectorAll('#search-list .search-title').length > 5")
    assert await opened.evaluate("location.search") == "?q=etcd+decision"
    assert "etcd" in await opened.evaluate(
        "document.querySelector('#search-list mark').textContent.toLowerCase()"
    )
    group = "document.querySelector('.search-group')"
    assert await opened.evaluate(f"{group}.textContent") == "Decisions and changelog"
    assert "/decisions/" in await opened.evaluate(f"{group}.nextElementSibling.querySelector('a').pathname")


async def test_diagrams_are_drawn_as_wide_as_the_text(opened: Tab, address: str) -> None:
    await opened.open(f"{address}/explanation/structure-of-the-code/")
    await opened.until("document.querySelectorAll('pre.mermaid svg').length === 1")
    await opened.until("document.querySelector('pre.mermaid svg .node').getBoundingClientRect().width > 50")


async def test_the_recording_of_the_tour_is_played_and_shown_as_text(opened: Tab, address: str) -> None:
    await opened.open(f"{address}/examples/02-build-the-platform/")
    await opened.until("document.querySelector('.cast .ap-overlay-start, .cast .ap-overlay') !== null")
    text = await opened.evaluate("document.querySelector('.cast + details pre').textContent")
    assert "$ modelplane up --clusters 3 --no-register\n" in text
    assert "\x1b" not in text
    await opened.evaluate("document.querySelector('.cast .ap-overlay-start, .cast .ap-overlay').click()")
    await opened.until("document.querySelector('.cast .ap-term')?.innerText.includes('make setup')")
    assert [each for each in opened.requests if not each.startswith((address, "data:", "blob:"))] == []


async def test_the_menu_of_a_page_offers_its_markdown_to_people_and_assistants(
    opened: Tab, address: str
) -> None:
    await opened.open(f"{address}/how-to/drain/")
    await opened.evaluate("document.querySelector('.page-menu summary').click()")
    assert await opened.evaluate(f"{MENU}.map((each) => each.textContent)") == [
        "Copy page",
        "View as Markdown",
        "Copy MCP server",
        "Connect to Cursor",
        "Connect to VS Code",
    ]
    # What is copied is recorded, because a headless browser may have no clipboard.
    await opened.evaluate(
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: async (text) => { window.copied = text; }}})"
    )
    await opened.evaluate(f"{MENU}[0].click()")
    await opened.until("document.querySelector('.page-menu-status').textContent === 'Copied as Markdown'")
    copied = await opened.evaluate("window.copied")
    assert copied.startswith("# Drain a cluster for maintenance\n")
    markdown = await opened.evaluate(f"{MENU}[1].href")
    await opened.open(markdown)
    assert await opened.evaluate("document.body.innerText.trim()") == copied.strip()


async def test_assistants_are_served_an_index_whose_pages_are_markdown(opened: Tab, address: str) -> None:
    await opened.open(f"{address}/llms.txt")
    await opened.evaluate("""
        const index = document.body.innerText;
        const paths = [...index.matchAll(/\\]\\((\\/[^)]+\\.md)\\)/g)].map((each) => each[1]);
        Promise.all(paths.map(async (path) => {
          const answer = await fetch(path);
          return answer.ok && /^# /m.test(await answer.text()) ? [] : [path];
        })).then((found) => { window.found = [found.length > 150, found.flat()]; });
        0
    """)
    await opened.until("window.found !== undefined")
    assert await opened.evaluate("window.found") == [True, []]


@pytest.mark.skipif(not os.environ.get("MODELPLANE_PICTURES"), reason="pictures are written if asked for")
async def test_pictures_of_the_site_are_made(opened: Tab, address: str) -> None:
    folder = ROOT / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for dark in (False, True):
        for width, height in WINDOWS:
            await opened.look(dark=dark, width=width, height=height, touch=width < 500)
            for path in PATHS:
                await opened.open(address + path)
                await opened.until(COMPLETE)
                name = path.partition("?")[0].strip("/").replace("/", "-") or "index"
                shown = f"{name}-{'dark' if dark else 'light'}-{width}.png"
                await opened.picture(folder / shown)
