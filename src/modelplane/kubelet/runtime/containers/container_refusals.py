"""Pod features that the container runtime rejects, with the message for each.

As in ``pod_refusals``, no field of a pod is ignored silently. Access to the machine itself is refused,
because the creator of a pod is not always the machine's owner.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kubelet.pod_refusals import Cause, build_rejections, find_volume_causes
from modelplane.kubelet.pods import probes

_ELSEWHERE = "or run it on a cluster of its own nodes"

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


def find_refusals(pod: Mapping[str, Any]) -> tuple[Rejected, ...]:
    """Return everything that keeps a pod from running as a container here."""
    return build_rejections(_causes(pod["spec"]), _ELSEWHERE)


def _causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    for field in _OF_THE_MACHINE:
        if spec.get(field):
            yield f"{field} would give the pod a part of this machine", "remove it"
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    if spec.get("shareProcessNamespace") and len(every) > 1:
        yield (
            "shareProcessNamespace would show each container the others' processes, which is not set up here",
            "remove it",
        )
    yield from _security(spec.get("securityContext", {}), "the pod's securityContext")
    for container in every:
        yield from _causes_of(spec, container)


def _causes_of(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[Cause]:
    yield from _security(container.get("securityContext", {}), "the securityContext")
    yield from find_volume_causes(spec, container, "a pod here")
    yield from _ports(container.get("ports", ()))
    for kind in probes.FIELDS:
        if "grpc" in container.get(kind, {}):
            yield f"the {kind} uses grpc, which is not asked here", "use httpGet, tcpSocket or exec"
    if "postStart" in container.get("lifecycle", {}):
        yield "the local node agent runs no postStart hook", "remove it"


def _security(context: Mapping[str, Any], where: str) -> Iterator[Cause]:
    if context.get("privileged"):
        yield f"{where} is privileged, which would give the pod this machine", "remove it"
    added = context.get("capabilities", {}).get("add", ())
    for capability in sorted({name.upper().removeprefix("CAP_") for name in added} - ADDED_CAPABILITIES):
        yield f"{where} adds the capability {capability}, which reaches beyond the pod", "remove it"
    for field in ("seccompProfile", "appArmorProfile"):
        kind = context.get(field, {}).get("type", _DEFAULT_PROFILE)
        if kind != _DEFAULT_PROFILE:
            yield f"{where} has {field} {kind}, and here every container has the default one", "remove it"
    for field in ("seLinuxOptions", "sysctls"):
        if context.get(field):
            yield f"{where} has {field}, which are not set here", "remove it"
    if context.get("procMount", "Default") != "Default":
        yield f"{where} has procMount {context['procMount']}, which uncovers this machine", "remove it"


def _ports(ports: Iterable[Mapping[str, Any]]) -> Iterator[Cause]:
    for port in ports:
        number = port["containerPort"]
        if port.get("hostPort"):
            yield f"port {number} has a hostPort, and a pod is reached at its own address", "remove it"
        if port.get("protocol") == "SCTP":
            yield f"port {number} is one of SCTP, which is not forwarded here", "use TCP or UDP"
