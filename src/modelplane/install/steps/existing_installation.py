"""The existing installation on an API server: its objects, installer and version."""

from dataclasses import dataclass
from functools import cache

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.controllers.fleet_resources import resource_of
from modelplane.install.installation_names import (
    CONTROLLER,
    INSTALLATION,
    MANAGED_BY,
    MANAGER,
    PART_OF,
    VERSION,
)
from modelplane.install.installation_options import Options
from modelplane.install.manifests import build_definitions, build_manifests
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Key, build_key
from modelplane.kube.resources import Object, Resource

PARTS = f"{PART_OF}={INSTALLATION}"
"""Selects everything of an installation."""

Identity = tuple[Resource, Key]
"""Identity of an object, to match it with a manifest."""


def get_identity(manifest: Object) -> Identity:
    """Return the identity of a manifest's object."""
    return resource_of(manifest), build_key(manifest)


@dataclass(frozen=True, slots=True)
class Installation:
    """Objects of an installation, with their metadata at least."""

    definitions: tuple[Object, ...] = ()
    """Objects of the kinds of this version, of any origin."""
    objects: tuple[Object, ...] = ()
    """Objects labeled as part of an installation."""

    @property
    def version(self) -> str:
        """The installed version; empty if there is none, or only parts of one."""
        return str(self._controller_labels.get(VERSION, ""))

    @property
    def manager(self) -> str:
        """The tool that installed it."""
        return str(self._controller_labels.get(MANAGED_BY, MANAGER))

    @property
    def _controller_labels(self) -> Object:
        sought = (resources.DEPLOYMENTS, Key(SYSTEM_NAMESPACE, CONTROLLER))
        for item in self.objects:
            if get_identity(item) == sought:
                return dict(item["metadata"].get("labels", {}))
        return {}


async def read_installation(client: Client) -> Installation:
    """Return everything of an installation that an API server has."""
    names = [definition["metadata"]["name"] for definition in build_definitions()]
    definitions = [await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
    objects = [
        item for resource in _resources() for item in await list_metadata(client, resource, labels=PARTS)
    ]
    return Installation(tuple(item for item in definitions if item is not None), tuple(objects))


@cache
def _resources() -> tuple[Resource, ...]:
    """Return every kind that an installation may have objects of.

    One that a later version has no more is to stay in this list, so that an upgrade finds what is left.
    """
    everything = build_manifests(Options(team_namespaces=("any",), service_monitor=True))
    return tuple(dict.fromkeys(resource_of(manifest) for manifest in everything))


async def list_metadata(
    client: Client, resource: Resource, namespace: str | None = None, *, labels: str = ""
) -> tuple[Object, ...]:
    """Return the metadata of a kind's objects; none if the server does not have the kind."""
    try:
        return (await client.list(resource, namespace, labels=labels, metadata_only=True)).items
    except errors.NotFound:
        if await client.is_served(resource):
            raise
        return ()
