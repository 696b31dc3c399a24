"""AI agents are told what is the case: commands, tools, pages and manifests are real, and settings start."""

import asyncio
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from modelplane.cli.main import main
from modelplane.mcp import documentation_tools
from modelplane.mcp.documentation import split_front_matter
from modelplane.mcp.documentation_tools import DocumentationTools
from modelplane.mcp.fleet import Fleet
from modelplane.mcp.fleet_tools import FleetTools, SizeTool
from modelplane.mcp.server import build_server
from modelplane.offline.check.validation import validate
from modelplane.offline.files.sources import Source

ROOT = Path(__file__).parents[2]
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = ("gpu.kubeconfig", "class.yaml", "qwen.yaml", "fleet.yaml")
"""Files that the commands of the skills name."""


def _name(path: Path) -> str:
    return path.parent.name


def _blocks(skill: Path, language: str) -> list[str]:
    return [block for name, block in _FENCE.findall(skill.read_text()) if name == language]


def _commands(skill: Path) -> Iterator[list[str]]:
    """Yield the words of each line for a shell, without what redirects its output."""
    for block in _blocks(skill, "bash"):
        for line in block.splitlines():
            yield shlex.split(re.sub(r" > \S+$", "", line), comments=True)


def test_there_are_skills_for_platform_and_ml_teams() -> None:
    assert sorted(map(_name, SKILLS)) == [
        "deploy-a-model",
        "explain-placement",
        "operate-a-fleet",
        "register-hardware",
    ]


@pytest.mark.parametrize("skill", SKILLS, ids=_name)
def test_a_skill_has_the_form_that_agents_read(skill: Path) -> None:
    matter, body = split_front_matter(skill.read_text())
    assert set(matter) == {"name", "description"}
    assert matter == yaml.safe_load(skill.read_text().split("---\n")[1])
    assert matter["name"] == skill.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", matter["name"])
    assert 20 < len(matter["description"]) <= 300
    assert body.startswith("# ")
    assert len(body.splitlines()) < 150


@pytest.mark.parametrize("skill", SKILLS, ids=_name)
def test_every_command_parses(skill: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options and the forms of their values are those of the command line; nothing runs."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    commands = list(_commands(skill))
    assert len(commands) >= 4
    for program, *arguments in commands:
        assert program == "modelplane"
        _parse(main, arguments)


@pytest.mark.parametrize(
    "line", ["cluster drian x", "cluster drain x --dry", "rollout undo md/x --to-revision a"]
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        _parse(main, line.split())


def _parse(command: click.Command, arguments: list[str], parent: click.Context | None = None) -> None:
    with command.make_context(command.name, arguments, parent=parent) as context:
        if isinstance(command, click.Group) and context._protected_args:
            name, *rest = [*context._protected_args, *context.args]
            found = command.get_command(context, name)
            assert found is not None, name
            _parse(found, rest, context)


@pytest.fixture(scope="module")
def tools() -> set[str]:
    fleet = Fleet(lambda: pytest.fail("no tool is called"))
    made = build_server(DocumentationTools({}, {}), {}, FleetTools(fleet), SizeTool(fleet))
    return {each.name for each in asyncio.run(made.list_tools())}


@pytest.mark.parametrize("skill", SKILLS, ids=_name)
def test_every_tool_and_page_named_exists(skill: Path, tools: set[str]) -> None:
    prose = _FENCE.sub("", skill.read_text())
    code = re.findall(r"`([^`\s]+)`", prose)
    called = {each for each in code if re.fullmatch(r"[a-z]+_[a-z_]+", each)}
    named = {each for each in code if each.startswith("docs/")}
    assert called
    assert called - tools == set()
    assert named - set(documentation_tools.load_pages()) == set()
    assert set(re.findall(r"skill `([^`]+)`", prose)) <= set(map(_name, SKILLS))


def test_the_settings_of_clients_start_the_server(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "ai-tools.md"
    settings = [json.loads(block) for block in _blocks(page, "json")]
    settings += [tomllib.loads(block) for block in _blocks(page, "toml")]
    started = [each["modelplane"] for one in settings for each in one.values()]
    assert len(started) == 4
    config = tmp_path / "kubeconfig"
    config.touch()
    for each in started:
        assert each["command"] == "modelplane"
        arguments = [str(config) if "/" in argument else argument for argument in each["args"]]
        _parse(main, arguments)


def test_the_page_names_every_tool_and_skill(tools: set[str]) -> None:
    page = (ROOT / "docs" / "how-to" / "ai-tools.md").read_text()
    table = page.partition("## Available tools")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == tools
    assert re.findall(r"\(\.\./\.\./(skills/[\w/-]+\.md)\)", page) == [
        f"skills/{name}/SKILL.md"
        for name in ("register-hardware", "operate-a-fleet", "deploy-a-model", "explain-placement")
    ]


@pytest.mark.parametrize("skill", SKILLS, ids=_name)
def test_every_manifest_is_valid(skill: Path) -> None:
    for block in _blocks(skill, "yaml"):
        assert validate([Source(str(skill), block)]).problems == ()
