"""Resources of the fleet: our own kinds, and those that are written to clusters, as API servers serve them.

``kube`` knows the kinds of Kubernetes only. A client that gets ``find_known`` from here discovers neither.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.api.clouds.cloud_settings import CredentialsKind
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import KINDS, Kind, kind_of
from modelplane.api.meta import Model
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose.clouds.table import READ_ACCOUNTS
from modelplane.compose.workload_kinds import ROWS, WorkloadKind
from modelplane.kube import resources
from modelplane.kube.resources import Resource


def _of_kind(kind: Kind) -> Resource:
    return Resource(kind.group, kind.version, kind.name, kind.plural, kind.namespaced)


def of_row(row: WorkloadKind) -> Resource:
    """Return the resource of a kind that is written to clusters."""
    return Resource(row.group, row.version, row.kind, row.plural, row.namespaced)


DEVICE_QUOTAS = _of_kind(kind_of(DeviceQuota))
INFERENCE_AUTOSCALERS = _of_kind(kind_of(InferenceAutoscaler))
INFERENCE_CLASSES = _of_kind(kind_of(InferenceClass))
INFERENCE_CLUSTERS = _of_kind(kind_of(InferenceCluster))
INFERENCE_GATEWAYS = _of_kind(kind_of(InferenceGateway))
MODEL_CACHES = _of_kind(kind_of(ModelCache))
MODEL_DEPLOYMENTS = _of_kind(kind_of(ModelDeployment))
MODEL_ENDPOINTS = _of_kind(kind_of(ModelEndpoint))
MODEL_REPLICAS = _of_kind(kind_of(ModelReplica))
MODEL_SERVICES = _of_kind(kind_of(ModelService))

LATER_KINDS = (DEVICE_QUOTAS, INFERENCE_AUTOSCALERS)
"""Resources that a control plane of an earlier version does not have: then there are no such objects."""

_NEEDED_TO_PLACE = (
    INFERENCE_CLUSTERS,
    MODEL_CACHES,
    MODEL_DEPLOYMENTS,
    MODEL_REPLICAS,
    DEVICE_QUOTAS,
    INFERENCE_AUTOSCALERS,
)
_NEEDED_TO_ROUTE = (INFERENCE_GATEWAYS, MODEL_SERVICES, MODEL_ENDPOINTS)

NEEDED_TO_PLAN = (INFERENCE_CLASSES, *_NEEDED_TO_PLACE)
"""The resources from which new deployments are placed."""

_NEEDED_TO_EXPLAIN = {
    MODEL_DEPLOYMENTS.kind: _NEEDED_TO_PLACE,
    MODEL_SERVICES.kind: (*_NEEDED_TO_ROUTE, MODEL_DEPLOYMENTS, MODEL_REPLICAS),
    MODEL_REPLICAS.kind: (*_NEEDED_TO_PLACE, *_NEEDED_TO_ROUTE),
}

OURS = {(kind.api_version, kind.name): _of_kind(kind) for kind in KINDS}
"""The resources of all our kinds, by API version and kind."""

_ACCOUNTS = {
    (account.api_version, str(kind)): Resource(
        account.group, account.version, str(kind), f"{kind.lower()}s", kind is CredentialsKind.PROVIDER_CONFIG
    )
    for account in READ_ACCOUNTS
    for kind in CredentialsKind
}


def find_known(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a kind that need not be discovered."""
    if resource := OURS.get((api_version, kind)):
        return resource
    if resource := _ACCOUNTS.get((api_version, kind)):
        return resource
    row = ROWS.get((api_version, kind))
    return of_row(row) if row else resources.find_known(api_version, kind)


def resource_of_kind(type_: type[Model]) -> Resource:
    """Return the resource of one of our kinds."""
    return _of_kind(kind_of(type_))


def list_needed_to_explain(kind: str) -> tuple[Resource, ...]:
    """Return the resources from which an explanation of a kind is computed."""
    return _NEEDED_TO_EXPLAIN[kind]


def resource_for(api_version: str, kind: str) -> Resource:
    """Return the resource of a kind; ``KeyError`` names one that is not known."""
    if resource := find_known(api_version, kind):
        return resource
    raise KeyError(f'no REST path known for kind "{kind}" of "{api_version}"')


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """Return the resource that serves a manifest; ``KeyError`` names an unknown kind."""
    return resource_for(manifest.get("apiVersion", ""), manifest.get("kind", ""))
