"""Pod features that a process of the host cannot have, with the message for each.

No field of a pod is ignored silently. Either it takes effect, or the pod does not start and its status has
the reason and the remedy.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from modelplane.api.rejected import Rejected
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.pods import probes
from modelplane.kubelet.volumes import volume_files

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Path in a container of the files of its pod's service account."""

_ELSEWHERE = "or run it on a cluster whose nodes have a container runtime"


Cause: TypeAlias = tuple[str, str]
"""A fault of a pod, and its remedy."""


def find_refusals(pod: Mapping[str, Any]) -> tuple[Rejected, ...]:
    """Return everything that keeps a pod from running as a process of the host."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return build_rejections(
        (cause for container in containers for cause in _causes(spec, container)), _ELSEWHERE
    )


def build_rejections(causes: Iterable[Cause], elsewhere: str) -> tuple[Rejected, ...]:
    """Return the rejections of a pod; ``elsewhere`` is what else can be done about each of them."""
    return tuple(
        Rejected(WaitingReason.UNSUPPORTED_POD, detail=fault, remedy=f"{remedy}, {elsewhere}")
        for fault, remedy in causes
    )


def _causes(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[Cause]:
    yield from find_volume_causes(spec, container, "a host process")
    if container.get("workingDir"):
        yield f'the working directory "{container["workingDir"]}" is one of the image\'s', "remove workingDir"
    for kind in probes.FIELDS:
        if "exec" in container.get(kind, {}):
            yield f"the {kind} uses exec, which a host process has not", "use httpGet, tcpSocket or grpc"
    lifecycle = container.get("lifecycle", {})
    if "postStart" in lifecycle:
        yield "a host process has no postStart hook", "remove it"
    if "exec" in lifecycle.get("preStop", {}):
        yield "the preStop hook uses exec, which a host process has not", "use sleep or httpGet"


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


def find_volume_causes(spec: Mapping[str, Any], container: Mapping[str, Any], runs: str) -> Iterator[Cause]:
    """Yield why volumes cannot be mounted."""
    by_name = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for mount in list_volume_mounts(container):
        volume, path = by_name[mount["name"]], mount["mountPath"]
        kinds = sorted(volume.keys() - {"name"})
        parts = [kind for source in volume.get("projected", {}).get("sources", ()) for kind in source]
        what = f'volume "{mount["name"]}" cannot be mounted at "{path}"'
        if not _VOLUMES & volume.keys():
            yield f"{what}: {runs} has no volumes of the kind {', '.join(kinds)}", "use another kind"
        elif missing := sorted(set(parts) - volume_files.PROJECTED):
            yield f"{what}: its source {missing[0]} is of a cluster's own", "remove it"
        elif not path.startswith("/") or path.strip("/.") == "" or ".." in path.split("/"):
            yield f"{what}: that is not an absolute path below the root", "use one"
        elif mount.get("mountPropagation") == "Bidirectional":
            yield f"{what}: what it mounts itself stays its own", "remove mountPropagation"
        elif mount.get("recursiveReadOnly") == "Enabled":
            yield f"{what}: what is mounted below it stays as it is", "remove recursiveReadOnly"
    if container.get("volumeDevices"):
        yield f"{runs} has no block devices as volumes", "remove volumeDevices"
