"""Run the tests of container runtimes with a real one: Podman and runc, as Debian packages them.

Usage: ``python -m support.podman [PYTEST ARGUMENT ...]``. Nothing is installed or downloaded, and nothing is
left behind: the image is made of the running Python, and storage and networks are in a temporary folder. If
the machine cannot run containers, the output names what is missing, and the exit status is 1.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from modelplane.crossplane.package import oci, runtime
from modelplane.crossplane.package.oci import (
    ANYONE_MAY_WRITE,
    Blobs,
    Entry,
    File,
    Folder,
    Image,
    this_platform,
)
from modelplane.crossplane.package.runtime import libraries
from support.fake_docker import IMAGE

PROGRAMS = ("podman", "runc")
NEEDS = """\
Containers need a kernel with the namespaces mount, network, pid, ipc and uts (man 7 namespaces), with
control groups for cpu, memory and pids (man 7 cgroups), overlayfs, bridges, veth and netfilter.
Root may mount."""

_PREFIX = "usr/local"
_PID_MAX = Path("/proc/sys/kernel/pid_max")
_QUICK_S = 60


def main() -> int:
    """Run the tests and return the exit status."""
    missing = " ".join(name for name in PROGRAMS if shutil.which(name) is None)
    if missing:
        click.echo(f"Missing: {missing}. On Debian: apt-get install --no-install-recommends {missing}")
        return 1
    with tempfile.TemporaryDirectory(prefix="podman-") as folder:
        podman = Podman(Path(folder))
        try:
            if problem := podman.prepare():
                click.echo(f"This machine runs no containers: {problem}\n\n{NEEDS}")
                return 1
            tests = sys.argv[1:] or ["-m", "kubernetes", *TESTS]
            return subprocess.run(
                [sys.executable, "-m", "pytest", "-q", *tests], env=podman.environment, check=False
            ).returncode
        finally:
            podman.remove()


TESTS = (
    "tests/kubernetes/test_container_engine.py",
    "tests/kubernetes/test_container_pods.py",
    "tests/kubernetes/test_package_containers.py",
    "tests/kubernetes/test_real_containers.py",
)


class Podman:
    """Podman with storage, networks and limits of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environment = os.environ | {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "MODELPLANE_TEST_CONTAINER_ENGINE": "podman",
        }

    def prepare(self) -> str:
        """Load the image of the tests and run it once; return why that fails, or an empty text."""
        (self._folder / "networks").mkdir()
        (self._folder / "containers.conf").write_text(_containers(self._folder / "networks"))
        (self._folder / "storage.conf").write_text(_storage(self._folder / "storage"))
        image = self._folder / "image"
        _write_image(image, self._folder / "blobs")
        for command in (
            ("load", "--quiet", "--input", str(image)),
            ("run", "--rm", "--pull", "never", IMAGE, "-c", "print('hello')"),
        ):
            done = self._run(*command)
            if done.returncode:
                return done.stderr.strip()
        return ""

    def remove(self) -> None:
        """Remove all containers, images and networks."""
        for what in ("rm --all --force", "rmi --all --force", "network prune --force"):
            self._run(*what.split())

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["podman", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_QUICK_S,
        )


def _containers(networks: Path) -> str:
    """Return containers.conf(5), with the limits of this machine, which Podman's own may exceed."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # Podman lowers its own limit of processes to the number of pids, and can then set no higher one.
    pids, processes = int(_PID_MAX.read_text()), resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = pids if processes == resource.RLIM_INFINITY else min(pids, processes)
    return f"""\
[containers]
default_ulimits = {json.dumps([f"nofile={files}:{files}", f"nproc={processes}:{processes}"])}
[engine]
runtime = "runc"
[network]
network_config_dir = "{networks}"
"""


def _storage(folder: Path) -> str:
    return f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}"\nrunroot = "{folder}-run"\n'


def _write_image(path: Path, scratch: Path) -> None:
    """Write an image of the running Python, as ``podman load`` reads it."""
    python = runtime.running()
    files = [*python.files(_PREFIX), File("bin/true", Path("/bin/true").resolve(), executable=True)]
    entries: list[Entry] = [*files, *libraries(files, f"{_PREFIX}/lib"), Folder("tmp", ANYONE_MAY_WRITE)]
    config = {
        "Entrypoint": [f"/{python.executable_in(_PREFIX)}"],
        "Env": [f"PATH=/{_PREFIX}/bin:/bin", f"LD_LIBRARY_PATH=/{_PREFIX}/lib", "HOME=/tmp"],
    }
    blobs = Blobs(scratch)
    image = Image(this_platform(), config, (blobs.add_entries(entries),))
    name, _, tag = IMAGE.rpartition(":")
    oci.write(path, image, blobs, name, tag)


if __name__ == "__main__":
    sys.exit(main())
