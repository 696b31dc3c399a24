"""Services by the model of a request, as the gateway module reads them: the content of ``models.json``.

A value of ModelServices and of the platform's aliases: the same objects give the same content, in any order.
The contract is in ``gateway-module/README.md``. The module answers ``/v1/models`` from this file.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec

from modelplane.api.inference_gateway import EVERY_NAMESPACE, ModelAlias
from modelplane.api.meta import Object
from modelplane.api.names import ModelName, has_route
from modelplane.api.schema.decode import convert
from modelplane.gateway.module_files.keys import parse_seconds

ONE_URL = "v1"
"""First segment of the paths that are routed by the model of the body, so that no namespace has them."""


class ServiceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One service."""

    name: str
    """NAMESPACE/SERVICE."""
    created: int
    """Seconds since 1970."""


class AliasEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Another name of a service."""

    name: str
    service: str
    namespaces: tuple[str, ...]
    """Namespaces for whose keys it counts; ``*`` is every one."""


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``models.json``."""

    services: tuple[ServiceEntry, ...] = ()
    aliases: tuple[AliasEntry, ...] = ()

    def encode(self) -> bytes:
        """Return the content as the module reads it."""
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The names that lead to services."""

    file: ModelFile = field(default_factory=ModelFile)
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that services give themselves, by NAMESPACE/SERVICE."""


def build_model_table(
    objects: Iterable[Object], granted: Iterable[ModelAlias], former: ModelTable, *, with_keys: bool
) -> ModelTable:
    """Return the names in force.

    A service that is being deleted, or that has no route, is not in the list. One that cannot be read keeps
    the names that it had in ``former``. The names that a service gives itself count for keys of its own
    namespace only, so without keys they count for no request.
    """
    services: list[ServiceEntry] = []
    own: dict[str, tuple[str, ...]] = {}
    aliases: list[AliasEntry] = []
    for alias in granted:
        is_for_all = EVERY_NAMESPACE in alias.namespaces
        if with_keys or is_for_all:
            namespaces = (EVERY_NAMESPACE,) if is_for_all else tuple(sorted(alias.namespaces))
            aliases.append(AliasEntry(name=alias.name, service=alias.service, namespaces=namespaces))
    for item in objects:
        metadata = item["metadata"]
        namespace, name = metadata["namespace"], f"{metadata['namespace']}/{metadata['name']}"
        address = item.get("status", {}).get("address")
        if "deletionTimestamp" in metadata or not has_route(namespace, address):
            continue
        made = metadata.get("creationTimestamp")
        created = parse_seconds(dt.datetime.fromisoformat(made)) if made else None
        services.append(ServiceEntry(name=name, created=created or 0))
        if names := _names(item, former.own.get(name, ())):
            own[name] = names
            if with_keys:
                aliases += [AliasEntry(name=own_, service=name, namespaces=(namespace,)) for own_ in names]
    file = ModelFile(
        services=tuple(sorted(services, key=attrgetter("name"))),
        aliases=tuple(sorted(aliases, key=attrgetter("name", "service", "namespaces"))),
    )
    return ModelTable(file, own)


def _names(item: Object, former: tuple[str, ...]) -> tuple[str, ...]:
    written = item["spec"].get("aliases")
    if not written:
        return ()
    try:
        return convert(written, tuple[ModelName, ...])
    except msgspec.ValidationError:
        return former  # the conditions of the service say why
