"""Logs of pods on many clusters, read once or followed while pods come and go.

Each container is read on its own. A line's time, which the server puts before it, is where reading goes on
after a connection was lost or a container started again, so that nothing is said twice.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from modelplane.cli.inference_clusters import InferenceClusters, NoWay
from modelplane.compose.composition import Object, Requirement
from modelplane.kube import errors, resources
from modelplane.kube.client import Client

_LOOK_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a log to read."""

    tail: int | None = None
    since_s: int | None = None
    previous: bool = False

    def params(self, container: str) -> dict[str, str]:
        """Return the query parameters (core/v1 ``PodLogOptions``)."""
        asked = {"container": container, "timestamps": "true", "tailLines": self.tail}
        asked |= {"sinceSeconds": self.since_s, "previous": "true" if self.previous else None}
        return {key: str(value) for key, value in asked.items() if value is not None}


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
    starts: int
    """Number of its restarts."""
    running: bool
    began: str = ""
    """Time of its last start, to the second (RFC 3339); empty if unknown."""

    def __str__(self) -> str:
        place = f"{self.cluster}/{self.pod}"
        return place if self.alone else f"{place}/{self.name}"

    @property
    def path(self) -> str:
        """Path of its log."""
        return resources.PODS.path(self.namespace, self.pod, "log")


@dataclass(frozen=True, slots=True)
class Found:
    """The containers found, and the reasons why some could not be listed."""

    containers: tuple[Container, ...]
    problems: tuple[str, ...]


Say = Callable[[Container, bytes], None]
"""Receives a line of a container."""
Note = Callable[[str], None]
"""Receives a sentence about a log that cannot be read."""


async def find(clusters: InferenceClusters, pods: Iterable[Requirement]) -> Found:
    """Return the containers of pods, by cluster and name."""
    asked = [asyncio.create_task(_of(clusters, each)) for each in pods]
    containers: list[Container] = []
    problems: set[str] = set()
    for answer in asked:
        try:
            containers += await answer
        except (NoWay, errors.KubernetesError) as error:
            problems.add(str(error))
    return Found(tuple(sorted(containers, key=str)), tuple(sorted(problems)))


async def _of(clusters: InferenceClusters, pods: Requirement) -> list[Container]:
    try:
        client = await clusters.client(pods.cluster)
        selector = ",".join(f"{key}={value}" for key, value in sorted(pods.labels.items()))
        found = await client.list(resources.PODS, pods.namespace, labels=selector)
    except (NoWay, errors.KubernetesError) as error:
        raise NoWay(f'cannot read the pods on cluster "{pods.cluster}": {error}') from error
    return [each for pod in found.items for each in _containers(pods.cluster, client, pod)]


def _containers(cluster: str, client: Client, pod: Object) -> list[Container]:
    metadata, status = pod["metadata"], pod.get("status", {})
    seen = {
        each["name"]: each
        for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    }
    declared = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return [
        Container(
            cluster,
            client,
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            each["name"],
            len(declared) == 1,
            seen.get(each["name"], {}).get("restartCount", 0),
            "running" in seen.get(each["name"], {}).get("state", {}),
            _began(seen.get(each["name"], {})),
        )
        for each in declared
    ]


def _began(status: Object) -> str:
    state, before = status.get("state", {}), status.get("lastState", {})
    known = (state.get("running"), state.get("terminated"), before.get("terminated"))
    latest: Object = next(filter(None, known), {})
    return latest.get("startedAt") or ""


async def show(containers: Iterable[Container], wanted: Wanted, say: Say, note: Note) -> None:
    """Report the lines of containers' logs, one container after the other."""
    for container in containers:
        try:
            async for _, line in _lines(container, wanted.params(container.name)):
                say(container, line)
        except errors.KubernetesError as error:
            note(f"cannot read the log of {container}: {_cause(error)}")


def _cause(error: errors.KubernetesError) -> str:
    said = " ".join(str(error).split())
    if not isinstance(error, errors.Forbidden):
        return said
    return f"{said}: apply there the manifests that `modelplane install --inference-cluster` prints"


async def _lines(container: Container, params: Mapping[str, str]) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the lines of a log, each with its time."""
    lines = container.client.lines(container.path, params)
    try:
        async for line in lines:
            moment, _, text = line.partition(b" ")
            yield moment.decode(errors="replace"), text
    finally:
        await lines.aclose()


@dataclass(slots=True)
class _Followed:
    """A container whose log is followed."""

    wanted: Wanted
    task: asyncio.Task[None] | None = None
    last: str = ""
    """The time of the last line."""
    starts: int = 0
    """Number of its restarts when its log was last read."""
    complete: int = -1
    """Number of its restarts when its log was last read to its end."""
    noted: set[str] = field(default_factory=set)


class Follower:
    """Follows the logs of containers, for as long as it is given containers."""

    def __init__(self, wanted: Wanted, say: Say, note: Note) -> None:
        self._wanted = wanted
        self._say = say
        self._note = note
        self._followed: dict[tuple[str, str], _Followed] = {}

    async def follow(self, look: Callable[[], Awaitable[Found | None]]) -> None:
        """List containers again and again, until there are none to wait for."""
        noted: frozenset[str] = frozenset()
        try:
            while (found := await look()) is not None:
                for container in found.containers:
                    self._attend_to(container)
                # Of what comes later everything is wanted.
                self._wanted = Wanted()
                for problem in sorted(frozenset(found.problems) - noted):
                    self._note(problem)
                noted = frozenset(found.problems)
                await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.gather(*self._tasks())
        finally:
            for task in self._tasks():
                task.cancel()
            await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [each.task for each in self._followed.values() if each.task]

    def _attend_to(self, container: Container) -> None:
        each = self._followed.setdefault((container.uid, container.name), _Followed(self._wanted))
        if each.task is not None:
            if not each.task.done():
                return
            each.task.result()
        if container.running or container.starts != each.complete:
            each.task = asyncio.create_task(self._read(container, each))

    async def _read(self, container: Container, each: _Followed) -> None:
        """Report a container's lines from the last one read, until the container or the connection ends."""
        if container.starts != each.starts and container.began and container.began < each.last:
            each.last = ""  # the clock was set back since: whatever this start says is new
        each.starts = container.starts
        before = each.last
        asked = Wanted() if before else each.wanted
        params = asked.params(container.name) | {"follow": "true"}
        if before:
            params["sinceTime"] = before
        try:
            async for moment, line in _lines(container, params):
                if moment > before:
                    self._say(container, line)
                    each.last = moment
            each.complete = container.starts
        except (errors.NotFound, errors.Unreachable):
            pass  # the next look tells what has become of it
        except errors.KubernetesError as error:
            told = f"cannot read the log of {container} yet: {_cause(error)}"
            if told not in each.noted:
                each.noted.add(told)
                self._note(told)
