"""The program that fills the volume of a ModelCache from HTTP, S3, an OCI registry, NGC or another volume.

Its arguments are the volume, or ``-`` to only measure the source; the name of the marker in the volume; and
the exit code for failures that a retry cannot fix. ``SOURCE`` is the source as JSON, ``ARTIFACT`` is what the
marker names, ``LIMIT`` the size of the volume in bytes. Credentials are in variables of their own.
"""

import errno
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from modelplane.staging.http_source import fill_from_http, sizes_of_http
from modelplane.staging.hub_source import sizes_of_hub
from modelplane.staging.ngc_source import Version
from modelplane.staging.oci_source import Registry, fill_from_registry, sizes_of_registry
from modelplane.staging.s3_source import Bucket
from modelplane.staging.stage import MIB, Stage, Volume
from modelplane.staging.volume_source import fill_from_volume, sizes_of_volume
from modelplane.staging.web import Hopeless, guard

LONGEST_WORD = 1000
NO_VOLUME = "-"
MEASURED = 66
"""Exit code of a run that only measured: a success has no last word on some nodes."""

ALLOW_LOCAL = "MODELPLANE_CACHE_ALLOW_LOCAL"
"""Set by the one who runs the machine, and never by a pod: sources on the machine itself are allowed."""


class Program:
    """One run."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._hopeless = int(arguments[2])
        self._volume = Volume(Path(arguments[0]), arguments[1])
        self._artifact, self._limit = environment["ARTIFACT"], int(environment["LIMIT"])
        [(self._kind, self._source)] = json.loads(environment["SOURCE"]).items()
        # Files often end in a line feed, and Secrets are made from files.
        self._secret = {name: value.strip() for name, value in environment.items()}
        self._stage: Stage | None = None

    def run(self) -> None:
        """Fill the volume, unless it has the artifact; without a volume, measure the source."""
        if self._volume.path == Path(NO_VOLUME):
            sizes = self._sizes()
            leave(MEASURED, f"{sum(sizes)} bytes in {len(sizes)} files")
        if self._volume.artifact() != self._artifact:
            self._volume.replace(*self._fill())

    def _sizes(self) -> list[int]:
        if self._kind == "huggingFace":
            return sizes_of_hub(self._source, self._secret)
        if self._kind == "http":
            return sizes_of_http(self._source, self._secret)
        if self._kind == "s3":
            return [file.size for file in Bucket(self._source, self._secret).files()[0]]
        if self._kind == "ngc":
            return [file.size for file in Version(self._source, self._secret).files()[0]]
        if self._kind == "oci":
            return sizes_of_registry(Registry(self._source, self._secret).manifest()[0]["layers"])
        return sizes_of_volume(self._source)

    def _begin(self, pin: str) -> Stage:
        self._stage = Stage(self._volume.path, pin, self._limit, self._source.get("mirrors", ()))
        return self._stage

    def _fill(self) -> tuple[Path, dict[str, str]]:
        about = {"artifact": self._artifact, "source": self._kind}
        if self._kind == "http":
            stage = self._begin(self._artifact)
            fill_from_http(self._source, self._secret, stage)
        elif self._kind in {"s3", "ngc"}:
            listed = Bucket if self._kind == "s3" else Version
            files, pin = listed(self._source, self._secret).files()
            about["listing"] = pin
            stage = self._begin(pin)
            stage.fetch(files)
        elif self._kind == "oci":
            registry = Registry(self._source, self._secret)
            manifest, about["digest"] = registry.manifest()
            stage = self._begin(about["digest"].partition(":")[2])
            fill_from_registry(manifest["layers"], registry, stage)
        else:
            stage = self._begin(self._artifact)
            fill_from_volume(self._source, stage)
        return stage.folder, about

    def ended(self, error: BaseException) -> tuple[int, str]:
        """Return the exit code and the last word for a failure."""
        why = " ".join(str(error).split())
        if isinstance(error, Hopeless):
            return self._hopeless, why
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            room = "new weights need room beside the old ones"
            return self._hopeless, f"the volume is full: raise sizeGiB; {room}"
        if isinstance(error, PermissionError):
            user = f"user {os.getuid()} cannot write to the volume"
            return self._hopeless, f"{user}: its StorageClass must apply fsGroup"
        if isinstance(error, ValueError | LookupError | TypeError | AttributeError):
            return self._hopeless, f"the source describes itself wrongly: {type(error).__name__}: {why}"
        staged = self._stage.staged() // MIB if self._stage else 0
        kept = f"; the next attempt goes on after {staged} MiB" if staged else ""
        return 1, f"cannot stage the weights: {why}{kept}"


def main(arguments: list[str], environment: dict[str, str]) -> None:
    """Run, and exit at once: downloads that still run are left where they are."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        leave(1, "told to stop")

    signal.signal(signal.SIGTERM, stop)
    program = Program(arguments, environment)
    if not environment.get(ALLOW_LOCAL):
        sys.addaudithook(guard)
    try:
        program.run()
    except Exception as error:  # noqa: BLE001  every failure has a last word
        leave(*program.ended(error))
    leave(0, "")


def leave(code: int, word: str) -> None:
    """Exit without waiting for threads; the last line is all that a condition repeats."""
    os.write(2, f"{word[:LONGEST_WORD]}\n".encode() if word else b"")
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:], dict(os.environ))
