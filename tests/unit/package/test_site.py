"""The site of the documentation: the places of pages, their links, their Markdown, and the navigation."""

import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FOLDER = ROOT / "package" / "site"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("contents", "stage")
    yield type("Modules", (), {name: importlib.import_module(name) for name in names})
    for name in names:
        del sys.modules[name]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site without diagrams, which need npm."""
    output = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, str(FOLDER / "build.py"), "--no-diagrams", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), "a warning is an error"
    return output


def repository(folder: Path, **pages: str) -> Path:
    for name in (
        "docs/README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "README.md",
    ):
        pages.setdefault(name, "# Title\n")
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def collected(modules: Any, root: Path) -> Any:
    places = modules.stage.paths(root)
    return modules.stage.collect(modules.stage.read(places, root), places, root)


def test_links_between_pages_follow_them_to_their_places(modules: Any, tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        **{
            "docs/how-to/drain.md": (
                "# A\n[b](../../examples/one/README.md#end) [c](../README.md) [d](#here)\n"
            ),
            "examples/one/README.md": "# B\n[a](../../docs/how-to/drain.md) [x](https://example.com/a.md)\n",
        },
    )
    places = modules.stage.paths(root)
    texts = modules.stage.read(places, root)
    staged = modules.stage.collect(texts, places, root).pages
    assert staged[PurePosixPath("how-to/drain.md")] == (
        "# A\n[b](../examples/one/index.md#end) [c](../index.md) [d](#here)\n"
    )
    markdown = {source: modules.stage.published(place) for source, place in places.items()}
    published = modules.stage.collect(texts, markdown, root).pages
    assert published[PurePosixPath("how-to/drain/index.md")] == (
        "# A\n[b](../../examples/one/index.md#end) [c](../../index.md) [d](#here)\n"
    )
    assert published[PurePosixPath("examples/one/index.md")] == (
        "# B\n[a](../../how-to/drain/index.md) [x](https://example.com/a.md)\n"
    )


def test_files_that_pages_link_to_are_on_the_site(modules: Any, tmp_path: Path) -> None:
    root = repository(tmp_path, **{"examples/one/README.md": "# B\n[m](model.yaml) [all](../../tests)\n"})
    (root / "examples/one/model.yaml").write_text("kind: ModelDeployment\n")
    (root / "tests/unit").mkdir(parents=True)
    staged = collected(modules, root)
    text = staged.pages[PurePosixPath("examples/one/index.md")]
    assert text == "# B\n[m](../../files/examples/one/model.yaml) [all](../../files/tests/index.txt)\n"
    modules.stage.write(staged, tmp_path / "out", root)
    assert (tmp_path / "out/files/examples/one/model.yaml").read_text() == "kind: ModelDeployment\n"
    assert (tmp_path / "out/files/tests/index.txt").read_text() == "unit\n"


def test_code_that_looks_like_a_link_stays_as_it_is(modules: Any, tmp_path: Path) -> None:
    text = "# A\n`[a-z]([-a-z]*)` and [`code`](../README.md)\n\n```bash\necho [x](y)\n```\n"
    root = repository(tmp_path, **{"docs/how-to/a.md": text})
    staged = collected(modules, root).pages
    assert staged[PurePosixPath("how-to/a.md")] == text.replace("../README.md", "../index.md")


def test_a_link_that_leads_nowhere_is_an_error_with_its_page(modules: Any, tmp_path: Path) -> None:
    root = repository(tmp_path, **{"docs/how-to/a.md": "# A\n[b](gone.md)\n"})
    with pytest.raises(ValueError, match=r"docs/how-to/a\.md: the link to gone\.md leads nowhere"):
        collected(modules, root)


def test_every_page_is_in_one_section_of_the_navigation(modules: Any) -> None:
    """A new page needs a row in package/site/navigation.yaml, or the folder of a page with a row."""
    sections = modules.contents.read_sections(modules.stage.paths())
    named = [page for section in sections for page in section.pages[1:]]
    assert [page for page, times in Counter(named).items() if times > 1] == []
    assert set(named) == modules.stage.paths().keys() - {modules.contents.ROOT}


def test_a_page_in_no_section_is_an_error_with_what_to_do(modules: Any) -> None:
    pages = [*modules.stage.paths(), PurePosixPath("docs/how-to/stray.md")]
    with pytest.raises(
        ValueError, match=r"docs/how-to/stray\.md is in no section: name it in package/site/nav"
    ):
        modules.contents.read_sections(pages)


def test_pages_follow_that_of_their_folder_and_how_to_is_left_out(modules: Any) -> None:
    stray = PurePosixPath("docs/decisions/9999-stray.md")
    places = {**modules.stage.paths(), stray: PurePosixPath("decisions/9999-stray.md")}
    sections = modules.contents.read_sections(places)
    texts = modules.contents.add_sections({**dict.fromkeys(places, "# How to do it\n")}, sections)
    places |= {section.page: modules.stage.place(section.page) for section in sections}
    trees = modules.contents.add_trees({places[page]: text for page, text in texts.items()}, sections, places)

    def entries(path: str) -> list[str]:
        return re.findall(r"^(.+ </.+>)$", trees[PurePosixPath(path)], re.MULTILINE)

    assert "Do it </examples/recipes/kimi-k2/index>" in entries("examples/recipes/index.md")
    assert "Do it </examples/recipes/kimi-k2/index>" not in entries("examples/index.md")
    assert entries("index.md")[:2] == ["Get started </get-started>", "Concepts </concepts>"]
    assert trees[places[stray]].startswith("---\norphan: true\n---\n"), "out of the navigation"
    assert entries("contribute.md")[-1] == "Register hardware </skills/register-hardware>"


class _Loaded(HTMLParser):
    """Addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get("src") if tag in {"script", "img", "iframe"} else None
        if tag == "link" and values.get("rel") in {"stylesheet", "preload", "icon"}:
            address = values.get("href")
        self.found += [address] if address else []


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("index.html"))
    assert len(pages) > 150
    loaded = _Loaded()
    for page in pages:
        loaded.feed(page.read_text())
    assert {address for address in loaded.found if re.match(r"[a-z]+:|//", address)} == set()


def test_every_page_is_also_markdown_whose_links_lead_to_markdown(site: Path) -> None:
    made = {page.parent for page in site.rglob("index.html")} - {site / "search", site / "genindex"}
    assert {page.parent for page in site.rglob("index.md")} == made
    broken = [
        f"{page.relative_to(site)}: {target}"
        for page in site.rglob("index.md")
        for target in re.findall(r"\]\(([^)\s#]+)", re.sub(CODE, "", page.read_text()))
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert broken == []


def test_assistants_find_every_page_in_two_files(site: Path) -> None:
    index, full = (site / "llms.txt").read_text(), (site / "llms-full.txt").read_text()
    assert "- [Drain a cluster for maintenance](/how-to/drain/index.md): " in index
    targets = re.findall(r"^- \[.+?\]\(/(.+?)\)", index, re.MULTILINE)
    assert [target for target in targets if not (site / target).exists()] == []
    sources = set(re.findall(r"^Source: /(.+)$", full, re.MULTILINE))
    assert sources == set(targets)
