"""Objects of files instead of an API server: found by kind, name and labels, and their duplicates.

An object that no file has does not exist: nothing is "unknown".
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.kinds import KINDS, kind_of
from modelplane.api.meta import Model, Object
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Requirement
from modelplane.offline.files import manifest_objects
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Foreign, Manifest, Repeats
from modelplane.offline.files.sources import Source, Unopened

_OURS = frozenset(kind.api_version for kind in KINDS)


def get_cluster(item: Mapping[str, Any]) -> str:
    """Return the InferenceCluster of an object; empty for the control plane.

    Modelplane's own objects are on the control plane; those of other kinds have a label or annotation.
    """
    if item.get("apiVersion") in _OURS:
        return ""
    metadata = item["metadata"]
    marks = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
    return str(marks.get(labels.CLUSTER, ""))


class Store(msgspec.Struct):
    """Objects by cluster, kind and name."""

    _objects: dict[tuple[str, str, str], dict[tuple[str, str], Object]] = {}

    def copy(self) -> "Store":
        """Return a store with the same objects, which changes on its own."""
        return Store({key: dict(slot) for key, slot in self._objects.items()})

    def add(self, item: Object) -> None:
        """Store an object; it replaces one of the same name."""
        metadata = item["metadata"]
        slot = self._objects.setdefault((get_cluster(item), item["apiVersion"], item["kind"]), {})
        slot[metadata.get("namespace", ""), metadata["name"]] = item

    def remove(self, item: Object) -> None:
        """Remove an object."""
        metadata = item["metadata"]
        slot = self._objects[get_cluster(item), item["apiVersion"], item["kind"]]
        del slot[metadata.get("namespace", ""), metadata["name"]]

    def list_kind(self, type_: type[Model]) -> tuple[Object, ...]:
        """Return the control plane's objects of a kind, by namespace and name."""
        kind = kind_of(type_)
        slot = self._objects.get(("", kind.api_version, kind.name), {})
        return tuple(slot[key] for key in sorted(slot))

    def find(self, requirement: Requirement) -> tuple[Object, ...]:
        """Return the objects that a requirement names."""
        slot = self._objects.get((requirement.cluster, requirement.api_version, requirement.kind), {})
        return tuple(slot[key] for key in sorted(slot) if requirement.matches(slot[key]))

    def __iter__(self) -> Iterator[Object]:
        for slot in self._objects.values():
            yield from slot.values()


class Loaded(msgspec.Struct, frozen=True):
    """Objects of files, and their problems."""

    objects: tuple[Object, ...]
    problems: tuple[Problem, ...]


def load(sources: Iterable[Source | Unopened]) -> Loaded:
    """Read the objects of files, and check those that are not from an API server."""
    objects: list[Object] = []
    problems: list[Problem] = []
    repeats = Repeats(alternatives=False)
    for document in manifest_objects.read(sources):
        if isinstance(document, Foreign):
            continue
        if isinstance(document, Manifest) and document.kind is None and not document.name.name:
            continue  # such as a Kustomization: an object without a name is never required
        findings = (
            [document]
            if isinstance(document, Problem)
            else [*repeats.find_problems(document), *_problems(document)]
        )
        errors = [problem for problem in findings if problem.severity is Severity.ERROR]
        problems += errors
        if isinstance(document, Manifest) and not errors:
            objects.append(_stored(_without_nulls(document.node.to_plain())))
    return Loaded(tuple(objects), tuple(problems))


def _stored(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object as an API server stores it: ``stringData`` of a Secret becomes ``data``."""
    texts = item.get("stringData")
    if (item["apiVersion"], item["kind"]) != ("v1", "Secret") or not isinstance(texts, dict):
        return item
    data = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
    others = {key: value for key, value in item.items() if key != "stringData"}
    return {**others, "data": {**(item.get("data") or {}), **data}}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def _problems(manifest: Manifest) -> Iterator[Problem]:
    if manifest.kind is not None and manifest.node.find(("metadata", "uid")) is None:
        yield from manifest_objects.find_problems(manifest)
        return
    named = manifest.node.find(("metadata", "name"))
    if named is None or not isinstance(named.value, str):
        yield manifest.report(("metadata", "name"), "must be a string: put it in quotes")
        return
    if manifest.kind is None:
        namespace = manifest.node.find(("metadata", "namespace"))
        if namespace is not None and not isinstance(namespace.value, str | None):
            yield manifest.report(("metadata", "namespace"), "must be a string: put it in quotes")
        for field_name in ("labels", "annotations"):
            annotated = ("metadata", field_name)
            value = manifest.node.find(annotated)
            if value is not None and not (value.value is None or isinstance(value.value, dict)):
                yield manifest.report(annotated, "must be a mapping of strings: correct it")
        return
    # An API server has accepted it, possibly with fields that are unknown to this version.
    try:
        decode_as(manifest.kind.type, _without_nulls(manifest.node.to_plain()))
    except InvalidObject as error:
        path = f"{error.path}: " if error.path else ""
        yield manifest.report((), f"{path}{error.cause}: create the file again with kubectl get -o yaml")
