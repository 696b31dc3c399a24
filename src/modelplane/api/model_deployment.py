"""ModelDeployment: a model to serve, in any number of replicas, on clusters of the fleet.

A replica is written either directly under ``spec`` or under ``spec.template.spec``, never both;
``replica_template()`` returns the one form that everything else reads.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.device_quota import PriorityClassName
from modelplane.api.fields.cluster.devices import NodeSelector
from modelplane.api.fields.cluster.drain_settings import TaintEffect
from modelplane.api.fields.deployment.placement_settings import (
    FailoverSettings,
    FailoverStatus,
    PlacementSettings,
)
from modelplane.api.fields.deployment.rollout_settings import RolloutSettings, RolloutStatus
from modelplane.api.fields.deployment.standby_settings import StandbyFor, StandbyStatus
from modelplane.api.fields.pods.engines import (
    PHASE_RULES,
    RESERVED_PREFIX,
    ROLE_RULE,
    SERVICE_NAME_RULES,
    WORKER_RULE,
    Connector,
    EngineShape,
    MemberPods,
    Picker,
    Routing,
    Serving,
    ServingMode,
)
from modelplane.api.fields.requests.regions import MOST_REGIONS, Region
from modelplane.api.meta import LabelSelector, LocalReference, Model, ObjectMeta, Status
from modelplane.api.schema.fields import LABEL_VALUE, QUALIFIED_KEYS, QUALIFIED_NAME, LabelValue, Rule, about


class TolerationOperator(StrEnum):
    """Comparison of a toleration with a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Toleration(Model):
    """Tolerates clusters with a matching taint."""

    __rules__ = (
        Rule(
            "self.operator == 'Exists' || (has(self.key) && self.key != '')",
            "key is required with operator Equal: name the taint, or use operator Exists to tolerate all",
        ),
        Rule("self.operator != 'Exists' || !has(self.value)", "value must be absent with operator Exists"),
    )

    key: Annotated[
        str,
        about(
            "Key of the taint. Absent with operator Exists: every taint.",
            max_length=317,
            pattern=f"^$|{QUALIFIED_NAME}",
        ),
    ] = ""
    operator: Annotated[TolerationOperator, about("Equal compares key and value, Exists the key only.")] = (
        TolerationOperator.EQUAL
    )
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[TaintEffect, about("Effect of the taint. Absent: every effect.")] | None = None


class Member(MemberPods):
    """A pod of the engine, or the identical pods of a gang's workers."""

    __rules__ = (WORKER_RULE,)

    node_selector: (
        Annotated[
            NodeSelector,
            about("Devices that each pod of the member needs. At least one member of an engine has it."),
        ]
        | None
    ) = None


class Engine(EngineShape):
    """An inference engine: one pod, or a gang of pods that serve together."""

    __rules__ = (
        ROLE_RULE,
        Rule(
            "self.members.exists(m, has(m.nodeSelector))",
            "an engine must say which devices it needs: give at least one member a nodeSelector",
        ),
        Rule(
            "self.members.map(m, has(m.nodeSelector) ? m.nodeSelector.devices.map(d, "
            "d.selectors.map(s, s.cel.size()).sum()).sum() : 0).sum() <= 20480",
            "the device selectors of an engine have at most 20,480 characters together: shorten them",
        ),
    )

    members: Annotated[
        tuple[Member, ...],
        about(
            "The pods of the engine: one Standalone, or one Leader and one Worker.",
            min_length=1,
            max_length=2,
            atomic=True,
        ),
    ]


_ENGINES = about("Engines that make up one replica.", min_length=1, max_length=8, keys=("name",))


class ReplicaSettings(Model):
    """Settings of a replica beside its engines."""

    cluster_selector: (
        Annotated[
            LabelSelector,
            about("Labels of the clusters on which replicas may be placed. Absent: every cluster."),
        ]
        | None
    ) = None
    model_cache_ref: (
        Annotated[
            LocalReference,
            about(
                "ModelCache of this namespace, mounted in every pod. Replicas are placed where it is staged."
            ),
        ]
        | None
    ) = None
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions in which the model may be served, by the label modelplane.ai/region of clusters. No "
            "replica is placed in another, and no ModelService that selects the deployment sends requests to "
            "another, external providers included. Absent: every region.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    serving: Annotated[Serving, about("Serving mode and routing. Absent: mode Unified.")] | None = None
    tolerations: Annotated[
        tuple[Toleration, ...],
        about("Taints of clusters on which replicas may be placed nevertheless.", max_length=64, atomic=True),
    ] = ()


class ReplicaSpec(ReplicaSettings):
    """One replica."""

    __rules__ = PHASE_RULES

    engines: Annotated[tuple[Engine, ...], _ENGINES]


class TemplateMetadata(Model):
    """Metadata of the objects of a replica."""

    labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels of every ModelReplica and ModelEndpoint. Labels that Modelplane sets take precedence.",
            max_length=32,
            rules=(RESERVED_PREFIX, QUALIFIED_KEYS),
        ),
    ] = {}


class DeploymentTemplate(Model):
    """Template of every replica."""

    metadata: Annotated[TemplateMetadata, about("Metadata of the objects of a replica.")] = TemplateMetadata()
    spec: Annotated[ReplicaSpec, about("One replica.")]


