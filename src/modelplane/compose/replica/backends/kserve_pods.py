"""Pods of an LLMInferenceService, in terms that KServe's presets do not change, and what none can express.

KServe merges the pod of a preset under each pod: maps by field, containers, volumes and variables by name,
mounts by path. What is absent here is the preset's. So the engine's container has the preset's name, no
volume has a name of the preset's, and each handler is of the kind that the preset has, because two kinds of
handlers are invalid together.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.containers import CACHE_PATH, ROUTING_SIDECAR, Container, PodSpec
from modelplane.api.fields.pods.engines import ENGINE_PORT, MemberPods, Role
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine, PlacedMember
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.draining import is_vllm
from modelplane.compose.replica.backends.engine_pods import STARTUP_TIMEOUT_S
from modelplane.compose.replica.backends.workload import HEALTH_PATH, Workload, is_gang

ENGINE: Final = "main"
"""Name of the engine's container in KServe's presets."""

_SIDECAR: Final = "llm-d-routing-sidecar"
"""Name of the routing sidecar in KServe's presets."""
_SIDECAR_PROGRAM: Final = "/app/pd-sidecar"
_VOLUME_PREFIX: Final = "modelplane-"

MOST_OF_VOLUME: Final = 63 - len(_VOLUME_PREFIX)
"""Most characters of the name of a volume."""

NAMES_OF_PRESETS: Final = frozenset({ENGINE, _SIDECAR, "storage-initializer"})
"""Names of containers that KServe's presets have, or that KServe adds."""
_VLLM: Final = ("python3", "-m", "vllm.entrypoints.openai.api_server")
_SERVE: Final = ("vllm", "serve")
_SLEEP: Final = "/bin/sleep"


def entrypoint(container: Container) -> tuple[str, ...]:
    """Return the command of an engine; empty if it is that of its image and not known.

    A preset has a command of its own, which would replace that of the image.
    """
    if container.command:
        return container.command
    if not is_vllm(container.image):
        return ()
    return _VLLM if not container.args or container.args[0].startswith("-") else _SERVE


def pod_spec(workload: Workload, member: PlacedMember, template: dict[str, Any]) -> dict[str, Any]:
    """Return the pods of a member for an LLMInferenceService, from those of the other backends."""
    spec: dict[str, Any] = template["spec"]
    own = {volume["name"]: volume for volume in spec["volumes"] if "persistentVolumeClaim" not in volume}
    engine, *others = spec["containers"]
    written = {
        **spec,
        "containers": [_engine(workload, member, engine, own), *map(_beside, others)],
        "volumes": [{**volume, "name": _VOLUME_PREFIX + name} for name, volume in own.items()],
    }
    if before := spec.get("initContainers"):
        written["initContainers"] = [
            _sidecar(item) if item["name"] == ROUTING_SIDECAR else _beside(item) for item in before
        ]
    return written


def _beside(container: dict[str, Any]) -> dict[str, Any]:
    """Return a container of the author's with the names that volumes have here."""
    mounts = [
        {**mount, "name": _VOLUME_PREFIX + mount["name"]} for mount in container.get("volumeMounts", ())
    ]
    return {**container, **({"volumeMounts": mounts} if mounts else {})}


def _engine(
    workload: Workload, member: PlacedMember, container: dict[str, Any], volumes: dict[str, Any]
) -> dict[str, Any]:
    # The pause as a program: the presets have one, and a pod has one handler.
    hook = container["lifecycle"]["preStop"]
    if "sleep" in hook:
        hook = {"exec": {"command": [_SLEEP, str(hook["sleep"]["seconds"])]}}
    engine = {
        **container,
        "name": ENGINE,
        "command": list(entrypoint(member.template.spec.engine)),
        # KServe itself mounts the volume of the cache, read-only and at the same path.
        "volumeMounts": [
            {**mount, "name": _VOLUME_PREFIX + mount["name"]}
            for mount in container["volumeMounts"]
            if mount["name"] in volumes and mount["mountPath"] != CACHE_PATH
        ],
        "securityContext": {
            **container.get("securityContext", {}),
            # Many images run as root and write beside their program.
            "runAsNonRoot": False,
            "readOnlyRootFilesystem": False,
        },
        "lifecycle": {**container["lifecycle"], "preStop": hook},
    }
    if member.role is not Role.WORKER:
        engine |= {key: _plain(container[key]) for key in ("startupProbe", "readinessProbe", "livenessProbe")}
        engine["ports"] = [{"containerPort": workload.port, "protocol": "TCP"}]
    return engine


def _plain(probe: dict[str, Any]) -> dict[str, Any]:
    """Return a probe with its scheme. The presets' use TLS where KServe is told so, and engines have none."""
    return {**probe, "httpGet": {"scheme": "HTTP", **probe["httpGet"]}}


