"""The search of the site, run by Node.js: the page that a person looks for comes first."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.site_queries import QUERIES

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "package" / "site"
PREPARE = """
import pathlib, sys
import build, contents, npm, search_pages, stage
folder = pathlib.Path(sys.argv[1])
places = stage.paths()
pages = search_pages.build(stage.read(places), contents.read_sections(places), places)
(folder / "search-pages.js").write_text(pages)
npm.extract(build.SEARCH, build.SEARCH_FILE, folder)
"""
RUN = """
const [fs, vm] = [require("fs"), require("vm")];
process.argv.slice(2).forEach((path) => vm.runInThisContext(fs.readFileSync(path, "utf8")));
const search = createSearch(MiniSearch, searchPages);
const asked = JSON.parse(fs.readFileSync(0));
console.log(JSON.stringify(Object.fromEntries(asked.map((query) => [query, search(query)]))));
"""

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="needs Node.js and npm, for MiniSearch"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return the results of every query of this file."""
    folder = tmp_path_factory.mktemp("search")
    subprocess.run([sys.executable, "-c", PREPARE, str(folder)], cwd=FOLDER, check=True, timeout=300)
    scripts = [folder / "index.js", folder / "search-pages.js", FOLDER / "static" / "search.js"]
    (folder / "run.cjs").write_text(RUN)
    done = subprocess.run(
        ["node", folder / "run.cjs", *scripts],
        input=json.dumps([*QUERIES, "upgrades", "autoscalling", "xyzzy", "why two etcds"]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(("query", "page"), QUERIES.items(), ids=QUERIES)
def test_the_page_that_a_person_looks_for_comes_first(results: Any, query: str, page: str) -> None:
    assert [result["address"] for result in results[query]][:1] == [f"{page}/"]


def test_decisions_and_the_changelog_come_last(results: Any) -> None:
    for query in QUERIES:
        last = [result["last"] for result in results[query]]
        assert last == sorted(last), query
