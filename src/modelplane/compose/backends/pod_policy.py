"""Pod policy: labels, annotations and variables that pods of teams do not have on a cluster.

Accepted are the keys of ``api/pod_keys.py`` and those that the InferenceCluster accepts. Schedulers of pods
read queues and priorities from further keys, which are the platform team's (`spec.podScheduler`). Variables
of a container runtime select devices, past the claims by which the scheduler counts them.
"""

from collections.abc import Iterable, Iterator

from modelplane.api.engines import MemberPods
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.pod_keys import REFUSED_VARIABLES, KeyRules, prefixes
from modelplane.api.pod_scheduler import PodScheduler
from modelplane.api.rejected import Rejected


def key_rules(cluster: InferenceCluster, further: PodScheduler | None = None) -> KeyRules:
    """Return the keys that a cluster accepts of a team's pods, which may have a further scheduler."""
    keys = cluster.spec.pod_keys
    schedulers = [each for each in (further, cluster.spec.pod_scheduler) if each]
    own = (key for each in schedulers for key in (*each.labels, *each.annotations))
    return KeyRules(keys.accept, keys.refuse, prefixes(own))


def chosen_keys(engines: Iterable[Engine | PlacedEngine]) -> tuple[tuple[str, str], ...]:
    """Return the labels and annotations of the pods of engines, each as what it is and its key, sorted."""
    return tuple(sorted({key for each in engines for member in each.members for key in _keys(member)}))


def refused_variables(engines: Iterable[Engine | PlacedEngine]) -> tuple[str, ...]:
    """Return the variables of engines that no cluster accepts, sorted."""
    members = (member for each in engines for member in each.members)
    names = {variable.name for member in members for variable in member.template.spec.variables}
    return tuple(sorted(names & REFUSED_VARIABLES))


def rejected(replica: ModelReplica, cluster: InferenceCluster) -> Rejected | None:
    """Return every label, annotation and variable that is refused; None if all are accepted."""
    found = "; ".join(_rejections(replica, cluster))
    return Rejected(found) if found else None


def _rejections(replica: ModelReplica, cluster: InferenceCluster) -> Iterator[str]:
    rules = key_rules(cluster, replica.spec.pod_scheduler)
    for engine in replica.spec.engines:
        keys = [f'{what} "{key}"' for what, key in chosen_keys([engine]) if not rules.accepts(key)]
        if keys:
            yield (
                f'InferenceCluster "{cluster.metadata.name}" does not accept {", ".join(keys)} of the pods '
                f'of engine "{engine.name}": remove what is refused, or let the platform team add it to '
                "spec.podKeys.accept there"
            )
        if names := refused_variables([engine]):
            variables = ", ".join(f'"{name}"' for name in names)
            yield (
                f'variable {variables} of engine "{engine.name}" would select devices past its claims: '
                "remove it, and request devices in nodeSelector"
            )


def _keys(member: MemberPods) -> Iterator[tuple[str, str]]:
    metadata = member.template.metadata
    yield from (("annotation", key) for key in metadata.annotations)
    yield from (("label", key) for key in metadata.labels)
