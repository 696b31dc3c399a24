"""The Secrets and ConfigMaps that a replica's pods name: copied to their cluster, and no others.

A copy has a name of its own, which the pods get instead. So it takes nobody's place: not that of what
another replica copied, nor, where the cluster is the control plane itself, that of the original. Of
what a variable names, only its keys are copied. What the owner's namespace does not have is left to
the cluster, where somebody may have put it under the very name.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelplane.api.model_replica import ModelReplica
from modelplane.compose.backends.devices import content_hash
from modelplane.compose.backends.workload import part_name
from modelplane.compose.composition import Desired, Keep, Object, Request, Requirement
from modelplane.compose.readiness import exists

SECRET = "Secret"  # noqa: S105 - a kind, not a secret
CONFIG_MAP = "ConfigMap"


_WHOLE = ""
"""Stands for the key where all of an object is wanted."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that pods name, and what they want of it."""

    kind: str
    name: str
    keys: frozenset[str]

    @property
    def key(self) -> str:
        """Key of the requirement, and of the copy."""
        return f"{self.kind.lower()}-{self.name}"

    def wants(self, key: str) -> bool:
        """Whether the pods read a key of the object."""
        return self.whole or key in self.keys

    @property
    def whole(self) -> bool:
        """Whether the pods want all of the object."""
        return _WHOLE in self.keys


def references(replica: ModelReplica) -> tuple[Reference, ...]:
    """Return everything that the pods of a replica name, once each."""
    wanted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, name, key in _named(replica):
        wanted[kind, name].add(key)
    return tuple(Reference(kind, name, frozenset(keys)) for (kind, name), keys in sorted(wanted.items()))


def _named(replica: ModelReplica) -> Iterator[tuple[str, str, str]]:
    for engine in replica.spec.engines:
        for member in engine.members:
            for pull in member.template.spec.image_pull_secrets:
                yield SECRET, pull.name, _WHOLE
            for variable in member.template.spec.containers[0].env:
                source = variable.value_from
                if source and source.secret_key_ref:
                    yield SECRET, source.secret_key_ref.name, source.secret_key_ref.key
                if source and source.config_map_key_ref:
                    yield CONFIG_MAP, source.config_map_key_ref.name, source.config_map_key_ref.key


def reference_requirements(replica: ModelReplica) -> Iterator[Requirement]:
    """Yield what must be seen to copy what the pods name."""
    for each in references(replica):
        yield Requirement(each.key, "v1", each.kind, replica.metadata.namespace, each.name)


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies for a replica's pods."""

    children: tuple[Desired | Keep, ...] = ()
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What the pods call each object that has a copy, by kind and name."""


def copies(request: Request[ModelReplica]) -> Copies:
    """Return the copies for a replica's pods. What was copied outlives its original, because pods read it."""
    children: list[Desired | Keep] = []
    names = {}
    for each in references(request.owner):
        if found := request.found(each.key):
            copy = _copy(request.owner, each, found[0], request.observed.get(each.key, {}))
            children.append(Desired(each.key, copy, exists, request.owner.spec.cluster_name))
        elif kept := request.observed.get(each.key):
            copy = kept
            children.append(Keep(each.key))
        else:
            continue
        names[each.kind, each.name] = str(copy["metadata"]["name"])
    return Copies(tuple(children), names)


def _copy(replica: ModelReplica, reference: Reference, original: Object, former: Object) -> Object:
    data = original.get("data") or {}
    if not reference.whole:
        # A Secret that is made anew may be empty for a moment, in which pods may start.
        data = {**(former.get("data") or {}), **data}
    name = part_name(replica, reference.key)
    copy: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": reference.kind,
        "metadata": {"name": name, "namespace": replica.metadata.namespace},
        "data": {key: value for key, value in data.items() if reference.wants(key)},
    }
    if reference.whole and "type" in original:
        # A pull Secret is known by its type, which cannot be changed: another type is another object.
        copy["type"] = original["type"]
        copy["metadata"]["name"] = part_name(replica, f"{reference.key}-{content_hash(original['type'])}")
    return copy
