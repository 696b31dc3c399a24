"""Providers of clouds and provider-helm: managed resources and Releases of a control plane, carried out.

As in ``support.simulated_clouds``: attempts fail at first, a resource waits for those that it refers to, and
is not deleted while another one refers to it.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from modelplane.compose.workload_kinds import RELEASE, Place, rows
from support.crossplane.api import ApiError, ApiServer, Event
from support.crossplane.objects import Key, Kind, Object, condition, is_deleted, key_of, set_conditions
from support.crossplane.remote import GATEWAY_API
from support.crossplane.simulation import DONE, Result
from support.simulated_clouds import FINALIZER, references, reported, uses

MANAGED = frozenset(Kind(row.group, row.kind) for row in rows(Place.CONTROL_PLANE))
RELEASES = Kind(RELEASE.group, RELEASE.kind)
_PROVIDER = "provider"
_FAILS = 0.3
"""Share of the attempts that fail."""


_DEFINITIONS = {
    "gateway-helm": (
        *GATEWAY_API,
        "backendtrafficpolicies.gateway.envoyproxy.io",
        "clienttrafficpolicies.gateway.envoyproxy.io",
    ),
    "network-operator": ("nicclusterpolicies.mellanox.com",),
    "lws": ("leaderworkersets.leaderworkerset.x-k8s.io",),
}
"""The kinds that children of ours have, by the chart that defines them."""


class _Provider:
    """What every provider does with a resource: hold it, make it, let it go."""

    first_delay = 1.0
    longest_delay = 30.0
    workers = 1

    def __init__(self, api: ApiServer, kinds: frozenset[Kind], seed: int) -> None:
        self._api = api
        self._kinds = kinds
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self.failed: set[Key] = set()

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the resource that changed."""
        return [event.key] if event.key.of in self._kinds else []

    def reconcile(self, key: Key) -> Result:
        """Bring a resource in step with the cloud or the cluster that it describes."""
        item = self._api.get(key)
        if item is None:
            return DONE
        try:
            return self._reconcile(key, item)
        except ApiError:
            return Result(again=True)

    def _reconcile(self, key: Key, item: Object) -> Result:
        if FINALIZER not in item["metadata"].setdefault("finalizers", []):
            item["metadata"]["finalizers"].append(FINALIZER)
            item = self._api.update(item, _PROVIDER)
        error = self._refusal(key, item)
        fails = not self.failed or self._random.random() < _FAILS
        if not error and fails and not self._made(item):
            self.failed.add(key)
            error = f"RequestLimitExceeded: RequestID: {self._random.random()}, rate exceeded"
        if error:
            return self._told(item, error)
        if is_deleted(item):
            item["metadata"]["finalizers"].remove(FINALIZER)
            self._api.update(item, _PROVIDER)
            return DONE
        if not self._made(item):
            item["status"] = {**item.get("status", {}), "atProvider": self._make(item)}
        return self._told(item, "")

    def _told(self, item: Object, error: str) -> Result:
        synced = {"type": "Synced", "status": "False" if error else "True", "message": error}
        ready = [] if error else [{"type": "Ready", "status": "True", "reason": "Available"}]
        set_conditions(item, [{**synced, "reason": "Reconcile"}, *ready], str(self._api.clock))
        self._api.update_status(item, _PROVIDER)
        return Result(again=bool(error))

    def _made(self, item: Object) -> bool:
        return bool(condition(item, "Ready"))

    def _refusal(self, key: Key, item: Object) -> str:
        raise NotImplementedError

    def _make(self, item: Object) -> Object:
        raise NotImplementedError


class CloudProviders(_Provider):
    """The providers of all clouds."""

    def __init__(self, api: ApiServer, details: Callable[[Object], Mapping[str, str]], seed: int = 0) -> None:
        """``details`` returns the connection details of a resource, in base64."""
        super().__init__(api, MANAGED, seed)
        self._details = details
        self.is_down = False
        """True while the clouds do not answer."""

    def resources(self) -> list[Object]:
        """Return the managed resources, to read only."""
        return [item for item in self._api.all() if key_of(item).of in self._kinds]

    def _refusal(self, _key: Key, item: Object) -> str:
        if self.is_down:
            return "ServiceUnavailable: the cloud does not answer"
        if is_deleted(item):
            users = [each["kind"] for each in self.resources() if uses(each, item)]
            return f"DependencyViolation: {users[0]} uses it" if users else ""
        made = {each["metadata"]["name"] for each in self.resources() if self._made(each)}
        missing = references(item) - made if not self._made(item) else set()
        return f"cannot resolve references: {min(missing)} is not found" if missing else ""

    def _make(self, item: Object) -> Object:
        secret = item["spec"].get("writeConnectionSecretToRef", {}).get("name", "")
        if secret:
            metadata = {"name": secret, "namespace": item["metadata"]["namespace"]}
            data = dict(self._details(item))
            self._api.apply(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}, _PROVIDER
            )
        return reported(item)


class Target(Protocol):
    """A cluster as whoever installs charts there sees it."""

    reachable: bool

    def apply(self, manifest: Object, manager: str) -> Object:
        """Apply a manifest."""

    def define(self, name: str) -> None:
        """Install the definition of a kind."""


class ProviderHelm(_Provider):
    """provider-helm. No chart is rendered: a release is deployed, or the cluster does not answer."""

    def __init__(self, api: ApiServer, cluster_of: Callable[[Object], "Target"], seed: int = 0) -> None:
        super().__init__(api, frozenset({RELEASES}), seed)
        self._cluster_of = cluster_of

    def _refusal(self, key: Key, item: Object) -> str:
        return "" if self._cluster_of(item).reachable else f"{key.name}: connection refused"

    def _make(self, item: Object) -> Object:
        namespace = item["spec"]["forProvider"]["namespace"]
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        cluster = self._cluster_of(item)
        cluster.apply(manifest, _PROVIDER)
        for name in _DEFINITIONS.get(item["spec"]["forProvider"]["chart"]["name"], ()):
            cluster.define(name)
        return {"state": "deployed", "revision": 1}
