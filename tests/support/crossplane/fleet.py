"""A fleet under Crossplane, as scenarios speak of it: Crossplane and provider-kubernetes in one process.

What this package does is what Crossplane 2.3 and provider-kubernetes 1.3 do, as far as a composition function
can tell: which writes they make and in which order, which watch events these cause and what those cost, what
they put into a request and what they do with an answer. Nothing waits: the clock jumps to the next thing
that is due, and goes on by what a call of the function takes, which is the same each time unless a test asks
for the real figure.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import yaml

from modelplane.api import labels
from modelplane.api.kinds import find_kind
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.compose.gateway import installed_gateway
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import Place, rows
from modelplane.crossplane.package.prerequisites import build_prerequisites
from modelplane.gateway.gateway_api import endpoint_backends
from support.crossplane.api import ApiServer, Event, Stored
from support.crossplane.breaker import Breaker
from support.crossplane.composite import NAME, Call, CompositeController, Run
from support.crossplane.garbage import GarbageCollector
from support.crossplane.namespaces import Namespaces
from support.crossplane.objects import Key, Kind, Object, condition, controller_of, key_of, kind_of
from support.crossplane.policies import Policies
from support.crossplane.provider_kubernetes import OBJECT, ProviderConfigs, ProviderKubernetes
from support.crossplane.remote import RemoteCluster, working
from support.crossplane.schemas import definition_of
from support.crossplane.simulation import DONE, Controller, Result, Simulation
from support.crossplane.usages import Protection

_USER = "kubectl"


class Fleet:
    """A control plane with Crossplane, the clusters that it manages, and one function for every kind."""

    def __init__(self, run: Run) -> None:
        self.simulation = Simulation()
        self.clock = self.simulation.clock
        self.api = self.simulation.server("control-plane")
        self.clusters: dict[str, RemoteCluster] = {}
        self.history: list[Event] = []
        """What happened on the control plane, in the order in which it did, whoever has been told."""
        self._record()
        self.provider = ProviderKubernetes(self.simulation, self.api, self._cluster_at)
        self.composites = {
            kind: CompositeController(self.simulation, self.api, _ours(kind), run) for kind in COMPOSERS
        }
        controllers: tuple[Controller, ...] = (
            *self.composites.values(),
            self.provider,
            ProviderConfigs(self.api),
            Protection(self.api),
            GarbageCollector(self.api),
            Namespaces(self.api),
        )
        for controller in controllers:
            self.simulation.add(self.api, controller)
        self._define()
        self.api.policy = Policies(self.api, build_prerequisites()).admit

    # What people do

    def apply(self, *manifests: str | Object) -> None:
        """Apply manifests as a person does; a text may hold several."""
        for manifest in manifests:
            documents = yaml.safe_load_all(manifest) if isinstance(manifest, str) else [manifest]
            for document in documents:
                self.api.apply(document, _USER)

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        item = self.get(kind, name)
        item["spec"] |= spec
        self.api.update(item, _USER)

    def delete(self, kind: str, name: str, propagation: str = "Background") -> None:
        """Delete an object as a person does; ``ApiError`` where that is refused."""
        self.api.delete(self.key(kind, name), propagation)

    def cluster(
        self, name: str, *, gateway: bool = True, kinds: tuple[str, ...] = (), is_empty: bool = False
    ) -> RemoteCluster:
        """Set up a cluster: its API, a gateway with an address, the kubeconfig to reach it.

        ``is_empty``: as a cloud hands it over, without a namespace or a kind of anybody.
        """
        cluster = RemoteCluster(name, self.simulation.server(name))
        self.join(cluster)
        for namespace in ("default",) if is_empty else ("default", SYSTEM_NAMESPACE):
            cluster.api.create(_namespace(namespace), _USER)
        for definition in kinds:
            cluster.api.create(definition_of(definition), _USER)
        if gateway and not is_empty:
            cluster.serve_gateway(_gateway(GATEWAY_NAME), f"10.0.0.{len(self.clusters)}")
        return cluster

    def join(self, cluster: RemoteCluster, name: str = "") -> None:
        """Let the provider reach a cluster, by the kubeconfig of its name or of another one."""
        name = name or cluster.name
        self.clusters[name] = cluster
        self.simulation.add(cluster.api, _RemoteWatch(self.simulation, self.provider, name))
        self.simulation.add(cluster.api, GarbageCollector(cluster.api))
        self.apply(_kubeconfig(name, cluster.server))

    def gateway(self, address: str = "203.0.113.1") -> None:
        """Set up the gateway that stands before the fleet."""
        self.api.create(definition_of(installed_gateway.DEFINITION), _USER)
        gateway = self.api.create(_gateway(endpoint_backends.GATEWAY), _USER)
        gateway["status"] = {"addresses": [{"type": "IPAddress", "value": address}]}
        self.api.update_status(gateway, "gateway")
        self.simulation.add(self.api, _Routes(self.api))

    # What is there

    def key(self, kind: str, name: str) -> Key:
        """Return the key of one of our objects; ``name`` is ``namespace/name`` where it has a namespace."""
        namespace, _, last = name.rpartition("/")
        return Key(*_ours(kind), namespace, last)

    def get(self, kind: str, name: str) -> Object:
        """Return one of our objects; ``KeyError`` where there is none."""
        item = self.api.get(self.key(kind, name))
        if item is None:
            raise KeyError(f"there is no {kind} {name}")
        return item

    def exists(self, kind: str, name: str) -> bool:
        """Whether there is such an object of ours."""
        return self.api.stored(self.key(kind, name)) is not None

    def children(self, kind: str, name: str) -> dict[str, Object]:
        """Return what a composite controls, by the key that the function gave it; to read only."""
        uid = self.get(kind, name)["metadata"]["uid"]
        return {
            item["metadata"]["annotations"][NAME]: item
            for item in self.api.all()
            if controller_of(item).get("uid") == uid and NAME in item["metadata"].get("annotations", {})
        }

    def versions(self) -> dict[Key, str]:
        """Return the resourceVersion of everything that there is."""
        return {key_of(item): item["metadata"]["resourceVersion"] for item in self.api.all()}

    def named(self, kind: str) -> list[str]:
        """Return the names of our objects of a kind, with their namespaces."""
        return [
            "/".join(filter(None, (item["metadata"].get("namespace", ""), item["metadata"]["name"])))
            for item in self.api.of(_ours(kind))
        ]

    def announced(self) -> list[str]:
        """Return the names of the endpoints that services may route to, with their namespaces."""
        marks = {name: self.get("ModelEndpoint", name)["metadata"] for name in self.named("ModelEndpoint")}
        return [name for name, each in marks.items() if labels.DRAINING not in each.get("annotations", {})]

    def stored(self, key: Key) -> Stored | None:
        """Return an object with all that is known of it."""
        return self.api.stored(key)

    def is_true(self, kind: str, name: str, type_: str = "Ready") -> bool:
        """Whether a condition of one of our objects is True, and speaks of the object as it is now."""
        key = self.key(kind, name)
        stored, told = self.api.stored(key), self.simulation.cache(self.api).get(key)
        if stored is None or told is None:
            return False
        found, generation = condition(told.object, type_), stored.object["metadata"]["generation"]
        return found.get("status") == "True" and found.get("observedGeneration", generation) == generation

    def deletions(self, kind: str = "") -> list[Key]:
        """Return what was deleted so far, in order; marked for deletion counts."""
        return [
            event.key
            for event in self.history
            if "deletionTimestamp" in event.new.object["metadata"]
            and not (event.old and "deletionTimestamp" in event.old.object["metadata"])
            and kind in ("", event.key.kind)
        ]

    # Time

    def run_until(self, holds: Callable[[], bool], within: float = 60.0) -> float:
        """Let time go on until something holds; return how many simulated seconds that took."""
        try:
            return self.simulation.run_until(holds, within)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def run_until_ready(self, kind: str, *names: str, within: float = 60.0) -> float:
        """Let time go on until objects are Ready."""
        return self.run_until(lambda: all(self.is_true(kind, name) for name in names), within)

    def run_for(self, seconds: float) -> None:
        """Let so much time go by."""
        self.simulation.run_for(seconds)

    def look_again(self) -> None:
        """Have every composite reconciled, whether there is a reason or not, and let that settle."""
        for kind, controller in self.composites.items():
            for item in self.api.of(_ours(kind)):
                self.simulation.enqueue(controller, key_of(item))
        self.simulation.settle()

    # What it took

    def breaker(self, kind: str, name: str) -> Breaker:
        """Return the breaker of a composite."""
        return self.composites[kind].breaker(self.key(kind, name))

    def breakers(self) -> dict[Key, Breaker]:
        """Return every breaker."""
        return {key: breaker for each in self.composites.values() for key, breaker in each.breakers.items()}

    def calls(self, kind: str) -> list[Call]:
        """Return the calls of the function for objects of a kind."""
        return self.composites[kind].calls

    def report(self) -> str:
        """Say how everything is, for whoever reads why a test failed."""
        lines = [f"at {self.clock.now:.2f} s:"]
        for item in self.api.all():
            kind = kind_of(item["apiVersion"], item["kind"])
            if kind in (OBJECT, *(_ours(each) for each in COMPOSERS)):
                false = [
                    f"{each['type']}={each['status']} {each['reason']}: {each.get('message', '')}"
                    for each in item.get("status", {}).get("conditions", ())
                    if each["status"] != "True"
                ]
                lines += [f"  {key_of(item)}: {'; '.join(false)}"] if false else []
        lines += [
            f"  {event.of}: {event.type} {event.message}"
            for each in self.composites.values()
            for event in each.emitted[-3:]
            if event.type == "Warning"
        ]
        lines += [
            f"  breaker of {key}: {breaker.charged} tokens, {breaker.openings} openings"
            for key, breaker in self.breakers().items()
            if breaker.openings
        ]
        return "\n".join(lines[:60])

    def _cluster_at(self, server: str) -> RemoteCluster | None:
        return next((each for each in self.clusters.values() if each.server == server), None)

    def _record(self) -> None:
        send = self.api.on_event

        def recorded(event: Event) -> None:
            self.history.append(event)
            send(event)

        self.api.on_event = recorded

    def _define(self) -> None:
        """Put the definitions of our kinds there, made and owned by Crossplane."""
        for namespace in ("default", SYSTEM_NAMESPACE):
            self.api.create(_namespace(namespace), _USER)
        for name in COMPOSERS:
            kind = find_kind(COMPOSERS[name].api_version, name)
            owner: dict[str, Any] = {
                "apiVersion": "apiextensions.crossplane.io/v1",
                "kind": "CompositeResourceDefinition",
                "name": f"{kind.plural}.{kind.group}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
            made = {field: owner[field] for field in ("apiVersion", "kind")}
            definition = self.api.create({**made, "metadata": {"name": owner["name"]}}, "crossplane")
            crd = _definition(owner["name"])
            crd["metadata"]["ownerReferences"] = [{**owner, "uid": definition["metadata"]["uid"]}]
            self.api.create(crd, "crossplane")
            self.api.create(_revision(owner["name"]), "crossplane")
        for row in rows(Place.CONTROL_PLANE):
            self.api.create(_definition(row.definition), "crossplane")


def _revision(composition: str) -> Object:
    """Return the first revision of a composition, which is named like its definition."""
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositionRevision",
        "metadata": {
            "name": f"{composition}-1",
            "labels": {"crossplane.io/composition-name": composition},
        },
        "spec": {"revision": 1},
    }


class _RemoteWatch:
    """The provider's watches of one cluster."""

    first_delay = longest_delay = 1.0
    workers = 1

    def __init__(self, simulation: Simulation, provider: ProviderKubernetes, cluster: str) -> None:
        self._simulation = simulation
        self._provider = provider
        self._cluster = cluster

    def wakes(self, event: Event) -> list[Key]:
        for key in self._provider.remote_changed(self._cluster, event.key):
            self._simulation.enqueue(self._provider, key)
        return []

    def reconcile(self, key: Key) -> Any:
        raise NotImplementedError(str(key))


class _Routes:
    """A gateway of the control plane, which accepts every route."""

    first_delay = longest_delay = 1.0
    workers = 1

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def wakes(self, event: Event) -> list[Key]:
        return [event.key] if event.key.kind == "HTTPRoute" else []

    def reconcile(self, key: Key) -> Result:
        route = self._api.get(key)
        if route is not None:
            route["status"] = working(route)
            self._api.update_status(route, "gateway")
        return DONE


def _ours(kind: str) -> Kind:
    return Kind(find_kind(COMPOSERS[kind].api_version, kind).group, kind)


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _definition(name: str) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2]},
    }


def _gateway(name: str) -> Object:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "gatewayClassName": "envoy",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    }


def _kubeconfig(name: str, server: str) -> Object:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": "admin", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-kubeconfig", "namespace": SYSTEM_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(json.dumps(config).encode()).decode()},
    }
