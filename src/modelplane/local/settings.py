"""Settings of a local fleet, chosen once and kept from start to start.

One file. Options that a command does not give keep their values, and the settings of a
running fleet do not change.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelplane.host.errors import LocalError
from modelplane.host.file_system import write_private
from modelplane.local import ports
from modelplane.local.home import Home
from modelplane.local.ports import Ports

_FORMER_PORTS = frozenset({"controller_manager", "scheduler"})
"""Names of ports that earlier versions chose and that are no longer used."""

MOST_CLUSTERS = 15
"""Each has a sixteenth of the addresses of pods, and the control plane itself the first."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings of a fleet's processes, apart from its directory."""

    ports: Ports
    clusters: Mapping[str, Ports] = field(default_factory=dict)
    """The clusters beside the control plane, by name; with none, it is its own one cluster."""
    register: bool = True
    """True if an InferenceCluster is made for each cluster."""
    container_engine: str = "auto"
    """The container runtime for the pods' images, ``auto`` or ``none``."""
    host_commands: bool = False
    """True if pods that run as processes may execute any program of this machine."""

    cpu_devices: int = 1
    """Number of devices that the processors of each cluster are offered as."""

    def list_ports(self) -> tuple[int, ...]:
        """Return every port that is used."""
        every = (self.ports, *self.clusters.values())
        return tuple(port for plane in every for port in dataclasses.astuple(plane) if port)


@dataclass(frozen=True, slots=True)
class Choice:
    """Options of a command; None for those that were not given."""

    clusters: int | None = None
    register: bool | None = None
    container_engine: str | None = None
    host_commands: bool | None = None
    cpu_devices: int | None = None
    """Only for a fleet that is new."""

    def select_kept(self) -> dict[str, Any]:
        """Return the given settings that a command may change at any start."""
        given = {name: getattr(self, name) for name in ("register", "container_engine", "host_commands")}
        return {name: value for name, value in given.items() if value is not None}


AS_BEFORE = Choice()


def load(home: Home) -> LocalSettings:
    """Return the saved settings; raise ``LocalError`` if there are none, or they cannot be read."""
    try:
        document = json.loads(home.settings.read_text())
        clusters = {name: _ports(entry) for name, entry in document.pop("clusters", {}).items()}
        return LocalSettings(_ports(document.pop("ports")), clusters, **document)
    except FileNotFoundError:
        raise LocalError(f"no fleet was started in {home.root}: run `modelplane up`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LocalError(
            f"cannot read {home.settings}: {error}: delete the file, and ports are chosen again"
        ) from error


def _ports(chosen: Mapping[str, int]) -> Ports:
    return Ports(**{name: port for name, port in chosen.items() if name not in _FORMER_PORTS})


def choose(
    home: Home,
    choice: Choice,
    running: Collection[str],
    is_free: Callable[[int], bool] = ports.claim_free,
) -> LocalSettings:
    """Return the settings of a fleet, those that are new chosen and saved.

    ``running`` names the fleet's own processes that run already: they may hold their ports, and are not
    told anything new. Raises ``LocalError`` where that would be needed, where a cluster would be left
    out, and naming a port that a stranger holds.
    """
    if not home.settings.exists():
        count = choice.clusters or 0
        front = ports.choose(ports.FRONT if count else ports.ALONE, (), is_free)
        first = LocalSettings(front, **choice.select_kept(), cpu_devices=choice.cpu_devices or 1)
        return _save(home, dataclasses.replace(first, clusters=_clusters(first, count, is_free)))
    before = load(home)
    after = _grown(home, before, choice, is_free)
    if after != before:
        if running:
            raise LocalError(
                f"the fleet in {home.root} is running with other settings: run `modelplane down`, and "
                "repeat the command"
            )
        _save(home, after)
    if problem := find_stranger(before, running, is_free):
        raise LocalError(f"{problem}, or choose another port in {home.settings}")
    return after


def find_stranger(
    settings: LocalSettings, running: Collection[str], is_free: Callable[[int], bool] = ports.can_listen
) -> str | None:
    """Return which port of a fleet another program holds; None where none does.

    ``running`` names the fleet's own processes that run, and may hold theirs.
    """
    for name, plane in ({"": settings.ports} | dict(settings.clusters)).items():
        before = f"{name}-" if name else ""
        # Envoy serves them all.
        ours = (process for process in running if process.startswith(before) or process == "envoy")
        processes = {process.removeprefix(before) for process in ours}
        if taken := ports.find_taken(plane, processes, is_free):
            port, owner = taken
            uses = f"which {before}{owner} uses"
            return f"another program uses port {port} of 127.0.0.1, {uses}: stop that program"
    return None


def _grown(
    home: Home, before: LocalSettings, choice: Choice, is_free: Callable[[int], bool]
) -> LocalSettings:
    count = len(before.clusters) if choice.clusters is None else choice.clusters
    has = f"{len(before.clusters)} clusters" if before.clusters else "a control plane that is its own cluster"
    if count < len(before.clusters) or bool(count) != bool(before.clusters):
        raise LocalError(
            f"the fleet in {home.root} has {has}, which would be lost: choose another --home, or delete "
            "the fleet with `modelplane down --purge`"
        )
    if choice.cpu_devices not in (None, before.cpu_devices):
        raise LocalError(
            f"the fleet in {home.root} has {before.cpu_devices} CPU devices in each cluster, and "
            "InferenceClasses depend on this number: choose another --home"
        )
    return dataclasses.replace(before, clusters=_clusters(before, count, is_free), **choice.select_kept())


def _clusters(settings: LocalSettings, count: int, is_free: Callable[[int], bool]) -> dict[str, Ports]:
    clusters = dict(settings.clusters)
    for name in (f"local-{number}" for number in range(len(clusters) + 1, count + 1)):
        used = dataclasses.replace(settings, clusters=clusters).list_ports()
        clusters[name] = ports.choose(ports.BEHIND, used, is_free)
    return clusters


def _save(home: Home, settings: LocalSettings) -> LocalSettings:
    write_private(home.settings, json.dumps(dataclasses.asdict(settings), indent=2) + "\n")
    return settings
