"""References: copies of the Secrets and ConfigMaps that a replica's pods name.

A copy has a name of its own, which the pods get instead. So it never replaces another object: neither a copy
of another replica, nor the original if the cluster is the control plane itself. Of an object that a variable
names, only the referenced keys are copied. A name without an original is not passed on: on the cluster, an
object of that name would be another's. The InferenceCluster lists the exceptions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_map
from modelplane.compose.composition import Desired, Keep, Requirement
from modelplane.compose.readiness import exists
from modelplane.compose.replica.backends.workload import content_hash, part_name, reference_key

if TYPE_CHECKING:
    from modelplane.compose.facts import ReplicaRequest

SECRET = "Secret"  # noqa: S105 - a kind, not a secret
CONFIG_MAP = "ConfigMap"

_WHOLE = ""
"""Stands for the key if the whole object is needed."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that pods name, and the keys that they need."""

    kind: str
    name: str
    keys: frozenset[str]
    optional: bool = False
    """True if every pod starts without the object."""

    @property
    def key(self) -> str:
        """Key of the requirement, and of the copy."""
        return reference_key(self.kind, self.name)

    def wants(self, key: str) -> bool:
        """True if the pods read a key of the object."""
        return self.whole or key in self.keys

    @property
    def whole(self) -> bool:
        """True if the pods need the whole object."""
        return _WHOLE in self.keys


def references(replica: ModelReplica) -> tuple[Reference, ...]:
    """Return the objects that the pods of a replica name, once each."""
    wanted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    needed = set()
    for kind, name, key, optional in _named(replica):
        wanted[kind, name].add(key)
        if not optional:
            needed.add((kind, name))
    return tuple(
        Reference(kind, name, frozenset(keys), optional=(kind, name) not in needed)
        for (kind, name), keys in sorted(wanted.items())
    )


def _named(replica: ModelReplica) -> Iterator[tuple[str, str, str, bool]]:
    for engine in replica.spec.engines:
        for member in engine.members:
            for pull in member.template.spec.image_pull_secrets:
                yield SECRET, pull.name, _WHOLE, False
            for variable in member.template.spec.variables:
                source = variable.value_from
                for kind, named in (
                    (SECRET, source.secret_key_ref if source else None),
                    (CONFIG_MAP, source.config_map_key_ref if source else None),
                ):
                    if named:
                        yield kind, named.name, named.key, bool(named.optional)


def reference_requirements(replica: ModelReplica) -> Iterator[Requirement]:
    """Yield the requirements for copying the objects that the pods name."""
    for mention in references(replica):
        yield Requirement(mention.key, "v1", mention.kind, replica.metadata.namespace, mention.name)


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies for a replica's pods."""

    children: tuple[Desired | Keep, ...] = ()
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Names on the cluster, by kind and name of the original."""


def copies(request: "ReplicaRequest", cluster: InferenceCluster) -> Copies | Rejected:
    """Return the copies for a replica's pods, or why there is none of an object that they need.

    A copy outlives its original, because pods read it.
    """
    replica = request.owner
    local = {(str(local_object.kind), local_object.name) for local_object in cluster.spec.local_objects}
    children: list[Desired | Keep] = []
    names = {}
    for mention in references(replica):
        if found := request.found(mention.key):
            copy = _copy(replica, mention, found[0], request.observed.get(mention.key, {}))
            children.append(Desired(mention.key, copy, exists, replica.spec.cluster_name))
            name = str(copy["metadata"]["name"])
        elif kept := request.observed.get(mention.key):
            children.append(Keep(mention.key))
            name = str(kept["metadata"]["name"])
        elif (mention.kind, mention.name) in local:
            name = mention.name
        elif not mention.optional:
            return Rejected(
                Reason.REFERENCE_NOT_FOUND,
                detail=f'the pods refer to {mention.kind} "{mention.name}" in namespace '
                f'"{replica.metadata.namespace}", which does not exist',
                remedy="create it, or ask the platform team to list it in spec.localObjects of "
                f'InferenceCluster "{cluster.metadata.name}"',
            )
        else:
            continue
        names[mention.kind, mention.name] = name
    return Copies(tuple(children), names)


def _copy(replica: ModelReplica, reference: Reference, original: Object, former: Object) -> Object:
    data = get_map(original, "data")
    if not reference.whole:
        # A recreated Secret can be empty for a moment, in which pods may start.
        data = {**(get_map(former, "data")), **data}
    copy: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": reference.kind,
        "metadata": {"name": part_name(replica, reference.key), "namespace": replica.metadata.namespace},
        "data": {key: value for key, value in data.items() if reference.wants(key)},
    }
    if reference.whole and "type" in original:
        # The type of a Secret is immutable, so another type is another object.
        copy["type"] = original["type"]
        copy["metadata"]["name"] = part_name(replica, f"{reference.key}-{content_hash(original['type'])}")
    return copy
