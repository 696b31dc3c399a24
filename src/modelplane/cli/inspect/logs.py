"""``modelplane logs``: print the log of a process of this machine's fleet, or of an object's engines."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from modelplane.api.listing import in_order
from modelplane.cli import durations, object_names
from modelplane.cli.errors import FAILED, UserError
from modelplane.cli.live import Live, add_live_options, read
from modelplane.cli.options import ListedArgument
from modelplane.local.home import Home, choose_home

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.cli.inspect.pod_logs import LogOptions
    from modelplane.kube.client import Client

_MAX_LISTED = 20
"""Limit of listed processes, and of listed objects."""


def _parse_duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Return a duration in seconds, rounded up: API servers take whole seconds, and at least one."""
    if text is None:
        return None
    return durations.parse_seconds(text, "leave --since out for all lines")


def _targets() -> list[str]:
    from modelplane.cli.inspect.pods_behind import RESOURCES

    return ["PROCESS", *object_names.list_forms(RESOURCES)]


def _target(_context: click.Context, _parameter: click.Parameter, text: str) -> "str | tuple[Kind, str]":
    """Return the name of a process, or the kind and name of an object."""
    if "/" not in text:
        return text
    from modelplane.cli.inspect.pods_behind import RESOURCES

    target = object_names.parse_object_name(text, tuple(RESOURCES))
    if target is None:
        raise click.BadParameter(f'"{text}" is none of {", ".join(_targets())}')
    return target


@click.command()
@click.argument("target", cls=ListedArgument, values=_targets, callback=_target, default="")
@click.option("-n", "--namespace", default="", help="Namespace of the object, if the name is ambiguous.")
@click.option("-f", "--follow", is_flag=True, help="Stream new lines, also of new pods, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each log.")
@click.option(
    "--since",
    "since_s",
    callback=_parse_duration,
    metavar="DURATION",
    help="Only lines newer than this, such as 10m, 1.5h or 7d.",
)
@click.option(
    "--previous", is_flag=True, help="The log of the previous container, or the rotated log of a process."
)
@add_live_options
def logs(
    *,
    target: "str | tuple[Kind, str]",
    namespace: str,
    follow: bool,
    tail: int | None,
    since_s: int | None,
    previous: bool,
    live: Live,
) -> None:
    """Print the log of a process of this machine's fleet, or of the engines of an object.

    Without an argument, list the processes and objects. The exit status is 1 if a log cannot be read.
    """
    from modelplane.cli.inspect.pod_logs import LogOptions

    if follow and previous:
        raise click.UsageError("--follow and --previous exclude each other: a previous log does not grow")
    if not target:
        _require_none(
            {
                "--namespace": namespace,
                "--follow": follow,
                "--tail": tail is not None,
                "--since": since_s is not None,
                "--previous": previous,
            }
        )
        _list_targets(live)
    elif isinstance(target, str):
        if namespace:
            raise click.UsageError(f'--namespace is for objects, and "{target}" is a process: leave it out')
        _show_process(choose_home(live.home), target, tail, since_s, follow=follow, previous=previous)
    else:
        _show_object(live, *target, namespace, LogOptions(tail, since_s, previous), follow=follow)


def _require_none(options: Mapping[str, object]) -> None:
    """Raise ``UsageError`` for options without a log that they apply to."""
    if given := [option for option, value in options.items() if value]:
        raise click.UsageError(f"no log to apply {', '.join(given)} to: name one of {', '.join(_targets())}")


def _show_process(
    home: Home, name: str, tail: int | None, since_s: int | None, *, follow: bool, previous: bool
) -> None:
    from modelplane.local.supervision import process_logs

    names = _process_names(home)
    if name not in names:
        raise UserError(
            f'there is no process "{name}" among {in_order(names, _MAX_LISTED)}. '
            "An object is named like md/NAME."
        )
    log = home.find_earlier_log(name) if previous else home.log(name)
    since = None if since_s is None else datetime.now().astimezone() - timedelta(seconds=since_s)
    try:
        for line in process_logs.read_lines(log, tail=tail, since=since, follow=follow):
            click.echo(line)
    except FileNotFoundError:
        if previous and home.log(name).exists():
            raise UserError(
                f"{name} has no earlier log: all that it has logged is in {home.log(name)}"
            ) from None
        raise UserError(f"{name} has no log: it was never started") from None


def _process_names(home: Home) -> list[str]:
    from modelplane.local.supervision import process_status

    return [process.name for process in process_status.list_statuses(home)]


def _list_targets(live: Live) -> None:
    """List the processes and objects that have logs."""
    from modelplane.cli.inspect.pods_behind import RESOURCES

    home = choose_home(live.home)
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
        names = read(live, "the objects", list_names)
    except UserError as error:
        if not has_processes:
            raise
        # The logs of processes can be read without an API server.
        click.echo(f"Objects: not listed, because {error}")
        return
    click.echo("Objects:" if names else "Objects: none")
    for name in names[:_MAX_LISTED]:
        click.echo(f"  {name}")
    if len(names) > _MAX_LISTED:
        shorts = ",".join(kind.short for kind in RESOURCES)
        click.echo(f"  and {len(names) - _MAX_LISTED:,} more: modelplane kubectl get {shorts} -A")


def _show_object(
    live: Live, kind: "Kind", name: str, namespace: str, options: "LogOptions", *, follow: bool
) -> None:
    from modelplane.cli.inspect import object_logs
    from modelplane.cli.inspect.pods_behind import RESOURCES

    async def show(client: "Client") -> bool:
        item = await object_logs.get(client, RESOURCES[kind], name, namespace)
        return await object_logs.show(client, RESOURCES[kind], item, options, follow=follow)

    if not read(live, f'{kind.name} "{name}"', show):
        raise click.exceptions.Exit(FAILED)
