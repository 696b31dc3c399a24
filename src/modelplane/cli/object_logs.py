"""What the pods behind an object log, as people read it: each line with its pod where there are several."""

import click

from modelplane.cli import named, pod_logs
from modelplane.cli.inference_clusters import InferenceClusters
from modelplane.cli.pod_logs import Container, Found, Wanted
from modelplane.cli.pods_behind import behind
from modelplane.compose.composition import Object
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Resource


class _Told:
    """What is printed: lines, and to standard error what keeps lines from being there."""

    def __init__(self) -> None:
        self.several = False
        self.problems: list[str] = []

    def line(self, container: Container, line: bytes) -> None:
        """Print a line, and before it whose it is where that is not plain."""
        click.echo(f"{container}: ".encode() + line if self.several else line)

    def note(self, problem: str) -> None:
        """Print what is wrong."""
        self.problems.append(problem)
        click.echo(problem, err=True)

    def found(self, found: Found) -> Found:
        """Take note of how many there are: a prefix that was needed once stays."""
        self.several = self.several or len(found.containers) > 1
        return found


async def get(client: Client, resource: Resource, name: str, namespace: str) -> Object:
    """Return an object by its name; all are looked through only where no namespace is given."""
    if namespace and (item := await client.get(resource, name, namespace)):
        return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    everything = (await client.list(resource, namespace or None)).items
    return named.found(everything, resource.kind, name, namespace)


async def show(client: Client, resource: Resource, item: Object, wanted: Wanted, *, follow: bool) -> bool:
    """Print what the pods behind an object log; return whether all of it could be read."""
    told = _Told()
    clusters = InferenceClusters(client)
    try:
        if not follow:
            found = told.found(await _look(clusters, client, item))
            for problem in found.problems:
                told.note(problem)
            await pod_logs.show(found.containers, wanted, told.line, told.note)
            return not told.problems
        metadata = item["metadata"]

        async def look() -> Found | None:
            try:
                present = await client.get(resource, metadata["name"], metadata["namespace"])
                return None if present is None else told.found(await _look(clusters, client, present))
            except errors.KubernetesError as error:
                return Found((), (f"cannot ask the control plane, and asks again: {error}",))

        await pod_logs.Follower(wanted, told.line, told.note).follow(look)
        told.note(f'{resource.kind} "{metadata["name"]}" is gone')
        return True
    finally:
        await clusters.close()


async def _look(clusters: InferenceClusters, client: Client, item: Object) -> Found:
    """Return the containers behind an object; where there are none, why."""
    there = await behind(client, item)
    found = await pod_logs.find(clusters, there.pods)
    if found.containers or found.problems:
        return found
    why = there.nothing or f"it has no pod: {condition_of(item, READY).get('message') or 'it is new'}"
    return pod_logs.Found((), (f'{item["kind"]} "{item["metadata"]["name"]}": {why}',))
