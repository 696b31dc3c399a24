"""``modelplane status``: show the processes, addresses and problems of the fleet on this machine."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import click

from modelplane.api.report_tables import Columns
from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.machine.running import describe_addresses, find_addresses, require_fleet
from modelplane.cli.options import add_home_option, format_example
from modelplane.cli.output import TEXT, add_output_option, print_document, print_table
from modelplane.local.home import Home, choose_home
from modelplane.local.supervision.lifecycle import ProcessStatus
from modelplane.user_error import UserError


@click.command(epilog=format_example("modelplane status -o json"))
@add_home_option
@add_output_option
def status(home: Path | None, output: str) -> None:
    """Show the processes of the fleet on this machine, and a summary of the objects.

    The exit status is 1 if a process is not running, or if the fleet has another problem.
    """
    from modelplane.local import settings
    from modelplane.local.home import find_space_problem
    from modelplane.local.supervision import lifecycle

    place = choose_home(home)
    require_fleet(place)
    processes = lifecycle.list_statuses(place)
    states = {process.name: process.state for process in processes}
    counts: Counts = {}
    closed: list[str] = []
    unready: list[str] = []
    problems = []
    if not any(process.pid for process in processes):
        problems.append("the fleet is stopped: run `modelplane up` to start it")
    elif states["control-plane"] != "Running":
        problems.append(
            f"cannot read the fleet's objects: process control-plane is {states['control-plane']}"
        )
    else:
        try:
            counts, closed, unready = asyncio.run(_objects(place))
        except UserError as error:
            problems.append(str(error))
    problems += [
        f"cluster {name} is stopped: run `modelplane up` to start it"
        for name in lifecycle.list_held(place, settings.load(place).clusters)
    ]
    running = {process.name for process in processes if process.pid}
    if running and (problem := settings.find_stranger(settings.load(place), running)):
        problems.append(f"{problem}; the process starts once the port is free")
    if problem := find_space_problem(place):
        problems.append(
            f"{problem}; running processes continue, and stopped processes restart once there is space"
        )
    if states.get("envoy") == "Running" and (problem := _gateway_problem(place)):
        problems.append(problem)
    if output != TEXT:
        document = _document(place, processes, counts, problems)
        print_document(document | {"closed": closed, "notReady": unready}, output)
    else:
        _print(place, processes, counts, [*unready, *closed, *problems])
    if problems or not all(state == "Running" for state in states.values()):
        raise click.exceptions.Exit(FAILED)


Counts = dict[str, dict[str, int]]


def _gateway_problem(place: Home) -> str | None:
    from modelplane.host.errors import LocalError
    from modelplane.proxy import admin

    try:
        return admin.find_reload_problem(place.envoy)
    except LocalError as error:
        return str(error)


async def _objects(place: Home) -> tuple[Counts, list[str], list[str]]:
    """Return the number of objects, and of Ready ones, by kind; what is closed; and the states of others."""
    from modelplane.api import kinds
    from modelplane.compose.readiness import holds
    from modelplane.kube.client import Client
    from modelplane.kube.errors import KubernetesError
    from modelplane.kube.resources import Resource

    counted_kinds = (
        kinds.INFERENCE_CLUSTER,
        kinds.INFERENCE_GATEWAY,
        kinds.MODEL_DEPLOYMENT,
        kinds.MODEL_REPLICA,
        kinds.MODEL_SERVICE,
    )
    counted: Counts = {}
    closed: list[str] = []
    unready: list[str] = []
    try:
        async with Client.from_kubeconfig(str(place.kubeconfig), timeout_s=2.0) as client:
            for kind in counted_kinds:
                resource = Resource(kind.group, kind.version, kind.name, kind.plural, kind.namespaced)
                items = (await client.list(resource)).items
                counted[kind.name] = {
                    "total": len(items),
                    "ready": sum(holds(item, "Ready") for item in items),
                }
                closed += [sentence for item in items for sentence in _closed(item)]
                unready += [line for item in items if (line := _describe(kind.name, item))]
    except (KubernetesError, ValueError) as error:
        raise UserError(f"the API server answered: {error}") from error
    return counted, closed, unready


def _describe(kind: str, item: dict[str, Any]) -> str | None:
    """Return the state of an object in one sentence; None if it is ready."""
    from modelplane.compose.readiness import read_state

    metadata, state = item["metadata"], read_state(item)
    if state.is_ready:
        return None
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f'{kind} "{name}": {state.summarize()}'


def _closed(item: dict[str, Any]) -> list[str]:
    """Return what is closed of an object, if it is a cluster with taints."""
    if not item.get("spec", {}).keys() & {"taints", "poolTaints"}:
        return []
    from modelplane.operations import cordons

    return cordons.describe_closed(item)


def _document(
    place: Home, processes: tuple[ProcessStatus, ...], counts: Counts, problems: list[str]
) -> dict[str, object]:
    return {
        "home": str(place.root),
        "addresses": find_addresses(place),
        "processes": [
            {
                "name": process.name,
                "state": process.state,
                "pid": process.pid,
                "since": process.since,
                "restarts": process.restarts,
                "memoryBytes": process.memory_bytes,
                "lastExit": process.last_exit,
            }
            for process in processes
        ],
        "fleet": counts,
        "problems": problems,
    }


_PROCESSES: Final = Columns[ProcessStatus](
    ("PROCESS", lambda process: process.name),
    ("STATE", lambda process: process.state),
    ("PID", lambda process: str(process.pid or "-")),
    ("SINCE", lambda process: _ago(process.since)),
    ("RESTARTS", lambda process: str(process.restarts)),
    ("MEMORY", lambda process: f"{process.memory_bytes / 1e6:.0f} MB" if process.memory_bytes else "-"),
    ("LAST EXIT", lambda process: process.last_exit or "-"),
)


def _print(place: Home, processes: tuple[ProcessStatus, ...], counts: Counts, problems: list[str]) -> None:
    print_table(_PROCESSES.tabulate("", processes))
    total = sum(process.memory_bytes for process in processes)
    click.echo(f"Home: {place.root}, logs: {place.logs}, memory without engines: {total / 1000000.0:.0f} MB")
    click.echo(describe_addresses(place))
    if counts:
        ready = (f"{kind} {count['ready']}/{count['total']}" for kind, count in counts.items())
        click.echo(f"ready: {', '.join(ready)}")
    for problem in problems:
        click.echo(problem)


def _ago(since: float) -> str:
    if not since:
        return "-"
    seconds = max(0, int(time.time() - since))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
