"""Table of the components of the serving stack: one row each, in the order of their needs.

Those of KServe are in ``kserve_components.py``, those of single clouds in ``cloud_components.py``.
"""

from collections.abc import Iterator
from typing import Any, Final

from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack import (
    ai_gateway,
    cloud_components,
    cluster_gateway,
    cluster_mutual_tls,
    traffic_policies,
)
from modelplane.compose.serving_stack.cloud_components import CLOUD_COMPONENTS
from modelplane.compose.serving_stack.component import GPU_TOLERATION, Component, Plan, Values
from modelplane.compose.serving_stack.kserve_components import KSERVE_COMPONENTS
from modelplane.compose.workload_kinds import LEADER_WORKER_SET

_ENVOY = "oci://docker.io/envoyproxy"
_AI_GATEWAY_VERSION = "v0.7.0"
"""Source: Envoy AI Gateway, "Compatibility matrix": v0.7 runs with Envoy Gateway v1.8."""

_DYNAMO_VERSION = "1.0.0"
"""Source: NVIDIA NGC, chart dynamo-platform."""

_DRA_NAMESPACE = "dra-driver-nvidia-gpu"
_QUOTA_KEY = "dra-driver-critical-pods-quota"
_CRITICAL_PODS = "1000"
"""Pods of system priority in the namespace of the DRA driver: two on each node."""
CRITICAL_PODS: Final = "allow-critical-pods"
"""Name of the quota for pods of system priority."""


def _envoy_gateway(plan: Plan) -> Values:
    config: dict[str, Any] = {"extensionApis": {"enableBackend": True}}
    if hooks := ai_gateway.hooks(plan):
        config["extensionManager"] = hooks
    return {"config": {"envoyGateway": config}}


def _dra_driver(plan: Plan) -> Values:
    root = plan.stack.spec.nvidia_driver_root
    return {
        "gpuResourcesEnabledOverride": True,
        "resources": {"computeDomains": {"enabled": False}},
        **({"nvidiaDriverRoot": root} if root != "/" else {}),
    }


def _critical_pods_quota(plan: Plan) -> Iterator[Desired]:
    """Yield the quota without which GKE refuses pods of system priority outside kube-system."""
    # The release makes the namespace.
    if plan.stack.spec.nvidia_driver_root == "/" or Name.DRA_DRIVER not in plan.request.observed:
        return
    priorities = ["system-node-critical", "system-cluster-critical"]
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": priorities}
    manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": CRITICAL_PODS, "namespace": _DRA_NAMESPACE},
        "spec": {"hard": {"pods": _CRITICAL_PODS}, "scopeSelector": {"matchExpressions": [scope]}},
    }
    yield Desired(_QUOTA_KEY, manifest, exists, plan.cluster)


def _prometheus(_plan: Plan) -> Values:
    label = "__meta_kubernetes_pod_label_app_kubernetes_io"
    proxies = {
        "job_name": "envoy-proxies",
        "metrics_path": "/stats/prometheus",
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            {"source_labels": [f"{label}_managed_by"], "regex": "envoy-gateway", "action": "keep"},
            {"source_labels": [f"{label}_component"], "regex": "proxy", "action": "keep"},
            {
                "source_labels": ["__meta_kubernetes_pod_ip"],
                "regex": "(.+)",
                "target_label": "__address__",
                "replacement": "$1:19001",
            },
        ],
    }
    return {
        "fullnameOverride": "prometheus",
        "grafana": {"enabled": False},
        "alertmanager": {"enabled": False},
        "prometheus": {
            "prometheusSpec": {
                "podMonitorSelectorNilUsesHelmValues": False,
                "additionalScrapeConfigs": [proxies],
            }
        },
    }


