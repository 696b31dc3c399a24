"""Site: a cluster that is being composed, with what is known of it so far.

The modules of a cloud yield children. A child that needs a value which is known only once another resource
exists is ``Waiting`` until then: the flow keeps it as it is if it exists already.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from modelplane.api import labels
from modelplane.api.clouds.cloud_settings import Credentials
from modelplane.api.meta import Object, ObjectMeta
from modelplane.api.names import MAX_LENGTH, child_name
from modelplane.compose.clouds.kinds import ManagedKind
from modelplane.compose.composition import Desired, Request
from modelplane.compose.readiness import is_ready


class CloudCluster(Protocol):
    """A cluster of any cloud."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its name and namespace."""

    @property
    def spec(self) -> Any:
        """Its settings, among them ``credentials``."""


ACCOUNT_KEY = "account"
"""Key of the requirement for the provider configuration."""

Owner = TypeVar("Owner", bound=CloudCluster)


class Waiting(NamedTuple):
    """A child that cannot be composed until a value is known."""

    key: str
    cause: str
    """The value that is missing, as messages name it."""


Parts = Iterator[Desired | Waiting]

Spec = Mapping[str, Any]


class Site(msgspec.Struct, Generic[Owner], frozen=True):
    """A cluster of a cloud that is being composed."""

    request: Request[Any, Any]

    @property
    def owner(self) -> Owner:
        """The cluster."""
        owner: Owner = self.request.owner
        return owner

    def name(self, *parts: str, limit: int = MAX_LENGTH) -> str:
        """Return the name of a resource of the cluster."""
        return child_name(self.owner.metadata.name, *parts, limit=limit)

    @property
    def kubeconfig_secret(self) -> str:
        """The name of the Secret with the kubeconfig."""
        return self.name("kubeconfig")

    def unique_name(self, *parts: str, limit: int = MAX_LENGTH) -> str:
        """Return a name for a resource that shares its names with clusters of other namespaces."""
        metadata = self.owner.metadata
        return child_name(metadata.namespace, metadata.name, *parts, limit=limit)

    def seen(self, key: str) -> Object:
        """Return what the provider reports of a child (``status.atProvider``); empty if it has not yet."""
        found = self.request.observed.get(key, {}).get("status", {}).get("atProvider")
        return found if isinstance(found, Mapping) else {}

    def text(self, key: str, *path: str) -> str:
        """Return a text that the provider reports of a child; empty if it is not known."""
        value: Any = self.seen(key)
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) else ""

    def managed(
        self,
        key: str,
        kind: ManagedKind,
        for_provider: Spec,
        name: str = "",
        *,
        external_name: str = "",
        **spec: Any,
    ) -> Desired:
        """Return a managed resource, ready by its own condition.

        ``name`` is for a resource whose name is not made from its key, ``external_name`` for one that the
        cloud calls by another name. ``spec`` has fields beside ``forProvider``.
        """
        credentials = self.owner.spec.credentials or Credentials()
        metadata: dict[str, Any] = {
            "name": name or self.name(key),
            "namespace": self.owner.metadata.namespace,
        }
        if external_name:
            metadata["annotations"] = {labels.EXTERNAL_NAME: external_name}
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": {
                "forProvider": for_provider,
                "providerConfigRef": {"kind": str(credentials.type), "name": credentials.name},
                **spec,
            },
        }
        return Desired(key, manifest, is_ready)
