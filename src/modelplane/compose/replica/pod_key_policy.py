"""Labels, annotations and variables that pods of teams must not have on a cluster.

Accepted are the keys of ``api/fields/pods/pod_keys.py`` and those that the InferenceCluster accepts.
Schedulers of pods read queues and priorities from further keys, which are the platform team's
(`spec.podScheduler`). Variables of a container runtime select devices, past the claims by which the scheduler
counts them. What else the pods may do is decided by the cluster's admission policy
(``install/cluster_admission_pods.py``), and on a laptop by ``kubelet/pod_refusals.py``.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.engines import MemberPods
from modelplane.api.fields.pods.pod_keys import (
    REFUSED_VARIABLES,
    VARIABLE,
    KeyRules,
    PodPart,
    find_refused,
    list_prefixes,
)
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected

if TYPE_CHECKING:
    from modelplane.api.inference_cluster import InferenceClusterSpec


def key_rules(cluster: "InferenceClusterSpec", further: PodScheduler | None = None) -> KeyRules:
    """Return the keys that a cluster accepts of a team's pods, which may have a further scheduler."""
    keys = cluster.pod_keys
    schedulers = [scheduler for scheduler in (further, cluster.pod_scheduler) if scheduler]
    own = (key for scheduler in schedulers for key in (*scheduler.labels, *scheduler.annotations))
    return KeyRules(keys.accept, keys.refuse, list_prefixes(own))


def parts(engines: Iterable[Engine | PlacedEngine]) -> tuple[PodPart, ...]:
    """Return what a cluster may refuse of the pods of engines, sorted."""
    return tuple(sorted({part for engine in engines for member in engine.members for part in _parts(member)}))


def _parts(member: MemberPods) -> Iterator[PodPart]:
    metadata = member.template.metadata
    yield from (PodPart("annotation", key) for key in metadata.annotations)
    yield from (PodPart("label", key) for key in metadata.labels)
    names = (variable.name for variable in member.template.spec.variables)
    yield from (PodPart(VARIABLE, name) for name in names if name in REFUSED_VARIABLES)


def rejected(replica: ModelReplica, name: str, cluster: "InferenceClusterSpec") -> Rejected | None:
    """Return what a cluster with this name refuses, of labels, annotations and variables; None if nothing."""
    found = "; ".join(_rejections(replica, name, cluster))
    return Rejected(Reason.POD_NOT_ACCEPTED, detail=found) if found else None


def _rejections(replica: ModelReplica, name: str, cluster: "InferenceClusterSpec") -> Iterator[str]:
    rules = key_rules(cluster, replica.spec.pod_scheduler)
    for engine in replica.spec.engines:
        found = find_refused(parts([engine]), rules)
        keys = [str(part) for part in found if part.what != VARIABLE]
        variables = [str(part) for part in found if part.what == VARIABLE]
        if keys:
            yield (
                f'InferenceCluster "{name}" does not accept {", ".join(keys)} of the pods of engine '
                f'"{engine.name}": remove them, or ask the platform team to add them to '
                "spec.podKeys.accept there"
            )
        if variables:
            yield (
                f'{", ".join(variables)} of engine "{engine.name}" would select devices outside the '
                "claims: remove it, and request devices in nodeSelector"
            )
