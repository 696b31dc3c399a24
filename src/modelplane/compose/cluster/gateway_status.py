"""Status of a cluster's gateway: the address that requests use, and the phase of mutual TLS."""

from typing import Any

from modelplane.api.conditions.reasons import (
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
)
from modelplane.api.fields.cluster.mutual_tls_settings import MutualTLSPhase
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.gateway.mutual_tls import Protocol, Rollout, build_server_name, choose_protocol

_NOTHING_ISSUES = (
    "only Modelplane's controllers issue certificates, and Crossplane reconciles this fleet. The current "
    "configuration remains active: remove spec.gateway.mutualTLS, or let the controllers reconcile the fleet"
)


def read_rollout(cluster: InferenceCluster) -> Rollout:
    """Return the state of the rollout that a cluster's status has."""
    known = cluster.status.gateway.mutual_tls if cluster.status.gateway else None
    return Rollout(known.phase, known.draining_since) if known else Rollout()


def encode_gateway_status(request: ClusterRequest, plain: str) -> dict[str, Any]:
    """Return the gateway in the status of a cluster; ``plain`` is its address for plain HTTP."""
    fact, known = request.facts.mutual_tls, request.owner.status.gateway
    state = fact.rollout if fact else read_rollout(request.owner)
    status: dict[str, Any] = {"address": plain} if plain else {}
    if choose_protocol(state.phase) is Protocol.TLS:
        found = next(
            filter(None, map(cluster_gateway.secured_address, request.found(cluster_gateway.KEY))), ""
        )
        address = found or (known.address if known and known.server_name else "")
        status = {"address": address, "serverName": build_server_name(request.owner.metadata.uid)}
    elif known and known.server_name and request.unknown(cluster_gateway.KEY):
        # The last known address is that for TLS, which the gateway accepts until no endpoint uses it.
        status = {"address": known.address, "serverName": known.server_name}
    if not status.get("address"):
        status = {"address": known.address} if known and state.phase is not MutualTLSPhase.PLAIN else {}
    if status and state.phase is not MutualTLSPhase.PLAIN:
        status["mutualTLS"] = {"phase": str(state.phase)}
        if state.draining_since:
            status["mutualTLS"]["drainingSince"] = f"{state.draining_since:%Y-%m-%dT%H:%M:%SZ}"
    return status


def report_mutual_tls(request: ClusterRequest) -> tuple[Condition, ...]:
    """Return the condition of a cluster with mutual TLS; nothing for one without."""
    fact = request.facts.mutual_tls
    wanted = request.owner.spec.gateway.mutual_tls is not None
    phase = (fact.rollout if fact else read_rollout(request.owner)).phase
    if not wanted and phase is MutualTLSPhase.PLAIN:
        return ()
    if fact is None:
        return (false(Type.SECURED, Reason.UNSUPPORTED_GATEWAY, _NOTHING_ISSUES),)
    found = request.found(cluster_gateway.KEY)
    if wanted and found and not any(map(cluster_gateway.is_ours, found)):
        class_name = found[0].get("spec", {}).get("gatewayClassName", "")
        message = (
            f'a ServingStack did not create the Gateway of class "{class_name}", so Modelplane doesn\'t '
            "change its listeners: remove the Gateway, and Modelplane creates one, or remove "
            "spec.gateway.mutualTLS"
        )
        return (false(Type.SECURED, Reason.UNSUPPORTED_GATEWAY, message),)
    if fact.problem:
        return (false(Type.SECURED, Reason.INVALID_CERTIFICATE, fact.problem),)
    if wanted and phase is MutualTLSPhase.REQUIRED:
        message = "the gateway accepts only requests from the fleet's gateway"
        return (true(Type.SECURED, Reason.TLS_REQUIRED, message),)
    return (false(Type.SECURED, Reason.ROLLING_OUT, fact.waiting),)
