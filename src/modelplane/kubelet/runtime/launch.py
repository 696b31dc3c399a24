"""Launches: from a pod to the program that runs for it, or to the reason why none can yet.

Obstacles that can be known before the start are found here, so a pod's status shows them in time.
"""

import asyncio
import contextlib
import errno
import os
import site
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from modelplane.api.rejected import Rejected
from modelplane.host.sockets import find_listen_problem
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet import local_devices, node, pod_refusals
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.engines import launchers, llama_cpp
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Reason
from modelplane.kubelet.pods import views
from modelplane.kubelet.records import PodRecord
from modelplane.kubelet.runtime import container_environment
from modelplane.kubelet.volumes import mounts, service_account, volume_files, volumes
from modelplane.kubelet.volumes.mounts import Mount
from modelplane.kubelet.volumes.service_account import Account
from modelplane.user_error import UserError

_Result = TypeVar("_Result")

_HUB = (
    "HF_ENDPOINT",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_XET",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_ETAG_TIMEOUT",
    "HF_HUB_OFFLINE",
    "HF_XET_HIGH_PERFORMANCE",
    "MODELPLANE_CACHE_ALLOW_LOCAL",
)
"""Model hub and other sources of weights; the pod must ask for its token."""

_NETWORK = (
    *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("all_proxy", "http_proxy", "https_proxy", "no_proxy"),
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)

# Variables that an engine inherits from the agent's environment; the agent's secrets are not among them.
_INHERITED = (
    *_HUB,
    *_NETWORK,
    "CUDA_HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "USER",
    "VIRTUAL_ENV",
)

_FOLDERS = ("HF_HOME", "HF_HUB_CACHE", "HOME", "TMPDIR", "XDG_CACHE_HOME")
"""Variables with the user's folders, for a process that may write to them."""

_HOME = "/tmp/home"  # noqa: S108 - in the container's own /tmp

_UNMOUNTED = "remove the volumeMounts, or use a cluster whose nodes have a container runtime"

_NOT_ISOLATED = "the process can read the fleet's files, including its keys"


