"""Arguments of the command that creates a pod's container.

Command lines are visible to every user of the machine, so no value of a variable is on one. Values reach the
container runtime's program in a file. Its own environment is for values that not every runtime reads from a
file unchanged, and only under names that the program does not read.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.api.values import quantity
from modelplane.host import addresses
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.pods import probes, views
from modelplane.kubelet.records import PodRecord
from modelplane.kubelet.runtime.container_cli import RuntimeKind
from modelplane.kubelet.runtime.container_environment import expand
from modelplane.kubelet.volumes.mounts import Mount

NETWORK = "modelplane"
GATEWAY = str(IPv4Network(addresses.POD_CIDR)[255])
"""Gateway of the network: no pod gets an address that ends in 255."""

PAUSE_PROGRAM = "/modelplane-pause"
"""Path in a container of the program that only waits."""

AGENT_LABEL = "modelplane.ai/agent"
POD_LABEL = "modelplane.ai/pod"
UID_LABEL = "modelplane.ai/uid"
CONTAINER_LABEL = "modelplane.ai/container"
ATTEMPT_LABEL = "modelplane.ai/attempt"

_NOBODY = "65534:65534"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path that a pod mounts, not a file of ours

# What the files of Docker and of every Podman hold alike: some versions of Podman interpret the rest.
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_PLAIN_VALUE = re.compile(r"([^\s\"'\\$#`]([^\n\r\"'\\$#`]*[^\s\"'\\$#`])?)?")
_PLAIN_CHARACTERS = 32 * 1024

# Variables that the programs of container runtimes, or libraries in them, read themselves.
_READ_BY_PROGRAMS = {
    *("GCONV_PATH", "GLIBC_TUNABLES", "GNUPGHOME", "HOME", "HOSTALIASES", "LANG", "LOCALDOMAIN", "LOCPATH"),
    *("LOGNAME", "NLSPATH", "PATH", "RES_OPTIONS", "SHELL", "TMPDIR", "TZ", "USER"),
}
_READ_PREFIXES = (
    *("BASH", "BUILDAH_", "BUILDKIT_", "CNI_", "CONTAINER", "DBUS_", "DOCKER_", "GO", "KRB5", "LC_", "LD_"),
    *("LISTEN_", "MALLOC_", "NERDCTL_", "NETAVARK_", "NOTIFY_", "OTEL_", "PODMAN_", "PYTHON", "REGISTRY_"),
    *("ROOTLESS", "SSH_", "SSL_CERT_", "STORAGE_", "SYSTEMD_", "XDG_", "_"),
)
_READ_SUFFIXES = ("_PROXY",)


@dataclass(frozen=True, slots=True)
class ContainerIdentity:
    """The name and labels of one attempt's container."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContainerInputs:
    """Resolved values that a container is created with, beyond its specification."""

    address: str
    """The pod's address, as the API shows it."""
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    gpus: tuple[str, ...] = ()
    """The uuids of the allocated NVIDIA GPUs."""
    memory_bytes: int = 0
    """The node's memory."""
    image_user: str = ""
    expanded: Mapping[str, str] = field(default_factory=dict)
    """The variables that the command and its arguments may refer to."""
    joins: str = ""
    """The container whose network it joins; empty for a network of its own."""


@dataclass(frozen=True, slots=True)
class CreateArguments:
    """The arguments that create a container, and the variables that they refer to."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    """Variables to set for the container runtime's program, which passes them on."""
    environment_file: str
    """The text of the file with the other variables."""


def name_container(uid: str, container: str, number: int) -> str:
    """Return the name of an attempt's container, unique to the attempt."""
    return f"modelplane-{uid}-{container}-{number}"


def build_identity(agent: str, record: PodRecord, container: str, number: int) -> ContainerIdentity:
    """Return the name and labels of an attempt's container."""
    labels = {
        AGENT_LABEL: agent,
        POD_LABEL: f"{record.namespace}/{record.name}",
        UID_LABEL: record.uid,
        CONTAINER_LABEL: container,
        ATTEMPT_LABEL: str(number),
    }
    return ContainerIdentity(name_container(record.uid, container, number), labels)