COMPONENTS = (
    Component(
        Name.CERT_MANAGER,
        "Issues certificates, for charts whose values request them.",
        Chart("cert-manager", "https://charts.jetstack.io"),
        lambda versions: versions.cert_manager,
        "cert-manager",
        lambda _plan: {"crds": {"enabled": True, "keep": False}},
        optional=True,
    ),
    Component(
        Name.ENVOY_GATEWAY,
        "The controller of the cluster's gateway, and the CRDs of the Gateway API.",
        Chart("gateway-helm", _ENVOY),
        lambda versions: versions.envoy_gateway,
        "envoy-gateway-system",
        _envoy_gateway,
        confirmed_by=cluster_gateway.CLASS_KEY,
        in_minimal=True,
        found_by=cluster_gateway.KEY,
    ),
    Component(
        Name.AI_GATEWAY_CRDS,
        "The CRDs of the AI gateway.",
        Chart("ai-gateway-crds-helm", _ENVOY),
        lambda _versions: _AI_GATEWAY_VERSION,
        ai_gateway.NAMESPACE,
        after=(Name.ENVOY_GATEWAY,),
        found_by=cluster_gateway.KEY,
    ),
    Component(
        Name.AI_GATEWAY,
        "The extension that lets the gateway route to InferencePools.",
        Chart("ai-gateway-helm", _ENVOY),
        lambda _versions: _AI_GATEWAY_VERSION,
        ai_gateway.NAMESPACE,
        ai_gateway.values,
        after=(Name.AI_GATEWAY_CRDS,),
        found_by=cluster_gateway.KEY,
    ),
    Component(
        Name.GATEWAY,
        "The cluster's gateway, for routes from all namespaces.",
        objects=cluster_gateway.objects,
        object_keys=(
            cluster_gateway.CLASS_KEY,
            cluster_gateway.KEY,
            cluster_gateway.ANSWER_KEY,
            *traffic_policies.KEYS,
            *cluster_mutual_tls.KEYS,
        ),
        after=(Name.ENVOY_GATEWAY,),
        in_minimal=True,
        found_by=cluster_gateway.KEY,
    ),
    Component(
        Name.LEADER_WORKER_SET,
        "Runs engines that span nodes.",
        Chart("lws", "oci://registry.k8s.io/lws/charts"),
        lambda versions: versions.leader_worker_set,
        "lws-system",
        found_by=LEADER_WORKER_SET.capability,
    ),
    Component(
        Name.NODE_FEATURE_DISCOVERY,
        "Labels the nodes with GPUs for the DRA driver.",
        Chart("node-feature-discovery", "oci://registry.k8s.io/nfd/charts"),
        lambda versions: versions.node_feature_discovery,
        "node-feature-discovery",
        # Nodes with GPUs have to get their labels too.
        lambda _plan: {"worker": {"tolerations": [GPU_TOLERATION]}},
        in_minimal=True,
    ),
    Component(
        Name.DRA_DRIVER,
        "Publishes the devices that pods claim.",
        Chart("dra-driver-nvidia-gpu", "oci://registry.k8s.io/dra-driver-nvidia/charts"),
        lambda versions: versions.nvidia_dra_driver,
        _DRA_NAMESPACE,
        _dra_driver,
        objects=_critical_pods_quota,
        object_keys=(_QUOTA_KEY,),
        after=(Name.NODE_FEATURE_DISCOVERY,),
        in_minimal=True,
    ),
    Component(
        Name.PROMETHEUS,
        "Collects metrics from engines and from the gateway.",
        Chart("kube-prometheus-stack", "https://prometheus-community.github.io/helm-charts"),
        lambda versions: versions.prometheus,
        "monitoring",
        _prometheus,
        optional=True,
    ),
    Component(
        Name.COMPUTE_DOMAINS,
        "NVLink across nodes (GB200 and GB300 NVL72), provided by the DRA driver.",
        values=lambda _plan: {"resources": {"computeDomains": {"enabled": True}}},
        part_of=Name.DRA_DRIVER,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.DYNAMO,
        "The NVIDIA Dynamo operator.",
        Chart("dynamo-platform", "https://helm.ngc.nvidia.com/nvidia/ai-dynamo"),
        lambda _versions: _DYNAMO_VERSION,
        "dynamo-system",
        in_standard=False,
        optional=True,
    ),
    *KSERVE_COMPONENTS,
    *CLOUD_COMPONENTS,
)


def list_removal_order() -> Iterator[tuple[str, str]]:
    """Yield the key of each child with that of a child that is deleted only after it."""
    yield cluster_gateway.KEY, cluster_gateway.CLASS_KEY
    yield cloud_components.NIC_POLICY_KEY, str(Name.NETWORK_OPERATOR)
    for row in COMPONENTS:
        yield from ((key, str(needed)) for key in row.keys for needed in row.after)
