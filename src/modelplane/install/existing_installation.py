"""The existing installation on an API server: its objects and version, and the reasons to leave it unchanged.

In doubt nothing is changed. Every refusal is a sentence with the remedy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from modelplane import __version__
from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.values.semver import SemverError, parse
from modelplane.compose.definition_owner import owned_by_other
from modelplane.controllers.fleet_resources import resource_of
from modelplane.install.installation_options import (
    CONTROLLER,
    INSTALLATION,
    MANAGED_BY,
    MANAGER,
    PART_OF,
    VERSION,
    Options,
)
from modelplane.install.manifests import build_definitions, build_manifests
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Key, build_key
from modelplane.kube.resources import Object, Resource
from modelplane.user_error import UserError

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
    definitions = [
        await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
        for definition in build_definitions()
    ]
    objects = [
        item for resource in _resources() for item in await list_metadata(client, resource, labels=PARTS)
    ]
    return Installation(tuple(item for item in definitions if item is not None), tuple(objects))


@cache
def _resources() -> tuple[Resource, ...]:
    """Return every kind that an installation of this version, or of an earlier one, may have objects of.

    No version has dropped a kind yet. The first that does names it here, so that an upgrade finds the rest.
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


_MOST_PROBLEMS = 10

Check = Callable[[Sequence[Object]], Sequence[str]]
"""Returns the problems of stored objects with the kinds of this version, a sentence each."""


def check_install(installation: Installation, *, upgrade: bool) -> None:
    """Raise ``UserError`` if this version must not replace the installed one."""
    if rejected := owned_by_other(installation.definitions):
        raise UserError(rejected.message)
    check_tool(installation)
    _check_version(installation.version, upgrade=upgrade)
    _check_stored_versions(installation.definitions)


def check_tool(installation: Installation) -> None:
    """Raise ``UserError`` if an installation belongs to another tool."""
    if installation.manager != MANAGER:
        raise UserError(
            f"Modelplane was installed by {installation.manager}: change the installation with the same tool"
        )


def _check_version(installed: str, *, upgrade: bool) -> None:
    if not installed:
        if upgrade:
            raise UserError("Modelplane is not installed there: omit --upgrade")
        return
    if not upgrade:
        raise UserError(
            f"Modelplane {installed} is already installed: to upgrade to {__version__}, use --upgrade"
        )
    if installed == __version__:
        return
    try:
        is_newer = parse(installed) > parse(__version__)
    except SemverError as error:
        raise UserError(
            f"cannot determine whether the installed version is older than {__version__}: {error}"
        ) from error
    if is_newer:
        raise UserError(
            f"the installed Modelplane {installed} is newer than this command, {__version__}: use the "
            "newer version"
        )


def _check_stored_versions(definitions: Iterable[Object]) -> None:
    """Raise ``UserError`` if kinds have objects of a version that this one does not have."""
    versions = {
        definition["metadata"]["name"]: {version["name"] for version in definition["spec"]["versions"]}
        for definition in build_definitions()
    }
    lost = [
        f"{version} of {definition['metadata']['name']}"
        for definition in definitions
        for version in definition.get("status", {}).get("storedVersions") or ()
        if version not in versions[definition["metadata"]["name"]]
    ]
    if lost:
        raise UserError(f"objects can be stored as {listing(lost)}, which this version does not support")


def check_stored_objects(problems: Sequence[str]) -> None:
    """Raise ``UserError`` if there are problems of stored objects with the kinds of this version."""
    if not problems:
        return
    shown = problems[:_MOST_PROBLEMS]
    more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
    lines = "".join(f"\n  {problem}" for problem in (*shown, *more))
    raise UserError(f"objects are not valid in version {__version__}: change these first{lines}")
