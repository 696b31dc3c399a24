"""A mirror of the Hugging Face hub, as the library speaks with it."""

import os
import subprocess
import sys
from pathlib import Path

from modelplane.api.decode import decode_as
from modelplane.api.model_cache import ModelCache
from modelplane.compose.cache_sources import source_of
from modelplane.compose.hydration_program import PROGRAM
from support import hub


def _stage(volume: Path, endpoint: str, program: str = "") -> tuple[int, str]:
    given = {"repo": "team/model", "endpoint": endpoint, "sizeGiB": 1}
    spec = {"source": "HuggingFace", "huggingFace": given}
    cache = decode_as(ModelCache, {"metadata": {"name": "weights"}, "spec": spec})
    source = source_of(cache.spec)
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
        assert _stage(volume, served.url, PROGRAM)[0] == 0
        assert (volume / "config.json").read_text() == "{}"
