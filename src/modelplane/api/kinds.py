"""The kinds, and how an API server serves them.

The one list of kinds: CRDs, reference pages, decoding and permissions are
derived from it.
"""

import functools
import importlib
import re

import msgspec

from modelplane.api.meta import GROUP, INFRASTRUCTURE_GROUP, VERSION, Model
from modelplane.api.printer_columns import COMMON_COLUMNS, Column, build_condition_path

CATEGORY = "modelplane"
"""``kubectl get modelplane`` lists every kind."""


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource: the paths of replica counts and of their selector."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


class Kind(msgspec.Struct, frozen=True):
    """One kind of object."""

    name: str
    """The kind as manifests name it."""
    plural: str
    short: str
    namespaced: bool
    own_columns: tuple[Column, ...] = ()
    """Columns before those of every kind, under Crossplane too."""
    listed_columns: tuple[Column, ...] = ()
    """Columns in place of these where Modelplane's own CustomResourceDefinitions are used."""
    scale: Scale | None = None
    group: str = GROUP

    @property
    def type(self) -> type[Model]:
        """The type of its objects, imported when it is first asked for: few commands need all of them."""
        return _type_named(self.name, "api.clouds" if self.group == INFRASTRUCTURE_GROUP else "api")

    @property
    def singular(self) -> str:
        """The kind as ``kubectl`` accepts it for one object."""
        return self.name.lower()

    @property
    def module(self) -> str:
        """The kind as files are named for it: its type's module, its reference page."""
        return _module_of(self.name)

    @property
    def version(self) -> str:
        """The one version served."""
        return VERSION

    @property
    def api_version(self) -> str:
        """Value of ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition, and of all that Crossplane names after it."""
        return f"{self.plural}.{self.group}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The kind's own columns, then those of every kind, unless the kind has a column of the same name."""
        own = self.listed_columns or self.own_columns
        names = {column.name for column in own}
        return own + tuple(column for column in COMMON_COLUMNS if column.name not in names)


_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _module_of(name: str) -> str:
    return _WORD_ENDS.sub("_", name).lower()


@functools.cache
def _type_named(name: str, folder: str) -> type[Model]:
    module = importlib.import_module(f"modelplane.{folder}.{_module_of(name)}")
    type_: type[Model] = getattr(module, name)
    return type_


def _infrastructure(name: str, plural: str, short: str, *columns: Column) -> Kind:
    return Kind(name, plural, short, namespaced=True, own_columns=columns, group=INFRASTRUCTURE_GROUP)


KINDS = (
    Kind(
        "DeviceQuota", "devicequotas", "dq", namespaced=False, own_columns=(Column("COHORT", ".spec.cohort"),)
    ),
    Kind(
        "InferenceAutoscaler",
        "inferenceautoscalers",
        "ia",
        namespaced=True,
        own_columns=(
            Column("DEPLOYMENT", ".spec.deploymentRef.name"),
            Column("MIN", ".spec.minReplicas", "integer"),
            Column("MAX", ".spec.maxReplicas", "integer"),
            Column("REPLICAS", ".status.replicas.desired", "integer"),
        ),
    ),
    Kind("InferenceClass", "inferenceclasses", "icl", namespaced=False),
    Kind(
        "InferenceCluster",
        "inferenceclusters",
        "ic",
        namespaced=False,
        own_columns=(Column("SOURCE", ".spec.cluster.source"), Column("GATEWAY", ".status.gateway.address")),
    ),
    Kind(
        "InferenceGateway",
        "inferencegateways",
        "ig",
        namespaced=False,
        own_columns=(Column("GATEWAY", ".spec.backend"), Column("ADDRESS", ".status.address")),
    ),
    Kind(
        "ModelCache",
        "modelcaches",
        "mc",
        namespaced=True,
        # The share of clusters is STAGED, because READY is the condition, as for every kind.
        own_columns=(Column("SOURCE", ".spec.huggingFace.repo"), Column("STAGED", ".status.summary.ready")),
    ),
    Kind(
        "ModelDeployment",
        "modeldeployments",
        "md",
        namespaced=True,
        own_columns=(Column("REPLICAS", ".status.replicas.ready", "integer"),),
        listed_columns=(
            Column("READY", ".status.summary.ready"),
            Column("REASON", build_condition_path("Ready", "reason")),
            Column("CLUSTERS", ".status.summary.clusters"),
        ),
        scale=Scale(".spec.replicas", ".status.replicas.total", ".status.selector"),
    ),
    Kind("ModelEndpoint", "modelendpoints", "me", namespaced=True, own_columns=(Column("URL", ".spec.url"),)),
    Kind("ModelKey", "modelkeys", "mk", namespaced=True),
    Kind(
        "ModelReplica",
        "modelreplicas",
        "mr",
        namespaced=True,
        own_columns=(Column("CLUSTER", ".spec.clusterName"),),
    ),
    Kind(
        "ModelService",
        "modelservices",
        "ms",
        namespaced=True,
        own_columns=(Column("ADDRESS", ".status.address"),),
    ),
    _infrastructure("AKSCluster", "aksclusters", "aks", Column("LOCATION", ".spec.location")),
    _infrastructure("EKSCluster", "eksclusters", "eks", Column("REGION", ".spec.region")),
    _infrastructure("GKECluster", "gkeclusters", "gke", Column("REGION", ".spec.region")),
    _infrastructure("NebiusCluster", "nebiusclusters", "mk8s"),
    _infrastructure("ServingStack", "servingstacks", "ss", Column("GATEWAY", ".status.gateway.address")),
    _infrastructure("VultrCluster", "vultrclusters", "vke", Column("REGION", ".spec.region")),
)

_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}
_BY_TYPE_NAME = {kind.name: kind for kind in KINDS}

# Rows for code that is to start quickly, and so does not import their types.
INFERENCE_CLUSTER = _BY_TYPE_NAME["InferenceCluster"]
INFERENCE_GATEWAY = _BY_TYPE_NAME["InferenceGateway"]
MODEL_CACHE = _BY_TYPE_NAME["ModelCache"]
MODEL_DEPLOYMENT = _BY_TYPE_NAME["ModelDeployment"]
MODEL_REPLICA = _BY_TYPE_NAME["ModelReplica"]
MODEL_SERVICE = _BY_TYPE_NAME["ModelService"]


def find_kind(api_version: str, name: str) -> Kind:
    """Return a kind by its name in manifests. Raises ``KeyError`` for one that is not ours."""
    return _BY_NAME[api_version, name]


def kind_of(type_: type[Model]) -> Kind:
    """Return the kind of objects of a type; ``KeyError`` for a type that is only part of an object."""
    kind = _BY_TYPE_NAME[type_.__name__]
    if kind.type is not type_:
        raise KeyError(type_)
    return kind
