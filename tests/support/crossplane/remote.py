"""A cluster that is managed from elsewhere: an API server of its own, and what runs there."""

from collections.abc import Callable

from modelplane.compose.workload_kinds import row_of
from support.crossplane.api import ApiError, ApiServer, Manager
from support.crossplane.fields import leaves
from support.crossplane.objects import Key, Object, is_deleted, key_of
from support.kserve_status import kserve_status
from support.plain_objects import copied

_NAMING = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
_BUILT_IN = (
    "",
    "apps",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "storage.k8s.io",
)
"""The groups that every API server serves."""
GATEWAY_API = tuple(
    f"{plural}.gateway.networking.k8s.io"
    for plural in ("gatewayclasses", "gateways", "httproutes", "referencegrants")
)
_COPIES = {"Deployment": "availableReplicas", "LeaderWorkerSet": "readyReplicas"}


class NoMatch(Exception):
    """What the provider's mapper says of a kind that a cluster does not serve."""


class RemoteCluster:
    """One cluster. It answers at once and all its workloads run, unless told otherwise."""

    def __init__(self, name: str, api: ApiServer) -> None:
        self.name = name
        self.server = f"https://{name}.example:6443"
        self.api = api
        self.reachable = True
        self.silence = "dial tcp 192.0.2.10:6443: connect: connection refused"
        """What a connection ends with while the cluster is not reachable."""
        self.latency_s = 0.0
        """How long the provider waits for an answer."""
        self.refuses: Callable[[Object], str] = lambda _manifest: ""
        """Why the cluster refuses a manifest; nothing where it takes it."""
        self.runs = True
        """Whether what is applied works by itself."""
        self.starts_s = 0.0
        """How long a workload takes until it works, when it is new and after each edit."""
        self.notices_s = 0.0
        """How long controllers take until they begin with an edit; until then the status is the old one."""
        self._asked_for: set[str] = set()

    def get(self, manifest: Object) -> Object | None:
        """Return an object as a provider reads it."""
        self._reach()
        self._map(manifest)
        return self.api.get(key_of(manifest))

    def serves(self, manifest: Object) -> bool:
        """Whether the cluster serves the kind of a manifest."""
        row = row_of(manifest)
        group = manifest["apiVersion"].rpartition("/")[0]
        if row is None or group in _BUILT_IN:
            return True
        return self.api.stored(definition_key(row.definition)) is not None

    def dry_run(self, manifest: Object, _manager: str) -> None:
        """Apply a manifest without writing it, as the provider does at each look at what is there."""
        self._reach()
        self._map(manifest)

    def _map(self, manifest: Object) -> None:
        """Raise ``NoMatch`` for a kind that is not served, as controller-runtime's mapper puts it."""
        if self.serves(manifest):
            return
        version, kind = manifest["apiVersion"], manifest["kind"]
        if version in self._asked_for:
            raise NoMatch(f'no matches for kind "{kind}" in version "{version}"')
        self._asked_for.add(version)
        raise NoMatch(
            "failed to get API group resources: unable to retrieve the complete list of server APIs: "
            f"{version}: no matches for {version}, Resource="
        )

    def apply(self, manifest: Object, manager: str) -> Object:
        """Apply a manifest; what it describes works at once, where the cluster does."""
        self._reach()
        self._map(manifest)
        if why := self.refuses(manifest):
            raise ApiError("Invalid", why)
        key = key_of(manifest)
        if key.namespace and self.api.stored(Key("", "Namespace", "", key.namespace)) is None:
            raise ApiError("NotFound", f'namespaces "{key.namespace}" not found')
        before = self.api.get(key)
        made = self.api.apply(manifest, manager)
        if self.starts_s and key.kind in _COPIES:
            self._restart(key, before, made)
        elif self.runs:
            self.run(key)
        return self.api.get(key) or made

    def _restart(self, key: Key, before: Object | None, made: Object) -> None:
        """Let an edited workload lose its copies, and work a while later; in place, as devices are taken."""
        if before is not None and before["spec"] == made["spec"]:
            return
        begins_s = self.notices_s if before is not None else 0.0
        if begins_s:
            self.api.clock.after(begins_s, lambda: self.stop(key))
        elif before is not None:
            self.stop(key)
        if self.runs:
            self.api.clock.after(begins_s + self.starts_s, lambda: self.run(key))

    def is_as(self, manifest: Object, manager: str) -> bool:
        """Whether a manifest was applied as it is, and nobody changed it since."""
        stored = self.api.stored(key_of(manifest))
        if stored is None:
            return False
        there = dict(leaves(stored.object))
        wanted = {path: value for path, value in leaves(manifest) if path not in _NAMING}
        applied = stored.managers.get(Manager(manager, "Apply"), frozenset())
        return wanted.keys() == applied and all(there.get(path) == value for path, value in wanted.items())

    def delete(self, manifest: Object, propagation: str) -> None:
        """Delete an object, and what it owns before it or after."""
        self._reach()
        self._map(manifest)
        self.api.delete(key_of(manifest), propagation)

    def run(self, key: Key) -> None:
        """Let an object work: its workloads serve, its volume is bound, its route is accepted."""
        item = self.api.get(key)
        if item is None or is_deleted(item):
            return
        if status := working(item):
            item["status"] = {**item.get("status", {}), **status}
            self.api.update_status(item, "kube-controller-manager")

    def stop(self, key: Key) -> None:
        """Let a workload lose all its copies."""
        item = self.api.get(key)
        if item is None:
            raise KeyError(key)
        item["status"] = {"observedGeneration": item["metadata"]["generation"], _COPIES[item["kind"]]: 0}
        self.api.update_status(item, "kube-controller-manager")

    def run_all(self) -> None:
        """Let everything work that is there."""
        for item in list(self.api.all()):
            self.run(key_of(item))

    def serve_gateway(self, manifest: Object, address: str) -> None:
        """Put the cluster's own gateway there, as who set up the cluster did."""
        for name in GATEWAY_API:
            self.define(name)
        self._make_namespace(key_of(manifest).namespace)
        gateway = self.api.create(manifest, "kubectl")
        gateway["status"] = {"addresses": [{"type": "IPAddress", "value": address}]}
        self.api.update_status(gateway, "gateway")

    def define(self, name: str) -> None:
        """Put the definition of a kind there, as a chart does, unless it is there."""
        if self.api.stored(definition_key(name)) is None:
            self.api.create(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": name},
                    "spec": {"group": name.partition(".")[2]},
                },
                "helm",
            )

    def objects(self, kind: str) -> list[Object]:
        """Return what there is of a kind, to read only."""
        return [copied(item) for item in self.api.all() if item["kind"] == kind]

    def _reach(self) -> None:
        if not self.reachable:
            raise ConnectionError(
                "failed to get API group resources: unable to retrieve the complete list of server APIs: v1: "
                f'Get "{self.server}/api/v1?timeout=32s": {self.silence}'
            )

    def _make_namespace(self, namespace: str) -> None:
        if namespace and self.api.stored(Key("", "Namespace", "", namespace)) is None:
            self.api.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, "kubectl"
            )


