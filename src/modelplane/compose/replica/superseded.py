"""Superseded objects: immutable ones that were replaced by others of another name.

Such an object is pruned once nothing names it and no workload is rolling out. During a rollout, a lost pod of
the old revision is recreated, and needs the objects that it claims or mounts.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.meta import Object
from modelplane.compose.composition import Keep
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import is_true
from modelplane.compose.workload_kinds import row_of


def keep_superseded(
    observed: Mapping[str, Object], desired: Iterable[str], pods: Iterable[Object]
) -> tuple[Keep, ...]:
    """Keep the objects that are no longer desired and still named by a workload or a pod."""
    specs = [spec for child in (*observed.values(), *pods) for spec in _pod_specs(child)]
    named = {name for spec in specs for name in _names(spec)}
    rolls = any(_rolls(child) for child in observed.values())
    return tuple(
        Keep(key)
        for key in sorted(observed.keys() - set(desired))
        if (row := row_of(observed[key]))
        and row.immutable
        and (rolls or observed[key]["metadata"]["name"] in named)
    )


def _rolls(child: Object) -> bool:
    """Return True if some pods of a workload may be of its previous revision."""
    row = row_of(child)
    if row is None or not row.serves:
        return False
    status = child.get("status", {})
    generation = child["metadata"].get("generation", 0)
    seen = status.get("observedGeneration", generation) >= generation
    if not row.counts_updates:
        return not seen or not is_true(child, READY)
    wanted = max(child.get("spec", {}).get("replicas", 1), status.get("replicas", 0))
    return not seen or int(status.get("updatedReplicas", 0)) < wanted


def _pod_specs(child: Object) -> Iterator[Object]:
    spec = child.get("spec", {})
    if "containers" in spec:
        yield spec
    row = row_of(child)
    for path in row.templates if row is not None else ():
        template = spec
        for part in path:
            template = template.get(part, {})
        # A path ends at a pod template, or at the spec of its pods.
        yield template.get("spec", template)


def _names(spec: Object) -> Iterator[str]:
    for claim in spec.get("resourceClaims", ()):
        yield claim.get("resourceClaimTemplateName", "")
    for volume in spec.get("volumes", ()):
        yield volume.get("configMap", {}).get("name", "")
