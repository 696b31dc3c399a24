"""The base of every API type, and the common parts of all kinds.

Decoding is tolerant: unknown fields are ignored, because the API server has already pruned or refused them.
Every value is immutable.
"""

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias, dataclass_transform

import msgspec

from modelplane.api.schema.fields import DNS_SUBDOMAIN, QUALIFIED_KEYS, LabelValue, Rule, about

GROUP = "modelplane.ai"
"""API group of every kind that users meet."""

INFRASTRUCTURE_GROUP = "infrastructure.modelplane.ai"
"""API group of the kinds that make up a provisioned cluster, which Modelplane writes itself."""

VERSION = "v1alpha1"
"""The one version that is served and stored."""

API_VERSION = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE = "modelplane-system"
"""Namespace of kubeconfig Secrets, the gateways and everything that belongs to no team."""

GATEWAY_NAME = "inference-gateway"
"""Name of the Gateway, in the system namespace of a cluster, whose routes are served."""

GATEWAY_NAMESPACE = "modelplane-gateway"
"""Namespace of the Secrets that the gateway may read, and of what it has counted; of nothing else."""

CERTIFICATE_NAMESPACE = "modelplane-certificates"
"""Namespace, on inference clusters, of the certificate of the cluster's gateway; of nothing else."""

Object: TypeAlias = Mapping[str, Any]
"""A Kubernetes object of any kind in its wire form, to read."""


class _KeywordOnly(msgspec.StructMeta):
    """Makes every subclass keyword-only, which msgspec does not inherit as it does the other options."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_KeywordOnly":
        return super().__new__(mcls, name, bases, namespace, **options | {"kw_only": True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Model(
    msgspec.Struct, metaclass=_KeywordOnly, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Part of an API object; its wire names are the camel-case forms of its fields."""

    __rules__: ClassVar[tuple[Rule, ...]] = ()


def get_full_name(item: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object of a namespace."""
    return item["metadata"]["namespace"], item["metadata"]["name"]


def kind_name(type_: type[Model]) -> str:
    """Return the kind whose objects are of a type, as manifests name it."""
    return type_.__name__


class OwnerReference(Model):
    """The owner of an object, whose deletion deletes it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model):
    """The part of ``metadata`` that Modelplane reads; empty if the server has not set it."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: dt.datetime | None = None
    deletion_timestamp: dt.datetime | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class ConditionStatus(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One observation of an object's state (Kubernetes API conventions, "typical status properties")."""

    type: Annotated[str, about("Type of the condition, in CamelCase.", min_length=1, max_length=316)]
    status: Annotated[ConditionStatus, about("Status of the condition: True, False or Unknown.")]
    reason: Annotated[
        str,
        about(
            "Reason of the status, as one word that programs can compare.",
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, about("Message for people, with the cause and the remedy.", max_length=32768)] = (
        ""
    )
    last_transition_time: Annotated[dt.datetime, about("Time of the last change of status.")]
    observed_generation: Annotated[
        int,
        about(
            "The metadata.generation for which the condition was computed. If the object has a higher "
            "generation, the condition is out of date.",
            ge=0,
        ),
    ] = 0


_CONDITIONS = about("Conditions of the object, one entry per type.", keys=("type",))

Conditions = Annotated[tuple[Condition, ...], _CONDITIONS]
"""The ``status.conditions`` that every kind has."""


class Status(Model):
    """The status of a kind that reports conditions only."""

    observed_generation: (
        Annotated[
            int,
            about(
                "The metadata.generation for which the status was last computed. If the object has a "
                "higher generation, the status is out of date. Absent under Crossplane.",
                ge=0,
            ),
        ]
        | None
    ) = None
    conditions: Conditions = ()


MAX_MATCH_LABELS = 32
"""Labels of one selector."""


class LabelSelector(Model):
    """Selects objects by labels."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels and values that an object must have. An empty selector matches every object.",
            max_length=MAX_MATCH_LABELS,
            rules=(QUALIFIED_KEYS,),
        ),
    ] = {}


class LocalReference(Model):
    """The name of an object in the same namespace."""

    name: Annotated[str, about("Name of the object.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
