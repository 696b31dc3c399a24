"""A mirror of the Hugging Face hub, as the library speaks with it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.api.model_cache import ModelCache
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cache.staging_program import MIRROR_PROGRAM, PROGRAM
from modelplane.compose.cache.staging_sources import find_source
from support import hub
from support.weights_server import Fault, WeightsServer

WEIGHTS = bytes(range(256)) * 1000


def _stage(volume: Path, endpoint: str, *mirrors: str, program: str = "") -> tuple[int, str]:
    given = {"repo": "team/model", "endpoint": endpoint, "mirrors": mirrors, "sizeGiB": 1}
    spec = {"source": "HuggingFace", "huggingFace": given}
    cache = decode_as(ModelCache, {"metadata": {"name": "weights"}, "spec": spec})
    source = find_source(cache.spec)
    assert source is not None
    _, option, text, _, *arguments = source.command
    done = subprocess.run(
        [sys.executable, option, program or text, str(volume), *arguments],
        env={"PATH": os.environ["PATH"], **source.variables, "HF_HOME": str(volume.parent / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.strip().rpartition("\n")[2]


def test_a_mirror_is_asked_instead_of_the_hub_and_is_not_the_machine_itself(tmp_path: Path) -> None:
    volume, config = tmp_path / "volume", tmp_path / "config.json"
    volume.mkdir()
    config.write_text("{}")
    with hub.serve() as served:
        served.add("team/model", {"config.json": config})
        told = "the address 127.0.0.1 is the machine's own or its cloud's: name another host"
        assert _stage(volume, served.url) == (65, told)
        assert served.asked == []
        assert _stage(volume, served.url, program=PROGRAM)[0] == 0
        assert (volume / "config.json").read_text() == "{}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[hub.Hub]:
    """A hub with a repository of a small file and two large ones."""
    (tmp_path / "volume").mkdir()
    files = {name: tmp_path / name for name in ("config.json", "model-1.safetensors", "model-2.safetensors")}
    for number, path in enumerate(files.values()):
        path.write_bytes(WEIGHTS[number:] if number else b"{}")
    with hub.serve() as serving:
        serving.add("team/model", files)
        yield serving


def _from_hub(served: hub.Hub) -> int:
    """Return how many large files the hub has sent."""
    return sum(asked.method == "GET" and asked.path.startswith("/content/") for asked in served.asked)


@pytest.mark.parametrize(
    ("second", "fault", "from_hub"),
    [
        pytest.param(WEIGHTS[2:], None, {0}, id="has all files"),
        pytest.param(WEIGHTS, None, {1, 2}, id="has another revision of one"),
        pytest.param(WEIGHTS[2:], Fault(403), {2}, id="refuses"),
    ],
)
def test_large_files_come_from_a_mirror_that_has_what_the_hub_states_and_else_from_the_hub(
    tmp_path: Path,
    served: hub.Hub,
    server: WeightsServer,
    second: bytes,
    fault: Fault | None,
    from_hub: set[int],
) -> None:
    server.add("/models/model-1.safetensors", WEIGHTS[1:])
    server.add("/models/model-2.safetensors", second)
    if fault:
        for path in server.files:
            server.faults[path].append(fault)
    program = MIRROR_PROGRAM.replace("sys.addaudithook(refuse)\n", "")
    assert _stage(tmp_path / "volume", served.url, f"{server.url}/models/", program=program)[0] == 0
    staged = {path.name: path.read_bytes() for path in (tmp_path / "volume").glob("[!.]*")}
    assert staged == {
        "config.json": b"{}",
        "model-1.safetensors": WEIGHTS[1:],
        "model-2.safetensors": WEIGHTS[2:],
    }
    assert _from_hub(served) in from_hub
