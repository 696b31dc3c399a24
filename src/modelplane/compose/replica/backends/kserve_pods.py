"""Pods of an LLMInferenceService: those of the other backends, in terms that KServe's presets do not change.

KServe merges the pod of a preset under each pod: maps by field, containers, volumes and variables by name,
mounts by path. What is absent here is the preset's. So the engine's container has the preset's name, no
volume has a name of the preset's, and each handler is of the kind that the preset has, because two kinds of
handlers are invalid together.
"""

from typing import Any, Final

from modelplane.api.fields.pods.containers import CACHE_PATH, ROUTING_SIDECAR, Container
from modelplane.api.fields.pods.engines import ENGINE_PORT, Role
from modelplane.api.model_replica import PlacedMember
from modelplane.compose.replica.backends.draining import is_vllm
from modelplane.compose.replica.backends.workload import HEALTH_PATH, Workload
from modelplane.compose.replica.pods.engine_pods import STARTUP_TIMEOUT_S

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
    author = member.template.spec.engine
    engine = {
        **container,
        "name": ENGINE,
        "command": list(entrypoint(author)),
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
        "lifecycle": _drain(container["lifecycle"]),
    }
    if member.role is not Role.WORKER:
        engine |= {key: _plain(container[key]) for key in ("startupProbe", "readinessProbe", "livenessProbe")}
        engine["ports"] = [{"containerPort": workload.port, "protocol": "TCP"}]
    return engine


def _drain(lifecycle: dict[str, Any]) -> dict[str, Any]:
    """Return the pause as a program: the presets have one, and a pod has one handler."""
    hook = lifecycle["preStop"]
    if "sleep" in hook:
        hook = {"exec": {"command": [_SLEEP, str(hook["sleep"]["seconds"])]}}
    return {**lifecycle, "preStop": hook}


def _plain(probe: dict[str, Any]) -> dict[str, Any]:
    """Return a probe with its scheme. The presets' use TLS where KServe is told so, and engines have none."""
    return {**probe, "httpGet": {"scheme": "HTTP", **probe["httpGet"]}}


def _sidecar(container: dict[str, Any]) -> dict[str, Any]:
    health = {"httpGet": {"path": HEALTH_PATH, "port": ENGINE_PORT, "scheme": "HTTP"}}
    period = 10
    return {
        **container,
        "name": _SIDECAR,
        "command": [_SIDECAR_PROGRAM],
        "ports": [{"containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "readinessProbe": _plain(container["readinessProbe"]),
        # By HTTP as in the preset. The path answers once the engine does, which may take hours to load.
        "livenessProbe": {
            **health,
            "periodSeconds": period,
            "timeoutSeconds": period,
            "failureThreshold": STARTUP_TIMEOUT_S // period,
        },
    }
