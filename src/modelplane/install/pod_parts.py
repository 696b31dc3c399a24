"""Parts of the pods of an installation, which the controllers and the gateway share.

Pods meet the restricted Pod Security Standard: no root, no privileges, nothing written but to volumes of
their own. A pod gets its account's token in the one container that needs it.
"""

from collections.abc import Iterable, Iterator

from modelplane.install.installation_options import Number, build_labels, build_metadata, build_selector
from modelplane.kube.resources import Object

_USER = 65532
_TOKEN_LASTS_S = 3607
"""As long as the token that Kubernetes itself would mount."""

_ACCOUNT = "account"
_SCRATCH = "scratch"

METRICS = "metrics"
"""The name of the port for health and metrics."""


def build_deployment(name: str, component: str, replicas: Number, pod: Object) -> Object:
    """Return a Deployment of pods that are spread over nodes and zones."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(name, component),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": build_selector(component)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": build_labels(component)},
                "spec": _common(name, component) | pod,
            },
        },
    }


def _common(name: str, component: str) -> Object:
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    _apart(component, "kubernetes.io/hostname", 100),
                    _apart(component, "topology.kubernetes.io/zone", 50),
                ]
            }
        },
    }


def _apart(component: str, topology: str, weight: int) -> Object:
    chosen = {"matchLabels": build_selector(component)}
    return {"weight": weight, "podAffinityTerm": {"labelSelector": chosen, "topologyKey": topology}}


def build_container(name: str, image: str, arguments: Iterable[str], resources: object) -> Object:
    """Return a container of the one image, without any privilege."""
    return {
        "name": name,
        "image": image,
        "args": [*arguments],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def list_containers(item: Object) -> Iterator[Object]:
    """Yield the containers of an object's pods, if it has any."""
    pod = item.get("spec", {}).get("template", {}).get("spec", {})
    yield from (*pod.get("initContainers", ()), *pod.get("containers", ()))


def build_mounts() -> list[Object]:
    """Return the mounts of a container that speaks to API servers: the account, and room for certificates."""
    return [
        {"name": _ACCOUNT, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
        {"name": _SCRATCH, "mountPath": "/tmp"},  # noqa: S108 - the container's own
    ]


def build_volumes() -> list[Object]:
    """Return the volumes of pods with a connected container."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_LASTS_S}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {
            "name": _ACCOUNT,
            "projected": {"sources": [token, authority, {"downwardAPI": {"items": [namespace]}}]},
        },
        # Client certificates of kubeconfigs pass through files, so these never reach a disk.
        {"name": _SCRATCH, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]


def probe(path: str, port: str, period_s: int, failures: int) -> Object:
    """Return a probe over HTTP."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def build_disruption_budget(name: str, component: str) -> Object:
    """Return the budget that keeps a drain from evicting all pods at once."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": build_metadata(name, component),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": build_selector(component)},
            # The budget protects requests, and an unhealthy pod serves none.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def build_service_account(name: str, component: str) -> Object:
    """Return an account whose token is not mounted automatically."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": build_metadata(name, component),
        "automountServiceAccountToken": False,
    }


def build_metrics_service(name: str, component: str, port: int) -> Object:
    """Return a Service by which Prometheus finds every pod of a component."""
    about = build_metadata(f"{name}-metrics", component)
    about["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": "/metrics",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about,
        "spec": {
            "clusterIP": "None",
            "selector": build_selector(component),
            "ports": [{"name": METRICS, "port": port, "targetPort": METRICS, "protocol": "TCP"}],
        },
    }
