"""Pods of an engine, and their placement on nodes.

The author's fields of the member's template are passed on unchanged. Added are the fields that every model
server needs: devices, weights, probes and time to drain. No CPU or memory request is invented, and no bound
for ``/dev/shm``: Kubernetes bounds it by the node's memory, and a smaller bound would stop working engines.
The author bounds it by mounting another volume there.

The scheduler's choice of the pool is required. The pods of one gang that claim devices must be on different
nodes, because the scheduler counted them so. All other terms are preferences, such as copies apart and
communicating pods together, and never keep a pod pending.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.fields.cluster.node_pools import NodeTaintEffect
from modelplane.api.fields.pods.containers import (
    CACHE,
    CACHE_PATH,
    SHARED_MEMORY,
    SHARED_MEMORY_PATH,
    CommonContainer,
    PodSpec,
)
from modelplane.api.fields.pods.engines import ENGINE_PORT, Role
from modelplane.api.fields.pods.variables import EnvVar
from modelplane.api.meta import Object
from modelplane.api.model_replica import PlacedMember
from modelplane.compose.cache import staging_sources
from modelplane.compose.replica import engine_variables
from modelplane.compose.replica.backends import prefill_decode
from modelplane.compose.replica.backends.draining import (
    GRACE_S,
    UNTIL_0_3,
    WAIT_S,
    Draining,
    draining,
    leader_hook,
    worker_hook,
)
from modelplane.compose.replica.backends.picker_workload import engine_labels
from modelplane.compose.replica.backends.workload import HEALTH_PATH, Form, Workload
from modelplane.compose.replica.copied_references import CONFIG_MAP, SECRET
from modelplane.compose.replica.engine_command_lines import find_flag, find_model

_HOST = "kubernetes.io/hostname"

_ZONE = "topology.kubernetes.io/zone"

GPU_TAINT: Final = "nvidia.com/gpu"

_GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
"""Label of a LeaderWorkerSet's pods: equal within a gang, different between gangs."""

STARTUP_TIMEOUT_S = 7200
"""Time that an engine has to load its weights before it is restarted."""

_DEVICES = "devices"

# The author chooses the image, and many images run as root.
_POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
}
"""Fields of an engine's pod: an engine asks no API server."""

_CONTAINER: dict[str, Any] = {"allowPrivilegeEscalation": False}
"""The security context of an engine: with ``_POD``, Kubernetes' Pod Security Standard "baseline" and more."""


def pod_template(workload: Workload, member: PlacedMember, claim: Object | None) -> dict[str, Any]:
    """Return the template of a member's pods; ``claim`` is the ResourceClaimTemplate of each."""
    own = {labels.WORKLOAD: workload.name}
    if member.role is not Role.WORKER:
        own |= {labels.SERVING: workload.replica.metadata.name, **prefill_decode.build_pod_labels(workload)}
        if workload.form > Form.V0_8:
            own |= engine_labels(member.template.spec.engine)
    if member.role is Role.LEADER:
        own |= workload.marks.leader
    queue = workload.scheduler
    metadata: dict[str, Any] = {"labels": {**member.template.metadata.labels, **queue.labels, **own}}
    if annotations := {**member.template.metadata.annotations, **queue.annotations}:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _spec(workload, member, claim)}


def node_rules(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the fields of a pod's spec that place it on nodes."""
    rules: dict[str, Any] = {
        "nodeSelector": {labels.POOL: member.node_pool_name},
        "tolerations": [
            {"key": GPU_TAINT, "operator": "Exists", "effect": str(NodeTaintEffect.NO_SCHEDULE)},
            *(
                {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": str(taint.effect)}
                for taint in workload.taints.get(member.node_pool_name, ())
                if (taint.key, taint.effect) != (GPU_TAINT, NodeTaintEffect.NO_SCHEDULE)
            ),
        ],
    }
    if affinity := _affinity(workload, member):
        rules["affinity"] = affinity
    if member.role is not Role.WORKER:
        copies = dict(workload.marks.pods)
        if member.role is Role.LEADER:
            copies |= workload.marks.leader
        rules["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": copies},
            }
            # Copies that communicate much stay in one zone.
            for key in ((_HOST, _ZONE) if workload.phase is None else (_HOST,))
        ]
    return rules


