"""Requirements of a composition, in Crossplane's terms.

Crossplane calls a function until two consecutive answers require the same, and sends the objects from the
second request on. So a requirement has three states: not requested yet (no entry), requested and not found
(an empty entry), and found.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.conditions.reasons import InferenceClusterCondition
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import Kind, kind_of
from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE, Model, Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose import definition_owner
from modelplane.compose.clouds.flow import DEFINITION_KEY
from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.compose.cluster.cluster_kubeconfig import (
    KubeconfigReference,
    kubeconfig_reference,
    replacement,
)
from modelplane.compose.composition import Guard, Requirement, Unknown
from modelplane.compose.definition_owner import CRD_API_VERSION
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.gateway.inference_gateway import DEFINED, FRONT
from modelplane.compose.guards import matters_only_on_deletion
from modelplane.compose.readiness import is_true
from modelplane.compose.replica.replica_endpoint import ENDPOINT_KEY
from modelplane.compose.replica.replica_status import CLUSTER_KEY
from modelplane.crossplane.function import gateway_facts
from modelplane.crossplane.function.companions import cluster_of_cloud, looks
from modelplane.crossplane.function.observation import Observation
from modelplane.crossplane.function.structs import Decoder, metadata_of
from modelplane.gateway.gateway_api import endpoint_backends
from modelplane.kube import kubeconfig_secret, timestamps
from modelplane.kube.kubeconfig_secret import decode_claims

_DEFINITION = "definition"
_REVISION = "revision"
_ROUTES = "routes"
_KUBECONFIG = "kubeconfig"

_GATEWAY = Requirement(
    FRONT,
    "gateway.networking.k8s.io/v1",
    "Gateway",
    namespace=SYSTEM_NAMESPACE,
    name=endpoint_backends.GATEWAY,
)

_COMPOSES: Mapping[type[Model], type[Model]] = {ModelDeployment: ModelReplica, ModelReplica: ModelEndpoint}
"""Our kinds whose children are of another of our kinds."""


def list_own(kind: Kind, owner: Any, composed: Mapping[str, Object]) -> tuple[Requirement, ...]:
    """Return the requirements that only Crossplane has, beside those of the core."""
    definition = Requirement(_DEFINITION, CRD_API_VERSION, "CustomResourceDefinition", name=kind.definition)
    if kind.type in (InferenceGateway, ModelEndpoint):
        defined = (DEFINED, _GATEWAY, fleet_gateway.KEYS) if kind.type is InferenceGateway else ()
        return definition, *defined, *gateway_facts.requirements(owner, composed)
    if isinstance(owner, InferenceCluster):
        reference = kubeconfig_reference(owner.spec.cluster, cluster_of_cloud(owner, composed))
        if isinstance(reference, Rejected):
            return (definition,)
        return definition, Requirement(_KUBECONFIG, "v1", "Secret", reference.namespace, reference.name)
    if child := _COMPOSES.get(kind.type):
        composition = {"crossplane.io/composition-name": kind_of(child).definition}
        revisions = Requirement(
            _REVISION, "apiextensions.crossplane.io/v1", "CompositionRevision", labels=composition
        )
        if not backend_of_leaving(owner, composed):
            return definition, revisions
        routes = Requirement(_ROUTES, _GATEWAY.api_version, "HTTPRoute", owner.metadata.namespace)
        return definition, revisions, routes
    return (definition,)


def served(requirements: Iterable[Requirement], request: Any) -> tuple[Requirement, ...]:
    """Return the requirements without the Gateway, until a ``RunFunctionRequest`` has its definition.

    Crossplane cannot fetch objects of a kind that is not installed, and would not go on.
    """
    is_served = DEFINED.key in request.required_resources and request.required_resources[DEFINED.key].items
    return tuple(requirement for requirement in requirements if is_served or requirement.key != FRONT)


def backend_of_leaving(owner: Any, composed: Mapping[str, Object]) -> str:
    """Return the backend name of a draining replica's endpoint; empty if it has none."""
    if not (isinstance(owner, ModelReplica) and owner.spec.draining):
        return ""
    routing = composed.get(ENDPOINT_KEY, {}).get("status", {}).get("routing", {})
    return str(routing.get("backendName", ""))


def selectors(requirements: Iterable[Requirement]) -> fnv1.Requirements:
    """Return the selectors of the objects that Crossplane is to fetch; it cannot fetch from clusters."""
    wanted = fnv1.Requirements()
    for need in requirements:
        if need.cluster:
            continue
        selector = wanted.resources[need.key]
        selector.api_version, selector.kind = need.api_version, need.kind
        if need.namespace:
            selector.namespace = need.namespace
        if need.name:
            selector.match_name = need.name
        else:
            # Present even if empty: a selector without it matches nothing.
            selector.match_labels.labels.update(need.labels)
    return wanted


