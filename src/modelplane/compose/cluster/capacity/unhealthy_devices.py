"""Devices that the pods of replicas report as unhealthy, by the names under which they are published.

A report has an ID: driver, pool and name of the device, or an ID of the Container Device Interface, which a
driver may choose freely. A report counts only for a device that the pod itself holds. One whose ID names none
of these counts for one of them: the number is right then, though the device may be another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from modelplane.compose.cluster.capacity.capacity_facts import ClaimFacts

Name: TypeAlias = tuple[str, str, str]
"""Driver, pool of devices and name."""

Reports: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""IDs of unhealthy devices, by namespace and name of the pod."""


def unhealthy(reports: Reports, claims: Iterable[ClaimFacts]) -> frozenset[Name]:
    """Return the devices that reports are about."""
    held: dict[tuple[str, str], list[Name]] = defaultdict(list)
    for claim in claims:
        if (claim.namespace, claim.holder) in reports:
            held[claim.namespace, claim.holder] += claim.devices
    return frozenset(name for pod, ids in reports.items() for name in _of_pod(ids, held.get(pod, ())))


def _of_pod(ids: Sequence[str], devices: Sequence[Name]) -> set[Name]:
    left, found = sorted(set(devices)), set[Name]()
    unnamed = []
    for text in ids:
        named = next((name for name in left if _names(text, name)), None)
        if named is None:
            unnamed.append(text)
            continue
        left.remove(named)
        found.add(named)
    for text in unnamed:
        vendor = text.partition("/")[0]
        likely = next((name for name in left if vendor.endswith(name[0])), None) or next(iter(left), None)
        if likely is not None:
            left.remove(likely)
            found.add(likely)
    return found


def _names(identity: str, name: Name) -> bool:
    """Return True if an ID names a device: in full, or at the end of an ID of another form."""
    device = identity.rpartition("=")[2]
    return identity == "/".join(name) or device == name[2] or device.endswith(f"-{name[2]}")
