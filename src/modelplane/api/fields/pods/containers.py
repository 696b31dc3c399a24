"""Containers of an engine's pods, and their volumes.

A part of Kubernetes' core/v1. It has no field by which a pod reaches its node, a device or an object of
another namespace: devices are in ``nodeSelector``, and volumes are ephemeral.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from modelplane.api.fields.pods.handlers import Lifecycle, Probe
from modelplane.api.fields.pods.variables import Argument, EnvVar
from modelplane.api.meta import LocalReference, Model
from modelplane.api.schema.fields import DNS_LABEL, IMAGE_RULE, MAX_IMAGE, QUANTITY, SPACES, Rule, about

ENGINE: Final = "engine"
"""Name of the container that runs the engine."""

SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - a mount, not a file
"""Mount path of shared memory."""

SHARED_MEMORY: Final = "dshm"
"""Name of the volume with an engine's shared memory, unless its author mounts another one there."""

CACHE: Final = "model-cache"
"""Name of the volume with the weights of a ModelCache."""

CACHE_PATH: Final = "/mnt/models"
"""Mount path of a ModelCache's weights, which is part of the contract with engines."""

ROUTING_SIDECAR: Final = "pd-sidecar"
"""Name of the container that routes the requests of a decode pod."""

_MAX_CONTAINERS: Final = 8
_MAX_VOLUMES: Final = 16


class Medium(StrEnum):
    """Storage medium of an ephemeral volume."""

    NODE = ""
    MEMORY = "Memory"


class EmptyDir(Model):
    """A directory that exists for the lifetime of the pod."""

    medium: Annotated[
        Medium,
        about("Storage medium. Memory: the files are stored in memory. Default: the disk of the node."),
    ] = Medium.NODE
    size_limit: (
        Annotated[
            str,
            about(
                "Maximum size of the files, such as 16Gi. Default: limited only by the node.",
                min_length=1,
                max_length=32,
                pattern=QUANTITY,
            ),
        ]
        | None
    ) = None


class Volume(Model):
    """An ephemeral volume that the containers of a pod share."""

    name: Annotated[
        str,
        about("Name of the volume: a DNS label.", min_length=1, max_length=63, pattern=DNS_LABEL),
    ]
    empty_dir: Annotated[EmptyDir, about("A directory that is empty when the pod starts.")]


class VolumeMount(Model):
    """A volume at a path of a container."""

    name: Annotated[
        str, about("Name of a volume of the pod.", min_length=1, max_length=63, pattern=DNS_LABEL)
    ]
    mount_path: Annotated[
        str,
        about(
            "Absolute path in the container, without the parts . and ..",
            max_length=256,
            pattern=r"^(/([A-Za-z0-9_-][A-Za-z0-9_.-]*|\.[A-Za-z0-9_-][A-Za-z0-9_.-]*))+$",
        ),
    ]
    read_only: Annotated[bool, about("Whether this container can only read the volume.")] = False


_RESOURCES = Rule(
    "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'])",
    "only cpu, memory and ephemeral-storage: request devices in nodeSelector",
)

_Amount: TypeAlias = Annotated[
    str, about("Amount, such as 500m or 2Gi.", min_length=1, max_length=32, pattern=QUANTITY)
]


class Resources(Model):
    """CPU, memory, and disk of a container. Placement on clusters doesn't consider them."""

    requests: Annotated[
        Mapping[str, _Amount],
        about("Amounts that must be free on the node.", max_length=3, rules=(_RESOURCES,)),
    ] = {}
    limits: Annotated[
        Mapping[str, _Amount],
        about("Maximum amounts that the container can use.", max_length=3, rules=(_RESOURCES,)),
    ] = {}


_IMAGE = about(
    "Image of the container. Modelplane doesn't change the reference.",
    min_length=1,
    max_length=MAX_IMAGE,
    pattern=f"^[^{SPACES}]+$",
    rules=(IMAGE_RULE,),
)


