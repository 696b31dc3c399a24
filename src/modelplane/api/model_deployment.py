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
    """Allows placement on clusters with a matching taint."""

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
            "Key of the taint. If unset with operator Exists, every taint matches.",
            max_length=317,
            pattern=f"^$|{QUALIFIED_NAME}",
        ),
    ] = ""
    operator: Annotated[
        TolerationOperator, about("How to compare. Equal: key and value. Exists: only the key.")
    ] = TolerationOperator.EQUAL
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[TaintEffect, about("Effect of the taint. Default: every effect.")] | None = None


class Member(MemberPods):
    """A pod of the engine, or the identical worker pods of a gang."""

    __rules__ = (WORKER_RULE,)

    node_selector: (
        Annotated[
            NodeSelector,
            about(
                "Devices that each pod of the member needs. At least one member of each engine must "
                "have a nodeSelector."
            ),
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


_ENGINES = about("Engines of one replica.", min_length=1, max_length=8, keys=("name",))


class ReplicaSettings(Model):
    """Settings of a replica, in addition to the engines."""

    cluster_selector: (
        Annotated[
            LabelSelector,
            about("Labels of the clusters on which replicas can be placed. Default: every cluster."),
        ]
        | None
    ) = None
    model_cache_ref: (
        Annotated[
            LocalReference,
            about(
                "ModelCache in this namespace, mounted in every pod. Replicas are placed only on "
                "clusters where the cache is staged."
            ),
        ]
        | None
    ) = None
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions in which the model can be served, by the label modelplane.ai/region of clusters. "
            "Replicas are placed only in these regions. ModelServices that select the deployment send "
            "requests only to these regions; this includes external providers. Default: every region.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    serving: Annotated[Serving, about("Serving mode and routing. Default: mode Unified.")] | None = None
    tolerations: Annotated[
        tuple[Toleration, ...],
        about("Taints of clusters that replicas tolerate.", max_length=64, atomic=True),
    ] = ()


class ReplicaSpec(ReplicaSettings):
    """One replica."""

    __rules__ = PHASE_RULES

    engines: Annotated[tuple[Engine, ...], _ENGINES]


class TemplateMetadata(Model):
    """Metadata for the objects of a replica."""

    labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels for every ModelReplica and ModelEndpoint. Labels that Modelplane sets take precedence.",
            max_length=32,
            rules=(RESERVED_PREFIX, QUALIFIED_KEYS),
        ),
    ] = {}


class DeploymentTemplate(Model):
    """Template of the replicas."""

    metadata: Annotated[TemplateMetadata, about("Metadata for the objects of a replica.")] = (
        TemplateMetadata()
    )
    spec: Annotated[ReplicaSpec, about("One replica.")]


class ModelDeploymentSpec(ReplicaSettings):
    """Number of replicas, and the template of a replica."""

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
        about("Number of replicas in the fleet.", ge=0, le=10000),
    ] = 1
    placement: Annotated[PlacementSettings, about("How to choose among the places that fit.")] | None = None
    priority_class_name: (
        Annotated[
            PriorityClassName,
            about(
                "PriorityClass (scheduling.k8s.io) of the deployment. Deployments with a higher "
                "priority are placed first if devices or quota are scarce. The DeviceQuota of the "
                "namespace must allow the PriorityClass. Default: priority 0."
            ),
        ]
        | None
    ) = None
    failover: (
        Annotated[
            FailoverSettings,
            about("When to replace replicas on lost clusters. Default: never."),
        ]
        | None
    ) = None
    rollout: (
        Annotated[
            RolloutSettings,
            about(
                "Limits of rollouts, and number of revisions to keep. Default: update one serving "
                "replica at a time, and keep no revisions."
            ),
        ]
        | None
    ) = None
    standby_for: (
        Annotated[
            StandbyFor,
            about(
                "Makes this deployment a standby for another ModelDeployment. The standby runs replicas "
                "only while the preferred deployment lacks capacity. Default: the replicas always run.",
                whole=True,
            ),
        ]
        | None
    ) = None
    engines: Annotated[tuple[Engine, ...], _ENGINES] = ()
    template: (
        Annotated[
            DeploymentTemplate,
            about(
                "Template of the replicas, including labels for the objects. Use instead of the "
                "fields of a replica in spec."
            ),
        ]
        | None
    ) = None


class ReplicaCounts(Model):
    """Numbers of replicas."""

    total: Annotated[int, about("Number of replicas that are placed on a cluster.", ge=0)]
    ready: Annotated[int, about("Number of placed replicas that serve.", ge=0)]
    spot: Annotated[int, about("Number of placed replicas on spot pools.", ge=0)] = 0
    updated: Annotated[int, about("Number of placed replicas with the current template.", ge=0)] = 0


class DeploymentCost(Model):
    """Cost of the devices that replicas use. In pools that count nodes, the cost of whole nodes."""

    currency: Annotated[str, about("ISO 4217 code of the currency.")]
    per_hour: Annotated[str, about("Cost of all placed replicas per hour.")]
    unpriced_replicas: Annotated[
        int,
        about(
            "Number of placed replicas that are not included in the cost, because a price is unknown.", ge=0
        ),
    ] = 0


class DeploymentSummary(Model):
    """Summary of the replicas for `kubectl get`."""

    ready: Annotated[str, about("Ready replicas and desired replicas, such as 1/2.")] | None = None
    clusters: Annotated[str, about("Clusters on which the replicas are placed.")] | None = None


class ModelDeploymentStatus(Status):
    """Status of the deployment."""

    summary: Annotated[DeploymentSummary, about("Summary of the replicas.")] | None = None
    replicas: Annotated[ReplicaCounts, about("Numbers of replicas.")] | None = None
    cost: (
        Annotated[DeploymentCost, about("Cost, by the prices of the pools. Absent if no pool has a price.")]
        | None
    ) = None
    failover: (
        Annotated[FailoverStatus, about("Failover in progress. Absent if no cluster is lost.")] | None
    ) = None
    rollout: (
        Annotated[RolloutStatus, about("Progress of the rollout. Absent without spec.rollout.")] | None
    ) = None
    standby: (
        Annotated[StandbyStatus, about("State of the standby. Absent without spec.standbyFor.")] | None
    ) = None
    selector: (
        Annotated[
            str,
            about("Label selector of the replicas, as a string, for autoscalers."),
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
    """A model to serve: engines, required devices, and number of replicas."""

    __rules__ = SERVICE_NAME_RULES

    metadata: ObjectMeta
    spec: Annotated[ModelDeploymentSpec, about("Number of replicas, and the template of a replica.")]
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
