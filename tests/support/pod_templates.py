"""Pod specs that an author may and may not write, for the API server and for ``modelplane validate``."""

from typing import Any

IMAGE = "registry.example.com/meter:1"
ENGINE: dict[str, Any] = {"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}
BESIDE: dict[str, Any] = {"name": "meter", "image": IMAGE}
MEMORY: dict[str, Any] = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
AT_SHARED_MEMORY: dict[str, Any] = {"name": "shm", "mountPath": "/dev/shm"}


def spec(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a pod spec; with an engine where no containers are given."""
    return {"containers": list(containers) or [ENGINE], **fields}


def engine(**fields: Any) -> dict[str, Any]:
    """Return a pod spec whose engine has some fields."""
    return spec({**ENGINE, **fields})


ACCEPTED = {
    "shared memory of a size": spec({**ENGINE, "volumeMounts": [AT_SHARED_MEMORY]}, volumes=[MEMORY]),
    "shared memory under the name of Modelplane's": spec(
        {**ENGINE, "volumeMounts": [{**AT_SHARED_MEMORY, "name": "dshm"}]},
        volumes=[{**MEMORY, "name": "dshm"}],
    ),
    "a container before the engine": spec(BESIDE, ENGINE),
    "a sidecar with a startup probe": spec(
        initContainers=[
            {**BESIDE, "restartPolicy": "Always", "startupProbe": {"httpGet": {"port": 9100}}},
            {"name": "prepare", "image": IMAGE},
        ]
    ),
    "probes of the engine": engine(
        startupProbe={"httpGet": {"path": "/health", "port": 8000}, "failureThreshold": 9000},
        readinessProbe={"exec": {"command": ["true"]}},
        livenessProbe={"tcpSocket": {"port": 8000}},
        lifecycle={"postStart": {"sleep": {"seconds": 1}}},
        resources={"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"ephemeral-storage": "1Gi"}},
    ),
    "eight containers of each kind with sixteen volumes": spec(
        ENGINE,
        *({"name": f"c-{n}", "image": IMAGE} for n in range(7)),
        initContainers=[{"name": f"i-{n}", "image": IMAGE} for n in range(8)],
        volumes=[{"name": f"v-{n}", "emptyDir": {}} for n in range(16)],
    ),
}

_HOST_PATH = {"name": "host", "hostPath": {"path": "/"}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no engine": (
        spec(BESIDE),
        'exactly one container must be named "engine": rename the container of the engine',
    ),
    "two engines": (
        spec(ENGINE, ENGINE),
        'exactly one container must be named "engine": rename the container of the engine',
    ),
    "an init container of the engine's name": (
        spec(initContainers=[{"name": "engine", "image": IMAGE}]),
        "two containers of a pod cannot have one name",
    ),
    "two containers of one name": (
        spec(ENGINE, BESIDE, BESIDE),
        "two containers of a pod cannot have one name",
    ),
    "the name of the routing sidecar": (
        spec(initContainers=[{"name": "pd-sidecar", "image": IMAGE, "restartPolicy": "Always"}]),
        "the name pd-sidecar is that of Modelplane's routing sidecar",
    ),
    "nine containers": (
        spec(ENGINE, *({"name": f"c-{n}", "image": IMAGE} for n in range(8))),
        "must have at most 8 items",
    ),
    "nine init containers": (
        spec(initContainers=[{"name": f"i-{n}", "image": IMAGE} for n in range(9)]),
        "must have at most 8 items",
    ),
    "a thousand volumes": (
        spec(volumes=[{"name": f"v-{n}", "emptyDir": {}} for n in range(1000)]),
        "must have at most 16 items",
    ),
    "a container of a name in capitals": (spec(ENGINE, {**BESIDE, "name": "Meter"}), "containers[1].name"),
    "a hook that replaces the drain of the engine": (
        engine(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
        "lifecycle.preStop of the engine is Modelplane's",
    ),
    "a hook longer than the grace period": (
        spec(ENGINE, {**BESIDE, "lifecycle": {"preStop": {"sleep": {"seconds": 600}}}}),
        "seconds",
    ),
    "a device as a resource": (
        engine(resources={"limits": {"nvidia.com/gpu": "8"}}),
        "only cpu, memory and ephemeral-storage: request devices in nodeSelector",
    ),
    "a device of a container beside the engine": (
        spec(ENGINE, {**BESIDE, "resources": {"requests": {"nvidia.com/gpu": "1"}}}),
        "only cpu, memory and ephemeral-storage: request devices in nodeSelector",
    ),
    "a negative amount": (engine(resources={"requests": {"memory": "-1Gi"}}), "memory"),
    "the volume of a cache": (
        spec({**ENGINE, "volumeMounts": []}, volumes=[{"name": "model-cache", "emptyDir": {}}]),
        "volumes model-cache and dshm are Modelplane's",
    ),
    "the volume of shared memory, mounted elsewhere": (
        spec(
            {**ENGINE, "volumeMounts": [{"name": "dshm", "mountPath": "/memory"}]},
            volumes=[{**MEMORY, "name": "dshm"}],
        ),
        "volumes model-cache and dshm are Modelplane's",
    ),
    "a volume over the weights": (
        spec({**ENGINE, "volumeMounts": [{"name": "shm", "mountPath": "/mnt/models/x"}]}, volumes=[MEMORY]),
        "/mnt/models of the engine is for the weights of a ModelCache",
    ),
    "a volume that is another's": (
        engine(volumeMounts=[{"name": "model-cache", "mountPath": "/weights"}]),
        "a volumeMount has the name of a volume of the pod",
    ),
    "two volumes of one name": (spec(volumes=[MEMORY, MEMORY]), "two volumes of a pod cannot have one name"),
    "two volumes at one path": (
        spec({**ENGINE, "volumeMounts": [AT_SHARED_MEMORY, AT_SHARED_MEMORY]}, volumes=[MEMORY]),
        "two volumes cannot be mounted at one path",
    ),
    "a path that leads upwards": (
        spec({**ENGINE, "volumeMounts": [{"name": "shm", "mountPath": "/a/../etc"}]}, volumes=[MEMORY]),
        "mountPath",
    ),
    "the root": (
        spec({**ENGINE, "volumeMounts": [{"name": "shm", "mountPath": "/"}]}, volumes=[MEMORY]),
        "mountPath",
    ),
    "a probe without a check": (engine(readinessProbe={"periodSeconds": 1}), "set exactly one of httpGet"),
    "a probe with two checks": (
        engine(readinessProbe={"httpGet": {"port": 1}, "tcpSocket": {"port": 1}}),
        "set exactly one of httpGet",
    ),
    "a hook with two actions": (
        engine(lifecycle={"postStart": {"sleep": {"seconds": 1}, "exec": {"command": ["true"]}}}),
        "set exactly one of httpGet, exec and sleep",
    ),
    "a startup probe of a container that ends": (
        spec(initContainers=[{**BESIDE, "startupProbe": {"tcpSocket": {"port": 1}}}]),
        "a startupProbe belongs to a sidecar",
    ),
    "a restart policy of a container beside the engine": (
        spec(initContainers=[{**BESIDE, "restartPolicy": "Never"}]),
        "restartPolicy",
    ),
    # The schema has no such field: a client that asks for strict validation is refused.
    **{
        f"the field {name}": (what, name)
        for name, what in {
            "hostPath": spec(volumes=[_HOST_PATH]),
            "hostNetwork": spec(hostNetwork=True),
            "hostPID": spec(hostPID=True),
            "shareProcessNamespace": spec(shareProcessNamespace=True),
            "serviceAccountName": spec(serviceAccountName="admin"),
            "securityContext": spec(ENGINE, {**BESIDE, "securityContext": {"privileged": True}}),
            "claims": engine(resources={"claims": [{"name": "devices"}]}),
            "host": engine(readinessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
            "volumeDevices": spec(ENGINE, {**BESIDE, "volumeDevices": [{"name": "d"}]}),
            "envFrom": spec(ENGINE, {**BESIDE, "envFrom": [{"secretRef": {"name": "other"}}]}),
        }.items()
    },
    "a Secret as a volume": (
        spec(volumes=[{"name": "s", "emptyDir": {}, "secret": {"secretName": "other"}}]),
        "volumes[0].secret",
    ),
    "a claim as a volume": (
        spec(volumes=[{"name": "p", "emptyDir": {}, "persistentVolumeClaim": {"claimName": "other"}}]),
        "volumes[0].persistentVolumeClaim",
    ),
    "a port of the node": (
        spec(ENGINE, {**BESIDE, "ports": [{"containerPort": 80, "hostPort": 80}]}),
        "containers[1].ports",
    ),
}
