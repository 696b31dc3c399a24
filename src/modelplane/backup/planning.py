"""Planning: read all of a backup, and refuse one that must not be restored before anything is written."""

from dataclasses import dataclass

from modelplane import __version__
from modelplane.backup.archive import FORMAT, Damaged, Header, Reader, Reference
from modelplane.backup.contents import secret_kinds
from modelplane.backup.objects import Entry, Identity, entry_of
from modelplane.backup.references import CONFIG_MAP, SECRET, can_exist
from modelplane.backup.restore_order import Group, groups
from modelplane.backup.sealing import Seal
from modelplane.cel.value_types.semver import SemverError, parse
from modelplane.install.steps.refusals import Refused

_KINDS = (SECRET, CONFIG_MAP)


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
        return tuple(each for group in self.groups for each in group.entries)


def read(reader: Reader, passphrase: bytes | None) -> Plan:
    """Return the contents of a file, and give its reader the key. Raises ``Damaged`` and ``Refused``."""
    header: Header | None = None
    kinds = {*_KINDS, *secret_kinds()}
    entries: dict[Identity, Entry] = {}
    references: list[Sealed] = []
    for place, line in reader.lines():
        if line.header is not None:
            header = line.header
            _check_version(header)
            reader.seal = _key_of(header, passphrase)
        item = line.object
        if (found := line.reference) is not None:
            if found.kind not in kinds or not can_exist(found.namespace, found.name):
                raise Damaged(f"the line at byte {place:,} is no line of a backup")
            content = reader.seal.unseal(found) if found.sealed and reader.seal is not None else None
            item = content if found.kind not in _KINDS else None
            if item is None:
                named = Reference(kind=found.kind, namespace=found.namespace, name=found.name)
                references.append(Sealed(named, place, bool(found.sealed)))
        if item is not None:
            entry = entry_of(item, place)
            if entry.identity in entries:
                raise Damaged(f"it has {entry} twice")
            entries[entry.identity] = entry
    if header is None or len({each.uid for each in entries.values()}) < len(entries):
        raise Damaged("two of its objects have one uid")
    return Plan(header, groups(entries.values()), tuple(references))


def _check_version(header: Header) -> None:
    if header.format > FORMAT:
        raise Refused(
            f"the backup was written by Modelplane {header.modelplane} in format {header.format}, and this "
            f"one reads format {FORMAT}: use that version"
        )
    try:
        newer = parse(header.modelplane) > parse(__version__)
    except SemverError as error:
        raise Damaged(f"its version of Modelplane is none: {error}") from error
    if newer:
        raise Refused(
            f"the backup was written by Modelplane {header.modelplane}, and this is {__version__}: use the "
            "newer one"
        )


def _key_of(header: Header, passphrase: bytes | None) -> Seal | None:
    if passphrase is None:
        return None
    if not header.salt:
        raise Refused("the backup has only names of Secrets: leave out --passphrase-file")
    return Seal(passphrase, header.salt)
