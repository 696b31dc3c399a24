"""What Crossplane shows of an owner's children, and what the core may take from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from modelplane.compose.composition import Object
from modelplane.function import remote
from modelplane.function.companions import PREFIX
from modelplane.function.owned_fields import without_crossplane


@dataclass(frozen=True)
class Observation:
    """The owner's children, by key, as Crossplane has them."""

    composed: Mapping[str, Object]

    @cached_property
    def children(self) -> Mapping[str, Object]:
        """The children as the core knows them: those of other clusters only as they are there."""
        seen = {}
        for key, item in self.composed.items():
            if key.startswith(PREFIX):
                continue
            child = remote.there(item) if remote.is_remote(item) else without_crossplane(item)
            if child is not None:
                seen[key] = child
        return seen

    @cached_property
    def unseen(self) -> frozenset[str]:
        """The children of which nobody can tell yet whether they are there."""
        keys = {key for key in self.composed if not key.startswith(PREFIX)}
        return frozenset(keys - self.children.keys())

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """Why a child of another cluster is not there as it should be, by key."""
        found = {
            key: remote.problem(item)
            for key, item in sorted(self.composed.items())
            if remote.is_remote(item) and not key.startswith(PREFIX)
        }
        return {key: cause for key, cause in found.items() if cause}
