"""The control plane that a command talks to: one group of options, with one meaning for every command.

The control plane is that of ``--kubeconfig``; of ``--home`` or ``MODELPLANE_HOME``; of ``KUBECONFIG``; the
local fleet if it runs; or that of ``~/.kube/config``.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import msgspec

from modelplane.api.listing import listing
from modelplane.cli.machine.running import is_running, require_running
from modelplane.cli.options import TIMEOUT_S, add_home_option, add_timeout_option
from modelplane.local.home import ENVIRONMENT_VARIABLE, Home, choose_home
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Resource

_MAX_LISTED = 10


def parse_object_name(text: str, kinds: "Sequence[Kind]") -> "tuple[Kind, str] | None":
    """Return the kind and the name in a text; without a kind, the first of ``kinds``.

    Return None if the text names none of these kinds, or no object.
    """
    resource, slash, name = text.rpartition("/")
    meant = resource.lower()
    matching = kinds[:1]
    if slash:
        matching = [
            kind for kind in kinds if meant in {kind.short, kind.singular, kind.plural, kind.definition}
        ]
    return (matching[0], name) if matching and name else None


def list_forms(kinds: "Iterable[Kind]") -> list[str]:
    """Return the form of a name of each kind, such as ``md/NAME``."""
    return [f"{kind.short}/NAME" for kind in kinds]


def find_one(objects: "Iterable[Object]", kind: str, name: str, namespace: str) -> "Object":
    """Return the object of a name among all of its kind; raise ``UserError`` unless there is exactly one."""
    everything = tuple(objects)
    named = [
        item
        for item in everything
        if item["metadata"]["name"] == name and namespace in ("", item["metadata"]["namespace"])
    ]
    if len(named) == 1:
        return named[0]
    if named:
        where = ", ".join(sorted(item["metadata"]["namespace"] for item in named))
        raise UserError(f'{kind} "{name}" exists in several namespaces: select one with -n: {where}')
    where = f' in namespace "{namespace}"' if namespace else ""
    names = [f"{item['metadata']['name']} -n {item['metadata']['namespace']}" for item in everything]
    nothing = "select another namespace with -n" if namespace else "there are none"
    choice = f"found {listing(names, _MAX_LISTED)}" if names else nothing
    raise UserError(f'{kind} "{name}" does not exist{where}: {choice}')


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_MANAGER = "modelplane-cli"
"""The field manager of objects that commands write."""
_INSTALL_MANAGER = "modelplane-install"
"""The field manager of installations, apart from that of the controllers."""
_REQUEST_S = 30.0
"""Maximum time for one answer."""


class Target(msgspec.Struct, frozen=True):
    """Values of the options."""

    kubeconfig: Path | None = None
    context: str = ""
    home: Path | None = None
    timeout_s: float = TIMEOUT_S

    @property
    def is_chosen(self) -> bool:
        """True if an option names a control plane."""
        return bool(self.kubeconfig or self.context or self.home)

    def choose_namespace(self, namespace: str) -> str:
        """Return a given namespace, else that of the kubeconfig's context, like kubectl."""
        from modelplane.install.api_server_choice import find_namespace

        return namespace or find_namespace(self.kubeconfig or self._of_this_machine(), self.context)

    def open_client(self, manager: str = _MANAGER) -> "Client":
        """Return a client of the control plane; nothing is sent yet."""
        from modelplane.install.api_server_choice import connect

        timeout_s = min(_REQUEST_S, self.timeout_s or _REQUEST_S)
        return connect(self.kubeconfig or self._of_this_machine(), self.context, manager, timeout_s)

    def find_local_home(self) -> Home | None:
        """Return the home of the local fleet that is meant, whether or not it runs; None for another one."""
        from modelplane.install.api_server_choice import find_default

        if self.context:
            return None
        named = "" if self.home is not None else os.environ.get("KUBECONFIG", "")
        if kubeconfig := self.kubeconfig or (Path(named) if named else None):
            place = Home(kubeconfig.absolute().parent)
            return place if place.kubeconfig == kubeconfig.absolute() and place.settings.exists() else None
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
            from modelplane.install.api_server_choice import find_default

            if find_default().exists():
                return None
            raise UserError(
                f"no fleet is running in {place.root}, and KUBECONFIG is not set: run `modelplane up`, or "
                "select a control plane with --kubeconfig"
            )
        return place.kubeconfig


