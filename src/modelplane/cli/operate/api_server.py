"""Connection of a command to an API server of the user's choice: its options, its timeout, its errors."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.install.steps.waiting import Deadline, Report
    from modelplane.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Kubeconfig of the cluster; by default KUBECONFIG, else ~/.kube/config.",
    ),
    click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0),
        default=300.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for resources to become ready, or to be gone.",
    ),
)


@dataclass(frozen=True, slots=True)
class Server:
    """Values of the options."""

    kubeconfig: Path | None
    context: str
    timeout_s: float


def add_api_server_options(command: F) -> F:
    """Give a command ``--kubeconfig``, ``--context`` and ``--timeout``, together as ``server``."""

    @wraps(command)
    def call_with_server(*, kubeconfig: Path | None, context: str, timeout_s: float, **others: Any) -> Any:
        return command(server=Server(kubeconfig, context, timeout_s), **others)

    for option in reversed(_OPTIONS):
        call_with_server = option(call_with_server)
    return cast("F", call_with_server)


def run_steps(server: Server, do: "Callable[[Client, Report, Deadline], Awaitable[None]]") -> None:
    """Do something on an API server, with a line for each step; raise its errors as ``UserError``."""
    import asyncio

    from modelplane.install.steps.api_server_choice import connect
    from modelplane.install.steps.waiting import Deadline, NotInTime
    from modelplane.kube.errors import KubernetesError

    begun = time.monotonic()

    def report(step: str) -> None:
        click.echo(f"  {step:<70}{time.monotonic() - begun:6.1f} s")

    async def run() -> None:
        async with connect(server.kubeconfig, server.context) as client:
            await do(client, report, Deadline(server.timeout_s))

    try:
        asyncio.run(run())
    except (NotInTime, KubernetesError) as error:
        raise UserError(f"{error}\n{_GOES_ON}") from error
    except KeyboardInterrupt:
        click.echo(f"\n{_GOES_ON}", err=True)
        raise


_GOES_ON = "Completed steps are kept: run the command again to continue"
