"""``modelplane key``: create, list, rotate and revoke API keys."""

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelplane.cli import durations
from modelplane.cli.errors import UserError
from modelplane.cli.live import Live, add_live_options, read, write_changes

if TYPE_CHECKING:
    from modelplane.api import model_key
    from modelplane.api.fields.requests.budgets import Budget
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_ONCE = "this is the only time that it is printed"


@click.group()
def key() -> None:
    """Create, list, rotate and revoke API keys."""


def _namespace_option(command: F) -> F:
    return click.option(
        "-n", "--namespace", default="ml-team", show_default=True, help="Namespace of the ModelKey."
    )(command)


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dt.timedelta | None:
    return (
        None if text is None else dt.timedelta(seconds=durations.parse_seconds(text, "choose a shorter one"))
    )


def _expires_option(help_text: str) -> Callable[[F], F]:
    return click.option("--expires", metavar="DURATION", callback=_duration, help=help_text)


def _services(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    import re

    from modelplane.api.fields.requests.key_limits import SERVICE_PATTERN

    for text in texts:
        if not re.fullmatch(SERVICE_PATTERN, text):
            raise click.BadParameter(f'"{text}" is not of the form NAMESPACE/SERVICE or NAMESPACE/*')
    return sorted(set(texts))


_LIMITS = {
    "requests_per_minute": "requestsPerMinute",
    "tokens_per_minute": "tokensPerMinute",
    "streams": "streams",
}
_BUDGETS = {
    "tokens_per_day": "tokensPerDay",
    "tokens_per_month": "tokensPerMonth",
    "cost_per_day": "costPerDay",
    "cost_per_month": "costPerMonth",
}


def _amount(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    import re

    from modelplane.api.fields.requests.budgets import AMOUNT

    if text is not None and not re.fullmatch(AMOUNT, text):
        raise click.BadParameter(f'"{text}" is no amount such as 12.50')
    return text


def _budget_options(command: F) -> F:
    for period in ("month", "day"):
        spent = f"of a {period} of UTC; by default none."
        amount = click.option(
            f"--cost-per-{period}",
            metavar="AMOUNT",
            callback=_amount,
            help=f"Budget in the currency of the gateway's prices {spent}",
        )
        tokens = click.option(
            f"--tokens-per-{period}", type=click.IntRange(min=1), help=f"Budget in tokens {spent}"
        )
        command = tokens(amount(command))
    return command


@key.command()
@click.argument("name")
@click.option(
    "--service",
    "services",
    multiple=True,
    metavar="NAMESPACE/SERVICE",
    callback=_services,
    help="ModelService that the key may use, NAMESPACE/* for all of a namespace; may be repeated. By default "
    "those of its own namespace.",
)
@click.option("--requests-per-minute", type=click.IntRange(min=1), help="Limit of requests; by default none.")
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(min=1),
    help="Limit of tokens of prompts and answers; by default none.",
)
@click.option("--streams", type=click.IntRange(min=1), help="Limit of requests at a time; by default none.")
@click.option(
    "--max-body-bytes",
    type=click.IntRange(min=1),
    help="Limit of a request's body; by default the gateway's.",
)
@click.option(
    "--global-limits",
    is_flag=True,
    help="Count requests and tokens for all gateways together, with the gateway's rate limit service.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    help="Region to which requests may go; may be repeated. By default every region.",
)
@_budget_options
@_expires_option("How long the key is valid, such as 90d; by default without end.")
@_namespace_option
@add_live_options
def create(
    *,
    name: str,
    namespace: str,
    services: list[str],
    regions: tuple[str, ...],
    global_limits: bool,
    expires: dt.timedelta | None,
    live: Live,
    **limits: Any,
) -> None:
    """Create the ModelKey NAME, and print its key: only a hash of it is stored."""
    from modelplane.api.kinds import kind_of
    from modelplane.api.model_key import ModelKey
    from modelplane.cli.models.new_keys import encode_hash, hash_key, make_key
    from modelplane.kube.errors import Conflict

    made = make_key()
    spec: dict[str, Any] = {"hashes": [encode_hash(hash_key(made, _end(expires)))]}
    if services:
        spec["services"] = services
    given = {limit: value for limit, value in limits.items() if value is not None}
    spec |= {wire_name: given[limit] for limit, wire_name in _LIMITS.items() if limit in given}
    if regions:
        spec["regions"] = sorted(set(regions))
    if global_limits:
        spec["rateLimitType"] = "Global"
    if budget := {wire_name: given[limit] for limit, wire_name in _BUDGETS.items() if limit in given}:
        spec["budget"] = budget
    kind = kind_of(ModelKey)
    metadata = {"name": name, "namespace": namespace}
    manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}

    async def do(client: "Client") -> None:
        try:
            await client.create(manifest)
        except Conflict as error:
            hint = f"`modelplane key rotate {name} -n {namespace}` replaces its key"
            raise UserError(f"there is a {_called(name, namespace)} already: {hint}") from error

    write_changes(live, "ModelKeys", do)
    click.echo(f"{_called(name, namespace)} is created; its key, {_ONCE}:", err=True)
    click.echo(made)