def create_arguments(
    kind: RuntimeKind,
    identity: ContainerIdentity,
    image: str,
    pod: Mapping[str, Any],
    inputs: ContainerInputs,
    file: str,
) -> CreateArguments | Rejected:
    """Return the arguments that create a container; ``file`` is the path for its environment file.

    ``Rejected`` names a variable that no container runtime can pass to a container.
    """
    for name, value in inputs.environment.items():
        if rejected := _check_variable(name, value):
            return rejected
    container = pod["spec"]["containers"][0]
    in_file = {name: value for name, value in inputs.environment.items() if _is_for_file(name, value)}
    passed = {name: value for name, value in inputs.environment.items() if name not in in_file}
    options = (
        *_identified(identity),
        *_network(kind, pod, inputs),
        *(part for variable in sorted(passed) for part in ("--env", variable)),
        *(("--env-file", file) if in_file else ()),
        *(part for mount in inputs.mounts for part in _mount(mount, inputs.memory_bytes)),
        *(("--workdir", container["workingDir"]) if container.get("workingDir") else ()),
        *_security(pod["spec"].get("securityContext", {}), container.get("securityContext", {}), inputs),
        *_limits(container.get("resources", {}).get("limits", {})),
        *(kind.devices(inputs.gpus) if inputs.gpus else ()),
        *kind.logging,
    )
    # Kubernetes, "Define a Command and Arguments for a Container": a command replaces both the image's
    # ENTRYPOINT and CMD, arguments only CMD. --entrypoint and what follows the image do the same.
    command = [expand(part, inputs.expanded) for part in container.get("command", ())]
    arguments = [expand(part, inputs.expanded) for part in container.get("args", ())]
    entry = ("--entrypoint", command[0]) if command else ()
    line = ("create", *options, *entry, image, *command[1:], *arguments)
    return CreateArguments(line, passed, "".join(f"{name}={value}\n" for name, value in in_file.items()))


