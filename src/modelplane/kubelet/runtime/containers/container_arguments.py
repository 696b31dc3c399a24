"""From a pod to the command line that creates its container.

Pure, and one rule: what may be secret is on no command line, because everybody on the machine can read
those. A variable's value reaches the engine's program through its own environment, or, where it would
change that program, through a file.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelplane.cel import quantity
from modelplane.host import addresses
from modelplane.kubelet.runtime.containers.cli import Kind
from modelplane.kubelet.runtime.environment import expand
from modelplane.kubelet.volumes.mounts import Mount

NETWORK = "modelplane"
SUBNET = "198.18.0.0/16"
GATEWAY = "198.18.0.255"
"""An address of the network that no pod is given."""

AGENT_LABEL = "modelplane.ai/agent"
POD_LABEL = "modelplane.ai/pod"
UID_LABEL = "modelplane.ai/uid"
CONTAINER_LABEL = "modelplane.ai/container"
ATTEMPT_LABEL = "modelplane.ai/attempt"

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path that a pod mounts, not a file of ours
_HOSTNAME_CHARACTERS = 63
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")

# What the engines' programs, or the libraries in them, are known to read themselves.
_READ_BY_PROGRAMS = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"})
_READ_PREFIXES = (
    *("BUILDAH_", "CNI_", "CONTAINER", "DBUS_", "DOCKER_", "GO", "LC_", "LD_", "NERDCTL_", "NETAVARK_"),
    *("PODMAN_", "REGISTRY_", "ROOTLESS", "SSL_CERT_", "STORAGE_", "SYSTEMD_", "XDG_", "_"),
)
_READ_SUFFIXES = ("_PROXY",)
_NOT_IN_A_LINE = "\n\r"


class Unwritable(Exception):
    """A variable that cannot be handed to the engine's program."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a container is given beside what its pod says itself."""

    labels: Mapping[str, str]
    address: str
    """Its own, by which the API calls the pod too."""
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    gpus: tuple[str, ...] = ()
    """The uuids of the NVIDIA GPUs that were allocated."""
    memory_bytes: int = 0
    """That of the node."""
    image_user: str = ""
    expanded: Mapping[str, str] = field(default_factory=dict)
    """The variables that the command and its arguments may refer to."""


def name(uid: str, container: str, number: int) -> str:
    """Return what an attempt's container is called, which no other attempt's ever is."""
    return f"modelplane-{uid}-{container}-{number}"


def create(
    kind: Kind, called: str, image: str, pod: Mapping[str, Any], contents: Contents, file: str
) -> tuple[str, ...]:
    """Return the arguments that create a container; ``file`` is where ``lines`` are."""
    container = pod["spec"]["containers"][0]
    passed = sorted(set(contents.environment) - set(in_file(contents.environment)))
    options = (
        *("--pull", "never", "--name", called),
        *(part for key, value in contents.labels.items() for part in ("--label", f"{key}={value}")),
        *("--network", NETWORK, "--ip", contents.address, "--hostname", _hostname(pod)),
        *(part for port in published(container) for part in ("--publish", f"{_bound(contents)}:{port}")),
        *(part for variable in passed for part in ("--env", variable)),
        *(("--env-file", file) if len(passed) < len(contents.environment) else ()),
        *(part for mount in contents.mounts for part in _mount(mount, contents.memory_bytes)),
        *(("--workdir", container["workingDir"]) if container.get("workingDir") else ()),
        *_security(pod["spec"].get("securityContext", {}), container.get("securityContext", {}), contents),
        *_limits(container.get("resources", {}).get("limits", {})),
        *(kind.devices(contents.gpus) if contents.gpus else ()),
        *kind.logging,
    )
    # Kubernetes, "Define a Command and Arguments for a Container": a command replaces both of the
    # image's, arguments only its own. An engine does the same with --entrypoint and what follows the image.
    command = [expand(part, contents.expanded) for part in container.get("command", ())]
    arguments = [expand(part, contents.expanded) for part in container.get("args", ())]
    entry = ("--entrypoint", command[0]) if command else ()
    return ("create", *options, *entry, image, *command[1:], *arguments)


def in_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that would change the engine's program if they were in its environment."""
    return {name: value for name, value in environment.items() if _is_read(name)}