class RequiredResources:
    """The required resources in a request."""

    def __init__(self, request: Any, decode: Decoder) -> None:
        """Decode the required resources of a ``RunFunctionRequest``; unreadable ones are recorded."""
        self._given: dict[str, tuple[Object, ...]] = {}
        self._unreadable: dict[str, InvalidObject] = {}
        for key, found in request.required_resources.items():
            # Only the metadata of definitions is needed, and the rest is nested deeply.
            read = metadata_of if key == _DEFINITION or key.startswith(DEFINITION_KEY) else decode
            self._given[key] = ()
            try:
                self._given[key] = tuple(read(item.resource) for item in found.items)
            except InvalidObject as error:
                self._unreadable[key] = error

    def awaited(self, requirements: Iterable[Requirement]) -> bool:
        """Return True if a requirement has not been fetched yet."""
        needed = (
            requirement for requirement in requirements if not (requirement.cluster or requirement.optional)
        )
        return any(requirement.key not in self._given for requirement in needed)

    def owned_by_other(self) -> Rejected | None:
        """Return why Crossplane must not compose objects of this kind; None if it may."""
        return definition_owner.owned_by_other(
            self._given.get(_DEFINITION, ()), definition_owner.DefinitionOwner.CROSSPLANE
        )

    def reaches_cluster(self) -> bool:
        """Return True if the required cluster is known to answer."""
        given = self._given.get(CLUSTER_KEY, ())
        return any(is_true(cluster, InferenceClusterCondition.CLUSTER_READY) for cluster in given)

    def kubeconfig(
        self, owner: Any, composed: Mapping[str, Object], now: float
    ) -> tuple[str, Credential | None]:
        """Return why the kubeconfig of an InferenceCluster is not accepted, and its credential if it expires.

        Both are empty if there is no Secret, which the provider itself reports.
        """
        if _KUBECONFIG in self._unreadable:
            return str(self._unreadable[_KUBECONFIG]), None
        secrets = self._given.get(_KUBECONFIG, ())
        reference = (
            kubeconfig_reference(owner.spec.cluster, cluster_of_cloud(owner, composed)) if secrets else None
        )
        if not isinstance(reference, KubeconfigReference):
            return "", None
        try:
            text = kubeconfig_secret.read_content(secrets[0], reference.key, str(reference))
            kubeconfig = kubeconfig_secret.parse_kubeconfig(text, reference.key, str(reference))
        except ValueError as error:
            return str(error), None
        if owner.spec.cluster.source is not Source.EXISTING:
            return "", None  # the provider of the cluster's cloud renews the token
        claims = decode_claims(kubeconfig_secret.find_token(kubeconfig))
        if claims is None or claims.lifetime is None:
            return "", None
        is_late = now >= claims.lifetime.last_quarter
        problem = f"is not renewed under Crossplane: {replacement(str(reference))}" if is_late else ""
        return "", Credential(timestamps.format_at(claims.lifetime.expires), problem)

    def revision(self) -> str:
        """Return the latest CompositionRevision for children of ours; empty if none is known."""
        found = [
            (item["spec"]["revision"], item["metadata"]["name"]) for item in self._given.get(_REVISION, ())
        ]
        return str(max(found)[1]) if found else ""

    def routed_by(self, backend: str) -> str:
        """Return the routes to a backend, as named in messages."""
        if _ROUTES in self._unreadable:
            return "an HTTPRoute that cannot be read"
        named = [
            str(route["metadata"]["name"])
            for route in self._given.get(_ROUTES, ())
            for rule in route["spec"].get("rules", ())
            for reference in rule.get("backendRefs", ())
            if reference["name"] == backend
        ]
        return f"HTTPRoute {listing(set(named))}" if named else ""

    def possible_guards(self, requirements: Iterable[Requirement]) -> tuple[Guard, ...]:
        """Return guards for unreadable users, because any of them may need the owner."""
        return tuple(
            Guard(requirement.api_version, requirement.kind, "")
            for requirement in requirements
            if matters_only_on_deletion(requirement) and requirement.key in self._unreadable
        )

    def gateway_address(self) -> str:
        """Return the address of the Gateway that routes are attached to; empty while it has none."""
        found = (endpoint_backends.find_gateway_address(item) for item in self._given.get(FRONT, ()))
        return next(found, None) or ""

    def required(
        self, requirements: Iterable[Requirement], observation: Observation
    ) -> dict[str, tuple[Object, ...] | Unknown]:
        """Return the objects of each requirement, by its key."""
        asked = {requirement.key: key for key, requirement in looks(requirements).items()}
        found: dict[str, tuple[Object, ...] | Unknown] = {}
        for need in requirements:
            if need.optional and need.key not in self._given:
                continue
            if need.key in asked:
                found[need.key] = observation.looked(asked[need.key])
            else:
                found[need.key] = self.find(need)
        return found

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects of one requirement."""
        if requirement.cluster:
            return ()
        if error := self._unreadable.get(requirement.key):
            # Messages about a single required object already name it.
            return Unknown(error.cause if requirement.name else str(error))
        if requirement.key not in self._given:
            return Unknown("not fetched yet")
        given = self._given[requirement.key]
        # Older versions of Crossplane ignore the namespace of a selector by labels.
        matching = tuple(item for item in given if requirement.matches(item))
        if requirement.name and given and not matching:
            return Unknown(f'what was given for {requirement.kind} "{requirement.name}" is another object')
        return matching
