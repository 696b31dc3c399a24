"""``modelplane key``: create, list, rotate and revoke API keys."""

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelplane.cli.options import Duration, format_example
from modelplane.cli.target import (
    Target,
    add_namespace_option,
    add_target_options,
    read,
    write_changes,
)
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api import model_key
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_ONCE = "Save this key now; it is not shown again"


@click.group(epilog=format_example("modelplane key create ci -n ml-team"))
def key() -> None:
    """Create, list, rotate, and revoke API keys."""


def _expires_option(help_text: str) -> Callable[[F], F]:
    return click.option("--expires", "lifetime_s", type=Duration(), help=help_text)


def _services(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    import re

    from modelplane.api.fields.requests.key_limits import SERVICE_PATTERN

    for text in texts:
        if not re.fullmatch(SERVICE_PATTERN, text):
            raise click.BadParameter(f'"{text}" is not of the form NAMESPACE/SERVICE or NAMESPACE/*')
    return sorted(set(texts))


def _amount(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    import re

    from modelplane.api.fields.requests.pricing import AMOUNT

    if text is not None and not re.fullmatch(AMOUNT, text):
        raise click.BadParameter(f'"{text}" is not an amount: use a number such as 12.50')
    return text


def _budget_options(command: F) -> F:
    for period in ("month", "day"):
        spent = f"per {period}, in UTC"
        amount = click.option(
            f"--cost-per-{period}",
            metavar="AMOUNT",
            callback=_amount,
            help=f"Cost budget {spent} and the currency of the gateway. Default: no budget.",
        )
        tokens = click.option(
            f"--tokens-per-{period}",
            type=click.IntRange(min=1),
            metavar="NUMBER",
            help=f"Token budget {spent}. Default: no budget.",
        )
        command = tokens(amount(command))
    return command


@key.command(
    epilog=format_example("modelplane key create ci -n ml-team --requests-per-minute 60 --expires 90d")
)
@click.argument("name")
@click.option(
    "--service",
    "services",
    multiple=True,
    metavar="NAMESPACE/SERVICE",
    callback=_services,
    help=(
        "ModelService that the key can use, or NAMESPACE/* for all services in a namespace. "
        "You can repeat the option. Default: all services in the namespace of the key."
    ),
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Maximum number of requests per minute. Default: no limit.",
)
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Maximum number of tokens per minute, in prompts and responses. Default: no limit.",
)
@click.option(
    "--streams",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Maximum number of concurrent requests. Default: no limit.",
)
@click.option(
    "--max-body-bytes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Maximum size of a request body, in bytes. Default: the maximum of the gateway.",
)
@click.option(
    "--global-limits",
    is_flag=True,
    help="Count requests and tokens for all gateways together, with the rate limit service.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    help=("Region that can serve the requests. You can repeat the option. Default: every region."),
)
@_budget_options
@_expires_option("Lifetime of the key, such as 90d. Default: the key doesn't expire.")
@add_namespace_option
@add_target_options
def create(
    *,
    name: str,
    namespace: str,
    services: list[str],
    regions: tuple[str, ...],
    global_limits: bool,
    lifetime_s: int | None,
    target: Target,
    **limits: Any,
) -> None:
    """Create an API key, and print it. Only a hash of the key is stored, in ModelKey NAME."""
    from modelplane.kube.errors import Conflict
    from modelplane.operations.api_keys import build_model_key, hash_key, make_key

    namespace = target.choose_namespace(namespace)
    made = make_key()
    manifest = build_model_key(
        *(name, namespace, hash_key(made, _end(lifetime_s))),
        services=services,
        regions=regions,
        is_global=global_limits,
        limits=limits,
    )

    async def do(client: "Client") -> None:
        try:
            await client.create(manifest)
        except Conflict as error:
            hint = f"to replace the key, run `modelplane key rotate {name} -n {namespace}`"
            raise UserError(f"{_called(name, namespace)} already exists: {hint}") from error

    write_changes(target, "ModelKeys", do)
    click.echo(f'Created ModelKey "{namespace}/{name}". {_ONCE}:', err=True)
    click.echo(made)


@key.command("list", epilog=format_example("modelplane key list -A"))
@add_namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Use all namespaces.")
@add_target_options
def list_keys(*, namespace: str, all_namespaces: bool, target: Target) -> None:
    """List API keys with services, expiry, and used budgets."""
    from modelplane.api.meta import get_full_name
    from modelplane.cli.output import print_table
    from modelplane.operations.api_keys import KEYS, ListedKey

    if not all_namespaces:
        namespace = target.choose_namespace(namespace)
    listed = read(
        target,
        "ModelKeys",
        lambda client: client.list(_resource(), None if all_namespaces else namespace),
    )
    now = dt.datetime.now(dt.UTC)
    items = sorted(listed.items, key=get_full_name)
    if not items:
        click.echo("No ModelKeys" if all_namespaces else f'No ModelKeys in namespace "{namespace}"', err=True)
    print_table(KEYS.tabulate("", (ListedKey(item, now) for item in items)))


@key.command(epilog=format_example("modelplane key rotate ci -n ml-team --overlap 7d"))
@click.argument("name")
@click.option(
    "--overlap",
    "overlap_s",
    type=Duration(),
    default="24h",
    help="How long the previous key remains valid. Default: 24h.",
)
@_expires_option("Lifetime of the new key. Default: until the previous key would have expired.")
@add_namespace_option
@add_target_options
def rotate(*, name: str, namespace: str, overlap_s: int, lifetime_s: int | None, target: Target) -> None:
    """Rotate an API key: add a new key to ModelKey NAME, and print it.

    The previous key remains valid for a time.
    """
    from modelplane.api.rejected import Rejected
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.kube.errors import Conflict
    from modelplane.operations.api_keys import encode_hash, make_key, rotate_hashes

    namespace = target.choose_namespace(namespace)
    made = make_key()

    async def do(client: "Client") -> None:
        item = await client.get(_resource(), name, namespace)
        if item is None:
            raise _missing(name, namespace)
        try:
            hashes = _decoded(item).spec.hashes
        except InvalidObject as error:
            raise UserError(f"{error}: correct it") from error
        after = rotate_hashes(
            hashes, made, dt.datetime.now(dt.UTC), dt.timedelta(seconds=overlap_s), _end(lifetime_s)
        )
        if isinstance(after, Rejected):
            raise UserError(f"{_called(name, namespace)}: {after.message}")
        version = {"resourceVersion": item["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"hashes": [encode_hash(hash_) for hash_ in after]}}
        try:
            await client.patch(_resource(), name, patch, namespace)
        except Conflict as error:
            raise UserError(
                f"{_called(name, namespace)} was changed in the meantime: run the command again"
            ) from error

    write_changes(target, "ModelKeys", do)
    click.echo(f'Rotated ModelKey "{namespace}/{name}". {_ONCE}:', err=True)
    click.echo(made)


@key.command(epilog=format_example("modelplane key revoke ci -n ml-team"))
@click.argument("name")
@add_namespace_option
@add_target_options
def revoke(*, name: str, namespace: str, target: Target) -> None:
    """Revoke an API key: delete ModelKey NAME."""
    namespace = target.choose_namespace(namespace)

    async def do(client: "Client") -> None:
        if await client.get(_resource(), name, namespace) is None:
            raise _missing(name, namespace)
        await client.delete(_resource(), name, namespace)

    write_changes(target, "ModelKeys", do)
    click.echo(f'Revoked ModelKey "{namespace}/{name}"')


def _end(lifetime_s: int | None) -> dt.datetime | None:
    return None if lifetime_s is None else dt.datetime.now(dt.UTC) + dt.timedelta(seconds=lifetime_s)


def _resource() -> Any:
    from modelplane.api.model_key import ModelKey
    from modelplane.controllers.fleet_resources import resource_of_kind

    return resource_of_kind(ModelKey)


def _decoded(item: "Object") -> "model_key.ModelKey":
    from modelplane.api.model_key import ModelKey
    from modelplane.api.schema.decode import decode_as

    return decode_as(ModelKey, item)


def _called(name: str, namespace: str) -> str:
    return f'ModelKey "{name}" in namespace "{namespace}"'


def _missing(name: str, namespace: str) -> UserError:
    hint = f"`modelplane key list -n {namespace}` lists the ModelKeys"
    return UserError(f"{_called(name, namespace)} does not exist: {hint}")
