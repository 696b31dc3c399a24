"""What of a pod a process of the host cannot do, each with the sentence that says so.

The rule: nothing that a pod asks for is dropped in silence. Either it is done, or the pod does
not start and its status says why and what to do instead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

REASON = "UnsupportedPod"

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path that a pod mounts, not a file of ours
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_ELSEWHERE = "or run it on a cluster whose nodes have a container engine"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod does not start: a CamelCase reason and a sentence."""

    reason: str
    message: str


def refusals(pod: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """Return everything that keeps a pod from running as a process of the host."""
    return tuple(Refusal(REASON, f"{cause}, {_ELSEWHERE}") for cause in _causes(pod["spec"]))


def _causes(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("initContainers"):
        yield "a host process has no init containers: remove them"
    if len(spec["containers"]) > 1:
        yield "a host process has no sidecars: leave one container"
    container = spec["containers"][0]
    yield from _volumes(spec, container)
    if container.get("workingDir"):
        yield f'the working directory "{container["workingDir"]}" is one of the image\'s: remove workingDir'
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield from _handlers(f"the {kind}", container.get(kind, {}), ("exec", "grpc"), "httpGet or tcpSocket")
    lifecycle = container.get("lifecycle", {})
    if "postStart" in lifecycle:
        yield "a host process has no postStart hook: remove it"
    yield from _handlers("the preStop hook", lifecycle.get("preStop", {}), ("exec",), "sleep or httpGet")


def _volumes(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        path = mount["mountPath"].rstrip("/")
        # Every pod gets a token by admission; an engine has no use for it.
        if path == _SERVICE_ACCOUNT or (path == _SHARED_MEMORY and "emptyDir" in volumes[mount["name"]]):
            continue
        yield f'volume "{mount["name"]}" cannot be mounted at "{path}" for a host process: remove the mount'


def _handlers(what: str, handler: Mapping[str, Any], refused: tuple[str, ...], remedy: str) -> Iterator[str]:
    for kind in refused:
        if kind in handler:
            yield f"{what} uses {kind}, which a host process has not: use {remedy}"
