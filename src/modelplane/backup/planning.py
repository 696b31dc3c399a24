"""Planning: read all of a backup, and refuse one that must not be restored before anything is written.

Owners are restored before what they own, and the older of two rivals first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane import __version__
from modelplane.api.values.semver import SemverError, parse
from modelplane.backup.archive import FORMAT, Damaged, Header, Reader, Reference, Seal
from modelplane.backup.contents import CONFIG_MAP, SECRET, can_exist, list_secret_kinds
from modelplane.backup.objects import Entry, Identity, build_entry
from modelplane.kube.resources import NAMESPACES
from modelplane.user_error import UserError

_KINDS = (SECRET, CONFIG_MAP)

_DEEPEST: Final = 16

MOST_TURNS: Final = 8
"""Each turn costs more than a second, and a tenant can have many objects that claim the same. Those behind
the first ones are restored in the last turn: none of them gets it while an older one is there.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Objects that may be restored together, once those of earlier groups are there."""

    entries: tuple[Entry, ...]
    is_younger: bool = False
    """True if they must be younger than those of the group before."""


def group_entries(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """Return objects in the order in which they are restored. Raises ``Damaged`` if there is none."""
    namespaces: list[Entry] = []
    others: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (entry.created, entry.namespace, entry.name)):
        (namespaces if entry.content.resource == NAMESPACES else others).append(entry)
    built = [Group(tuple(namespaces))]
    last = 0
    for turn, level in _turns(_levels(others), _ranks(others)):
        built.append(Group(tuple(level), is_younger=turn > last))
        last = turn
    return tuple(built)


def _levels(entries: list[Entry]) -> list[list[Entry]]:
    """Return entries in groups, so that the owners of each are in earlier ones.

    Raises ``Damaged`` if an object is its own owner, over others, or has too many above it.
    """
    waiting = list(entries)
    uids = {entry.uid for entry in waiting}
    done: set[str] = set()
    levels: list[list[Entry]] = []
    while waiting:
        group = [entry for entry in waiting if not (entry.owners & uids) - done]
        if not group or len(levels) == _DEEPEST:
            raise Damaged(f"{waiting[0]} has too many levels of owners")
        levels.append(group)
        done |= {entry.uid for entry in group}
        waiting = [entry for entry in waiting if entry.uid not in done]
    return levels


def _ranks(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the rank of each object that claims something among those that claim the same, oldest first."""
    last: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for entry in (claimant for claimant in entries if claimant.exclusive_values):
        rank = max((last[claim] + 1 for claim in entry.exclusive_values if claim in last), default=0)
        ranks[entry.uid] = rank = min(rank, MOST_TURNS - 1)
        last |= dict.fromkeys(entry.exclusive_values, rank)
    return ranks


def _turns(levels: Iterable[list[Entry]], ranks: Mapping[str, int]) -> list[tuple[int, list[Entry]]]:
    """Return objects by turn, then by level: each later than its owners and than its older rivals.

    The turn comes first: else an object whose owners are restored before it would be younger than a rival
    without owners.
    """
    turns: dict[str, int] = {}
    by_turn: defaultdict[tuple[int, int], list[Entry]] = defaultdict(list)
    for depth, level in enumerate(levels):
        for entry in level:
            above = (turns[owner] for owner in entry.owners if owner in turns)
            turns[entry.uid] = turn = max(ranks.get(entry.uid, 0), *above, 0)
            by_turn[turn, depth].append(entry)
    return [(turn, by_turn[turn, depth]) for turn, depth in sorted(by_turn)]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A reference of a file, without its content."""

    reference: Reference
    place: int
    has_content: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Contents of a file."""

    header: Header
    groups: tuple[Group, ...]
    """The objects in the order in which they are restored."""
    references: tuple[Sealed, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every object."""
        return tuple(entry for group in self.groups for entry in group.entries)


def read(reader: Reader, passphrase: bytes | None) -> Plan:
    """Return the contents of a file, and give its reader the key. Raises ``Damaged`` and ``UserError``."""
    header: Header | None = None
    kinds = {*_KINDS, *list_secret_kinds()}
    entries: dict[Identity, Entry] = {}
    references: list[Sealed] = []
    for place, line in reader.read_lines():
        if line.header is not None:
            header = line.header
            _check_version(header)
            if passphrase is not None:
                if not header.salt:
                    raise UserError("the backup contains only the names of Secrets: omit --passphrase-file")
                reader.seal = Seal(passphrase, header.salt)
        item = line.object
        if (reference := line.reference) is not None:
            if reference.kind not in kinds or not can_exist(reference.namespace, reference.name):
                raise Damaged(f"the line at byte {place:,} is not a line of a backup")
            content = reader.seal.unseal(reference) if reference.sealed and reader.seal is not None else None
            item = content if reference.kind not in _KINDS else None
            if item is None:
                named = Reference(kind=reference.kind, namespace=reference.namespace, name=reference.name)
                references.append(Sealed(named, place, bool(reference.sealed)))
        if item is not None:
            entry = build_entry(item, place)
            if entry.identity in entries:
                raise Damaged(f"{entry} appears twice")
            entries[entry.identity] = entry
    if header is None or len({admitted.uid for admitted in entries.values()}) < len(entries):
        raise Damaged("two objects have the same uid")
    return Plan(header, group_entries(entries.values()), tuple(references))


def _check_version(header: Header) -> None:
    if header.format > FORMAT:
        raise UserError(
            f"the backup was written by Modelplane {header.modelplane} in format {header.format}, and this "
            f"version reads format {FORMAT}: use that version"
        )
    try:
        newer = parse(header.modelplane) > parse(__version__)
    except SemverError as error:
        raise Damaged(f"invalid Modelplane version: {error}") from error
    if newer:
        raise UserError(
            f"the backup was written by Modelplane {header.modelplane}, which is newer than this version, "
            f"{__version__}: use the newer version"
        )
