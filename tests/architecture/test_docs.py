"""The documents say what is the case: links, commands, options, paths and manifests are real."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from modelplane.api.schema.decode import decode
from modelplane.cli.main import COMMANDS, main
from modelplane.local.home import ENVIRONMENT_VARIABLE, choose_home
from modelplane.local.next_steps import describe_next_steps
from modelplane.local.ports import Ports
from modelplane.local.settings import LocalSettings
from support.transcripts import lines_for_a_shell

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "modelplane"
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in {"build", "dist"} for part in page.relative_to(ROOT).parts)
)
GUIDES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
DOCS = ROOT / "docs"
COMMANDS_PAGE = ROOT / "docs" / "reference" / "commands.md"
SHOWN = [name for name, entry in COMMANDS.items() if not entry.hidden]
EFFECTS = ("cli", "local", "controllers", "kube")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def _blocks(page: Path, language: str) -> list[str]:
    return [block for name, block in _FENCE.findall(page.read_text()) if name == language]


def _code(page: Path) -> Iterator[str]:
    """Yield each line of a shell block, and each piece of code within the prose."""
    for block in _blocks(page, "bash"):
        yield from block.splitlines()
    yield from re.findall(r"`([^`]+)`", _prose(page))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", _prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_named_exists(page: Path) -> None:
    named = {name for code in _code(page) for name in re.findall(r"\bmodelplane ([a-z][a-z-]*)", code)}
    assert named - set(COMMANDS) == set()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for code in _code(page) for name in re.findall(r"^make ([a-z-]+)", code)}
    assert named - targets == set()


@pytest.mark.parametrize("page", GUIDES, ids=_name)
def test_every_path_named_exists(page: Path) -> None:
    named = re.findall(r"`(?=[a-z])((?:[\w<>-]+/)+(?:[\w<>-]+(?:\.(?:py|md|yaml))?)?)`", _prose(page))
    patterns = {path: re.sub(r"<\w+>", "*", path).rstrip("/") for path in named}
    missing = [
        path
        for path, pattern in patterns.items()
        if not any(any(root.glob(pattern)) for root in (ROOT, SOURCE))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_proof_named_in_a_comment_exists(page: Path) -> None:
    comments = "".join(re.findall(r"<!--.*?-->", page.read_text(), re.DOTALL))
    missing = []
    for path, test in re.findall(r"((?:tests|src|docs)/[\w/.-]*\w)(?:::(\w+))?", comments):
        file = ROOT / path
        if not file.exists() or (test and f"def {test}(" not in file.read_text()):
            missing.append(f"{path}::{test}")
    assert missing == []


def test_every_threat_names_tests_that_exist() -> None:
    """The last cell of each threat links to tests, by their names in the files that have them."""
    tables = (DOCS / "explanation" / "threat-model.md").read_text().partition("## Trust boundaries")[2]
    rows = [
        line.strip("| ").split(" | ") for line in tables.splitlines() if re.match(r"\| [STRIDE, ]+: ", line)
    ]
    assert len(rows) > 40
    unproven = []
    for threat, _, proofs in rows:
        named = re.findall(
            r"\[`(\w+)`\]\(\.\./\.\./((?:tests|gateway-module/src)/[\w/]+\.(?:py|rs))\)", proofs
        )
        files = [(name, (ROOT / path).read_text()) for name, path in named]
        if not named or not all(re.search(rf"\b(?:def|fn) {name}\(", text) for name, text in files):
            unproven.append(threat)
    assert unproven == []


def test_every_claim_about_another_gateway_has_a_source() -> None:
    """Each cell about another gateway has a source or says that none was found, and each source is listed."""
    page = (DOCS / "explanation" / "gateways-compared.md").read_text()
    claims, _, sources = page.partition("## Sources")
    rows = [line.strip("| ").split(" | ") for line in claims.splitlines() if line.count(" | ") == 5]
    said = [cell for row in rows if row[0] != "Modelplane" for cell in row[2:]]
    assert len(said) > 80
    assert [cell for cell in said if not re.search(r"\[[ELKA]\d+\]|^not found", cell)] == []
    used = set(re.findall(r"\[([ELKA]\d+)\]", claims))
    listed = set(re.findall(r"^\| \[([ELKA]\d+)\] \|", sources, re.MULTILINE))
    addressed = set(re.findall(r"^\[([ELKA]\d+)\]: https://\S+$", sources, re.MULTILINE))
    assert (used, used) == (listed, addressed)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_manifest_shown_can_be_read(page: Path) -> None:
    for block in _blocks(page, "yaml"):
        for document in yaml.safe_load_all(block):
            if str(document.get("apiVersion", "")).startswith("modelplane.ai/"):
                decode(document)


def test_the_demo_of_the_readme_is_what_up_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Path(sys.executable).parent
    monkeypatch.setattr(shutil, "which", lambda name: str(beside / name) if name == "modelplane" else None)
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.chdir(ROOT)
    printed = [
        line.strip()
        for line in describe_next_steps(choose_home(None), LocalSettings(Ports())).splitlines()[2:]
    ]
    make_up, activate, *shown = lines_for_a_shell(ROOT / "README.md")[0].splitlines()
    assert (make_up, activate, shown) == ("make up", "source .venv/bin/activate", printed)


def test_every_decision_is_listed_once_and_in_order() -> None:
    folder = DOCS / "decisions"
    listed = re.findall(r"^(\d+)\. \[.+\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    records = sorted(record.name for record in folder.glob("[0-9]*.md"))
    assert [(int(number), name) for number, name in listed] == [(int(name[:4]), name) for name in records]


@pytest.mark.parametrize(
    "record", sorted((DOCS / "decisions").glob("[0-9]*.md")), ids=lambda path: path.name[:4]
)
def test_every_decision_has_a_status_and_a_date(record: Path) -> None:
    """The date is that of the commit that added the record; a decision that replaces it exists."""
    form = r"# .+\n\nStatus: (?:accepted|superseded by (\d+))\n\nDate: \d{4}-\d\d-\d\d\n\n"
    match = re.match(form, record.read_text())
    assert match is not None
    assert match[1] is None or list(record.parent.glob(f"{int(match[1]):04d}-*.md"))


def test_every_command_that_people_are_shown_has_a_page_and_no_other() -> None:
    assert sorted(page.stem for page in COMMANDS_PAGE.with_suffix("").glob("*.md")) == sorted(SHOWN)


def _page(command: str) -> str:
    return (COMMANDS_PAGE.with_suffix("") / f"{command}.md").read_text().partition("\n## modelplane ")[0]


@pytest.mark.parametrize("command", SHOWN)
def test_the_page_of_a_command_has_every_option_and_no_other(command: str) -> None:
    found = main.get_command(click.Context(main), command)
    assert found is not None
    options = {
        name
        for each in found.params
        if isinstance(each, click.Option)
        for name in (*each.opts, *each.secondary_opts)
    }
    rows = [line.split("|")[1] for line in _page(command).splitlines() if line.startswith("| `-")]
    documented = {name for row in rows for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row)}
    assert documented == options


@pytest.mark.parametrize("command", SHOWN)
def test_the_page_of_a_command_has_an_example(command: str) -> None:
    [example] = _FENCE.findall(_page(command))
    assert f"modelplane {command}" in example[1]


def test_the_pages_of_commands_have_every_variable_that_is_read() -> None:
    # The pure half reads none; what it names, engines are given.
    readers = [path for package in EFFECTS for path in (SOURCE / package).rglob("*.py")]
    sources = "".join(path.read_text() for path in readers)
    pages = [COMMANDS_PAGE, *COMMANDS_PAGE.with_suffix("").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    assert {
        name for name in re.findall(r"\"(MODELPLANE_[A-Z_]+)\"", sources) if f"`{name}`" not in text
    } == set()
