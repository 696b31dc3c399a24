"""Fields of the objects that Modelplane writes to an inference cluster; any other field is refused there.

The fields that the author of a template chooses are those of ``api/fields/pods/containers.py``. The others
are those that composition adds, and those that an API server sets itself.
``tests/kubernetes/test_admitted_children.py`` compares them with everything that is composed.
"""

from typing import Final

from modelplane.api import labels
from modelplane.api.fields.pods.containers import Container, InitContainer, Volume
from modelplane.api.fields.pods.handlers import Probe
from modelplane.api.meta import CERTIFICATE_NAMESPACE, GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.compose.replica.backends.picker_workload import READABLE
from modelplane.compose.serving_stack import cloud_components
from modelplane.compose.serving_stack.cluster_gateway import ANSWER_STATUS, ANSWERED
from modelplane.compose.serving_stack.cluster_mutual_tls import LISTENER, SECRET
from modelplane.compose.workload_kinds import INFERENCE_POOL, LEADER_WORKER_SET, LLM_INFERENCE_SERVICE
from modelplane.gateway.mutual_tls import CLIENT_NAME
from modelplane.gateway.tokens import HEADERS
from modelplane.install.cluster_admission_forms import ANY, Each, Form, OneOf, Unchanged, find_fields

_NONROOT: Final = 65532
_SECCOMP: Final[Form] = {"type": OneOf(("RuntimeDefault",))}
_AMOUNTS: Final[Form] = {"cpu": ANY, "memory": ANY, "ephemeral-storage": ANY}

_PROBE: Final[Form] = {**find_fields(Probe), "grpc": {"port": ANY, "service": ANY}}

CONTAINER: Final[dict[str, Form]] = {
    **find_fields(Container),
    **find_fields(InitContainer),
    "startupProbe": _PROBE,
    "readinessProbe": _PROBE,
    "livenessProbe": _PROBE,
    "imagePullPolicy": ANY,
    "terminationMessagePath": ANY,
    "terminationMessagePolicy": ANY,
    "ports": Each({"name": ANY, "containerPort": ANY, "protocol": ANY}),
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": Each({"name": ANY})},
    "securityContext": {
        "allowPrivilegeEscalation": OneOf((False,)),
        "capabilities": {"drop": ANY},
        "readOnlyRootFilesystem": ANY,
        "runAsNonRoot": ANY,
        "runAsUser": OneOf((_NONROOT,)),
        "seccompProfile": _SECCOMP,
    },
}
"""A container of a pod, or one that starts before the others."""

_SELECTOR: Final[Form] = {"matchLabels": ANY, "matchExpressions": ANY}
_TERM: Final[Form] = {"labelSelector": _SELECTOR, "matchLabelKeys": ANY, "topologyKey": ANY}

POD: Final[dict[str, Form]] = {
    "containers": ANY,
    "initContainers": ANY,
    "volumes": Each(
        {
            **find_fields(Volume),
            "configMap": {"name": ANY, "defaultMode": ANY},
            "persistentVolumeClaim": {"claimName": ANY, "readOnly": ANY},
        }
    ),
    "affinity": {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": Each({"weight": ANY, "podAffinityTerm": _TERM})
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": Each(_TERM)},
    },
    "automountServiceAccountToken": ANY,
    "dnsPolicy": OneOf(("ClusterFirst",)),
    "enableServiceLinks": ANY,
    "imagePullSecrets": Each({"name": ANY}),
    "nodeSelector": {labels.POOL: ANY},
    "resourceClaims": Each({"name": ANY, "resourceClaimTemplateName": ANY}),
    "restartPolicy": ANY,
    "schedulerName": ANY,
    "securityContext": {
        "fsGroup": OneOf((_NONROOT,)),
        "fsGroupChangePolicy": ANY,
        "runAsGroup": OneOf((_NONROOT,)),
        "runAsNonRoot": OneOf((True,)),
        "runAsUser": OneOf((_NONROOT,)),
        "seccompProfile": _SECCOMP,
    },
    "serviceAccount": ANY,
    "serviceAccountName": ANY,
    "terminationGracePeriodSeconds": ANY,
    "tolerations": ANY,
    "topologySpreadConstraints": Each(
        {"maxSkew": ANY, "topologyKey": ANY, "whenUnsatisfiable": ANY, "labelSelector": _SELECTOR}
    ),
}
"""The spec of a pod. Its containers have a form of their own."""

_OF_PODS: Final[dict[str, Form]] = {labels.WORKLOAD: ANY, labels.SERVING: ANY, labels.LWS_NAME: ANY}
_OF_KSERVE: Final[dict[str, Form]] = {
    labels.KSERVE_SERVICE: ANY,
    labels.KSERVE_PART: ANY,
    labels.KSERVE_COMPONENT: ANY,
}
_SERVING: Final[Form] = {**_OF_PODS, **_OF_KSERVE}