def _is_read(variable: str) -> bool:
    shouted = variable.upper()
    return (
        shouted in _READ_BY_PROGRAMS
        or shouted.startswith(_READ_PREFIXES)
        or shouted.endswith(_READ_SUFFIXES)
        # Podman reads the name as a pattern.
        or "*" in variable
    )


def lines(environment: Mapping[str, str]) -> str:
    """Return the file of the variables that go there; ``Unwritable`` for one of several lines."""
    written = in_file(environment)
    for variable, value in written.items():
        if any(character in value for character in _NOT_IN_A_LINE):
            raise Unwritable(
                f'cannot set variable "{variable}": its value has several lines, and container engines read '
                "the variable themselves: call it something else"
            )
    return "".join(f"{variable}={value}\n" for variable, value in written.items())


def published(container: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is forwarded from the pod's address: the declared ports, and those that are probed."""
    wanted = {(port["containerPort"], port.get("protocol", "TCP").lower()) for port in _ports(container)}
    wanted |= {(number, "tcp") for number in _asked(container)}
    return tuple(f"{number}:{number}/{protocol}" for number, protocol in sorted(wanted))


def _ports(container: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    ports: Iterable[Mapping[str, Any]] = container.get("ports", ())
    return ports


def _asked(container: Mapping[str, Any]) -> Iterator[int]:
    handlers = [container.get(kind, {}) for kind in _PROBES]
    handlers.append(container.get("lifecycle", {}).get("preStop", {}))
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            port = handler.get(action, {}).get("port")
            if isinstance(port, int):
                yield port


def _bound(contents: Contents) -> str:
    return addresses.bound(contents.address)


def _hostname(pod: Mapping[str, Any]) -> str:
    wanted: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return wanted[:_HOSTNAME_CHARACTERS].rstrip("-.")


def _mount(mount: Mount, memory_bytes: int) -> tuple[str, ...]:
    if mount.target == SHARED_MEMORY and (mount.in_memory or str(mount.source) == SHARED_MEMORY):
        # Kubernetes bounds it by the node's memory; the engines' own 64 MiB is too little for most engines.
        return ("--shm-size", str(memory_bytes))
    if mount.in_memory:
        return ("--mount", _fields("type=tmpfs", f"target={mount.target}"))
    fields = ("type=bind", f"source={mount.source}", f"target={mount.target}")
    return ("--mount", _fields(*fields, *(("readonly",) if mount.read_only else ())))


def _fields(*fields: str) -> str:
    """Return the fields of a ``--mount``, which is one line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def user(pod: Mapping[str, Any], container: Mapping[str, Any], image_user: str) -> str:
    """Return as whom a container runs; empty for root, which is also the default of images."""
    wanted = container.get("runAsUser", pod.get("runAsUser"))
    return image_user if wanted is None else str(wanted or "")


def _security(pod: Mapping[str, Any], container: Mapping[str, Any], contents: Contents) -> Iterator[str]:
    group = container.get("runAsGroup", pod.get("runAsGroup"))
    if group is not None:
        yield from ("--user", f"{user(pod, container, contents.image_user).partition(':')[0] or 0}:{group}")
    elif "runAsUser" in container or "runAsUser" in pod:
        yield from ("--user", user(pod, container, "") or "0")
    groups = [*pod.get("supplementalGroups", ()), *([pod["fsGroup"]] if "fsGroup" in pod else [])]
    for extra in groups:
        yield from ("--group-add", str(extra))
    capabilities = container.get("capabilities", {})
    for option, key in (("--cap-drop", "drop"), ("--cap-add", "add")):
        for capability in capabilities.get(key, ()):
            yield from (option, capability)
    if container.get("readOnlyRootFilesystem"):
        yield "--read-only"
    if container.get("allowPrivilegeEscalation") is False:
        yield from ("--security-opt", "no-new-privileges")


def _limits(limits: Mapping[str, str]) -> Iterator[str]:
    if "memory" in limits:
        size = str(quantity.parse(limits["memory"]).nano // 10**9)
        # Without the second, as much again may be swapped out.
        yield from ("--memory", size, "--memory-swap", size)
    if "cpu" in limits:
        yield from ("--cpus", f"{quantity.parse(limits['cpu']).nano / 10**9:.3f}")