def _affinity(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if apart := _claiming_pods(workload, member):
        term = {"labelSelector": apart, "matchLabelKeys": [_GROUP_KEY], "topologyKey": _HOST}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near: list[dict[str, Any]] = []
    if workload.phase is not None and member.role is not Role.WORKER:
        # The prefill phase sends its KV cache to the decode phase.
        near.append({"labelSelector": {"matchLabels": dict(workload.marks.serving)}})
    if workload.follower is not None:
        own = {"matchLabels": dict(workload.marks.pods)}
        near.append({"labelSelector": own, "matchLabelKeys": [_GROUP_KEY]})
    if near:
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {**term, "topologyKey": _ZONE}} for term in near
            ]
        }
    return affinity


def _claiming_pods(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the expressions that select the other pods with a node of their own; empty if there are none.

    A member without claims does not need a node of its own, so it can share one.
    """
    worker = workload.follower
    if worker is None or not worker.device_requests or not member.device_requests:
        return {}
    selector: dict[str, Any] = {"matchLabels": dict(workload.marks.pods)}
    if not workload.head.device_requests:
        selector["matchExpressions"] = [dict(workload.marks.others)]
    return selector


def _spec(workload: Workload, member: PlacedMember, claim: Object | None) -> dict[str, Any]:
    cache = workload.replica.spec.model_cache_ref
    spec: dict[str, Any] = {
        **node_rules(workload, member),
        # A Service called vllm would otherwise set VLLM_PORT in every pod of the namespace.
        "enableServiceLinks": False,
        **(_POD if workload.hardened else {}),
        **({"schedulerName": workload.scheduler.name} if workload.scheduler.name else {}),
        "terminationGracePeriodSeconds": GRACE_S,
        "containers": [
            _container(workload, member, claim),
            *(_beside(workload, other) for other in member.template.spec.others),
        ],
        "volumes": [],
    }
    # The routing sidecar stops last because it starts first.
    sidecar = None if member.role is Role.WORKER else prefill_decode.build_sidecar(workload)
    theirs = [_beside(workload, container) for container in member.template.spec.init_containers]
    if init := [*([sidecar] if sidecar else []), *theirs]:
        spec["initContainers"] = init
    if not _shares_memory(member.template.spec):
        spec["volumes"].append({"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory"}})
    if cache is not None:
        claimed = staging_sources.name_claim(workload.namespace, cache.name)
        spec["volumes"].append({"name": CACHE, "persistentVolumeClaim": {"claimName": claimed}})
    spec["volumes"] += msgspec.to_builtins(member.template.spec.volumes)
    if claim is not None:
        spec["resourceClaims"] = [{"name": _DEVICES, "resourceClaimTemplateName": claim["metadata"]["name"]}]
    if member.template.spec.image_pull_secrets:
        pulls = (pull.name for pull in member.template.spec.image_pull_secrets)
        spec["imagePullSecrets"] = [{"name": workload.name_of(SECRET, name)} for name in pulls]
    return spec


def _shares_memory(spec: PodSpec) -> bool:
    """Return True if the author mounts another volume as the engine's shared memory."""
    return any(mount.mount_path == SHARED_MEMORY_PATH for mount in spec.engine.volume_mounts)


def _beside(workload: Workload, container: CommonContainer) -> dict[str, Any]:
    """Return a container beside the engine. It claims no devices."""
    written: dict[str, Any] = msgspec.to_builtins(container)
    ours = engine_variables.list_own_variables(workload.replica, container, Role.STANDALONE)
    if env := _keep_last_of_each([*ours, *(_variable(workload, variable) for variable in container.env)]):
        written["env"] = env
    return {**written, "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": _CONTAINER}


def _container(workload: Workload, member: PlacedMember, claim: Object | None) -> dict[str, Any]:
    engine = member.template.spec.engine
    container: dict[str, Any] = msgspec.to_builtins(engine)
    if args := _args(workload, member):
        container["args"] = args
    # The author's variables come after ours, so that they can refer to ours.
    ours = engine_variables.list_own_variables(workload.replica, engine, member.role)
    ours += prefill_decode.build_environment(workload)
    if env := _keep_last_of_each([*ours, *(_variable(workload, variable) for variable in engine.env)]):
        container["env"] = env
    # The ModelReplica reports the last lines of the log as the cause of a failure.
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    mounts: list[Object] = []
    if not _shares_memory(member.template.spec):
        mounts.append({"name": SHARED_MEMORY, "mountPath": SHARED_MEMORY_PATH})
    if workload.replica.spec.model_cache_ref is not None:
        # Every pod of the cluster mounts the same volume, so none may change it.
        mounts.append({"name": CACHE, "mountPath": CACHE_PATH, "readOnly": True})
    container["volumeMounts"] = [*mounts, *msgspec.to_builtins(engine.volume_mounts)]
    if claim is not None:
        container["resources"] = {**container.get("resources", {}), "claims": [{"name": _DEVICES}]}
    if workload.hardened:
        container["securityContext"] = _CONTAINER
    container["lifecycle"] = {**container.get("lifecycle", {}), "preStop": _pause(workload, member)}
    if member.role is Role.WORKER:
        # A worker has no probes of ours: the leader's health is the gang's.
        return container
    # Probes of the author replace ours.
    name = "http" if workload.port == ENGINE_PORT else "engine"
    ports = [{"name": name, "containerPort": workload.port, "protocol": "TCP"}]
    return {**_probes(workload.port), **container, "ports": ports}


def _pause(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the hook for which an engine goes on serving before it gets SIGTERM."""
    engine, is_former = member.template.spec.engine, workload.form <= Form.V0_8
    if member.role is Role.WORKER:
        return {"sleep": {"seconds": WAIT_S}} if is_former else {"exec": {"command": worker_hook(engine)}}
    pause_s = _draining(workload, member).pause_s
    if member.role is Role.LEADER and pause_s >= WAIT_S and not is_former:
        return {"exec": {"command": leader_hook(engine, workload.port, pause_s)}}
    return {"sleep": {"seconds": pause_s}}


def _draining(workload: Workload, member: PlacedMember) -> Draining:
    return draining(member.template.spec.engine) if workload.form > Form.V0_3 else UNTIL_0_3


def _args(workload: Workload, member: PlacedMember) -> list[str]:
    """Return the author's arguments, and those that the engine needs to serve here.

    None is added if the author has set the flag, and with a command only those of a connector.
    """
    container = member.template.spec.engine
    args = [*container.args, *prefill_decode.list_arguments(workload.replica, workload.phase, container)]
    if container.command or member.role is Role.WORKER:
        return args
    if workload.replica.spec.model_cache_ref is not None and find_model(container) is None:
        args.append(f"--model={CACHE_PATH}")
    if workload.port != ENGINE_PORT and find_flag(container, "--port") is None:
        args.append(f"--port={workload.port}")
    return [*args, *_draining(workload, member).arguments]


def _keep_last_of_each(variables: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last variable of each name: it is the one in force, and server-side apply rejects two."""
    numbered = list(enumerate(variables))
    last = {variable["name"]: number for number, variable in numbered}
    return [variable for number, variable in numbered if last[variable["name"]] == number]


def _variable(workload: Workload, variable: EnvVar) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(variable)
    for field, kind in (("secretKeyRef", SECRET), ("configMapKeyRef", CONFIG_MAP)):
        if reference := written.get("valueFrom", {}).get(field):
            reference["name"] = workload.name_of(kind, reference["name"])
    return written


def _probes(port: int) -> dict[str, Any]:
    health = {"path": HEALTH_PATH, "port": port}
    return {
        "startupProbe": {"httpGet": health, "periodSeconds": 1, "failureThreshold": STARTUP_TIMEOUT_S},
        "readinessProbe": {"httpGet": health, "periodSeconds": 5, "timeoutSeconds": 5},
        # An engine under full load answers late; a stuck one does not answer for a minute.
        "livenessProbe": {
            "httpGet": health,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
    }