class ModelDeploymentSpec(ReplicaSettings):
    """Number of replicas, and their template."""

    __rules__ = (
        Rule(
            "has(self.engines) || has(self.template)",
            "engines are required: list those of one replica in spec.engines or spec.template.spec.engines",
        ),
        Rule(
            "!(has(self.engines) && has(self.template))",
            "spec.engines and spec.template are two ways to write one thing: keep one of them",
        ),
        Rule(
            "!has(self.template) || !(has(self.clusterSelector) || has(self.modelCacheRef) "
            "|| has(self.regions) || has(self.serving) || has(self.tolerations))",
            "with spec.template, move clusterSelector, modelCacheRef, regions, serving and tolerations "
            "to spec.template.spec",
        ),
        *PHASE_RULES,
    )

    replicas: Annotated[
        int,
        about("Number of ModelReplicas across the fleet: the field to scale.", ge=0, le=10000),
    ] = 1
    placement: Annotated[PlacementSettings, about("Choice between feasible places.")] | None = None
    priority_class_name: (
        Annotated[
            PriorityClassName,
            about(
                "PriorityClass (scheduling.k8s.io) that decides which deployment gets replicas first where "
                "devices or quota are scarce. The DeviceQuota of the namespace must allow it. Absent: "
                "priority 0."
            ),
        ]
        | None
    ) = None
    failover: (
        Annotated[
            FailoverSettings,
            about("Replacement of replicas on lost clusters. Absent: they stay, and nothing replaces them."),
        ]
        | None
    ) = None
    rollout: (
        Annotated[
            RolloutSettings,
            about(
                "Limits of rollouts, and revisions to return to. Absent: one serving replica at a time, and "
                "no revisions."
            ),
        ]
        | None
    ) = None
    standby_for: (
        Annotated[
            StandbyFor,
            about(
                "Another ModelDeployment, in whose place this one runs its replicas. While that one has "
                "capacity, this one has none. Absent: the replicas always run.",
                whole=True,
            ),
        ]
        | None
    ) = None
    engines: Annotated[tuple[Engine, ...], _ENGINES] = ()
    template: (
        Annotated[
            DeploymentTemplate,
            about("Template of the replicas with labels for their objects, instead of the other fields."),
        ]
        | None
    ) = None


class ReplicaCounts(Model):
    """Numbers of replicas."""

    total: Annotated[int, about("Replicas that have a cluster.", ge=0)]
    ready: Annotated[int, about("Placed replicas that serve.", ge=0)]
    spot: Annotated[int, about("Placed replicas that are on spot pools.", ge=0)] = 0
    updated: Annotated[int, about("Placed replicas that have the current template.", ge=0)] = 0


class DeploymentCost(Model):
    """Cost of the devices that replicas take, whole nodes where pools count nodes."""

    currency: Annotated[str, about("Currency, by ISO 4217.")]
    per_hour: Annotated[str, about("Cost of all placed replicas for an hour.")]
    unpriced_replicas: Annotated[
        int, about("Placed replicas that are not in the sum, because a price is not known.", ge=0)
    ] = 0


class DeploymentSummary(Model):
    """Summary of the replicas, as `kubectl get` shows it."""

    ready: Annotated[str, about("Ready replicas, of those desired now, such as 1/2.")] | None = None
    clusters: Annotated[str, about("Names of the clusters that the replicas are placed on.")] | None = None


class ModelDeploymentStatus(Status):
    """Status of the deployment."""

    summary: Annotated[DeploymentSummary, about("Summary of the replicas.")] | None = None
    replicas: Annotated[ReplicaCounts, about("Numbers of replicas.")] | None = None
    cost: (
        Annotated[DeploymentCost, about("Cost by the prices of pools. Absent: no pool has a price.")] | None
    ) = None
    failover: Annotated[FailoverStatus, about("Failover in progress. Absent: no cluster is lost.")] | None = (
        None
    )
    rollout: (
        Annotated[RolloutStatus, about("Progress of the rollout. Absent without spec.rollout.")] | None
    ) = None
    standby: (
        Annotated[StandbyStatus, about("State of the standby. Absent without spec.standbyFor.")] | None
    ) = None
    selector: (
        Annotated[
            str,
            about("Label selector of the counted replicas, as a string, for autoscalers."),
        ]
        | None
    ) = None


class ReplicaTemplate(msgspec.Struct, frozen=True):
    """One replica of a deployment, whichever way the deployment was written."""

    labels: Mapping[str, str]
    cluster_selector: Mapping[str, str]
    model_cache_name: str | None
    regions: tuple[Region, ...]
    serving: ServingMode
    routing: Routing | None
    tolerations: tuple[Toleration, ...]
    engines: tuple[Engine, ...]
    connector: Connector | None = None
    picker: Picker | None = None

    @property
    def serving_settings(self) -> Serving:
        """Serving mode and routing, as a replica has them."""
        return Serving(mode=self.serving, routing=self.routing, connector=self.connector, picker=self.picker)


class ModelDeployment(Model):
    """A model to serve: its engines, the devices they need, and how many replicas."""

    __rules__ = SERVICE_NAME_RULES

    metadata: ObjectMeta
    spec: Annotated[ModelDeploymentSpec, about("Number of replicas, and their template.")]
    status: Annotated[ModelDeploymentStatus, about("Status of the deployment.")] = ModelDeploymentStatus()

    def replica_template(self) -> ReplicaTemplate:
        """Return the template of every replica, in the one form for both ways of writing it."""
        template = self.spec.template
        settings: ReplicaSettings = self.spec if template is None else template.spec
        selector, cache, serving = settings.cluster_selector, settings.model_cache_ref, settings.serving
        return ReplicaTemplate(
            labels={} if template is None else template.metadata.labels,
            cluster_selector={} if selector is None else selector.match_labels,
            model_cache_name=None if cache is None else cache.name,
            regions=settings.regions,
            serving=ServingMode.UNIFIED if serving is None else serving.mode,
            routing=None if serving is None else serving.routing,
            connector=None if serving is None else serving.connector,
            picker=None if serving is None else serving.picker,
            tolerations=settings.tolerations,
            engines=self.spec.engines if template is None else template.spec.engines,
        )
