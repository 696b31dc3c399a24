"""Look at a cluster: read what registration needs to know, and write nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.api.schema.untyped import get_list, get_value
from modelplane.install.registration.observed import (
    MOST_CLASSES,
    MOST_NODES,
    MOST_SLICES,
    Observed,
    is_staying,
    list_controllers,
    list_gateways,
    parse_version,
    read_device_classes,
    read_gateway,
    read_nodes,
    read_uid,
)
from modelplane.install.registration.stack import GATEWAY_DEFINITION, list_definitions
from modelplane.kube import errors, http_messages, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource

MOST_BYTES: Final = 256 * 2**20
"""Of one list of a cluster: 5000 nodes have about 100 MiB."""
_MOST_OF_ONE: Final = 4 * 2**20
"""Bytes of one object: an API server stores at most 1.5 MiB of one."""
_PAGE: Final = 500
_DRA: Final = "resource.k8s.io"


async def look(client: Client) -> Observed:
    """Return what a cluster has. Raises ``KubernetesError``."""
    version = await _answer(client, "/version")
    namespace = await _find(client, resources.NAMESPACES, "kube-system")
    dra = await _versions(client)
    slices: tuple[Object, ...] = ()
    classes: tuple[Object, ...] = ()
    if resources.RESOURCE_SLICES.version in dra:
        slices = await _listed(client, resources.RESOURCE_SLICES, MOST_SLICES)
        classes = await _listed(client, resources.DEVICE_CLASSES, MOST_CLASSES)
    nodes, skipped = read_nodes(await _listed(client, resources.NODES, MOST_NODES), slices)
    asked = {
        name: await _find(client, resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in list_definitions()
    }
    definitions = frozenset(
        name for name, definition in asked.items() if definition and is_staying(definition)
    )
    seen = Observed(
        uid=read_uid(namespace),
        version=parse_version(version.get("gitVersion")),
        nodes=nodes,
        device_classes=read_device_classes(classes),
        dra_versions=dra,
        definitions=definitions,
        skipped=skipped,
    )
    return await _with_gateways(client, seen) if GATEWAY_DEFINITION in definitions else seen


async def _with_gateways(client: Client, seen: Observed) -> Observed:
    """Return a cluster with its Gateways, and the controllers of its GatewayClasses."""
    gateways = list_gateways(await _listed(client, resources.GATEWAYS, MOST_NODES))
    fleet_gateway = await _find(client, resources.GATEWAYS, GATEWAY_NAME, SYSTEM_NAMESPACE)
    return replace(
        seen,
        gateway=read_gateway(fleet_gateway) if fleet_gateway else None,
        other_gateways=tuple(
            gateway for gateway in gateways if gateway != f"{SYSTEM_NAMESPACE}/{GATEWAY_NAME}"
        ),
        gateway_controllers=list_controllers(await _listed(client, resources.GATEWAY_CLASSES, MOST_CLASSES)),
    )


async def _find(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    try:
        return await _answer(client, resource.build_path(namespace, name))
    except errors.NotFound:
        return None


async def _versions(client: Client) -> tuple[str, ...]:
    """Return the versions of dynamic resource allocation that a cluster serves."""
    try:
        group = await _answer(client, f"/apis/{_DRA}")
    except errors.NotFound:
        return ()
    named = (get_value(version, "version") for version in get_list(group.get("versions")))
    return tuple(
        version for version in named if isinstance(version, str) and version.isalnum() and len(version) < 20
    )


async def _listed(client: Client, resource: Resource, most: int) -> tuple[Object, ...]:
    """Return the objects of a kind, a page at a time; of too many, one more than are used."""
    items: list[Object] = []
    left, token = MOST_BYTES, ""
    for _ in range(most // _PAGE + 1):
        params = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        body = await client.read(resource.build_path(), params, left)
        left -= len(body)
        answer = _object(body, resource.build_path())
        items += [item for item in get_list(answer.get("items")) if isinstance(item, dict)]
        token = str(get_value(answer, "metadata", "continue") or "")
        if not token:
            break
    return tuple(items)


async def _answer(client: Client, path: str) -> Object:
    return _object(await client.read(path, {}, _MOST_OF_ONE), path)


def _object(body: bytes, path: str) -> Object:
    try:
        item: Any = http_messages.decode(body)
    except ValueError:
        item = None
    if not isinstance(item, Mapping):
        raise errors.ApiError(200, "", f"{path} did not return a Kubernetes object")
    return dict(item)
