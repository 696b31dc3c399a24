"""The Containerfile, which is built elsewhere: what it names is here."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from modelplane.local import gateway_module
from modelplane.local.binary import ENVIRONMENT_VARIABLE
from modelplane.local.gateway_module import ENVIRONMENT_VARIABLE as MODULE_VARIABLE

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "package" / "Containerfile").read_text()
LINES = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
INSTRUCTIONS = [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in LINES if line)]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def _of(name):
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def test_it_has_only_instructions_that_every_builder_knows():
    assert {name for name, _ in INSTRUCTIONS} <= {
        "ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR",
    }  # fmt: skip


def test_the_stages_have_the_bases_that_arguments_name():
    assert _of("ARG") == ["BASE=python:3.12-slim"]
    assert _of("FROM") == ["${BASE} AS build", "${BASE}"]


def test_everything_that_is_copied_from_the_repository_is_there():
    sources = [word for copy in _of("COPY") if "--from" not in copy for word in shlex.split(copy)[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_what_building_the_wheel_takes_is_copied():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {path.partition("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    copied = {word.rstrip("/") for copy in _of("COPY") for word in shlex.split(copy)}
    assert needed - copied == set()


def test_every_extra_that_is_installed_exists():
    [run] = _of("RUN")
    [extras] = re.findall(r"'modelplane\[([^]]+)\]'", run)
    assert set(extras.split(",")) - set(EXTRAS) == set()
    assert set(extras.split(",")) >= {"function", "gateway", "mutual-tls"}


def test_it_starts_modelplane_without_a_shell_as_nobody_in_particular():
    [entrypoint] = _of("ENTRYPOINT")
    assert json.loads(entrypoint) == ["/opt/modelplane/bin/modelplane"]
    assert _of("USER") == ["65532:65532"]


def test_the_last_stage_runs_nothing():
    names = [name for name, _ in INSTRUCTIONS]
    last = len(names) - names[::-1].index("FROM")
    assert "RUN" not in names[last:]


def test_the_controllers_find_the_binary_that_it_builds():
    [run], [environment] = _of("RUN"), _of("ENV")
    [target] = re.findall(r"package/image_binary\.py (\S+)", run)
    settings = dict(word.split("=", 1) for word in shlex.split(environment))
    assert settings[ENVIRONMENT_VARIABLE] == target
    assert target.startswith("/opt/modelplane/"), "what the last stage takes over"


def test_the_gateway_finds_the_module_of_the_repository():
    [run], [environment] = _of("RUN"), _of("ENV")
    [folder] = re.findall(r'cp -r "gateway-module/built/\$\(uname -m\)" (/opt/modelplane/\S+)', run)
    settings = dict(word.split("=", 1) for word in shlex.split(environment))
    assert settings[MODULE_VARIABLE] == f"{folder}/{gateway_module.LIBRARY}"
