"""Access to a fleet's API server: its choice, and the message if it does not answer.

In order: ``--kubeconfig``, ``KUBECONFIG``, the fleet of this machine if one runs, ``~/.kube/config``.
"""

import os
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import msgspec

from modelplane.cli.errors import UserError
from modelplane.cli.machine.running import is_running, require_running
from modelplane.cli.options import add_home_option
from modelplane.local.home import ENVIRONMENT_VARIABLE, Home, choose_home

if TYPE_CHECKING:
    from modelplane.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_MANAGER = "modelplane-cli"
"""The field manager of objects that commands write."""

_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Kubeconfig of the control plane; by default KUBECONFIG, else the fleet of this machine.",
    ),
    click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
    add_home_option,
)


_CONTROL_PLANE_OPTIONS = (
    click.option(
        "--control-plane",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Kubeconfig of the control plane; by default KUBECONFIG, else the fleet of this machine.",
    ),
    click.option(
        "--control-plane-context", default="", metavar="NAME", help="Context of that kubeconfig to use."
    ),
    add_home_option,
)


_OPTIONS_BESIDE_CONTEXT = (
    _OPTIONS[0],
    click.option(
        "--kubeconfig-context", default="", metavar="NAME", help="Context of the kubeconfig to use."
    ),
    add_home_option,
)


class Live(msgspec.Struct, frozen=True):
    """Values of the options."""

    kubeconfig: Path | None
    context: str
    home: Path | None

    def open_client(self, manager: str = _MANAGER) -> "Client":
        """Return a client of the control plane that is meant; nothing is sent yet."""
        from modelplane.install.steps.api_server_choice import connect

        return connect(self.kubeconfig or self._of_this_machine(), self.context, manager)

    def find_local_home(self) -> Home | None:
        """Return the home of the local fleet that is meant, whether or not it runs; None for another one."""
        from modelplane.install.steps.api_server_choice import find_default

        if self.context:
            return None
        named = "" if self.home is not None else os.environ.get("KUBECONFIG", "")
        if kubeconfig := self.kubeconfig or (Path(named) if named else None):
            place = Home(kubeconfig.absolute().parent)
            is_its_own = place.kubeconfig == kubeconfig.absolute() and place.settings.exists()
            return place if is_its_own else None
        place = choose_home(self.home)
        chosen = self.home is not None or os.environ.get(ENVIRONMENT_VARIABLE)
        return place if chosen or is_running(place) or not find_default().exists() else None

    def _of_this_machine(self) -> Path | None:
        """Return the kubeconfig of the local fleet; None where another one is meant."""
        if self.home is None and os.environ.get("KUBECONFIG"):
            return None
        place = choose_home(self.home)
        if self.home is not None or os.environ.get(ENVIRONMENT_VARIABLE):
            require_running(place)
        elif not is_running(place):
            from modelplane.install.steps.api_server_choice import find_default

            if find_default().exists():
                return None
            raise UserError(
                f"no fleet runs in {place.root}, and KUBECONFIG names no other: run `modelplane up`, or name "
                "a control plane with --kubeconfig"
            )
        return place.kubeconfig


def add_live_options(command: F) -> F:
    """Give a command ``--kubeconfig``, ``--context`` and ``--home``, together as ``live``."""

    @wraps(command)
    def call_with_live(*, kubeconfig: Path | None, context: str, home: Path | None, **others: Any) -> Any:
        return command(live=Live(kubeconfig, context, home), **others)

    for option in reversed(_OPTIONS):
        call_with_live = option(call_with_live)
    return cast("F", call_with_live)


def add_live_options_beside_context(command: F) -> F:
    """Give a command ``--kubeconfig``, ``--kubeconfig-context`` and ``--home``, together as ``live``.

    For a command whose ``--context`` is the context of a model.
    """

    @wraps(command)
    def call_with_live(
        *, kubeconfig: Path | None, kubeconfig_context: str, home: Path | None, **others: Any
    ) -> Any:
        return command(live=Live(kubeconfig, kubeconfig_context, home), **others)

    for option in reversed(_OPTIONS_BESIDE_CONTEXT):
        call_with_live = option(call_with_live)
    return cast("F", call_with_live)


def add_control_plane_options(command: F) -> F:
    """Give a command ``--control-plane``, ``--control-plane-context`` and ``--home``, as ``live``.

    For a command whose ``--kubeconfig`` names another cluster.
    """

    @wraps(command)
    def call_with_live(
        *, control_plane: Path | None, control_plane_context: str, home: Path | None, **others: Any
    ) -> Any:
        return command(live=Live(control_plane, control_plane_context, home), **others)

    for option in reversed(_CONTROL_PLANE_OPTIONS):
        call_with_live = option(call_with_live)
    return cast("F", call_with_live)


def read(live: Live, what: str, do: "Callable[[Client], Awaitable[T]]") -> T:
    """Read something from a control plane; raise its errors as ``UserError``."""
    return _reach(live, f"read {what} from", do)


def write_changes(
    live: Live, what: str, do: "Callable[[Client], Awaitable[T]]", manager: str = _MANAGER
) -> T:
    """Write something to a control plane; raise its errors as ``UserError``."""
    return _reach(live, f"write {what} to", do, manager)


def _reach(live: Live, purpose: str, do: "Callable[[Client], Awaitable[T]]", manager: str = _MANAGER) -> T:
    import asyncio

    from modelplane.kube.errors import KubernetesError

    async def run() -> T:
        async with live.open_client(manager) as client:
            return await do(client)

    try:
        return asyncio.run(run())
    except KubernetesError as error:
        raise UserError(f"cannot {purpose} the control plane: {explain_error(error)}") from error


def explain_error(error: "Exception") -> str:
    """Return the cause of an API server's error, and the remedy."""
    from modelplane.kube.errors import Forbidden, NotFound, Unreachable

    remedies = {
        Forbidden: "ask its administrator for that permission, or name another --kubeconfig",
        NotFound: "check that Modelplane is installed there, or name another control plane with --kubeconfig",
        Unreachable: "check that it runs, or name another control plane with --kubeconfig",
    }
    remedy = next((text for type_, text in remedies.items() if isinstance(error, type_)), "try again")
    return f"{error}: {remedy}"
