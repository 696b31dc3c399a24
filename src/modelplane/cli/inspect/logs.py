"""``modelplane logs``: print the log of a process of this machine's fleet, or of an object's engines."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from modelplane.api.listing import in_order
from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.options import Duration, ListedArgument, format_example
from modelplane.cli.target import (
    Target,
    add_namespace_option,
    add_target_options,
    find_one,
    list_forms,
    parse_object_name,
    read,
)
from modelplane.local.home import Home, choose_home
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Resource
    from modelplane.operations.pod_logs import Container, Found, InferenceClusters, LogOptions


_MAX_LISTED = 20
"""Limit of listed processes, and of listed objects."""


def _sources() -> list[str]:
    from modelplane.operations.pods_of_object import RESOURCES

    return ["PROCESS", *list_forms(RESOURCES)]


def _source(_context: click.Context, _parameter: click.Parameter, text: str) -> "str | tuple[Kind, str]":
    """Return the name of a process, or the kind and name of an object."""
    if "/" not in text:
        return text
    from modelplane.operations.pods_of_object import RESOURCES

    source = parse_object_name(text, tuple(RESOURCES))
    if source is None:
        raise click.BadParameter(f'"{text}" is not one of {", ".join(_sources())}')
    return source


@click.command(epilog=format_example("modelplane logs md/gemma -n ml-team --follow"))
@click.argument("source", cls=ListedArgument, values=_sources, callback=_source, default="")
@click.option(
    "-f", "--follow", is_flag=True, help="Stream new lines, including lines of new pods, until Ctrl-C."
)
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Show only this number of lines from the end of each log. Default: all lines.",
)
@click.option(
    "--since",
    "since_s",
    type=Duration("omit --since to show all lines"),
    help="Show only lines newer than a duration such as 10m, 1.5h, or 7d. Default: all lines.",
)
@click.option(
    "--previous",
    is_flag=True,
    help="Show the log of the previous container, or the rotated log of a process.",
)
@add_namespace_option
@add_target_options
def logs(
    *,
    source: "str | tuple[Kind, str]",
    follow: bool,
    tail: int | None,
    since_s: int | None,
    previous: bool,
    namespace: str,
    target: Target,
) -> None:
    """Print the logs of a model's engines, or of a process of the fleet on this machine.

    Without an argument, list the available logs. The exit status is 1 if a log can't be read.
    """
    from modelplane.operations.pod_logs import LogOptions

    if follow and previous:
        raise click.UsageError("--follow and --previous can't be combined: a previous log doesn't grow")
    if not source:
        # Raise ``UsageError`` for options without a log that they apply to.
        options = {
            "--namespace": namespace,
            "--follow": follow,
            "--tail": tail is not None,
            "--since": since_s is not None,
            "--previous": previous,
        }
        if given := [option for option, value in options.items() if value]:
            raise click.UsageError(f"to use {', '.join(given)}, name one of {', '.join(_sources())}")
        _list_targets(target)
    elif isinstance(source, str):
        if namespace:
            raise click.UsageError(
                f'--namespace applies only to objects, and "{source}" is a process: omit --namespace'
            )
        _show_process(choose_home(target.home), source, tail, since_s, follow=follow, previous=previous)
    else:
        _show_object(
            target,
            *source,
            target.choose_namespace(namespace),
            LogOptions(tail, since_s, previous),
            follow=follow,
        )


def _show_process(
    home: Home, name: str, tail: int | None, since_s: int | None, *, follow: bool, previous: bool
) -> None:
    from modelplane.local.supervision import process_logs

    names = _process_names(home)
    if name not in names:
        raise UserError(
            f'no process "{name}": the processes are {in_order(names, _MAX_LISTED)}. Name an object as '
            "md/NAME."
        )
    log = home.find_earlier_log(name) if previous else home.log(name)
    since = None if since_s is None else datetime.now().astimezone() - timedelta(seconds=since_s)
    try:
        for line in process_logs.read_lines(log, tail=tail, since=since, follow=follow):
            click.echo(line)
    except FileNotFoundError:
        if previous and home.log(name).exists():
            raise UserError(f"{name} has no previous log: the complete log is {home.log(name)}") from None
        raise UserError(f"{name} has no log because the process was never started") from None


def _process_names(home: Home) -> list[str]:
    from modelplane.local.supervision import lifecycle

    return [process.name for process in lifecycle.list_statuses(home)]


def _list_targets(target: Target) -> None:
    from modelplane.operations.pods_of_object import RESOURCES

    home = choose_home(target.home)
    has_processes = home.settings.exists()
    if has_processes:
        click.echo(f"Processes of the fleet in {home.root}:\n  {', '.join(_process_names(home))}")

    async def list_names(client: "Client") -> list[str]:
        return [
            f"{kind.short}/{item['metadata']['name']} -n {item['metadata']['namespace']}"
            for kind, resource in RESOURCES.items()
            for item in (await client.list(resource)).items
        ]

    try:
        names = read(target, "the objects", list_names)
    except UserError as error:
        if not has_processes:
            raise
        # The logs of processes can be read without an API server.
        click.echo(f"Objects: cannot be listed: {error}")
        return
    click.echo("Objects:" if names else "Objects: none")
    for name in names[:_MAX_LISTED]:
        click.echo(f"  {name}")
    if len(names) > _MAX_LISTED:
        shorts = ",".join(kind.short for kind in RESOURCES)
        click.echo(f"  and {len(names) - _MAX_LISTED:,} more: run `modelplane kubectl get {shorts} -A`")


def _show_object(
    target: Target, kind: "Kind", name: str, namespace: str, options: "LogOptions", *, follow: bool
) -> None:
    from modelplane.operations.pods_of_object import RESOURCES

    async def show(client: "Client") -> bool:
        item = await get_object(client, RESOURCES[kind], name, namespace)
        return await print_object_logs(client, RESOURCES[kind], item, options, follow=follow)

    if not read(target, f'{kind.name} "{name}"', show):
        raise click.exceptions.Exit(FAILED)


class _LogOutput:
    """Output: lines to standard output, problems to standard error."""

    def __init__(self) -> None:
        self.several = False
        self.problems: list[str] = []

    def print_line(self, container: "Container", line: bytes) -> None:
        """Print a line, after the name of its container if there are several."""
        click.echo(f"{container}: ".encode() + line if self.several else line)

    def print_problem(self, problem: str) -> None:
        self.problems.append(problem)
        click.echo(problem, err=True)

    def count_containers(self, pods: "Found") -> "Found":
        """Note the number of containers: once there are several, the prefix stays."""
        self.several = self.several or len(pods.containers) > 1
        return pods


async def get_object(client: "Client", resource: "Resource", name: str, namespace: str) -> "Object":
    """Return an object by its name; list all namespaces only if none is given."""
    if namespace and (item := await client.get(resource, name, namespace)):
        return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    return find_one((await client.list(resource, namespace or None)).items, resource.kind, name, namespace)


async def print_object_logs(
    client: "Client", resource: "Resource", item: "Object", options: "LogOptions", *, follow: bool
) -> bool:
    """Print the logs of an object's pods; return True if all of them could be read."""
    from modelplane.kube.errors import KubernetesError
    from modelplane.operations import pod_logs

    output = _LogOutput()
    clusters = pod_logs.InferenceClusters(client)
    try:
        if not follow:
            pods = output.count_containers(await _look(clusters, client, item))
            for problem in pods.problems:
                output.print_problem(problem)
            await pod_logs.show(pods.containers, options, output.print_line, output.print_problem)
            return not output.problems
        metadata = item["metadata"]

        async def look() -> "Found | None":
            try:
                present = await client.get(resource, metadata["name"], metadata["namespace"])
                return (
                    None
                    if present is None
                    else output.count_containers(await _look(clusters, client, present))
                )
            except KubernetesError as error:
                return pod_logs.Found((), (f"cannot read from the control plane, retrying: {error}",))

        await pod_logs.Follower(options, output.print_line, output.print_problem).follow(look)
        output.print_problem(f'{resource.kind} "{metadata["name"]}" was deleted')
        return True
    finally:
        await clusters.close()


async def _look(clusters: "InferenceClusters", client: "Client", item: "Object") -> "Found":
    """Return the containers of an object, or the reason why there are none."""
    from modelplane.compose.conditions import READY
    from modelplane.compose.readiness import condition_of
    from modelplane.operations import pod_logs
    from modelplane.operations.pods_of_object import find_pods

    behind = await find_pods(client, item)
    pods = await pod_logs.find(clusters, behind.pods)
    if pods.containers or pods.problems:
        return pods
    ready = condition_of(item, READY)
    if behind.nothing:
        why = behind.nothing
    elif ready.get("status") == "True":
        why = f"ready since {ready.get('lastTransitionTime')}, and its pods are gone with their logs"
    else:
        why = f"there are no pods yet: {ready.get('message') or 'it has no conditions yet'}"
    return pod_logs.Found((), (f'{item["kind"]} "{item["metadata"]["name"]}": {why}',))
