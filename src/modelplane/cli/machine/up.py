"""``modelplane up``: start a whole fleet on this machine, or complete the one that runs.

A step that is already done is skipped: a second ``up`` does only the rest.
"""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console

from modelplane.cli.machine.build_progress import MODULE_ANNOUNCEMENT, WITHOUT_MODULE, BuildProgress
from modelplane.cli.machine.running import describe_addresses
from modelplane.cli.options import add_home_option, add_timeout_option, format_example
from modelplane.host.errors import LocalError
from modelplane.local import binary, gateway_module, settings, setup
from modelplane.local.home import Home, choose_home
from modelplane.local.next_steps import describe_next_steps
from modelplane.local.settings import Choice
from modelplane.local.supervision import lifecycle, process_records
from modelplane.user_error import UserError

_GOES_ON = (
    "Started processes keep running. To see them, run `modelplane status`; to stop them, `modelplane down`"
)
_TERMS = "The model of the first example is Gemma 3 270M. Its terms of use: https://ai.google.dev/gemma/terms"


@click.command(epilog=format_example("modelplane up --clusters 3"))
@add_home_option
@click.option(
    "--clusters",
    type=click.IntRange(1, settings.MOST_CLUSTERS),
    metavar="N",
    help=(
        "Number of clusters for models, each with its own API server and node. Default: "
        "unchanged; 1 for a new fleet, where the control plane runs the models."
    ),
)
@click.option(
    "--register/--no-register",
    default=None,
    help=(
        "Create the InferenceGateway and the InferenceClusters, or only the kubeconfig "
        "Secrets of the clusters. Default: unchanged; --register for a new fleet."
    ),
)
@click.option(
    "--container-engine",
    type=click.Choice(["auto", "none", "docker", "podman", "nerdctl"]),
    help=(
        "Container runtime for model images. auto uses an installed program instead of the image if there is "
        "one, otherwise the first container runtime that responds. Default: unchanged; auto for a new fleet."
    ),
)
@click.option(
    "--host-commands/--no-host-commands",
    default=None,
    help=(
        "Allow models that run as processes to execute any program on this machine. Default: "
        "unchanged; no for a new fleet."
    ),
)
@click.option(
    "--cpu-devices",
    type=click.IntRange(1, 16),
    metavar="N",
    help=(
        "Number of devices into which each cluster's CPU is split if there is no GPU: as many "
        "model pods fit on the cluster. Default: unchanged; 1 for a new fleet."
    ),
)
@click.option("--foreground", is_flag=True, help="Run in the foreground, and stop the fleet on Ctrl-C.")
@add_timeout_option
def up(home: Path | None, foreground: bool, timeout_s: float, **choice: Any) -> None:
    """Start a fleet on this machine: a control plane, a node agent, and a gateway.

    --timeout does not include build time.
    """
    place = choose_home(home)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    # First, because what follows may take minutes.
    setup.make_home(place)
    program = _find_or_build(console)
    _build_module(console)
    if waiting := lifecycle.find_busy(place):
        console.print(waiting)
    is_new = not place.settings.exists()
    started = _start(place, program, Choice(**choice))
    begun = time.monotonic()
    if started:
        console.print(f"Starting a fleet in {place.root}")
    else:
        console.print(f"A fleet is already running in {place.root}")
        if not lifecycle.is_running_as(place, program):
            console.print(
                "Another version started this fleet. To upgrade, run `modelplane down`, then `modelplane up`"
            )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        # While the servers start: nothing above takes as long as this import.
        from modelplane.cli.machine import fleet_installation

        contents = asyncio.run(fleet_installation.install(place, console, begun, timeout_s))
        console.print(f"\nThe fleet is ready: {describe_addresses(place)}")
        if is_new:
            console.print(f"\n{_TERMS}")
        steps = describe_next_steps(place, settings.load(place), contents, elsewhere=foreground)
        console.print(f"\n{steps}", end="")
        if foreground:
            _stay(place, console)
    except KeyboardInterrupt:
        if not foreground:
            console.print(f"\n{_GOES_ON}")
            raise
        console.print("\nStopping")
        lifecycle.stop(place)
    except (LocalError, UserError) as error:
        raise UserError(f"{error}\n{_GOES_ON}") from error


def _find_or_build(console: Console) -> Path:
    with BuildProgress(console) as progress:
        try:
            program = binary.find_or_build(progress)
        except KeyboardInterrupt:
            console.print("\nThe build is not finished. The next `modelplane up` continues the build")
            raise
        if progress.announced:
            console.print(f"Built {program} in {progress.elapsed_s:.0f} s")
    return program


def _build_module(console: Console) -> None:
    """Build the gateway module unless there is one; without it, the gateway only routes."""
    if gateway_module.find() is not None:
        return
    with BuildProgress(console, MODULE_ANNOUNCEMENT) as progress:
        try:
            library = gateway_module.find_or_build(progress)
        except LocalError as error:
            console.print(f"{WITHOUT_MODULE}: {' '.join(str(error).split())}")
            return
    console.print(f"Built {library} in {progress.elapsed_s:.0f} s")


def _start(place: Home, program: Path, choice: Choice) -> bool:
    """Start the supervisor unless one runs; return whether it was started."""
    with lifecycle.hold_turn(place):
        setup.set_up(place, choice)
        return lifecycle.start(place, program)


def _stay(place: Home, console: Console) -> None:
    """Print restarts of processes, until the fleet is stopped from elsewhere."""
    console.print("Press Ctrl-C to stop the fleet")
    restarts: dict[Path, int] = {}
    while lifecycle.is_supervised(place):
        for path in place.run.glob("*.json"):
            record = process_records.read(path)
            if record is None:
                continue
            if record.restarts > restarts.get(path, record.restarts):
                console.print(f"  {record.name} {record.last_exit} and is restarting")
            restarts[path] = record.restarts
        time.sleep(0.5)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
