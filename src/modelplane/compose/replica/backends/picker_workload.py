"""The endpoint picker, which chooses the pod for each request by cached prefixes and queue length.

Two pods are active, because some gateways answer 500 while no picker does, whatever the pool says of failure.
Each learns prefixes from the requests that it sees, so a prefix is known everywhere after a few requests. A
standby would keep a drain of nodes from ever evicting the active one. A picker whose node is lost is replaced
within seconds, not minutes.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from modelplane.api import labels
from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.engines import Phase, Picker, Scorer, WeightedScorer
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.added_containers import ENDPOINT_PICKER, RESTRICTED
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists, is_ready
from modelplane.compose.replica.backends.disruption_budget import build_budget
from modelplane.compose.replica.backends.draining import GRACE_S
from modelplane.compose.replica.backends.workload import content_hash, head, part_name
from modelplane.compose.replica.engine_command_lines import find_flag, runs

PICKER_KEY = "epp"
"""Key of the Deployment."""

PORT = 9002
"""Port for the gateway's requests, by Envoy's external processing protocol."""

_HEALTH_PORT = 9003
_POOL_GROUP = "inference.networking.k8s.io"
EXTENSIONS: Final = tuple(
    (group, resource)
    for group in ("inference.networking.x-k8s.io", "llm-d.ai")
    for resource in ("inferencemodelrewrites", "inferenceobjectives")
)
"""Groups and kinds that a picker watches if the cluster has them, without which it then never answers.

Source: llm-d's router 0.10, which looks for each kind in both groups.
"""
READABLE: Final = (("", "pods"), (_POOL_GROUP, "inferencepools"), *EXTENSIONS)
"""Groups and kinds that a picker reads in its namespace."""
_FILE = "epp-config.yaml"
_FOLDER = "/config"
_BLOCK_TOKENS = 16
_MOST_DIGITS = 6
_LOST_NODE_S = 30
_PICKERS = 2
_NON_CACHED_TOKENS = 16
_PLUGINS: Final = {
    Scorer.PREFIX_CACHE: "prefix-cache-scorer",
    Scorer.QUEUE: "queue-scorer",
    Scorer.KV_CACHE_UTILIZATION: "kv-cache-utilization-scorer",
}
"""The picker's plugin of each scorer."""
_SCORERS: Final = (
    WeightedScorer(type=Scorer.PREFIX_CACHE, weight=2),
    WeightedScorer(type=Scorer.QUEUE, weight=1),
)

_ENGINES: Final = (
    (
        "sglang",
        re.compile(r"(?:.*/)?sglang(?:[:@].*)?"),
        (("-m", "sglang.launch_server"), ("sglang", "serve")),
    ),
    ("trtllm-serve", re.compile(r"(?:.*/)?tensorrt-llm(?:/release)?(?:[:@].*)?"), (("trtllm-serve",),)),
)
"""Engines with metrics of other names than vLLM's, by their images and programs (llm-d's router)."""


def engine_labels(container: Container) -> dict[str, str]:
    """Return the labels by which a picker knows the metrics of an engine; none for vLLM, the default."""
    for name, image, programs in _ENGINES:
        if image.fullmatch(container.image) or any(runs(container, *program) for program in programs):
            return {labels.LLM_D_ENGINE: name}
    return {}


def pool_name(replica: ModelReplica) -> str:
    """Return the name of the InferencePool of a replica."""
    return part_name(replica, "pool")


def picker_name(replica: ModelReplica) -> str:
    """Return the name of the picker's objects, except its configuration."""
    return part_name(replica, "epp")


def picker(replica: ModelReplica) -> Iterator[Desired]:
    """Yield the objects of a replica's picker."""
    cluster = replica.spec.cluster_name
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(replica)}
    yield Desired("epp-serviceaccount", account, exists, cluster)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": _metadata(replica),
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}
            for group, resource in READABLE
        ],
    }
    yield Desired("epp-role", role, exists, cluster)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(replica),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": picker_name(replica)},
        "subjects": [{"kind": "ServiceAccount", **_metadata(replica)}],
    }
    yield Desired("epp-rolebinding", binding, exists, cluster)
    # The ConfigMap's name depends on its content, so a change restarts the picker.
    data = {_FILE: yaml.safe_dump(configuration(replica), sort_keys=False)}
    digest = content_hash(data)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": part_name(replica, f"epp-{digest}"), "namespace": replica.metadata.namespace},
        "immutable": True,
        "data": data,
    }
    yield Desired(f"epp-config-{digest}", config, exists, cluster)
    yield Desired(PICKER_KEY, _deployment(replica, config), is_ready, cluster)
    port = {"name": "grpc-ext-proc", "port": PORT, "targetPort": PORT, "protocol": "TCP"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(replica),
        "spec": {
            "selector": {labels.WORKLOAD: picker_name(replica)},
            "ports": [{**port, "appProtocol": "http2"}],
        },
    }
    yield Desired("epp-service", service, exists, cluster)
    pods = {labels.WORKLOAD: picker_name(replica)}
    yield Desired("epp-disruption", build_budget(_metadata(replica), pods), exists, cluster)


