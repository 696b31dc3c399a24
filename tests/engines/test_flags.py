"""Every command line of the examples is accepted by the engine's own parser."""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.install import HERE, VERSION
from examples.planned import EXAMPLES, documents
from modelplane.api.containers import Container
from modelplane.api.decode import decode_as
from modelplane.api.model_deployment import ModelDeployment
from modelplane.catalogue.flag_files import flag_table
from modelplane.catalogue.flag_table import nearest
from modelplane.compose.backends.draining import draining

pytestmark = pytest.mark.engines

POD = {"MODELPLANE_RANK": "1", "MODELPLANE_LEADER_ADDRESS": "127.0.0.1"}
"""Variables that Modelplane sets in a gang."""

_REFERENCE = re.compile(r"\$\((\w+)\)")
_PRINTS = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
"""


def _containers() -> Iterator[tuple[str, Container]]:
    """Yield each container of vLLM in the examples, with the file that it is in."""
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for each in documents(path):
            if each["kind"] != "ModelDeployment":
                continue
            deployment = decode_as(
                ModelDeployment, {**each, "metadata": {"namespace": "n", **each["metadata"]}}
            )
            for engine in deployment.replica_template().engines:
                for member in engine.members:
                    container = member.template.spec.containers[0]
                    if "vllm-openai" in container.image:
                        yield f"{path.relative_to(EXAMPLES)} {engine.name} {member.role}", container


def _arguments(container: Container, programs: Path) -> list[str]:
    """Return the arguments of ``vllm serve``, with variables expanded as the kubelet and a shell do."""
    words = [*container.command, *container.args, *draining(container).arguments]
    words = [_REFERENCE.sub(lambda found: POD.get(found[1], found[0]), word) for word in words]
    if not container.command:
        return words
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", **POD}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    arguments: list[str]
    program, *arguments = json.loads(done.stdout)
    assert program == "serve"
    return arguments


def test_the_parser_of_vllm_accepts_every_example(vllm: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "vllm").write_text(_PRINTS)
    (programs / "vllm").chmod(stat.S_IRWXU)
    named = dict(_containers())
    assert len(named) > 50
    lines, refusals = tmp_path / "lines.json", tmp_path / "refusals.json"
    wrong = ["tiny", "--tensor-parallel-sise=2"]
    lines.write_text(json.dumps([*(_arguments(each, programs) for each in named.values()), wrong]))
    subprocess.run(
        [vllm / "python", HERE / "vllm_parser.py", lines, refusals], check=True, capture_output=True
    )
    answer = json.loads(refusals.read_text())
    *said, caught = answer["refusals"]
    assert {name: each for name, each in zip(named, said, strict=True) if each} == {}
    assert "unrecognized arguments: --tensor-parallel-sise=2" in caught
    (release,) = nearest(flag_table("vllm"), VERSION)
    assert release.version == VERSION
    assert sorted({*release.flags, "-h", "--help"}) == answer["names"]
