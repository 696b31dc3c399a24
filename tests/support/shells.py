"""A shell in which the administrator of a control plane works: kubectl, modelplane, a kubeconfig."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from modelplane.kube.resources import Object
from support.fleets import ControlPlane


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell and its working directory."""

    plane: ControlPlane
    folder: Path

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a script and return what it prints; of one that is to fail, also to standard error."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=os.environ
            | {
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "KUBECONFIG": str(self.folder / "kubeconfig"),
                "KUBECACHEDIR": str(self.plane.home.kubectl_cache),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert (done.returncode == 0) is check, done.stdout + done.stderr
        return done.stdout if check else done.stdout + done.stderr

    def get(self, *arguments: str) -> Object:
        """Return what kubectl gets."""
        found: Object = json.loads(self.run(f"kubectl get {shlex.join(arguments)} -o json"))
        return found


def shell(plane: ControlPlane, folder: Path, *contexts: str) -> Shell:
    """Return a shell. The control plane is known by each of the names; the first is the current context."""
    ours = shlex.join((sys.executable, "-m", "modelplane.cli.main"))
    kubectl = f"{shlex.quote(str(plane.binary.absolute()))} kubectl"
    for name, command in (("kubectl", kubectl), ("modelplane", ours)):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o700)
    known = yaml.safe_load(plane.kubeconfig.read_text())
    [context] = known["contexts"]
    known["contexts"] = [{**context, "name": name} for name in contexts]
    known["current-context"] = contexts[0]
    (folder / "kubeconfig").write_text(yaml.safe_dump(known))
    return Shell(plane, folder)
