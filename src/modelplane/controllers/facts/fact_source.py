"""Fact source: what tells a composition of one kind the facts that it reads.

A new fact is a field of the kind's facts, and of what its source returns: no reconcile changes.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from modelplane.api.meta import Model, kind_name
from modelplane.compose.kinds import COMPOSERS


class FactSource(Protocol):
    """Tells the facts of the owners of one kind."""

    @property
    def kind(self) -> type[Model]:
        """The kind that reads the facts."""

    def of(self, owner: Any, /) -> Any:
        """Return the facts of an owner, of the type that the row of its kind names; Blocked in doubt."""


class FactSources:
    """The sources of all kinds. Nothing is known of a kind without one."""

    def __init__(self, sources: Iterable[FactSource] = ()) -> None:
        self._sources = {kind_name(source.kind): source for source in sources}
        self._nothing = {name: row.facts() for name, row in COMPOSERS.items()}

    def of(self, kind: str, owner: Model) -> Any:
        """Return the facts of an owner of a kind."""
        source = self._sources.get(kind)
        return source.of(owner) if source else self._nothing[kind]