class CommonContainer(Model):
    """Fields of every container."""

    __rules__: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.volumeMounts) || "
            "self.volumeMounts.all(a, self.volumeMounts.exists_one(b, a.mountPath == b.mountPath))",
            "two volumes cannot be mounted at one path",
        ),
    )

    name: Annotated[
        str,
        about(
            "Name of the container: a DNS label. The container named engine runs the engine.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ]
    image: Annotated[str, _IMAGE]
    command: Annotated[
        tuple[Argument, ...],
        about(
            "Command that replaces the entrypoint of the image. If set, Modelplane doesn't add "
            "the --model argument to an engine.",
            max_length=1024,
            atomic=True,
        ),
    ] = ()
    args: Annotated[
        tuple[Argument, ...], about("Arguments of the program.", max_length=1024, atomic=True)
    ] = ()
    env: Annotated[
        tuple[EnvVar, ...],
        about("Environment of the container, after the variables that Modelplane sets.", max_length=256),
    ] = ()
    volume_mounts: Annotated[
        tuple[VolumeMount, ...],
        about(
            "Mounts of the pod's volumes in the container. A mount at /dev/shm of the engine "
            "replaces the default shared memory, which has no size limit.",
            max_length=_MAX_VOLUMES,
            atomic=True,
        ),
    ] = ()
    resources: Annotated[Resources, about("CPU, memory, and disk of the container.")] | None = None
    startup_probe: (
        Annotated[
            Probe,
            about(
                "Startup probe. Other probes start after this probe succeeds. On the engine, "
                "replaces the probe that Modelplane sets."
            ),
        ]
        | None
    ) = None


class Container(CommonContainer):
    """A container of a pod."""

    readiness_probe: (
        Annotated[
            Probe,
            about(
                "Readiness probe. The pod receives requests while this probe succeeds. On the "
                "engine, replaces the probe that Modelplane sets."
            ),
        ]
        | None
    ) = None
    liveness_probe: (
        Annotated[
            Probe,
            about(
                "Liveness probe. The container restarts if this probe fails. On the engine, replaces "
                "the probe that Modelplane sets."
            ),
        ]
        | None
    ) = None
    lifecycle: (
        Annotated[Lifecycle, about("Hooks that run after the container starts and before it stops.")] | None
    ) = None


class InitContainer(CommonContainer):
    """A container that starts before the others: it completes first, or keeps running as a sidecar."""

    __rules__ = (
        *CommonContainer.__rules__,
        Rule(
            "has(self.restartPolicy) || !has(self.startupProbe)",
            "a startupProbe belongs to a sidecar: set restartPolicy: Always, or remove it",
        ),
    )

    restart_policy: (
        Annotated[
            Literal["Always"],
            about(
                "Restart policy. Always: a sidecar, which starts before the engine and stops after "
                "it. Default: the next container starts after this container succeeds."
            ),
        ]
        | None
    ) = None


# The API server estimates no cost for what `filter` and `map` return: rules go over the fields themselves.
_IS_ENGINE = f"c.name == '{ENGINE}'"
_MOUNTS_A_VOLUME = (
    "!has(c.volumeMounts) || c.volumeMounts.all(m, "
    "has(self.volumes) && self.volumes.exists(v, v.name == m.name))"
)


class PodSpec(Model):
    """The part of a pod that you define."""

    __rules__ = (
        Rule(
            f"self.containers.exists_one(c, {_IS_ENGINE})",
            f'exactly one container must be named "{ENGINE}": rename the container of the engine',
        ),
        Rule(
            "self.containers.all(a, self.containers.exists_one(b, a.name == b.name)) && "
            "(!has(self.initContainers) || self.initContainers.all(a, self.initContainers.exists_one(b, "
            "a.name == b.name) && !self.containers.exists(b, a.name == b.name)))",
            "two containers of a pod cannot have one name",
        ),
        Rule(
            f"!self.containers.exists(c, c.name == '{ROUTING_SIDECAR}') && (!has(self.initContainers) || "
            f"!self.initContainers.exists(c, c.name == '{ROUTING_SIDECAR}'))",
            f"the name {ROUTING_SIDECAR} is that of Modelplane's routing sidecar: use another one",
        ),
        Rule(
            f"!self.containers.exists(c, {_IS_ENGINE} && has(c.lifecycle) && has(c.lifecycle.preStop))",
            "lifecycle.preStop of the engine is Modelplane's, which drains requests with it: set the hook on "
            "another container",
        ),
        Rule(
            "!has(self.volumes) || self.volumes.all(a, self.volumes.exists_one(b, a.name == b.name))",
            "two volumes of a pod cannot have one name",
        ),
        Rule(
            f"!has(self.volumes) || (!self.volumes.exists(v, v.name == '{CACHE}') && "
            f"(!self.volumes.exists(v, v.name == '{SHARED_MEMORY}') || "
            f"self.containers.exists(c, {_IS_ENGINE} && has(c.volumeMounts) && "
            f"c.volumeMounts.exists(m, m.mountPath == '{SHARED_MEMORY_PATH}'))))",
            f"volumes {CACHE} and {SHARED_MEMORY} are Modelplane's: use another name, or mount your own at "
            f"{SHARED_MEMORY_PATH} of the engine",
        ),
        Rule(
            f"!self.containers.exists(c, {_IS_ENGINE} && has(c.volumeMounts) && c.volumeMounts.exists(m, "
            f"m.mountPath == '{CACHE_PATH}' || m.mountPath.startsWith('{CACHE_PATH}/')))",
            f"{CACHE_PATH} of the engine is for the weights of a ModelCache: mount the volume elsewhere",
        ),
        Rule(
            f"self.containers.all(c, {_MOUNTS_A_VOLUME}) && "
            f"(!has(self.initContainers) || self.initContainers.all(c, {_MOUNTS_A_VOLUME}))",
            "a volumeMount has the name of a volume of the pod: declare it in volumes",
        ),
    )

    containers: Annotated[
        tuple[Container, ...],
        about(
            "The container named engine, and any other containers.",
            min_length=1,
            max_length=_MAX_CONTAINERS,
            atomic=True,
        ),
    ]
    init_containers: Annotated[
        tuple[InitContainer, ...],
        about(
            "Containers that start in order before the others, including sidecars.",
            max_length=_MAX_CONTAINERS,
            atomic=True,
        ),
    ] = ()
    volumes: Annotated[
        tuple[Volume, ...],
        about("Ephemeral volumes that the containers share.", max_length=_MAX_VOLUMES, atomic=True),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[LocalReference, ...], about("Secrets for pulling the images.", max_length=16, atomic=True)
    ] = ()

    @property
    def engine(self) -> Container:
        """The container that runs the engine; the first one if none has its name."""
        return next(
            (container for container in self.containers if container.name == ENGINE), self.containers[0]
        )

    @property
    def others(self) -> tuple[Container, ...]:
        """The containers beside it."""
        return tuple(container for container in self.containers if container is not self.engine)

    @property
    def variables(self) -> tuple[EnvVar, ...]:
        """The variables of every container."""
        return tuple(
            variable for container in (*self.init_containers, *self.containers) for variable in container.env
        )
