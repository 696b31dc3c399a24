"""The program of a ModelCache's Job as a process, on a volume that is a folder, with servers on loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from modelplane.compose.cache.staging_program import SOURCES_PROGRAM
from support import weights_server
from support.weights_server import WeightsServer

MARKER = ".marker"
GIB = 1 << 30
NOTHING: Mapping[str, str] = MappingProxyType({})
DELAYS = "DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0)"
SLOWEST = "SLOWEST = (64 << 10, 60.0)"
TIMEOUT = "TIMEOUT_S = 60.0"
SOURCE = 'Path("/mnt/source")'


@dataclass(frozen=True)
class Volume:
    """A volume, and the program run on it."""

    path: Path
    program: str

    def command(self, program: str = "", place: str = "") -> list[str]:
        arguments = (place or str(self.path), MARKER, "65")
        return [sys.executable, "-E", "-P", "-c", program or self.program, *arguments]

    def environment(
        self,
        artifact: str,
        source: dict[str, Any],
        limit: int = GIB,
        secret: Mapping[str, str] = NOTHING,
        *,
        local: bool = True,
    ) -> dict[str, str]:
        known = {"SOURCE": json.dumps(source), "ARTIFACT": artifact, "LIMIT": str(limit), **secret}
        return {"PATH": os.environ["PATH"], **known} | (
            {"MODELPLANE_CACHE_ALLOW_LOCAL": "1"} if local else {}
        )

    def stage(
        self,
        source: dict[str, Any],
        artifact: str = "a",
        *,
        limit: int = GIB,
        secret: Mapping[str, str] = NOTHING,
        local: bool = True,
    ) -> tuple[int, str]:
        """Return how the program exited, and its last line."""
        return self._run("", self.environment(artifact, source, limit, secret, local=local))

    def measure(self, source: dict[str, Any], secret: Mapping[str, str] = NOTHING) -> tuple[int, str]:
        """Return the same of a run that only measures."""
        return self._run("-", self.environment("0", source, 0, secret))

    def _run(self, place: str, environment: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            self.command(place=place),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr.strip().rpartition("\n")[2]

    def files(self) -> dict[str, bytes]:
        """Return what an engine would find."""
        shown = (path for path in self.path.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in shown
            if not path.relative_to(self.path).parts[0].startswith(".m")
        }

    def marker(self) -> dict[str, str]:
        marker = self.path / MARKER
        found: dict[str, str] = json.loads(marker.read_text()) if marker.exists() else {}
        return found


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """A volume; the program waits shorter than it would."""
    program = SOURCES_PROGRAM
    for written, here in (
        (DELAYS, "DELAYS_S = (0.01,) * 3"),
        (SOURCE, f"Path({str(tmp_path / 'source')!r})"),
    ):
        assert program.count(written) == 1
        program = program.replace(written, here)
    path = tmp_path / "volume"
    path.mkdir()
    return Volume(path, program)


@pytest.fixture
def impatient(volume: Volume) -> Volume:
    """The same with a program that gives up slow connections soon."""
    program = volume.program
    for written, here in ((SLOWEST, "SLOWEST = (64 << 10, 1.0)"), (TIMEOUT, "TIMEOUT_S = 2.0")):
        assert program.count(written) == 1
        program = program.replace(written, here)
    return Volume(volume.path, program)


@pytest.fixture
def server() -> Iterator[WeightsServer]:
    with weights_server.serve() as served:
        yield served


@pytest.fixture
def other_server() -> Iterator[WeightsServer]:
    with weights_server.serve("127.0.0.2") as served:
        yield served