_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=(
            "Kubeconfig of the control plane. Default: the local fleet if it is running, "
            "otherwise ~/.kube/config. [env: KUBECONFIG]"
        ),
    ),
    click.option(
        "--context",
        default="",
        metavar="NAME",
        help="Context of the kubeconfig. Default: the current context.",
    ),
    add_home_option,
    add_timeout_option,
)


def add_target_options(command: F) -> F:
    """Give a command the options of its control plane, together as ``target``."""

    @wraps(command)
    def call_with_target(
        *, kubeconfig: Path | None, context: str, home: Path | None, timeout_s: float, **others: Any
    ) -> Any:
        return command(target=Target(kubeconfig, context, home, timeout_s), **others)

    for option in reversed(_OPTIONS):
        call_with_target = option(call_with_target)
    return cast("F", call_with_target)


def add_namespace_option(command: F) -> F:
    """Give a command ``-n``, empty by default, for ``Target.choose_namespace``."""
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        help="Namespace. Default: the namespace of the context.",
    )(command)


def read(target: Target, what: str, do: "Callable[[Client], Awaitable[T]]") -> T:
    """Read something from a control plane; raise its errors as ``UserError``."""
    return _reach(target, f"read {what} from", do)


def write_changes(
    target: Target, what: str, do: "Callable[[Client], Awaitable[T]]", manager: str = _MANAGER
) -> T:
    """Write something to a control plane; raise its errors as ``UserError``."""
    return _reach(target, f"write {what} to", do, manager)


def _reach(
    target: Target, purpose: str, do: "Callable[[Client], Awaitable[T]]", manager: str = _MANAGER
) -> T:
    import asyncio

    from modelplane.cli.server_errors import explain_error
    from modelplane.kube.errors import KubernetesError

    async def run() -> T:
        async with target.open_client(manager) as client:
            return await do(client)

    try:
        return asyncio.run(run())
    except KubernetesError as error:
        raise UserError(f"cannot {purpose} the control plane: {explain_error(error)}") from error


def read_fleet(target: Target, needed: "Iterable[Resource]") -> "list[Object]":
    """Return the objects of some kinds; none of a kind that an earlier installation does not have."""
    from modelplane.controllers.fleet_resources import LATER_KINDS
    from modelplane.kube.errors import NotFound

    async def list_all(client: "Client") -> "list[Object]":
        objects: list[Object] = []
        for resource in needed:
            try:
                objects += (await client.list(resource)).items
            except NotFound:
                if resource not in LATER_KINDS:
                    raise
        return objects

    return read(target, "the fleet", list_all)


def run_steps(target: Target, do: "Callable[[Client, Report, Deadline], Awaitable[None]]") -> None:
    """Do something on a cluster, with a line for each step; raise its errors as ``UserError``."""
    import asyncio

    from modelplane.install.waiting import Deadline, NotInTime
    from modelplane.kube.errors import KubernetesError

    begun = time.monotonic()

    def report(step: str) -> None:
        click.echo(f"  {step:<70}{time.monotonic() - begun:6.1f} s")

    async def run() -> None:
        async with target.open_client(_INSTALL_MANAGER) as client:
            await do(client, report, Deadline(target.timeout_s))

    try:
        asyncio.run(run())
    except (NotInTime, KubernetesError) as error:
        raise UserError(f"{error}\n{_GOES_ON}") from error
    except KeyboardInterrupt:
        click.echo(f"\n{_GOES_ON}", err=True)
        raise


_GOES_ON = "Completed steps were kept: run the command again to continue"
