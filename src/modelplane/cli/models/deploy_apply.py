"""Application of the objects of ``modelplane deploy``: all or, where one cannot be, none of them."""

from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.errors import UserError
from modelplane.cli.live import Live, change

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client

MANAGER: Final = "modelplane-deploy"
"""The field manager of the objects, by which a later run knows them as its own."""
_SAID: Final = {"changed": "configured"}


def apply_all(live: Live, manifests: "tuple[Object, ...]") -> None:
    """Apply objects by server-side apply with the user's permissions, and print the outcomes."""
    from modelplane.install.steps.applying import apply
    from modelplane.kube.errors import Conflict, NotFound, NotInstalled

    async def do(client: "Client") -> None:
        for each in manifests:
            await _check_owner(client, each)
        for dry_run in (True, False):
            for each in manifests:
                try:
                    outcome = await apply(client, dict(each), force=False, dry_run=dry_run)
                except Conflict as error:
                    raise UserError(
                        f"{_named(each)}: {error}: others have changed these fields, so choose another "
                        "--name, or edit the object itself"
                    ) from error
                except NotInstalled:
                    raise
                except NotFound as error:
                    namespace = each["metadata"]["namespace"]
                    raise UserError(
                        f"{_named(each)}: {error}: run `kubectl create namespace {namespace}`, or name "
                        "another one with --namespace"
                    ) from error
                if not dry_run:
                    click.echo(f"{_named(each)} {_SAID.get(outcome, outcome)}")

    change(live, "the deployment", do, MANAGER)


async def _check_owner(client: "Client", manifest: "Object") -> None:
    """Refuse an object of the same name that this command has not written."""
    from modelplane.controllers.fleet_resources import resource_of

    metadata = manifest["metadata"]
    found = await client.get(resource_of(manifest), metadata["name"], metadata["namespace"])
    if found is None:
        return
    managers = {each.get("manager") for each in found["metadata"].get("managedFields", ())}
    if MANAGER not in managers:
        raise UserError(
            f"{_named(manifest)} exists already, and `modelplane deploy` has not written it: choose another "
            "--name, or edit the object itself"
        )


def _named(manifest: "Object") -> str:
    metadata = manifest["metadata"]
    return f'{manifest["kind"]} "{metadata["name"]}" of namespace "{metadata["namespace"]}"'