_ENGINES: Final[dict[str, Form]] = {
    "annotations": ANY,
    "labels": ANY,
    "parallelism": {"data": ANY, "dataLocal": ANY, "expert": ANY, "pipeline": ANY, "tensor": ANY},
    "replicas": ANY,
    "template": ANY,
    "worker": ANY,
}

SPECS: Final[dict[str, dict[str, Form]]] = {
    "Deployment": {
        "minReadySeconds": Unchanged(),
        "paused": Unchanged(),
        "progressDeadlineSeconds": ANY,
        "replicas": ANY,
        "revisionHistoryLimit": ANY,
        "selector": _SELECTOR,
        "strategy": ANY,
        "template": ANY,
    },
    LEADER_WORKER_SET.kind: {
        "leaderWorkerTemplate": {
            "leaderTemplate": ANY,
            "resizePolicy": OneOf(("None",)),
            "restartPolicy": ANY,
            "size": ANY,
            "workerTemplate": ANY,
        },
        "networkConfig": {"subdomainPolicy": OneOf(("Shared",))},
        "replicas": ANY,
        "rolloutStrategy": ANY,
        "startupPolicy": ANY,
    },
    LLM_INFERENCE_SERVICE.kind: {
        **_ENGINES,
        # KServe sets the name.
        "model": {"uri": ANY, "name": ANY},
        "prefill": _ENGINES,
        "storageInitializer": {"enabled": ANY},
    },
    "Job": {
        "activeDeadlineSeconds": ANY,
        "backoffLimit": ANY,
        "completionMode": OneOf(("NonIndexed",)),
        "completions": OneOf((1,)),
        "manualSelector": OneOf((False,)),
        "parallelism": OneOf((1,)),
        "podFailurePolicy": ANY,
        "podReplacementPolicy": ANY,
        "selector": ANY,
        "suspend": OneOf((False,)),
        "template": ANY,
    },
    "PodDisruptionBudget": {
        "maxUnavailable": OneOf((1,)),
        "selector": {"matchLabels": _OF_PODS},
        "unhealthyPodEvictionPolicy": ANY,
    },
    "PersistentVolumeClaim": {
        "accessModes": ANY,
        "resources": {"requests": {"storage": ANY}},
        "storageClassName": ANY,
        "volumeMode": OneOf(("Filesystem",)),
        "volumeName": Unchanged(),
    },
    "Service": {
        "clusterIP": ANY,
        "clusterIPs": ANY,
        "internalTrafficPolicy": OneOf(("Cluster",)),
        "ipFamilies": ANY,
        "ipFamilyPolicy": ANY,
        "ports": Each({"name": ANY, "port": ANY, "targetPort": ANY, "protocol": ANY, "appProtocol": ANY}),
        "selector": _SERVING,
        "sessionAffinity": OneOf(("None",)),
        "type": OneOf(("ClusterIP",)),
    },
    INFERENCE_POOL.kind: {
        "endpointPickerRef": {
            "failureMode": ANY,
            "group": OneOf(("",)),
            "kind": OneOf(("Service",)),
            "name": ANY,
            "port": {"number": ANY},
        },
        "selector": {"matchLabels": _SERVING},
        "targetPorts": Each({"number": ANY}),
    },
    "ResourceClaimTemplate": {
        "metadata": {"creationTimestamp": ANY},
        "spec": {
            "devices": {
                "requests": Each(
                    {
                        "name": ANY,
                        "exactly": {
                            "allocationMode": OneOf(("ExactCount",)),
                            "count": ANY,
                            "deviceClassName": ANY,
                            "selectors": Each({"cel": {"expression": ANY}}),
                        },
                    }
                )
            }
        },
    },
    "HTTPRoute": {
        "parentRefs": Each(
            {
                "group": OneOf(("gateway.networking.k8s.io",)),
                "kind": OneOf(("Gateway",)),
                "name": OneOf((GATEWAY_NAME,)),
                "namespace": OneOf((SYSTEM_NAMESPACE,)),
            }
        ),
        "rules": Each(
            {
                "backendRefs": Each(
                    {
                        "group": OneOf(("", "inference.networking.k8s.io")),
                        "kind": OneOf(("Service", INFERENCE_POOL.kind)),
                        "name": ANY,
                        "port": ANY,
                        "weight": ANY,
                    }
                ),
                "filters": Each(
                    {
                        "type": OneOf(("RequestHeaderModifier", "RequestRedirect", "URLRewrite")),
                        "requestHeaderModifier": {"remove": Each(OneOf(HEADERS))},
                        "requestRedirect": {
                            "path": {
                                "type": OneOf(("ReplaceFullPath",)),
                                "replaceFullPath": OneOf((ANSWERED,)),
                            },
                            "statusCode": OneOf((ANSWER_STATUS,)),
                        },
                        "urlRewrite": {
                            "path": {
                                "replacePrefixMatch": OneOf(("/",)),
                                "type": OneOf(("ReplacePrefixMatch",)),
                            }
                        },
                    }
                ),
                "matches": Each(
                    {
                        "headers": Each({"type": OneOf(("Exact",)), "name": OneOf(HEADERS), "value": ANY}),
                        "path": {"type": OneOf(("PathPrefix", "Exact")), "value": ANY},
                    }
                ),
                "timeouts": {"request": OneOf(("0s",))},
            }
        ),
    },
    "ResourceQuota": {
        "hard": {"pods": ANY},
        "scopeSelector": {
            "matchExpressions": Each(
                {"operator": OneOf(("In",)), "scopeName": OneOf(("PriorityClass",)), "values": ANY}
            )
        },
    },
}
"""The spec of each kind that has one."""

