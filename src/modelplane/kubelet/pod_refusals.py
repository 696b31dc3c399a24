"""Pod features that a process of the host or a container here cannot have, with the message for each.

No field of a pod is ignored silently. Either it takes effect, or the pod does not start and its status has
the reason and the remedy. A container gets no access to the machine itself, because the creator of a pod is
not always the machine's owner.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from modelplane.api.rejected import Rejected
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.pods import probes
from modelplane.kubelet.volumes import volume_files

Cause: TypeAlias = tuple[str, str]
"""A fault of a pod, and its remedy."""

ADDED_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
        # These lock memory for RDMA, pin threads to processors, and let a profiler look at its own pod.
        *("IPC_LOCK", "SYS_NICE", "SYS_PTRACE"),
    }
)
"""The defaults of container runtimes, and those that reach nothing outside the container."""

_OF_THE_MACHINE = ("hostNetwork", "hostPID", "hostIPC")
_DEFAULT_PROFILE = "RuntimeDefault"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Path in a container of the files of its pod's service account."""

_VOLUMES = frozenset({"emptyDir", "hostPath", "persistentVolumeClaim"}) | volume_files.KINDS


def find_host_refusals(pod: Mapping[str, Any]) -> tuple[Rejected, ...]:
    """Return everything that keeps a pod from running as a process of the host."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return build_rejections(
        (cause for container in containers for cause in _causes(spec, container)),
        "or run it on a cluster whose nodes have a container runtime",
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
        yield f'the working directory "{container["workingDir"]}" belongs to the image', "remove workingDir"
    for kind in probes.FIELDS:
        if "exec" in container.get(kind, {}):
            yield (
                f"the {kind} uses exec, which is not supported for a host process",
                "use httpGet, tcpSocket or grpc",
            )
    lifecycle = container.get("lifecycle", {})
    if "postStart" in lifecycle:
        yield "postStart hooks are not supported for a host process", "remove it"
    if "exec" in lifecycle.get("preStop", {}):
        yield "the preStop hook uses exec, which is not supported for a host process", "use sleep or httpGet"


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
            yield f"{what}: {runs} does not support volumes of kind {', '.join(kinds)}", "use another kind"
        elif missing := sorted(set(parts) - volume_files.PROJECTED):
            yield f"{what}: source {missing[0]} belongs to a cluster", "remove it"
        elif not path.startswith("/") or path.strip("/.") == "" or ".." in path.split("/"):
            yield f"{what}: not an absolute path below the root", "use one"
        elif mount.get("mountPropagation") == "Bidirectional":
            yield f"{what}: mount propagation is not supported", "remove mountPropagation"
        elif mount.get("recursiveReadOnly") == "Enabled":
            yield f"{what}: recursive read-only mounts are not supported", "remove recursiveReadOnly"
    if container.get("volumeDevices"):
        yield f"{runs} does not support block devices as volumes", "remove volumeDevices"


def find_container_refusals(pod: Mapping[str, Any]) -> tuple[Rejected, ...]:
    """Return everything that keeps a pod from running as a container here."""
    return build_rejections(_container_causes(pod["spec"]), "or run it on a cluster of its own nodes")


def _container_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    for field in _OF_THE_MACHINE:
        if spec.get(field):
            yield f"{field} would give the pod access to this machine", "remove it"
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    if spec.get("shareProcessNamespace") and len(every) > 1:
        yield (
            (
                "shareProcessNamespace, which shows each container the other containers' processes, is not "
                "supported here"
            ),
            "remove it",
        )
    yield from _security(spec.get("securityContext", {}), "the pod's securityContext")
    for container in every:
        yield from _security(container.get("securityContext", {}), "the securityContext")
        yield from find_volume_causes(spec, container, "a pod here")
        yield from _ports(container.get("ports", ()))
        for kind in probes.FIELDS:
            if "grpc" in container.get(kind, {}):
                yield f"the {kind} uses grpc, which is not supported here", "use httpGet, tcpSocket or exec"
        if "postStart" in container.get("lifecycle", {}):
            yield "the local node agent does not support postStart hooks", "remove it"


def _security(context: Mapping[str, Any], where: str) -> Iterator[Cause]:
    if context.get("privileged"):
        yield f"{where} is privileged, which would give the pod control of this machine", "remove it"
    added = context.get("capabilities", {}).get("add", ())
    for capability in sorted({name.upper().removeprefix("CAP_") for name in added} - ADDED_CAPABILITIES):
        yield f"{where} adds the capability {capability}, which reaches beyond the pod", "remove it"
    for field in ("seccompProfile", "appArmorProfile"):
        kind = context.get(field, {}).get("type", _DEFAULT_PROFILE)
        if kind != _DEFAULT_PROFILE:
            yield f"{where} sets {field} {kind}, but only the default is supported here", "remove it"
    for field in ("seLinuxOptions", "sysctls"):
        if context.get(field):
            yield f"{where} sets {field}, which is not supported here", "remove it"
    if context.get("procMount", "Default") != "Default":
        yield f"{where} sets procMount {context['procMount']}, which exposes this machine", "remove it"


def _ports(ports: Iterable[Mapping[str, Any]]) -> Iterator[Cause]:
    for port in ports:
        number = port["containerPort"]
        if port.get("hostPort"):
            yield (
                (
                    f"port {number} sets a hostPort, which is not supported: pods are reached at their own "
                    "addresses"
                ),
                "remove it",
            )
        if port.get("protocol") == "SCTP":
            yield f"port {number} uses SCTP, which is not forwarded here", "use TCP or UDP"