@key.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of all namespaces.")
@_namespace_option
@add_live_options
def list_keys(*, all_namespaces: bool, namespace: str, live: Live) -> None:
    """List ModelKeys: what they may use, until when, and how much of their budgets they have used."""
    from modelplane.cli.tables import show

    async def do(client: "Client") -> "list[Object]":
        listed = await client.list(_resource(), None if all_namespaces else namespace)
        return list(listed.items)

    now = dt.datetime.now(dt.UTC)
    items = sorted(read(live, "ModelKeys", do), key=_place)
    if not items:
        click.echo("No ModelKey" if all_namespaces else f'No ModelKey in namespace "{namespace}"', err=True)
    columns = ("NAMESPACE", "NAME", "STATE", "KEYS", "EXPIRES", "SERVICES", "BUDGETS")
    show("", columns, (_row(item, now) for item in items))


def _place(item: "Object") -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _row(item: "Object", now: dt.datetime) -> tuple[str, ...]:
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.cli.models.new_keys import encode_hash, is_valid
    from modelplane.gateway.module_files.grants import list_services

    try:
        decoded = _decoded(item)
    except InvalidObject:
        return (*_place(item), "Unreadable", "", "", "", "")
    valid = [hash_ for hash_ in decoded.spec.hashes if is_valid(hash_, now)]
    return (
        *_place(item),
        _state(decoded, is_valid=bool(valid)),
        str(len(valid)),
        encode_hash(decoded.spec.hashes[-1]).get("expires", "never"),
        ", ".join(list_services(decoded.spec.services, decoded.metadata.namespace)),
        ", ".join(map(_used, decoded.status.budgets)) or _granted(decoded.spec.budget),
    )


def _granted(budget: "Budget | None") -> str:
    """Return the limits of a budget whose use is not reported, as under Crossplane."""
    limits = [
        f"{amount} {wire_name}"
        for limit, wire_name in _BUDGETS.items()
        if (amount := getattr(budget, limit, None)) is not None
    ]
    return f"{', '.join(limits)} (use not reported)" if limits else "none"


def _used(budget: "model_key.UsedBudget") -> str:
    from modelplane.api.model_key import BudgetScope

    of_all = " of the namespace" if budget.of is BudgetScope.NAMESPACE else ""
    return f"{budget.used_percent} % of {budget.amount} {budget.limit}{of_all}"


def _state(decoded: "model_key.ModelKey", *, is_valid: bool) -> str:
    from modelplane.api.conditions.reasons import ModelKeyCondition, ModelKeyReason

    if decoded.spec.blocked:
        return "Blocked"
    if not is_valid:
        return "Expired"
    within = [
        condition
        for condition in decoded.status.conditions
        if condition.type == ModelKeyCondition.WITHIN_BUDGET
    ]
    if any(condition.reason == ModelKeyReason.SPENT for condition in within):
        return within[0].reason
    reasons = (
        condition.reason
        for condition in decoded.status.conditions
        if condition.type == ModelKeyCondition.ACCEPTED
    )
    return next(reasons, "Pending")


@key.command()
@click.argument("name")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    metavar="DURATION",
    callback=_duration,
    help="How long the former key remains valid.",
)
@_expires_option("How long the new key is valid; by default as long as the former one was.")
@_namespace_option
@add_live_options
def rotate(
    *, name: str, namespace: str, overlap: dt.timedelta, expires: dt.timedelta | None, live: Live
) -> None:
    """Give the ModelKey NAME a new key, and print it. The former key remains valid for a time."""
    from modelplane.api.rejected import Rejected
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.cli.models.new_keys import encode_hash, make_key, rotate_hashes
    from modelplane.kube.errors import Conflict

    made = make_key()

    async def do(client: "Client") -> None:
        item = await client.get(_resource(), name, namespace)
        if item is None:
            raise _missing(name, namespace)
        try:
            hashes = _decoded(item).spec.hashes
        except InvalidObject as error:
            raise UserError(f"{error}: correct it") from error
        after = rotate_hashes(hashes, made, dt.datetime.now(dt.UTC), overlap, _end(expires))
        if isinstance(after, Rejected):
            raise UserError(f"{_called(name, namespace)}: {after.message}")
        version = {"resourceVersion": item["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"hashes": [encode_hash(hash_) for hash_ in after]}}
        try:
            await client.patch(_resource(), name, patch, namespace)
        except Conflict as error:
            raise UserError(
                f"{_called(name, namespace)} has just been changed: run the command again"
            ) from error

    write_changes(live, "ModelKeys", do)
    click.echo(f"{_called(name, namespace)} has a new key, {_ONCE}:", err=True)
    click.echo(made)


@key.command()
@click.argument("name")
@_namespace_option
@add_live_options
def revoke(*, name: str, namespace: str, live: Live) -> None:
    """Delete the ModelKey NAME: its keys are not valid any more."""

    async def do(client: "Client") -> None:
        if await client.get(_resource(), name, namespace) is None:
            raise _missing(name, namespace)
        await client.delete(_resource(), name, namespace)

    write_changes(live, "ModelKeys", do)
    click.echo(f"{_called(name, namespace)} is revoked")


def _end(lifetime: dt.timedelta | None) -> dt.datetime | None:
    return None if lifetime is None else dt.datetime.now(dt.UTC) + lifetime


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
    hint = f"`modelplane key list -n {namespace}` lists those that there are"
    return UserError(f"there is no {_called(name, namespace)}: {hint}")