ROOTS: Final[dict[str, dict[str, Form]]] = {
    "ConfigMap": {"data": ANY, "immutable": ANY},
    "Role": {
        "rules": Each(
            {
                "apiGroups": Each(OneOf(tuple(sorted({group for group, _ in READABLE})))),
                "resources": Each(OneOf(tuple(sorted({resource for _, resource in READABLE})))),
                "verbs": Each(OneOf(("get", "list", "watch"))),
            }
        )
    },
    "RoleBinding": {"roleRef": ANY, "subjects": ANY},
    "Secret": {"data": ANY, "type": ANY},
    "ServiceAccount": {"imagePullSecrets": Unchanged(), "secrets": Unchanged()},
}
"""The fields of each kind without a spec, but its type and its metadata."""

STORAGE_CLASS: Final[dict[str, Form]] = {
    "allowVolumeExpansion": ANY,
    "mountOptions": ANY,
    "parameters": ANY,
    "provisioner": ANY,
    "reclaimPolicy": OneOf(("Delete",)),
    "volumeBindingMode": ANY,
}
"""The fields of a StorageClass, but its type and its metadata."""

_CERTIFICATE: Final[Form] = Each(
    {
        "group": OneOf(("",)),
        "kind": OneOf(("Secret",)),
        "name": OneOf((SECRET,)),
        "namespace": OneOf((CERTIFICATE_NAMESPACE,)),
    }
)

_TARGET: Final[dict[str, Form]] = {"group": ANY, "kind": OneOf(("Gateway",)), "name": OneOf((GATEWAY_NAME,))}

GATEWAYS: Final[dict[str, dict[str, Form]]] = {
    "Gateway": {
        "gatewayClassName": ANY,
        "listeners": Each(
            {
                "allowedRoutes": {"namespaces": {"from": ANY}},
                "name": ANY,
                "port": ANY,
                "protocol": ANY,
                "tls": {"certificateRefs": _CERTIFICATE, "mode": OneOf(("Terminate",))},
            }
        ),
    },
    "GatewayClass": {"controllerName": ANY},
    "ReferenceGrant": {
        "from": Each(
            {
                "group": ANY,
                "kind": OneOf(("Gateway", "ClientTrafficPolicy")),
                "namespace": OneOf((SYSTEM_NAMESPACE,)),
            }
        ),
        "to": Each({"group": OneOf(("",)), "kind": OneOf(("Secret",)), "name": OneOf((SECRET,))}),
    },
    "BackendTrafficPolicy": {
        "circuitBreaker": {
            "maxConnections": ANY,
            "maxParallelRequests": ANY,
            "maxParallelRetries": ANY,  # the definition's default
            "maxPendingRequests": ANY,
        },
        "dns": {"lookupFamily": ANY},
        "targetRefs": Each(_TARGET),
    },
    "ClientTrafficPolicy": {
        "path": {"escapedSlashesAction": OneOf(("KeepUnchanged",))},
        "headers": {"withUnderscoresAction": OneOf(("DropHeader",))},
        "targetRefs": Each({**_TARGET, "sectionName": OneOf((LISTENER,))}),
        "tls": {
            "clientValidation": {
                "caCertificateRefs": _CERTIFICATE,
                "subjectAltNames": {
                    "dnsNames": Each({"type": OneOf(("Exact",)), "value": OneOf((CLIENT_NAME,))})
                },
            }
        },
    },
}
"""The spec of each kind of the gateway of a cluster."""

CARDS: Final[dict[str, Form]] = {
    "nodeAffinity": ANY,
    "tolerations": ANY,
    **{
        part: {
            "image": OneOf((image,)),
            "repository": OneOf((cloud_components.NIC_REPOSITORY,)),
            "version": ANY,
            "config": ANY,
            "startupProbe": ANY,
            "livenessProbe": ANY,
            "readinessProbe": ANY,
        }
        for part, (image, _) in cloud_components.NIC_IMAGES.items()
    },
}
"""The spec of a NicClusterPolicy, whose images run with every privilege on the nodes."""