def _sidecar(container: dict[str, Any]) -> dict[str, Any]:
    return {
        **container,
        "name": _SIDECAR,
        "command": [_SIDECAR_PROGRAM],
        "ports": [{"containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "readinessProbe": _plain(container["readinessProbe"]),
        # By HTTP as in the preset. The path answers once the engine does, which may take hours to load.
        "livenessProbe": {
            "httpGet": {"path": HEALTH_PATH, "port": ENGINE_PORT, "scheme": "HTTP"},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": STARTUP_TIMEOUT_S // 10,
        },
    }


_TEMPLATE: Final = "{{"
"""Begins an expression of Go's templates, which KServe expands in every field of an LLMInferenceService."""

_OF_KSERVE: Final = (
    "app.kubernetes.io/",
    "internal.serving.kserve.io/",
    "kserve.io/",
    "kueue.x-k8s.io/",
    "llm-d.ai/",
    "serving.kserve.io/",
)
"""Prefixes of labels and annotations by which KServe selects pods or takes instructions."""

_Engine: TypeAlias = Engine | PlacedEngine
"""An engine before or after placement."""

_OTHERWISE: Final = "or use a cluster with backend Modelplane"


def rejected(replica: ModelReplica) -> Rejected | None:
    """Return the first setting that KServe cannot express; None if it can express all."""
    queue = replica.spec.pod_scheduler
    if queue and (queue.labels or queue.annotations) and any(map(is_gang, replica.spec.engines)):
        key = min((*queue.labels, *queue.annotations))
        return _reject(
            "KServe",
            f'passes label or annotation "{key}" of spec.podScheduler on to no pod of a gang',
            f"remove it from the InferenceCluster, {_OTHERWISE}",
        )
    return next(rejections(replica.spec.engines), None)


def _reject(subject: str, detail: str, remedy: str) -> Rejected:
    return Rejected(Reason.UNSUPPORTED_TOPOLOGY, subject, detail, remedy)


def rejections(engines: Sequence[_Engine]) -> Iterator[Rejected]:
    """Yield each setting of engines that KServe cannot express."""
    if len(engines) > 1 and any(map(is_gang, engines)) and all(engine.phase is None for engine in engines):
        yield _reject(
            "KServe",
            "doesn't label the pods of gangs, so one route can't lead to several engines that include a gang",
            f"use a separate deployment for each engine, {_OTHERWISE}",
        )
    for engine in engines:
        for member in engine.members:
            yield from _of_pods(f'engine "{engine.name}"', engine, member)


def _of_pods(named: str, engine: _Engine, member: MemberPods) -> Iterator[Rejected]:
    spec = member.template.spec
    yield from _of_author(named, spec)
    if not entrypoint(spec.engine):
        yield _reject(
            f"{named}: KServe's presets",
            "replace the entrypoint of an image",
            f"write the command, {_OTHERWISE}",
        )
    if any(_TEMPLATE in text for text in _texts(msgspec.to_builtins(member.template))):
        yield _reject(
            named,
            f'contains "{_TEMPLATE}", which KServe would expand as a template',
            f"remove it, {_OTHERWISE}",
        )
    metadata = member.template.metadata
    keys = sorted({*metadata.labels, *metadata.annotations})
    if keys and is_gang(engine):
        yield _reject(
            f"{named}: KServe",
            f'doesn\'t pass label or annotation "{keys[0]}" to the pods of a gang',
            f"remove it, {_OTHERWISE}",
        )
    for key in keys:
        if key.startswith(_OF_KSERVE):
            yield _reject(f'{named}: label or annotation "{key}"', "is reserved by KServe", "remove it")


def _of_author(named: str, spec: PodSpec) -> Iterator[Rejected]:
    names = {container.name for container in (*spec.init_containers, *spec.others)}
    for name in sorted(names & NAMES_OF_PRESETS):
        yield _reject(f'{named}: container "{name}"', "is reserved by KServe", "use another name")
    for volume in spec.volumes:
        if len(volume.name) > MOST_OF_VOLUME:
            yield _reject(
                f'{named}: the name of volume "{volume.name}"',
                f"has more than {MOST_OF_VOLUME} characters, the maximum with KServe",
                "shorten it",
            )
    engine = spec.engine
    for probe in (engine.startup_probe, engine.readiness_probe, engine.liveness_probe):
        if probe is not None and probe.http_get is None:
            yield _reject(
                f"{named}: the probes of KServe's presets",
                "use HTTP, and a probe of another kind can't replace an HTTP probe",
                f"use httpGet, {_OTHERWISE}",
            )


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict):
        return (text for pair in value.items() for item in pair for text in _texts(item))
    if isinstance(value, list | tuple):
        return (text for item in value for text in _texts(item))
    return ()
