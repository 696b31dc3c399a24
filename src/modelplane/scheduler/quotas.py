"""Quotas: the devices of each class that the namespaces of a team may hold together.

The words and the arithmetic are Kueue's. Quotas of a cohort borrow from each other what is not used, within
the borrower's `borrowing` and the lenders' `lending`. Devices that a quota does not lend are always its own.
The ledger (`quota_ledger`) counts what is used, and refuses what exceeds a quota.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class DeviceKey(NamedTuple):
    """A device entry of an InferenceClass."""

    class_name: str
    device: str

    def __str__(self) -> str:
        return f"{self.device} devices of class {self.class_name}"


class Limit(msgspec.Struct, frozen=True):
    """Limits on a device of a class; an empty `device` is the first of the class.

    `borrowing` and `lending` are None if they are not limited.
    """

    class_name: str
    nominal: int
    device: str = ""
    borrowing: int | None = None
    lending: int | None = None

    @property
    def guaranteed(self) -> int:
        """Devices that are not lent."""
        return 0 if self.lending is None else max(self.nominal - self.lending, 0)


class Quota(msgspec.Struct, frozen=True):
    """One DeviceQuota.

    With a `problem`, its limits are not known: it refuses every new replica of its namespaces. `namespaces`
    is None if even those are not known; then it may bind any. `priorities` are the values of the
    PriorityClasses that exist, of those in `priority_classes`; `preempting` are those that may preempt.
    """

    name: str
    namespaces: frozenset[str] | None
    cohort: str = ""
    limits: tuple[Limit, ...] = ()
    problem: str = ""
    priority_classes: tuple[str, ...] = ()
    priorities: Mapping[str, int] = {}
    preempting: frozenset[str] = frozenset()
    preempts: bool = False

    def is_binding(self, namespace: str) -> bool:
        """Return True if the quota limits a namespace, or if that is not known."""
        return self.namespaces is None or namespace in self.namespaces

    def describe_owner(self, namespace: str) -> str:
        """Return whose use is limited, as the subject of a sentence in the singular."""
        if self.namespaces == frozenset({namespace}):
            return f"namespace {namespace}"
        return f'DeviceQuota "{self.name}"'


def index_by_namespace(quotas: tuple[Quota, ...]) -> dict[str, Quota]:
    """Return the quota of each namespace that one names."""
    quota_of: dict[str, Quota] = {}
    for quota in quotas:
        for namespace in quota.namespaces or ():
            if namespace in quota_of:
                # Several quotas name it, which the one of ``find_quota`` says.
                quota_of[namespace] = find_quota(quotas, namespace) or quota
            else:
                quota_of[namespace] = quota
    return quota_of


def find_quota(quotas: tuple[Quota, ...], namespace: str) -> Quota | None:
    """Return the quota of a namespace; None if it has none.

    A namespace that several quotas bind gets one that says so.
    """
    binding = [quota for quota in quotas if quota.is_binding(namespace)]
    if not binding:
        return None
    if broken := next((quota for quota in binding if quota.problem), None):
        return broken
    if len(binding) > 1:
        names = " and ".join(f'"{quota.name}"' for quota in sorted(binding, key=lambda quota: quota.name)[:2])
        problem = (
            f"namespace {namespace} is listed in DeviceQuotas {names}, so its limit is ambiguous: remove "
            "the namespace from all but one"
        )
        return Quota(binding[0].name, frozenset({namespace}), problem=problem)
    return binding[0]
