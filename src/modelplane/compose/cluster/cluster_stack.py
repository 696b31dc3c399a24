"""The serving stack that an InferenceCluster asks for, and what is missing on a cluster without one."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.serving_stack import KEY, ServingStack, name_stack
from modelplane.api.conditions.reasons import ServingStackCondition, ServingStackReason
from modelplane.api.fields.cluster.stack_components import ComponentName, ServingProfile
from modelplane.api.fields.pods.engines import ServingBackend
from modelplane.api.inference_cluster import InferenceCluster, ServingStack as Settings
from modelplane.api.kinds import kind_of
from modelplane.api.listing import in_order
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.clouds.recipe import Inside
from modelplane.compose.clouds.site import Site
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.cluster.cluster_kubeconfig import kubeconfig_reference
from modelplane.compose.composition import Desired, Keep, NoFacts, Request
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.readiness import condition_of, when_condition
from modelplane.compose.releases import merge_values
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.compose.workload_kinds import LLM_INFERENCE_SERVICE

_DRIVER_ROOTS: Mapping[Source, str] = {Source.GKE: "/home/kubernetes/bin/nvidia"}
"""Source: Google Cloud, "About dynamic resource allocation in GKE": the driver that GKE installs."""

_REMEDIES: Mapping[str, str] = {
    "leaderWorkerSet": "gangs require LeaderWorkerSet (https://lws.sigs.k8s.io/docs/installation)",
    "inferencePool": (
        "endpoint pickers require the CRDs of the Gateway API inference extension "
        "(https://gateway-api-inference-extension.sigs.k8s.io/guides)"
    ),
}
"""Requirement of each capability, with the address of the installation guide."""

_REMEDY_OF_KSERVE = (
    "backend KServe requires LLMInferenceService "
    "(https://kserve.github.io/website/docs/install/llmisvc-install)"
)

_KSERVE = (ComponentName.KSERVE_CRDS, ComponentName.KSERVE, ComponentName.KSERVE_PRESETS)
"""The components that the backend KServe adds to a profile, unless the cluster has its definitions."""


def asked(request: ClusterRequest, provisioned: Desired | None, *, is_running: bool) -> Desired | Keep | None:
    """Return the stack of a cluster; None if none is to be made, or not yet.

    A stack that exists stays, whatever the cluster asks for later and whatever cannot be read.
    ``provisioned`` is the cluster of the cloud; None if there is none.
    """
    observed = request.observed.get(KEY)
    settings = request.owner.spec.serving_stack
    secrets = _secrets(request) or list(get_list(observed, "spec", "secrets"))
    if observed is None and not (is_running and _is_open(request)):
        return None
    is_off = settings.profile is ServingProfile.NONE and not settings.components
    if is_off or not secrets:
        return Keep(KEY) if observed is not None else None
    inside = _with_kserve(request, _inside(request, provisioned), observed or {})
    kind, name = kind_of(ServingStack), request.owner.metadata.name
    spec: dict[str, Any] = {"clusterName": name, "profile": str(settings.profile), "secrets": secrets}
    # A parameter that cannot be read takes nothing away.
    known = (observed or {}).get("spec", {}).get("storageClass")
    if storage := msgspec.to_builtins(inside.storage) if inside.storage else known:
        spec["storageClass"] = storage
    if components := _components(settings, inside, has_storage=bool(storage)):
        spec["components"] = components
    if root := _DRIVER_ROOTS.get(request.owner.spec.cluster.source):
        spec["nvidiaDriverRoot"] = root
    metadata = {"name": name_stack(name), "namespace": SYSTEM_NAMESPACE, "labels": {labels.CLUSTER: name}}
    manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}
    return Desired(KEY, manifest, when_condition(READY))


def _is_open(request: ClusterRequest) -> bool:
    """Return True if a stack may be made: the cluster has no gateway of its own, or it is asked for."""
    settings = request.owner.spec.serving_stack
    if settings.profile is ServingProfile.NONE:
        return any(component.enabled for component in settings.components)
    return request.unknown(cluster_gateway.KEY) is None and not any(
        cluster_gateway.address(item) and not cluster_gateway.is_ours(item)
        for item in request.found(cluster_gateway.KEY)
    )


def _inside(request: ClusterRequest, provisioned: Desired | None) -> Inside:
    """Return what a cluster of a cloud needs inside."""
    recipe = recipe_of(request.owner.spec.cluster)
    if recipe is None or provisioned is None:
        return Inside()
    known = request.observed.get(recipe.key, {}).get("status", {}).get("cache")
    status = {"status": {"cache": known}} if known else {}
    try:
        owner = decode_as(recipe.type, {**provisioned.manifest, **status})
    except InvalidObject:
        # Only the status can be invalid, and then nothing is known of it.
        owner = decode_as(recipe.type, provisioned.manifest)
    return recipe.inside(Site(Request(owner, {}, {}, NoFacts())))


def _with_kserve(request: ClusterRequest, inside: Inside, observed: Object) -> Inside:
    """Add KServe where it is the backend, unless the cluster has it and no stack has installed it."""
    if request.owner.spec.serving_stack.backend is not ServingBackend.KSERVE:
        return inside
    key = LLM_INFERENCE_SERVICE.capability
    if not _has_kserve(observed) and (request.unknown(key) or request.found(key)):
        return inside
    return replace(inside, components={**{name: {} for name in _KSERVE}, **inside.components})


def _components(settings: Settings, inside: Inside, *, has_storage: bool) -> list[dict[str, Any]]:
    """Return the settings of components: those of the cloud, and over them those of the operator."""
    own = dict(inside.components) | ({ComponentName.STORAGE_CLASS: {}} if has_storage else {})
    written: dict[ComponentName, dict[str, Any]] = {}
    if settings.profile is not ServingProfile.NONE:
        for name, values in own.items():
            written[name] = {"name": str(name), "enabled": True, **_values(values)}
    for chosen in settings.components:
        given = msgspec.to_builtins(chosen)
        values = merge_values(own.get(chosen.name, {}), chosen.values)
        written[chosen.name] = {**written.get(chosen.name, {}), **given, **_values(values)}
    return list(written.values())


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"values": dict(values)} if values else {}


def _secrets(request: ClusterRequest) -> list[dict[str, Any]]:
    """Return the Secrets for access to the cluster; empty while there is no kubeconfig."""
    origin = request.owner.spec.cluster
    recipe = recipe_of(origin)
    reference = kubeconfig_reference(origin, request.observed.get(recipe.key) if recipe else None)
    if isinstance(reference, Rejected):
        return []
    secrets = [
        {"type": "Kubeconfig", "name": reference.name, "key": reference.key, "namespace": reference.namespace}
    ]
    if identity := reference.identity:
        secrets.append(
            {
                "type": str(identity.type),
                "name": identity.name,
                "key": identity.key,
                "namespace": identity.namespace,
            }
        )
    return secrets


def gateway_address(stack: Object | None) -> str:
    """Return the address of the gateway that a stack has made; empty while there is none.

    Under Crossplane a look at a gateway that does not exist yet is repeated once a minute.
    """
    return str(get_map(stack, "status", "gateway").get("address", ""))


def is_ready(stack: Object | None) -> bool:
    """Return True if every component that serving needs is ready."""
    return stack is not None and when_condition(READY)(stack)


def report(stack: Object) -> str | None:
    """Return what a stack says of itself; None if all of it is ready."""
    installed = condition_of(stack, ServingStackCondition.BACKEND_READY)
    synced = condition_of(stack, SYNCED)
    # What could not be written is the cause of all else.
    refused = synced if synced.get("status") == "False" else {}
    if installed.get("reason") == ServingStackReason.COMPONENTS_READY and not refused:
        return None
    found = (refused, installed, condition_of(stack, READY))
    said = next((str(item["message"]) for item in found if item.get("message")), "being created")
    return f'ServingStack "{stack["metadata"]["name"]}" in namespace "{SYSTEM_NAMESPACE}": {said}'


def lacks(capabilities: Mapping[str, bool]) -> str:
    """Return what a cluster lacks, in one sentence; empty if it lacks nothing."""
    absent = [remedy for key, remedy in _REMEDIES.items() if not capabilities.get(key, False)]
    return in_order(absent, separator="; ")


def lacks_backend(
    cluster: InferenceCluster, capabilities: Mapping[str, bool], stack: Object | None
) -> str | None:
    """Return what the backend of a cluster lacks there and no stack installs; None if it lacks nothing."""
    if cluster.spec.serving_stack.backend is not ServingBackend.KSERVE or _has_kserve(stack):
        return None
    return None if capabilities.get(LLM_INFERENCE_SERVICE.capability, False) else _REMEDY_OF_KSERVE


def _has_kserve(stack: Object | None) -> bool:
    asked = get_list(stack, "spec", "components")
    return any(asked_for["name"] == ComponentName.KSERVE for asked_for in asked)
