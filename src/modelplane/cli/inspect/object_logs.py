"""Printed logs of an object's pods: each line with its pod if there are several."""

import click

from modelplane.api.meta import Object
from modelplane.cli import object_names
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Resource
from modelplane.operations import pod_logs
from modelplane.operations.inference_clusters import InferenceClusters
from modelplane.operations.pod_logs import Container, Found, LogOptions
from modelplane.operations.pods_behind import find_pods


class _LogOutput:
    """Output: lines to standard output, problems to standard error."""

    def __init__(self) -> None:
        self.several = False
        self.problems: list[str] = []

    def print_line(self, container: Container, line: bytes) -> None:
        """Print a line, after the name of its container if there are several."""
        click.echo(f"{container}: ".encode() + line if self.several else line)

    def print_problem(self, problem: str) -> None:
        """Print a problem."""
        self.problems.append(problem)
        click.echo(problem, err=True)

    def count_containers(self, pods: Found) -> Found:
        """Note the number of containers: once there are several, the prefix stays."""
        self.several = self.several or len(pods.containers) > 1
        return pods


async def get(client: Client, resource: Resource, name: str, namespace: str) -> Object:
    """Return an object by its name; list all namespaces only if none is given."""
    if namespace and (item := await client.get(resource, name, namespace)):
        return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    everything = (await client.list(resource, namespace or None)).items
    return object_names.find_one(everything, resource.kind, name, namespace)


async def show(
    client: Client, resource: Resource, item: Object, options: LogOptions, *, follow: bool
) -> bool:
    """Print the logs of an object's pods; return True if all of them could be read."""
    output = _LogOutput()
    clusters = InferenceClusters(client)
    try:
        if not follow:
            pods = output.count_containers(await _look(clusters, client, item))
            for problem in pods.problems:
                output.print_problem(problem)
            await pod_logs.show(pods.containers, options, output.print_line, output.print_problem)
            return not output.problems
        metadata = item["metadata"]

        async def look() -> Found | None:
            try:
                present = await client.get(resource, metadata["name"], metadata["namespace"])
                return (
                    None
                    if present is None
                    else output.count_containers(await _look(clusters, client, present))
                )
            except errors.KubernetesError as error:
                return Found((), (f"cannot read from the control plane, retrying: {error}",))

        await pod_logs.Follower(options, output.print_line, output.print_problem).follow(look)
        output.print_problem(f'{resource.kind} "{metadata["name"]}" is gone')
        return True
    finally:
        await clusters.close()


async def _look(clusters: InferenceClusters, client: Client, item: Object) -> Found:
    """Return the containers of an object, or the reason why there are none."""
    behind = await find_pods(client, item)
    pods = await pod_logs.find(clusters, behind.pods)
    if pods.containers or pods.problems:
        return pods
    why = behind.nothing or f"it has no pod: {condition_of(item, READY).get('message') or 'it is new'}"
    return pod_logs.Found((), (f'{item["kind"]} "{item["metadata"]["name"]}": {why}',))
