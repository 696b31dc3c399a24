"""Components of a serving stack, and what a user may choose of each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from modelplane.api.meta import Model
from modelplane.api.schema.fields import SPACES, VERSION, about


class ServingProfile(StrEnum):
    """Extent of a serving stack."""

    STANDARD = "Standard"
    MINIMAL = "Minimal"
    NONE = "None"


class ComponentName(StrEnum):
    """Name of a component."""

    CERT_MANAGER = "cert-manager"
    ENVOY_GATEWAY = "envoy-gateway"
    AI_GATEWAY_CRDS = "ai-gateway-crds"
    AI_GATEWAY = "ai-gateway"
    GATEWAY = "gateway"
    LEADER_WORKER_SET = "leader-worker-set"
    NODE_FEATURE_DISCOVERY = "node-feature-discovery"
    DRA_DRIVER = "dra-driver"
    PROMETHEUS = "prometheus"
    COMPUTE_DOMAINS = "compute-domains"
    DYNAMO = "dynamo"
    KSERVE_CRDS = "kserve-crds"
    KSERVE = "kserve"
    KSERVE_PRESETS = "kserve-presets"
    STORAGE_CLASS = "storage-class"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    EFA_DRA_DRIVER = "efa-dra-driver"
    NETWORK_OPERATOR = "network-operator"
    MOUNTED_FILE_SYSTEM = "mounted-file-system"


MAX_COMPONENTS = len(ComponentName)

MAX_VALUES_BYTES = 16384
"""Length of one component's values as JSON, which a schema cannot say."""


class ComponentSettings(Model):
    """The settings of one component."""

    name: Annotated[ComponentName, about("Name of the component.")]
    enabled: (
        Annotated[
            bool,
            about(
                "True installs it, whether or not the profile has it and whatever the cluster has already. "
                "False leaves it out, and uninstalls it if it was installed. Absent: as the profile says; "
                "what is installed stays."
            ),
        ]
        | None
    ) = None
    version: (
        Annotated[
            str,
            about(
                "Version of its chart. Absent: the version of the reference page.",
                min_length=1,
                max_length=32,
                pattern=VERSION,
            ),
        ]
        | None
    ) = None
    repository: (
        Annotated[
            str,
            about(
                "Address of the repository that its chart comes from, such as a mirror: oci:// or https://, "
                "or http:// on a loopback address. Absent: that of the reference page.",
                min_length=1,
                max_length=512,
                pattern=rf"^((oci|https)://|http://(localhost|127\.0\.0\.1)[:/])[^{SPACES}]*$",
            ),
        ]
        | None
    ) = None
    values: Annotated[
        Mapping[str, Any],
        about(
            "Values of its chart, over those that Modelplane sets: maps are merged, everything else is "
            f"replaced. At most {MAX_VALUES_BYTES} bytes as JSON.",
            max_length=64,
        ),
    ] = {}


COMPONENTS = about(
    "Settings of single components. Absent: all as the profile says.",
    max_length=MAX_COMPONENTS,
    keys=("name",),
)
"""On the list of settings."""


class ComponentState(StrEnum):
    """State of a component."""

    INSTALLED = "Installed"
    INSTALLING = "Installing"
    FAILED = "Failed"
    WAITING = "Waiting"
    PRESENT = "Present"
    REFUSED = "Refused"
    UNINSTALLING = "Uninstalling"


class ComponentStatus(Model):
    """State of one component."""

    name: Annotated[str, about("Name of the component.", max_length=63)]
    version: Annotated[str, about("Version of its chart.", max_length=32)] | None = None
    state: Annotated[
        ComponentState,
        about(
            "Installed: it is ready. Installing: it is not ready yet. Failed: the message has the error of "
            "its chart. Waiting: it needs another component first. Present: the cluster had it already, and "
            "nothing is installed. Refused: its settings cannot be carried out, and what is installed stays. "
            "Uninstalling: it is not enabled any more."
        ),
    ]
    message: Annotated[str, about("Cause of the state.", max_length=2048)] | None = None