@dataclass(frozen=True, slots=True)
class Launch:
    """The program, arguments and environment of the engine's process."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    image: str = ""
    """The image that the command stands in for."""
    mounts: tuple[Mount, ...] = ()
    """Its mounts; the command of a process already contains what sets them up."""


async def prepare(machine: Machine, pod: Object, record: PodRecord) -> Launch:
    """Return the launch for a pod; raise ``CannotStart`` with the first obstacle."""
    for rejected in find_obstacles(machine, pod):
        raise CannotStart(rejected)
    with convert_errors():
        return await _launch(machine, pod, record)


def find_obstacles(machine: Machine, pod: Mapping[str, Any]) -> Iterator[Rejected]:
    """Yield everything that keeps a pod from running as a process of this machine."""
    yield from pod_refusals.find_host_refusals(pod)
    if not machine.host_commands:
        # The controllers choose the mount paths of what they compose.
        of_tenants = [
            container
            for container in views.list_containers(pod)
            if (launcher := launchers.find_launcher(container["image"])) is None or launcher.composed is None
        ]
        yield from mounts.find_refusals(of_tenants, machine.closed)


def raise_rejected(result: _Result | Rejected) -> _Result:
    """Return a result; raise ``CannotStart`` for a rejection."""
    if isinstance(result, Rejected):
        raise CannotStart(result)
    return result


@contextlib.contextmanager
def convert_errors() -> Iterator[None]:
    """Raise ``CannotStart`` for objects that cannot be read."""
    try:
        yield
    except errors.KubernetesError as error:
        fault = f"cannot read the objects that the pod refers to: {error}"
        raise CannotStart(Rejected(WaitingReason.CONFIG_ERROR, detail=fault)) from error


async def _launch(machine: Machine, pod: Object, record: PodRecord) -> Launch:
    container = pod["spec"]["containers"][0]
    raise_rejected(launchers.check_image(container, host_commands=machine.host_commands))
    allocated = await local_devices.find_devices(machine.client, pod, machine.devices)
    sources = await fetch_sources(machine.client, pod, container, record.namespace)
    environment_of_pod = raise_rejected(
        container_environment.resolve(container, pod, record.address, node.ADDRESS, sources)
    )
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    given = {
        "HOSTNAME": record.name,
        llama_cpp.POD_ADDRESS_VARIABLE: record.address,
        llama_cpp.MODELS_VARIABLE: str(llama_cpp.get_models_folder()),
        **container_environment.list_device_variables(machine.devices, allocated),
    }
    trusted = machine.host_commands
    passed = launchers.select_variables(container, environment_of_pod, host_commands=trusted)
    command = raise_rejected(
        launchers.build_command_line(container, environment_of_pod, record.address, host_commands=trusted)
    )
    if not trusted:
        raise_rejected(await launchers.check_author(machine.client, pod, container))
    raise_rejected(_check_ports(container, record.address))
    mounted = await volumes.build_mounts(machine, pod, container, record, environment_of_pod, sources)
    account = await find_account(machine, pod, record, container["image"])
    mounted, given = (*mounted, *account.mounts), {**given, **account.variables}
    if not trusted:
        await _make_model((*command, *passed.values()))
    prefix, is_closed = await _walls(machine, pod, record, mounted, find_environment(command[0]))
    folders = {name: os.environ[name] for name in _FOLDERS if name in os.environ}
    if prefix:
        folders.pop("TMPDIR", None)  # it may be in a /tmp that the container does not see
    inherited |= _build_home_variables(container["image"], {**inherited, **passed}) if is_closed else folders
    # What the agent says of the pod's place counts, unless the pod is trusted.
    variables = {**inherited, **given, **passed} if trusted else {**inherited, **passed, **given}
    return Launch(prefix + command, variables, container["image"], mounted)


async def find_account(machine: Machine, pod: Object, record: PodRecord, image: str) -> Account:
    """Return the service account of a pod whose program reads the API; nothing for another one.

    A pod that declines the token gets none, such as that of an engine, whose author chooses the image.
    """
    declined = pod["spec"].get("automountServiceAccountToken") is False
    launcher = launchers.find_launcher(image)
    if machine.api_server is None or declined or launcher is None or not launcher.reads_api:
        return Account()
    folder = volumes.get_folder(machine.directory.get_pod(record.uid)).account
    return await service_account.write_account(machine.client, machine.api_server, pod, folder)


def find_environment(program: str) -> tuple[Path, ...]:
    """Return the Python environment of a program, which a pod has to see even if it is below /tmp."""
    folder = Path(program).parent.parent
    return (folder,) if (folder / "pyvenv.cfg").is_file() else ()


async def _make_model(words: Iterable[str]) -> None:
    """Put the model together that comes with Modelplane, if a container serves it and it is not there yet."""
    if not any(llama_cpp.is_embedded(word.rpartition("=")[2]) for word in words):
        return
    try:
        await asyncio.to_thread(llama_cpp.assemble_model, llama_cpp.get_models_folder())
    except UserError as error:
        raise CannotStart(Rejected(WaitingReason.CREATE_ERROR, detail=str(error))) from error


async def _walls(
    machine: Machine, pod: Object, record: PodRecord, mounted: tuple[Mount, ...], shown: tuple[Path, ...]
) -> tuple[tuple[str, ...], bool]:
    """Return the words before a command that mount a pod's volumes for it, and whether they wall it in.

    If so, the files of the fleet are hidden from the command, and it can write to its mounts only.
    """
    own = volumes.get_folder(machine.directory.get_pod(record.uid))
    name = pod["spec"]["containers"][0]["name"]
    if not machine.host_commands:
        models, home = llama_cpp.get_models_folder(), own.get_home(name)
        for folder in (models, home):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = (
            Mount(models.resolve(), str(models), read_only=True),
            Mount(home.resolve(), _HOME, read_only=False),
            *mounted,
        )
        prefix = await mounts.build_prefix(seen, own.run(name), shown, machine.hidden)
        if not isinstance(prefix, Rejected):
            return prefix, True
        if prefix.reason is not WaitingReason.NAMESPACE_REFUSED:
            raise CannotStart(prefix)
        machine.events.record(pod, Reason.NOT_ISOLATED, f"{_NOT_ISOLATED}: {prefix.message}")
    if not mounts.must_have_namespace(mounted):
        return (), False
    prefix = await mounts.build_prefix(mounted, own.run(name), (machine.directory.path, *shown))
    if isinstance(prefix, Rejected) and prefix.reason is WaitingReason.NAMESPACE_REFUSED:
        fault = f"the pod's volumes cannot be mounted: {prefix.detail}"
        raise CannotStart(Rejected(prefix.reason, detail=fault, remedy=f"{prefix.remedy}, {_UNMOUNTED}"))
    return raise_rejected(prefix), False


def _build_home_variables(image: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process with a home directory of its own.

    It can read the models that the user has downloaded, if it downloads none itself.
    """
    offline = variables.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    downloads = not offline and launchers.find_engine(image) != "llama.cpp"
    packages = {"PYTHONUSERBASE": site.getuserbase()}
    return {"HOME": _HOME, **packages, **({} if downloads else {"HF_HUB_CACHE": _hub_cache()})}


def _hub_cache() -> str:
    """Return the folder of the models that the user of this machine has downloaded (huggingface_hub)."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub_home = Path(os.environ.get("HF_HOME") or f"{cache}/huggingface").expanduser()
    return os.environ.get("HF_HUB_CACHE") or str(hub_home / "hub")


async def fetch_sources(
    client: Client, pod: Object, container: Mapping[str, Any], namespace: str
) -> container_environment.Sources:
    """Return the Secrets and ConfigMaps that a container refers to, as far as they exist."""
    names = container_environment.list_references(container) | volume_files.list_references(
        volumes.list_mounted(container, pod)
    )
    secrets = {name: await client.get(resources.SECRETS, name, namespace) for name in names.secrets}
    maps = {name: await client.get(resources.CONFIG_MAPS, name, namespace) for name in names.config_maps}
    return container_environment.Sources(
        {name: source for name, source in secrets.items() if source is not None},
        {name: source for name, source in maps.items() if source is not None},
    )


def _check_ports(container: Mapping[str, Any], address: str) -> Rejected | None:
    """Return which port that the pod declares another program already listens on; None if none does."""
    for declared in container.get("ports", ()):
        if declared.get("protocol", "TCP") != "TCP":
            continue
        port = declared["containerPort"]
        error = find_listen_problem(address, port)
        if error is not None and error.errno != errno.EADDRINUSE:
            fault = f"cannot use port {port} of {address}: {error.strerror}"
            return Rejected(WaitingReason.CREATE_ERROR, detail=fault)
        if error is not None:
            return Rejected(
                WaitingReason.PORT_IN_USE,
                "another program of this machine",
                f"listens on port {port} of {address} or of every address",
                "stop that program, or use another port in the pod",
            )
    return None
