"""Objects in their wire form, and how they are named."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

Object: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """A kind, whatever its version."""

    group: str
    name: str


class Key(NamedTuple):
    """What an object is found by."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def of(self) -> Kind:
        """The kind of the object."""
        return Kind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


NAMESPACE = Kind("", "Namespace")


def kind_of(api_version: str, kind: str) -> Kind:
    """Return a kind by what a manifest says."""
    group, _, version = api_version.rpartition("/")
    return Kind(group if version else "", kind)


def key_of(item: Mapping[str, Any]) -> Key:
    """Return the key of an object."""
    metadata = item["metadata"]
    return Key(*kind_of(item["apiVersion"], item["kind"]), metadata.get("namespace", ""), metadata["name"])


def controller_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner that controls an object; nothing where none does."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            return dict(owner)
    return {}


def is_deleted(item: Mapping[str, Any]) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def condition(item: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return a condition of an object; empty where it has none of that type."""
    for each in item.get("status", {}).get("conditions", ()):
        if each["type"] == type_:
            return dict(each)
    return {}


def set_conditions(item: Object, conditions: Iterable[Mapping[str, Any]], now: str) -> None:
    """Set conditions as crossplane-runtime does: one that says the same as before keeps its time."""
    listed = item.setdefault("status", {}).setdefault("conditions", [])
    for new in conditions:
        wanted = {name: value for name, value in new.items() if value not in ("", None, 0)}
        for number, old in enumerate(listed):
            if old["type"] == wanted["type"]:
                if {**old, "lastTransitionTime": ""} != {**wanted, "lastTransitionTime": ""}:
                    listed[number] = {**wanted, "lastTransitionTime": now}
                break
        else:
            listed.append({**wanted, "lastTransitionTime": now})
