"""Flags of an engine by version, as its own parser declares them.

The tables are files, which ``package/engine_flags.py`` reads from the engines. A table has some versions of
its engine. Of a version between two of them, only what both say is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Final, Literal

from msgspec import Struct

Version = tuple[tuple[int, ...], int]
"""The numbers of a release, and of its post-release."""

SWITCHES: Final = ("switch", "bool")
"""Kinds of flags without a value."""


class Flag(Struct, frozen=True, forbid_unknown_fields=True):
    """One flag, in a range of versions in which it is the same."""

    names: tuple[str, ...]
    kind: Literal["switch", "bool", "int", "float", "size", "text"] = "text"
    """``bool`` is a switch that ``--no-`` in front of its name turns off, ``size`` a number such as 32k."""
    choices: tuple[str, ...] = ()
    values: str = ""
    """The number of values as argparse writes it, if it is not one."""
    deprecated: bool = False
    since: str | None = None
    """The first version that has it, if the first of the table has not."""
    last: str | None = None
    """The last version that has it, if the last of the table has not."""

    def list_names(self) -> tuple[str, ...]:
        """Return every way to write the flag."""
        negations = tuple(f"--no-{name[2:]}" for name in self.names if name.startswith("--"))
        return (*self.names, *negations) if self.kind == "bool" else self.names


class FlagTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of an engine: the versions that were read, the oldest first, and the flags of them."""

    versions: tuple[str, ...]
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class Release:
    """The flags of one version of a table."""

    table: FlagTable
    version: str

    @cached_property
    def flags(self) -> Mapping[str, Flag]:
        """The flags, by each of their names."""
        place = self.table.versions.index(self.version)
        return {
            name: flag
            for flag in self.table.flags
            if _place(self.table, flag.since, 0) <= place <= _place(self.table, flag.last, place)
            for name in flag.list_names()
        }

    def find_flag(self, name: str) -> Flag | None:
        """Return a flag by its name, or by the beginning of one name only, as argparse does."""
        if name in self.flags:
            return self.flags[name]
        begun = {
            self.flags[other] for other in self.flags if name.startswith("--") and other.startswith(name)
        }
        return begun.pop() if len(begun) == 1 else None


def _place(table: FlagTable, version: str | None, absent: int) -> int:
    return absent if version is None else table.versions.index(version)


def parse_version(text: str) -> Version:
    """Return a version in an order, such as of 0.5.10.post1."""
    release, _, post = text.partition(".post")
    return tuple(map(int, release.split("."))), int(post or 0)


def find_nearest(table: FlagTable, version: str | None) -> tuple[Release, ...]:
    """Return the releases that say what a version has: itself, or those before and after it.

    Of an unknown version the newest release says most.
    """
    if version is None:
        return (Release(table, table.versions[-1]),)
    place = parse_version(version)
    before = list(takewhile(lambda listed: parse_version(listed) <= place, table.versions))
    if before and parse_version(before[-1]) == place:
        return (Release(table, before[-1]),)
    return tuple(Release(table, listed) for listed in (*before[-1:], *table.versions[len(before) :][:1]))


def describe_history(table: FlagTable, name: str, release: Release) -> str | None:
    """Return when a flag that a release lacks was or will be there; None if no release has it."""
    releases = [version for version in table.versions if name in Release(table, version).flags]
    if not releases:
        return None
    here = table.versions.index(release.version)
    before = [earlier for earlier in releases if table.versions.index(earlier) < here]
    return f"{before[-1]} was the last to have it" if before else f"{releases[0]} is the first to have it"
