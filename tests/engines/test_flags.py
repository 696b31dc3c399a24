"""Every command line of the examples is accepted by the parser of its engine."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engines.install import HERE, SGLANG_VERSION, VERSION
from examples.planned import EXAMPLES, documents
from modelplane.api.fields.pods.containers import Container
from modelplane.api.model_deployment import Engine, ModelDeployment
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.schema.decode import decode_as
from modelplane.catalogue.flag_files import load_flag_table
from modelplane.catalogue.flag_table import find_nearest
from modelplane.compose.replica.backends.draining import draining

pytestmark = pytest.mark.engines

POD = {"MODELPLANE_RANK": "1", "MODELPLANE_LEADER_ADDRESS": "127.0.0.1"}
"""Variables that Modelplane sets in a gang."""

IMAGES = {"vllm": "vllm-openai", "sglang": "lmsysorg/sglang", "llama.cpp": "ggml-org/llama.cpp"}
"""Each engine of the examples, and the part of an image's name that says so."""

LEAST = {"vllm": 70, "sglang": 2, "llama.cpp": 7}
"""As many command lines of each engine are in the examples at least."""

_REFERENCE = re.compile(r"\$\((\w+)\)")
_PRINTS = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
"""


def _engines(document: dict[str, Any]) -> Sequence[Engine | PlacedEngine]:
    namespaced = {**document, "metadata": {"namespace": "n", **document["metadata"]}}
    if document["kind"] == "ModelDeployment":
        return decode_as(ModelDeployment, namespaced).replica_template().engines
    if document["kind"] == "ModelReplica":
        return decode_as(ModelReplica, namespaced).spec.engines
    return ()


def _containers() -> Iterator[tuple[str, Container]]:
    """Yield each container of an engine in the examples, with the file that it is in."""
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for number, each in enumerate(documents(path)):
            for engine in _engines(each):
                for member in engine.members:
                    name = f"{path.relative_to(EXAMPLES)} {number} {engine.name} {member.role}"
                    yield name, member.template.spec.engine


def _of(engine: str) -> dict[str, Container]:
    """Return the containers of one engine."""
    found = {name: each for name, each in _containers() if IMAGES[engine] in each.image}
    assert len(found) >= LEAST[engine]
    return found


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that print their arguments in place of the engines."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("vllm", "python3", "llama-server"):
        (folder / name).write_text(_PRINTS.replace("/usr/bin/env python3", sys.executable))
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def _arguments(container: Container, programs: Path, begin: tuple[str, ...]) -> list[str]:
    """Return the arguments of an engine, with variables expanded as the kubelet and a shell do.

    ``begin``: what its command line begins with after its program.
    """
    words = [*container.command, *container.args, *draining(container).arguments]
    words = [_REFERENCE.sub(lambda found: POD.get(found[1], found[0]), word) for word in words]
    if not container.command:
        return words
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", **POD}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    arguments: list[str] = json.loads(done.stdout)
    assert tuple(arguments[: len(begin)]) == begin
    return arguments[len(begin) :]


def _answers(python: Path, program: str, lines: list[list[str]], folder: Path) -> Any:
    asked, answered = folder / "lines.json", folder / "answer.json"
    asked.write_text(json.dumps(lines))
    subprocess.run([python, HERE / program, asked, answered], check=True, capture_output=True)
    return json.loads(answered.read_text())


def test_every_example_is_of_an_engine_whose_parser_is_asked() -> None:
    others = {
        name: each.image
        for name, each in _containers()
        if not any(part in each.image for part in IMAGES.values())
    }
    assert others == {}


def test_the_parser_of_vllm_accepts_every_example(vllm: Path, programs: Path, tmp_path: Path) -> None:
    named = _of("vllm")
    lines = [_arguments(each, programs, ("serve",)) for each in named.values()]
    answer = _answers(
        vllm / "python", "vllm_parser.py", [*lines, ["tiny", "--tensor-parallel-sise=2"]], tmp_path
    )
    *said, caught = answer["refusals"]
    assert {name: each for name, each in zip(named, said, strict=True) if each} == {}
    assert "unrecognized arguments: --tensor-parallel-sise=2" in caught
    (release,) = find_nearest(load_flag_table("vllm"), VERSION)
    assert release.version == VERSION
    assert sorted({*release.flags, "-h", "--help"}) == answer["names"]


def test_the_parser_of_sglang_accepts_every_example(sglang: Path, programs: Path, tmp_path: Path) -> None:
    named = _of("sglang")
    lines = [_arguments(each, programs, ("-m", "sglang.launch_server")) for each in named.values()]
    answer = _answers(
        sglang / "python", "sglang_parser.py", [*lines, ["--model-path=tiny", "--tp-sise=2"]], tmp_path
    )
    *said, caught = answer["refusals"]
    assert {name: each for name, each in zip(named, said, strict=True) if each} == {}
    assert "unrecognized arguments: --tp-sise=2" in caught
    (release,) = find_nearest(load_flag_table("sglang"), SGLANG_VERSION)
    assert release.version == SGLANG_VERSION
    assert sorted({*release.flags, "-h", "--help"}) == answer["names"]


def test_the_parser_of_llama_cpp_accepts_every_example(programs: Path, tmp_path: Path) -> None:
    named = _of("llama.cpp")
    lines = [_arguments(each, programs, ()) for each in named.values()]
    answer = _answers(
        Path(sys.executable), "llama_cpp_parser.py", [*lines, ["--model", "m.gguf", "--ctx-sise=2"]], tmp_path
    )
    *said, caught = answer["refusals"]
    assert {name: each for name, each in zip(named, said, strict=True) if each} == {}
    assert "invalid argument: --ctx-sise=2" in caught
