"""Components of a serving stack, and what a user may choose of each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from modelplane.api.meta import Model
from modelplane.api.schema.fields import SPACES, VERSION, about


class ServingProfile(StrEnum):
    """Set of components of a serving stack."""

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
                "Whether to install the component. True: install it, regardless of the profile and of what "
                "the cluster already has. False: don't install it, and uninstall it if Modelplane "
                "installed it. Default: decided by the profile; an installed component remains."
            ),
        ]
        | None
    ) = None
    version: (
        Annotated[
            str,
            about(
                "Version of the chart. Default: the version on the reference page.",
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
                "Repository of the chart, such as a mirror. The URL begins with oci:// or https://, or "
                "with http:// for a loopback address. Default: the repository on the reference page.",
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
            "Values of the chart, in addition to the values that Modelplane sets. Maps are "
            f"merged, and other values are replaced. At most {MAX_VALUES_BYTES} bytes as JSON.",
            max_length=64,
        ),
    ] = {}


COMPONENTS = about(
    "Settings of individual components. Default: the profile decides.",
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
    version: Annotated[str, about("Version of the chart.", max_length=32)] | None = None
    state: Annotated[
        ComponentState,
        about(
            "State of the component. Installed: ready. Installing: not ready yet. Failed: the message "
            "contains the error of the chart. Waiting: another component must be ready first. Present: the "
            "cluster already had the component, so Modelplane doesn't install it. Refused: the settings "
            "can't be applied, and the installed version remains. Uninstalling: no longer enabled."
        ),
    ]
    message: Annotated[str, about("Cause of the state.", max_length=2048)] | None = None