def build_holder_arguments(
    kind: RuntimeKind,
    identity: ContainerIdentity,
    image: str,
    pod: Mapping[str, Any],
    address: str,
    program: str,
) -> tuple[str, ...]:
    """Return the arguments that create the container that holds a pod's network; ``program`` waits."""
    return (
        "create",
        *_identified(identity),
        *_own_network(pod, address),
        *("--mount", _fields("type=bind", f"source={program}", f"target={PAUSE_PROGRAM}", "readonly")),
        *("--user", _NOBODY, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        # It handles no signal.
        *("--stop-signal", "KILL"),
        *kind.logging,
        *("--entrypoint", PAUSE_PROGRAM, image),
    )


def _identified(identity: ContainerIdentity) -> Iterator[str]:
    yield from ("--pull", "never", "--name", identity.name)
    for key, value in identity.labels.items():
        yield from ("--label", f"{key}={value}")


def _network(kind: RuntimeKind, pod: Mapping[str, Any], inputs: ContainerInputs) -> Iterator[str]:
    if not inputs.joins:
        yield from _own_network(pod, inputs.address)
        return
    yield from ("--network", f"container:{inputs.joins}")
    if kind.names_joined:
        yield from ("--hostname", _hostname(pod))


def _own_network(pod: Mapping[str, Any], address: str) -> Iterator[str]:
    yield from ("--network", NETWORK, "--ip", address, "--hostname", _hostname(pod))
    ports = {port for container in views.list_containers(pod) for port in list_published_ports(container)}
    for port in sorted(ports):
        yield from ("--publish", f"{addresses.find_bound(address)}:{port}")


def _check_variable(variable: str, value: str) -> Rejected | None:
    what, remedy = f'cannot set variable "{variable}": its value has', "rename it"
    if "\0" in value:
        fault, remedy = f"{what} a null character", "remove it"
    elif _is_for_file(variable, value) and any(character in value for character in "\n\r"):
        # An environment file cannot hold a value of several lines.
        fault = f"{what} several lines, and container runtimes read a variable of that name themselves"
    else:
        return None
    return Rejected(WaitingReason.CREATE_ERROR, detail=fault, remedy=remedy)


def _is_for_file(variable: str, value: str) -> bool:
    plain = _PLAIN_NAME.fullmatch(variable) and _PLAIN_VALUE.fullmatch(value)
    return bool(plain and len(value) <= _PLAIN_CHARACTERS) or _is_read(variable)


def _is_read(variable: str) -> bool:
    """Return True if the container runtime's program would read a variable of its own environment."""
    upper = variable.upper()
    return (
        upper in _READ_BY_PROGRAMS
        or upper.startswith(_READ_PREFIXES)
        or upper.endswith(_READ_SUFFIXES)
        # Podman reads the name as a pattern.
        or "*" in variable
    )


def list_published_ports(container: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ports to publish at the pod's address: those that are declared, and those of probes."""
    declared = {
        (port["containerPort"], port.get("protocol", "TCP").lower()) for port in container.get("ports", ())
    }
    declared |= {(number, "tcp") for number in _asked(container)}
    return tuple(f"{number}:{number}/{protocol}" for number, protocol in sorted(declared))


def _asked(container: Mapping[str, Any]) -> Iterator[int]:
    handlers = [container.get(kind, {}) for kind in probes.FIELDS]
    handlers.append(container.get("lifecycle", {}).get("preStop", {}))
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            port = handler.get(action, {}).get("port")
            if isinstance(port, int):
                yield port


def _hostname(pod: Mapping[str, Any]) -> str:
    hostname: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return hostname[:63].rstrip("-.")


def _mount(mount: Mount, memory_bytes: int) -> tuple[str, ...]:
    if mount.target == SHARED_MEMORY and (mount.in_memory or str(mount.source) == SHARED_MEMORY):
        # Kubernetes limits it to the node's memory; a container runtime's default is 64 MiB, which is too
        # little for most inference engines.
        return ("--shm-size", str(mount.size_bytes or memory_bytes))
    if mount.in_memory:
        size = (f"tmpfs-size={mount.size_bytes}",) if mount.size_bytes else ()
        return ("--mount", _fields("type=tmpfs", f"target={mount.target}", *size))
    # Not a link, which could lead elsewhere since it was checked.
    fields = ("type=bind", f"source={mount.real or mount.source}", f"target={mount.target}")
    return ("--mount", _fields(*fields, *(("readonly",) if mount.read_only else ())))


def _fields(*fields: str) -> str:
    """Return the fields of a ``--mount``, which is one line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def run_as_user(pod: Mapping[str, Any], container: Mapping[str, Any], image_user: str) -> str:
    """Return the user of a container, from the security contexts or the image; empty means root."""
    user = container.get("runAsUser", pod.get("runAsUser"))
    return image_user if user is None else str(user)


def _security(pod: Mapping[str, Any], container: Mapping[str, Any], inputs: ContainerInputs) -> Iterator[str]:
    user = run_as_user(pod, container, inputs.image_user)
    group = container.get("runAsGroup", pod.get("runAsGroup"))
    if group is not None:
        yield from ("--user", f"{user.partition(':')[0] or 0}:{group}")
    elif "runAsUser" in container or "runAsUser" in pod:
        yield from ("--user", user)
    for extra in [*pod.get("supplementalGroups", ()), *([pod["fsGroup"]] if "fsGroup" in pod else [])]:
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
        size = str(_round_up(limits["memory"], 10**9))
        # --memory alone allows as much swap again.
        yield from ("--memory", size, "--memory-swap", size)
    if "cpu" in limits:
        yield from ("--cpus", f"{_round_up(limits['cpu'], 10**6) / 1000:.3f}")


def _round_up(amount: str, unit_nano: int) -> int:
    """Return an amount in whole units. Rounded down it could be 0, which means no limit."""
    return -(-quantity.parse(amount).nano // unit_nano)