def configuration(replica: ModelReplica) -> dict[str, Any]:
    """Return the picker's configuration file.

    In mode PrefillDecode it must set the threshold, the producer of prefixes and the block size. Otherwise no
    request is ever divided, and no error is reported. The profile handler itself sets the header with the
    prefill pod; the plugin that did so before is gone from llm-d's router 0.11 on.
    """
    serving = replica.spec.serving
    settings = (serving.picker if serving else None) or Picker()
    all_scorers = (*(settings.scorers or _SCORERS), *settings.prefill_scorers)
    plugins: list[dict[str, Any]] = [
        {
            "type": "approx-prefix-cache-producer",
            "parameters": {
                "autoTune": False,
                "blockSizeTokens": _block_tokens(replica),
                "maxPrefixBlocksToMatch": 256,
                "lruCapacityPerServer": 31250,
            },
        },
        *({"type": plugin} for plugin in dict.fromkeys(_PLUGINS[scorer.type] for scorer in all_scorers)),
        {"type": "max-score-picker"},
    ]
    profiles = [_profile("default", settings.scorers)]
    if any(engine.phase is not None for engine in replica.spec.engines):
        plugins += [
            {"type": "prefill-filter"},
            {"type": "decode-filter"},
            {
                "type": "prefix-based-pd-decider",
                "parameters": {"nonCachedTokens": settings.non_cached_tokens or _NON_CACHED_TOKENS},
            },
            {
                "type": "disagg-profile-handler",
                "parameters": {"deciders": {"prefill": "prefix-based-pd-decider"}},
            },
        ]
        profiles = [
            _profile("prefill", settings.prefill_scorers or settings.scorers, "prefill-filter"),
            _profile("decode", settings.scorers, "decode-filter"),
        ]
    return {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    }


def _profile(name: str, scorers: tuple[WeightedScorer, ...], *filters: str) -> dict[str, Any]:
    return {
        "name": name,
        "plugins": [
            *({"pluginRef": text} for text in filters),
            {"pluginRef": "max-score-picker"},
            *(
                {"pluginRef": _PLUGINS[scorer.type], "weight": scorer.weight}
                for scorer in scorers or _SCORERS
            ),
        ],
    }


def _block_tokens(replica: ModelReplica) -> int:
    """Return the number of tokens in a block of the engine's cache."""
    engines = replica.spec.engines
    deciding = next((engine for engine in engines if engine.phase is Phase.DECODE), engines[0])
    given = find_flag(head(deciding).template.spec.engine, "--block-size", "--page-size") or ""
    # int() of thousands of digits raises.
    is_number = given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS
    return int(given) if is_number and int(given) > 0 else _BLOCK_TOKENS


def _metadata(replica: ModelReplica) -> dict[str, str]:
    return {"name": picker_name(replica), "namespace": replica.metadata.namespace}


def _deployment(replica: ModelReplica, config: Object) -> Object:
    own = {labels.WORKLOAD: picker_name(replica)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(replica),
        "spec": {
            "replicas": _PICKERS,
            "selector": {"matchLabels": own},
            # The new picker answers before the old one stops.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": own},
                "spec": {
                    "serviceAccountName": picker_name(replica),
                    # The gateway's streams to the picker last as long as the engines' responses.
                    "terminationGracePeriodSeconds": GRACE_S,
                    "tolerations": [
                        {
                            "key": f"node.kubernetes.io/{state}",
                            "operator": "Exists",
                            "effect": "NoExecute",
                            "tolerationSeconds": _LOST_NODE_S,
                        }
                        for state in ("not-ready", "unreachable")
                    ],
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": own},
                        }
                    ],
                    "containers": [_container(replica)],
                    "volumes": [{"name": "config", "configMap": {"name": config["metadata"]["name"]}}],
                },
            },
        },
    }


def _container(replica: ModelReplica) -> dict[str, Any]:
    health = {"grpc": {"port": _HEALTH_PORT, "service": "inference-extension"}, "periodSeconds": 5}
    return {
        "name": "epp",
        "image": ENDPOINT_PICKER.reference,
        "args": [
            f"--pool-name={pool_name(replica)}",
            f"--pool-namespace={replica.metadata.namespace}",
            f"--pool-group={_POOL_GROUP}",
            f"--config-file={_FOLDER}/{_FILE}",
            f"--grpc-port={PORT}",
        ],
        "ports": [
            {"name": "grpc", "containerPort": PORT, "protocol": "TCP"},
            {"name": "grpc-health", "containerPort": _HEALTH_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**health, "failureThreshold": 24},
        "readinessProbe": {**health},
        "livenessProbe": {**health, "failureThreshold": 12},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "config", "mountPath": _FOLDER, "readOnly": True}],
    }