def definition_key(name: str) -> Key:
    """Return the key of a CustomResourceDefinition."""
    return Key("apiextensions.k8s.io", "CustomResourceDefinition", "", name)


def working(item: Object) -> Object:
    """Return the status of an object that works."""
    kind, generation = item["kind"], item["metadata"].get("generation", 1)
    if kind in _COPIES:
        copies = item["spec"].get("replicas", 1)
        return {
            "observedGeneration": generation,
            "replicas": copies,
            "readyReplicas": copies,
            "updatedReplicas": copies,
            "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
        } | {_COPIES[kind]: copies}
    if kind == "LLMInferenceService":
        return kserve_status(item, item["spec"]["replicas"])
    if kind == "PersistentVolumeClaim":
        return {"phase": "Bound", "capacity": item["spec"]["resources"]["requests"]}
    if kind == "Job":
        return {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    if kind == "Gateway" and "addresses" not in item.get("status", {}):
        return {
            "addresses": [{"type": "IPAddress", "value": "10.0.0.1"}],
            "conditions": [{"type": "Programmed", "status": "True", "reason": "Programmed"}],
        }
    if kind == "GatewayClass":
        return {"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}]}
    if kind == "NicClusterPolicy":
        return {"state": "ready"}
    if kind in ("HTTPRoute", "InferencePool"):
        accepted = [
            {
                "type": type_,
                "status": "True",
                "reason": type_,
                "message": "",
                "observedGeneration": generation,
            }
            for type_ in ("Accepted", "ResolvedRefs")
        ]
        return {"parents": [{"controllerName": "gateway.example/controller", "conditions": accepted}]}
    return {}
