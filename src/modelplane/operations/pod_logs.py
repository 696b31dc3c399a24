"""Logs of pods on many clusters, read once or followed. ``pods_of_object`` chooses the pods.

Each container is read on its own. The server puts a time before each line; after a lost connection or a
restart of the container, reading resumes at the time of the last line, so no line is reported twice.

A log that is silent is asked for again after a while. The connection to the API server shows whether that
server is alive, but not whether it still hears from the node behind it.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.cluster.cluster_kubeconfig import kubeconfig_reference
from modelplane.compose.composition import Requirement
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, kubeconfig_secret, resources, timestamps
from modelplane.kube.client import Client


class ClusterUnreachable(Exception):
    """A cluster cannot be reached; the message has the cause and the remedy."""


class InferenceClusters:
    """One client per cluster, made on first use."""

    def __init__(self, control_plane: Client) -> None:
        self._control_plane = control_plane
        self._clients: dict[str, Client] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get_client(self, name: str) -> Client:
        """Return the client of a cluster. Raises ``ClusterUnreachable``."""
        # Tasks that ask for one cluster at the same time share its client: only the last one would be closed.
        async with self._locks[name]:
            if name not in self._clients:
                try:
                    self._clients[name] = Client.from_kubeconfig(await self._kubeconfig(name))
                except (errors.KubernetesError, InvalidObject, ValueError) as error:
                    raise ClusterUnreachable(
                        f"{error}: use kubectl with a kubeconfig of that cluster"
                    ) from error
        return self._clients[name]

    async def _kubeconfig(self, name: str) -> Mapping[str, Any]:
        cluster = await self._control_plane.get(fleet_resources.INFERENCE_CLUSTERS, name)
        if cluster is None:
            raise ValueError(f'there is no InferenceCluster "{name}"')
        origin = decode_as(InferenceCluster, cluster).spec.cluster
        provisioned: Object | None = None
        if recipe := recipe_of(origin):
            resource = fleet_resources.resource_of_kind(recipe.type)
            provisioned = await self._control_plane.get(resource, name, SYSTEM_NAMESPACE)
        reference = kubeconfig_reference(origin, provisioned)
        if isinstance(reference, Rejected):
            raise ValueError(reference.message)  # noqa: TRY004 - a value of the cluster, not a type of ours
        secret = await self._control_plane.get(resources.SECRETS, reference.name, reference.namespace)
        text = kubeconfig_secret.read_content(secret, reference.key, str(reference))
        return kubeconfig_secret.parse_kubeconfig(text, reference.key, str(reference))

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            await client.close()


_LOOK_EVERY_S: Final = 2.0
_SILENCE_S: Final = 30.0
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
"""RFC 3339; a node may write it with the offset of its time zone."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The part of a log to read."""

    tail: int | None = None
    since_s: int | None = None
    previous: bool = False

    def to_params(self, container: str) -> dict[str, str]:
        """Return the query parameters (core/v1 ``PodLogOptions``)."""
        asked = {"container": container, "timestamps": "true", "tailLines": self.tail}
        asked |= {"sinceSeconds": self.since_s, "previous": "true" if self.previous else None}
        return {key: str(value) for key, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that a server wrote."""

    text: str
    second: datetime
    nanosecond: int

    @classmethod
    def parse(cls, text: str) -> "Moment | None":
        """Return the time in a text; None if it is not one."""
        match = _TIME.fullmatch(text)
        if match is None:
            return None
        second, fraction, offset = match.groups("")
        try:
            return cls(text, timestamps.parse(f"{second}{offset}"), int(fraction.ljust(9, "0")))
        except ValueError:
            return None

    def is_after(self, other: "Moment") -> bool:
        """Compare to the nanosecond."""
        return (self.second, self.nanosecond) > (other.second, other.nanosecond)


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, as last listed."""

    cluster: str
    client: Client
    namespace: str
    pod: str
    uid: str
    name: str
    alone: bool
    """True if the pod has no other container."""
    restarts: int
    running: bool
    started_at: Moment | None = None
    """Time of its last start, to the second; None if unknown."""

    def __str__(self) -> str:
        place = f"{self.cluster}/{self.pod}"
        return place if self.alone else f"{place}/{self.name}"

    @property
    def path(self) -> str:
        """Path of its log."""
        return resources.PODS.build_path(self.namespace, self.pod, "log")


@dataclass(frozen=True, slots=True)
class Found:
    """The containers found, and the reasons why some could not be listed."""

    containers: tuple[Container, ...]
    problems: tuple[str, ...]


Say = Callable[[Container, bytes], None]
"""Receives a line of a container."""
Note = Callable[[str], None]
"""Receives a sentence about a log that cannot be read."""


class Silence(errors.Unreachable):
    """No line for a while: the log has none, or is not heard any more."""


async def find(clusters: InferenceClusters, pods: Iterable[Requirement]) -> Found:
    """Return the containers of pods, by cluster and name."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_list_containers(clusters, pod)) for pod in pods]
    answers = [task.result() for task in tasks]
    containers = [container for answer in answers for container in answer.containers]
    problems = {problem for answer in answers for problem in answer.problems}
    return Found(tuple(sorted(containers, key=str)), tuple(sorted(problems)))


async def _list_containers(clusters: InferenceClusters, pods: Requirement) -> Found:
    try:
        client = await clusters.get_client(pods.cluster)
        return Found(await list_containers(pods.cluster, client, pods.namespace, pods.labels), ())
    except (ClusterUnreachable, errors.KubernetesError) as error:
        return Found((), (f'cannot read the pods on cluster "{pods.cluster}": {error}',))


async def list_containers(
    cluster: str, client: Client, namespace: str | None, labels: Mapping[str, str]
) -> tuple[Container, ...]:
    """Return the containers of the pods with certain labels."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    pods = await client.list(resources.PODS, namespace, labels=selector)
    return tuple(container for pod in pods.items for container in _containers(cluster, client, pod))


def _containers(cluster: str, client: Client, pod: Object) -> list[Container]:
    metadata, status = pod["metadata"], pod.get("status", {})
    seen = {
        reported["name"]: reported
        for reported in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    }
    declared = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return [
        Container(
            cluster,
            client,
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            container["name"],
            len(declared) == 1,
            seen.get(container["name"], {}).get("restartCount", 0),
            "running" in seen.get(container["name"], {}).get("state", {}),
            _started_at(seen.get(container["name"], {})),
        )
        for container in declared
    ]


def _started_at(status: Object) -> Moment | None:
    state, before = status.get("state", {}), status.get("lastState", {})
    times = (state.get("running"), state.get("terminated"), before.get("terminated"))
    latest: Object = next(filter(None, times), {})
    return Moment.parse(latest.get("startedAt") or "")


async def show(containers: Iterable[Container], options: LogOptions, say: Say, note: Note) -> None:
    """Report the lines of containers' logs, one container after the other."""
    for container in containers:
        try:
            async for _, line in _lines(container, options.to_params(container.name)):
                say(container, line)
        except errors.KubernetesError as error:
            note(f"cannot read the log of {container}: {_cause(error)}")


def _cause(error: errors.KubernetesError) -> str:
    reason = " ".join(str(error).split())
    if not isinstance(error, errors.Forbidden):
        return reason
    return (
        f"{reason}: on that cluster, apply the manifests that `modelplane install --inference-cluster` prints"
    )


async def _lines(
    container: Container, params: Mapping[str, str]
) -> AsyncIterator[tuple[Moment | None, bytes]]:
    """Yield the lines of a log, each with its time; a line that the kubelet adds about the log has none.

    Raises ``Silence``.
    """
    lines = container.client.read_lines(container.path, params)
    try:
        while True:
            async with asyncio.timeout(_SILENCE_S):
                line = await anext(lines, None)
            if line is None:
                return
            first, _, rest = line.partition(b" ")
            moment = Moment.parse(first.decode(errors="replace"))
            yield moment, line if moment is None else rest
    except TimeoutError as error:
        raise Silence(f"no lines for {_SILENCE_S:g} s") from error
    finally:
        await lines.aclose()


@dataclass(slots=True)
class _Followed:
    """A container whose log is followed."""

    options: LogOptions
    """The part of its log to read first."""
    asked_at: float | None = None
    """When its log was first asked for, on the event loop's clock."""
    first_read: bool = True
    """True until a line was read, or the log was read to its end."""
    failed: bool = False
    """True if the last attempt to read its log was in vain."""
    task: asyncio.Task[None] | None = None
    last: Moment | None = None
    """The time of the last line."""
    restarts: int = 0
    """Number of its restarts when its log was last read."""
    read_to_end_at: int | None = None
    """Number of its restarts when its log was last read to its end."""
    noted: set[str] = field(default_factory=set)
    untimed: set[bytes] = field(default_factory=set)
    """Lines that the kubelet adds about the log; it repeats them for each request."""

    def choose_options(self, now: float) -> LogOptions:
        """Return the part of its log to read next, apart from the time after which lines are new."""
        if not self.first_read:
            return LogOptions()
        if self.asked_at is None:
            self.asked_at = now
        elif self.options.tail == 0:
            # A line that comes between two requests is a new one too.
            return LogOptions(since_s=math.ceil(now - self.asked_at))
        return self.options

    def resume_after(self, container: Container) -> Moment | None:
        """Return the time after which lines are new; None if all of them are."""
        if self.last is None or container.started_at is None or container.restarts == self.restarts:
            return self.last
        # A start that precedes the last line of the one before: the clock was set back.
        return None if container.started_at.second < self.last.second else self.last


class Follower:
    """Follows the logs of containers, including those of containers that start later."""

    def __init__(self, options: LogOptions, say: Say, note: Note) -> None:
        self._options = options
        self._say = say
        self._note = note
        self._followed: dict[tuple[str, str], _Followed] = {}

    async def follow(self, look: Callable[[], Awaitable[Found | None]]) -> None:
        """List containers again and again until ``look`` returns None, then wait for the open logs to end."""
        noted: frozenset[str] = frozenset()
        try:
            while (listed := await look()) is not None:
                for container in listed.containers:
                    self._attend_to(container)
                # Containers that are found later are read from their first line.
                self._options = LogOptions()
                for problem in sorted(frozenset(listed.problems) - noted):
                    self._note(problem)
                noted = frozenset(listed.problems)
                await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.gather(*self._tasks())
        finally:
            for task in self._tasks():
                task.cancel()
            await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [followed.task for followed in self._followed.values() if followed.task]

    def _attend_to(self, container: Container) -> None:
        """Read a container's log unless that is under way, or the log was read to its end."""
        followed = self._followed.setdefault((container.uid, container.name), _Followed(self._options))
        if followed.task is not None:
            if not followed.task.done():
                return
            followed.task.result()
        if container.running or container.restarts != followed.read_to_end_at:
            followed.task = asyncio.create_task(self._read(container, followed))

    async def _read(self, container: Container, followed: _Followed) -> None:
        """Report a container's lines from the last one read, until the container or the connection ends."""
        before = followed.last = followed.resume_after(container)
        followed.restarts = container.restarts
        failed_before, followed.failed = followed.failed, False
        options = followed.choose_options(asyncio.get_running_loop().time())
        params = options.to_params(container.name) | {"follow": "true"}
        if before is not None:
            params["sinceTime"] = before.text
        try:
            async for moment, line in _lines(container, params):
                if moment is None:
                    if line not in followed.untimed:
                        followed.untimed.add(line)
                        self._say(container, line)
                elif before is None or moment.is_after(before):
                    self._say(container, line)
                    followed.last, followed.first_read = moment, False
            followed.first_read = False
            # The kubelet may also end the log of a container that runs, which then has more to say.
            if not container.running:
                followed.read_to_end_at = container.restarts
        except Silence:
            pass
        except (errors.NotFound, errors.Unreachable) as error:
            # Once is no problem: the next listing shows whether the container still exists.
            followed.failed = followed.last is before
            if followed.failed and failed_before:
                self._note_failure(container, followed, error)
        except errors.KubernetesError as error:
            self._note_failure(container, followed, error)

    def _note_failure(self, container: Container, followed: _Followed, error: errors.KubernetesError) -> None:
        told = f"cannot read the log of {container} yet: {_cause(error)}"
        if told not in followed.noted:
            followed.noted.add(told)
            self._note(told)
