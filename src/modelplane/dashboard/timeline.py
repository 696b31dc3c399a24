"""Timeline: what happened to the objects of a fleet, newest first.

Events and changes of conditions are one list. Kubernetes deletes an event after an hour, and a condition
keeps only its last change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modelplane.api.kinds import KINDS
from modelplane.api.meta import Object
from modelplane.dashboard.snapshot import EVENT, Snapshot

_OURS = {kind.name for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, or the last change of a condition; ``at`` is RFC 3339."""

    at: str
    warning: bool
    kind: str
    namespace: str
    name: str
    reason: str
    note: str
    count: int = 1


def build_timeline(snapshot: Snapshot) -> tuple[Entry, ...]:
    """Return the events about Modelplane's objects, newest first."""
    events = (_of_event(item) for item in snapshot.list_objects(EVENT))
    return _newest_first(event for event in events if event.kind in _OURS)


def list_object_events(snapshot: Snapshot, item: Object) -> tuple[Entry, ...]:
    """Return the events about one object, and the last changes of its conditions."""
    metadata = item["metadata"]
    meant = (item["kind"], metadata.get("namespace", ""), metadata["name"])
    events = [
        event
        for event in map(_of_event, snapshot.list_objects(EVENT))
        if (event.kind, event.namespace, event.name) == meant
    ]
    told = {(event.reason, event.note) for event in events}
    changes = (change for change in _of_conditions(item) if (change.reason, change.note) not in told)
    return _newest_first((*events, *changes))


def _newest_first(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.at[:19], reverse=True))


def _of_event(item: Object) -> Entry:
    about, series = item.get("regarding") or {}, item.get("series") or {}
    at = series.get("lastObservedTime") or item.get("eventTime") or item["metadata"]["creationTimestamp"]
    return Entry(
        str(at),
        item.get("type") == "Warning",
        str(about.get("kind", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(item.get("reason", "")),
        str(item.get("note", "")),
        int(series.get("count", 1)),
    )


def _of_conditions(item: Object) -> Iterator[Entry]:
    metadata = item["metadata"]
    for condition in (item.get("status") or {}).get("conditions") or ():
        if at := condition.get("lastTransitionTime"):
            message = str(condition.get("message") or "")
            yield Entry(
                str(at),
                False,
                item["kind"],
                metadata.get("namespace", ""),
                metadata["name"],
                str(condition.get("reason") or condition["type"]),
                f"{condition['type']} is {condition['status']}{f': {message}' if message else ''}",
            )
