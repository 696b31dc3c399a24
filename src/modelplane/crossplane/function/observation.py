"""Observation: an owner's children in Crossplane's request, and the part that the core reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from modelplane.api.meta import Object
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.composition import Unknown
from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.applied_fields import without_crossplane
from modelplane.crossplane.function.companions import NAMESPACE, PREFIX
from modelplane.crossplane.function.structs import Decoder, look_of, without_status


@dataclass(frozen=True)
class Observation:
    """The owner's children, by key, as Crossplane sends them."""

    composed: Mapping[str, Object]
    """Each child; without its status if that cannot be read."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The error for each child whose status cannot be read, by key."""

    @cached_property
    def children(self) -> Mapping[str, Object]:
        """The children for the core; those of other clusters as last observed there."""
        seen = {}
        for key, item in self.composed.items():
            if key.startswith(PREFIX) or key in self.unreadable:
                continue
            child = (
                remote_objects.find_observed(item)
                if remote_objects.is_remote(item)
                else without_crossplane(item)
            )
            if child is not None:
                seen[key] = child
        return seen

    @cached_property
    def unobserved(self) -> frozenset[str]:
        """The keys of the children whose existence is not known yet."""
        keys = {key for key in self.composed if not key.startswith(PREFIX)}
        return frozenset(keys - self.children.keys())

    def looked(self, key: str) -> tuple[Object, ...] | Unknown:
        """Return the objects that an observing child found on its cluster, by the child's key."""
        if key in self.unreadable:
            return Unknown(self.unreadable[key])
        look = remote_objects.find_seen_namespace if key.startswith(NAMESPACE) else remote_objects.list_seen
        return look(self.composed.get(key))

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """The provider's error for each child on another cluster that could not be written, by key."""
        found = {
            key: remote_objects.problem(item)
            for key, item in sorted(self.composed.items())
            if remote_objects.is_remote(item) and not key.startswith(PREFIX)
        }
        return {key: cause for key, cause in found.items() if cause}


def observe(resources: Mapping[str, Any], decode: Decoder) -> Observation:
    """Return the children of a request, by key.

    Raises ``InvalidObject`` if more than the status of a child cannot be read: the answer could not return
    the child, and Crossplane would delete it.
    """
    composed: dict[str, Object] = {}
    unreadable: dict[str, str] = {}
    for key, child in resources.items():
        encoded = child.resource
        try:
            looks = key.startswith(PREFIX) and not key.startswith(NAMESPACE)
            composed[key] = look_of(encoded) if looks else decode(encoded)
        except InvalidObject as error:
            unreadable[key] = f'cannot read child "{key}": {error.cause}'
            composed[key] = _rest(key, encoded)
    return Observation(composed, unreadable)


def _rest(key: str, encoded: bytes) -> Object:
    try:
        return without_status(encoded)
    except InvalidObject as error:
        raise InvalidObject("child", key, "", error.cause) from error
