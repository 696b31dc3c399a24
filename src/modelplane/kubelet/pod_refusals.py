"""Pod features that a process of the host cannot have, with the message for each.

No field of a pod is ignored silently. Either it takes effect, or the pod does not start and its status has
the reason and the remedy.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kubelet.pods import probes
from modelplane.kubelet.volumes import volume_files

REASON = "UnsupportedPod"

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Path in a container of the files of its pod's service account."""

_ELSEWHERE = "or run it on a cluster whose nodes have a container runtime"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod does not start: a CamelCase reason and a sentence."""

    reason: str
    message: str


def find_refusals(pod: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """Return everything that keeps a pod from running as a process of the host."""
    return tuple(Refusal(REASON, f"{cause}, {_ELSEWHERE}") for cause in _causes(pod["spec"]))


def _causes(spec: Mapping[str, Any]) -> Iterator[str]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield from _causes_of(spec, container)


def _causes_of(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    yield from find_volume_refusals(spec, container, "a host process")
    if container.get("workingDir"):
        yield f'the working directory "{container["workingDir"]}" is one of the image\'s: remove workingDir'
    for kind in probes.FIELDS:
        yield from _handlers(f"the {kind}", container.get(kind, {}), ("exec",), "httpGet, tcpSocket or grpc")
    lifecycle = container.get("lifecycle", {})
    if "postStart" in lifecycle:
        yield "a host process has no postStart hook: remove it"
    yield from _handlers("the preStop hook", lifecycle.get("preStop", {}), ("exec",), "sleep or httpGet")


_VOLUMES = frozenset({"emptyDir", "hostPath", "persistentVolumeClaim"}) | volume_files.KINDS


def list_volume_mounts(container: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the mounts of a container, less the one that every pod gets by admission."""
    for mount in container.get("volumeMounts", ()):
        # It holds a token, which engines do not need.
        if mount["mountPath"].rstrip("/") != SERVICE_ACCOUNT:
            yield mount


def mount_path(mount: Mapping[str, Any]) -> str:
    """Return the path of a mount without repeated and trailing slashes."""
    return posixpath.normpath("/" + str(mount["mountPath"]).lstrip("/"))


def find_volume_refusals(spec: Mapping[str, Any], container: Mapping[str, Any], runs: str) -> Iterator[str]:
    """Yield the reasons why volumes cannot be mounted."""
    by_name = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for mount in list_volume_mounts(container):
        volume, path = by_name[mount["name"]], mount["mountPath"]
        kinds = sorted(volume.keys() - {"name"})
        parts = [kind for source in volume.get("projected", {}).get("sources", ()) for kind in source]
        what = f'volume "{mount["name"]}" cannot be mounted at "{path}"'
        if not _VOLUMES & volume.keys():
            yield f"{what}: {runs} has no volumes of the kind {', '.join(kinds)}: use another kind"
        elif missing := sorted(set(parts) - volume_files.PROJECTED):
            yield f"{what}: its source {missing[0]} is of a cluster's own: remove it"
        elif not path.startswith("/") or path.strip("/.") == "" or ".." in path.split("/"):
            yield f"{what}: that is not an absolute path below the root: use one"
        elif mount.get("mountPropagation") == "Bidirectional":
            yield f"{what}: what it mounts itself stays its own: remove mountPropagation"
        elif mount.get("recursiveReadOnly") == "Enabled":
            yield f"{what}: what is mounted below it stays as it is: remove recursiveReadOnly"
    if container.get("volumeDevices"):
        yield f"{runs} has no block devices as volumes: remove volumeDevices"


def _handlers(what: str, handler: Mapping[str, Any], refused: tuple[str, ...], remedy: str) -> Iterator[str]:
    for kind in refused:
        if kind in handler:
            yield f"{what} uses {kind}, which a host process has not: use {remedy}"
