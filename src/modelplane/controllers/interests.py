"""Interests: the owners to reconcile when an object changes.

The requirements of each owner's last composition are indexed by kind, namespace and name. Requirements that
trigger no reconcile are indexed apart. The cost of a change therefore does not grow with the number of owners
that it does not concern.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from modelplane.compose.composition import Requirement


class OwnerKey(NamedTuple):
    """An object of a kind that is reconciled; the namespace is empty for a cluster-scoped one."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class _Slot(NamedTuple):
    cluster: str
    api_version: str
    kind: str
    namespace: str
    """Empty for a requirement of all namespaces."""
    name: str
    """Empty for a requirement of many objects."""
    triggers: bool


class Interests:
    """The requirements of every owner, found by what they require."""

    def __init__(self) -> None:
        self._requirements: dict[OwnerKey, tuple[Requirement, ...]] = {}
        self._owners: dict[_Slot, dict[OwnerKey, tuple[Requirement, ...]]] = defaultdict(dict)
        self._by_cluster: dict[str, dict[OwnerKey, None]] = defaultdict(dict)
        self._unsatisfied: dict[OwnerKey, None] = {}
        self._fields: dict[tuple[str, str], Any] = {}
        """The last value of each field of a status that is required, by the object's uid."""

    def of(self, owner: OwnerKey) -> tuple[Requirement, ...]:
        """Return an owner's requirements."""
        return self._requirements.get(owner, ())

    def set(self, owner: OwnerKey, requirements: tuple[Requirement, ...]) -> None:
        """Replace an owner's requirements."""
        if self._requirements.get(owner) == requirements:
            return
        self._remove(owner)
        self._requirements[owner] = requirements
        for requirement in requirements:
            others = self._owners[_slot(requirement)].get(owner, ())
            self._owners[_slot(requirement)][owner] = (*others, requirement)
            if requirement.cluster:
                self._by_cluster[requirement.cluster][owner] = None

    def set_unsatisfied(self, owner: OwnerKey, unsatisfied: bool) -> None:
        """Record whether an owner got less than it asked for."""
        if unsatisfied:
            self._unsatisfied[owner] = None
        else:
            self._unsatisfied.pop(owner, None)

    def forget(self, owner: OwnerKey) -> None:
        """Drop a deleted owner."""
        self._remove(owner)
        self._unsatisfied.pop(owner, None)

    def _remove(self, owner: OwnerKey) -> None:
        for requirement in self._requirements.pop(owner, ()):
            slot = _slot(requirement)
            self._owners[slot].pop(owner, None)
            if not self._owners[slot]:
                del self._owners[slot]
            self._by_cluster[requirement.cluster].pop(owner, None)
            if not self._by_cluster[requirement.cluster]:
                del self._by_cluster[requirement.cluster]

    def anyone(self, requirement: Requirement) -> bool:
        """Return True if an owner requires the objects of a requirement."""
        return _slot(requirement) in self._owners

    def on(self, cluster: str) -> tuple[OwnerKey, ...]:
        """Return the owners that require something of a cluster."""
        return tuple(self._by_cluster.get(cluster, ()))

    def triggered_by(
        self, item: Mapping[str, Any], cluster: str, *, is_gone: bool = False
    ) -> Iterator[OwnerKey]:
        """Yield the owners that a change of an object, on a cluster or the control plane, concerns.

        Of those that got less than they asked for, the one that has waited longest comes first.
        """
        metadata = item["metadata"]
        is_news = cache(lambda field: not field or self._differs(item, field, is_gone=is_gone))
        for namespace, name, triggers in product(
            dict.fromkeys((metadata.get("namespace", ""), "")), (metadata["name"], ""), (True, False)
        ):
            slot = _Slot(cluster, item["apiVersion"], item["kind"], namespace, name, triggers)
            owners = self._owners.get(slot, {})
            for owner in tuple(owners if triggers else self._unsatisfied):
                if any(
                    requirement.selects(item) and is_news(requirement.with_status)
                    for requirement in owners.get(owner, ())
                ):
                    yield owner

    def _differs(self, item: Mapping[str, Any], field: str, *, is_gone: bool) -> bool:
        """Return True if a field of an object's status changed, or may have; remember its value."""
        known = (item["metadata"]["uid"], field)
        value, before = item.get("status", {}).get(field), self._fields.pop(known, None)
        if is_gone:
            return value is not None or before is not None
        if value is not None:
            self._fields[known] = value
        return bool(value != before)


def _slot(requirement: Requirement) -> _Slot:
    return _Slot(
        requirement.cluster,
        requirement.api_version,
        requirement.kind,
        requirement.namespace,
        requirement.name,
        requirement.triggers,
    )
