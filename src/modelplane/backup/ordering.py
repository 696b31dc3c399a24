"""Order in which objects are restored: owners before what they own, and the older of two rivals first."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from modelplane.backup.archive import Damaged
from modelplane.backup.objects import Entry
from modelplane.kube.resources import NAMESPACES

_DEEPEST: Final = 16


@dataclass(frozen=True, slots=True)
class Group:
    """Objects that may be restored together, once those of earlier groups are there."""

    entries: tuple[Entry, ...]
    is_younger: bool = False
    """True if they must be younger than those of the group before."""


def groups(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """Return objects in the order in which they are restored. Raises ``Damaged`` if there is none."""
    namespaces: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        (namespaces if entry.content.resource == NAMESPACES else others).append(entry)
    found = [Group(tuple(namespaces))]
    for level in _levels(others):
        for number, turn in enumerate(_turns(level)):
            found.append(Group(tuple(turn), is_younger=number > 0))
    return tuple(found)


def _levels(entries: list[Entry]) -> list[list[Entry]]:
    """Return entries in groups, so that the owners of each are in earlier ones.

    Raises ``Damaged`` if an object is its own owner, over others, or has too many above it.
    """
    waiting = list(entries)
    uids = {each.uid for each in waiting}
    done: set[str] = set()
    found: list[list[Entry]] = []
    while waiting:
        group = [each for each in waiting if not (each.owners & uids) - done]
        if not group or len(found) == _DEEPEST:
            raise Damaged(f"{waiting[0]} has too many owners above it")
        found.append(group)
        done |= {each.uid for each in group}
        waiting = [each for each in waiting if each.uid not in done]
    return found


def _turns(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return objects by their age among those that claim the same, each later than the older ones."""
    last: dict[str, int] = {}
    found: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda each: (each.created, each.namespace, each.name)):
        turn = max((last[each] + 1 for each in entry.claims if each in last), default=0)
        last |= dict.fromkeys(entry.claims, turn)
        found[turn].append(entry)
    return [found[turn] for turn in sorted(found)]
