"""Objects of files and their duplicates, and the problems of texts that are not objects.

Every command reads objects in the same way, so that the others accept what ``validate`` accepts. A duplicate
within a file is a mistake. Files may be alternatives, so the command decides about duplicates in different
files.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from modelplane.api.kinds import KINDS, Kind
from modelplane.api.meta import GROUP
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.offline.check.object_check import Finding, check
from modelplane.offline.files import diagnostics
from modelplane.offline.files.diagnostics import (
    ObjectName,
    Path,
    Place,
    Problem,
    Severity,
    Unreadable,
    find_place,
    quote,
)
from modelplane.offline.files.sources import Origin, Source, Unopened
from modelplane.offline.files.tree import Document, Node, parse_documents

MOST_PER_OBJECT: Final = 100
"""Maximum of problems reported for one object; more have one cause."""


class Manifest(msgspec.Struct, frozen=True):
    """An object of a file."""

    name: ObjectName
    kind: Kind | None
    """None for a kind of another project."""
    node: Node
    source: Source

    @property
    def place(self) -> Place:
        """Position of its name."""
        return self.node.place_of(("metadata", "name"))

    @property
    def where(self) -> str:
        """File and line, as its name in messages."""
        return f"{self.source.name}:{self.place.line}"

    def without_content(self) -> "Manifest":
        """Return the same object without its tree and the text of its file, which need much memory."""
        return replace(self, node=Node({}, self.node.place), source=replace(self.source, text=""))

    def decode(self) -> Any:
        """Return the object, if it is valid and of one of our kinds; None otherwise."""
        if self.kind is None:
            return None
        try:
            return decode_as(self.kind.type, self.node.to_plain())
        except InvalidObject:
            return None

    def report(self, path: Path, message: str) -> Problem:
        """Return a problem with one of its fields."""
        return _problem(
            self.source.name, self.node.place_of(path), self.name, diagnostics.format_path(path), message
        )


class Foreign:
    """A document of a folder that is not a Kubernetes object, such as a ``package.json``."""


def read(sources: Iterable[Source | Unopened]) -> Iterator[Manifest | Foreign | Problem]:
    """Yield each object, those of a List separately, and the documents that are not objects."""
    for source in sources:
        if isinstance(source, Unopened):
            yield _problem(source.name, Place(0, 0), None, "", source.why)
            continue
        nothing = True
        for document in parse_documents(source.text):
            nothing = False
            if isinstance(document, Unreadable):
                yield _problem(source.name, document.place, None, "", document.message)
            else:
                yield from _document(document, source)
        if nothing:
            yield _nothing(source)


def _nothing(source: Source) -> Problem:
    if source.origin is Origin.PIPED:
        message = "standard input is empty: pipe manifests to the command, or name files"
        return _problem(source.name, Place(0, 0), None, "", message)
    message = "the file contains no object: add one, or omit the file"
    return _problem(source.name, Place(0, 0), None, "", message, severity=Severity.WARNING)


def _document(document: Document, source: Source) -> Iterator[Manifest | Foreign | Problem]:
    if source.origin is Origin.WALKED and _is_foreign(document.node):
        yield Foreign()
        return
    ours = False
    for item in _objects(document.node, source):
        ours = ours or (isinstance(item, Manifest) and item.kind is not None)
        yield item
    if ours:
        named = _name(document.node)
        for repeated in document.duplicates:
            message = f"the key appears twice, first in line {repeated.first.line}: remove one"
            if repeated.path == ("apiVersion",):
                message += ', or begin the second object with "---"'
            yield _problem(
                source.name, repeated.place, named, diagnostics.format_path(repeated.path), message
            )


def _is_foreign(node: Node) -> bool:
    """Return True if a document has neither of the fields that identify an object, in any spelling."""
    if not isinstance(node.value, dict):
        return True
    return not {key.lower() for key in node.value} & {"apiversion", "kind"}


def _objects(node: Node, source: Source) -> Iterator[Manifest | Problem]:
    if not isinstance(node.value, dict):
        # A text alone may be a token: it is not quoted in messages.
        given = "a text" if isinstance(node.value, str) else quote(node.value)
        message = f"expected an object, not {given}: set apiVersion and kind"
        yield _problem(source.name, node.place, None, "", message)
        return
    items = node.value.get("items")
    named = _name(node)
    if named.kind.endswith("List") and items is not None and isinstance(items.value, list):
        for item in items.value:
            yield from _objects(item, source)
        return
    manifest = Manifest(named, _KINDS.get((named.api_version, named.kind)), node, source)
    refusal = None if manifest.kind is not None else _unknown_kind(named, node)
    yield manifest if refusal is None else manifest.report((refusal[0],), refusal[1])


def find_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield the objections of an API server to an object of our kinds, in the order of the file."""
    if manifest.kind is None:
        return
    findings = check(manifest.node, manifest.kind)
    problems = [_found(finding, manifest) for finding in islice(findings, MOST_PER_OBJECT)]
    yield from sorted(problems, key=lambda problem: (problem.line, problem.column))
    if next(findings, None) is not None:
        yield manifest.report((), f"there are more than {MOST_PER_OBJECT} problems: correct these first")


def _found(finding: Finding, manifest: Manifest) -> Problem:
    node, source = manifest.node, manifest.source
    place = node.place_of(finding.path, key=finding.at_key)
    excerpt: tuple[str, ...] = ()
    if finding.selector is not None and (value := node.find(finding.path)) is not None:
        place, excerpt = find_place(value.place, value.style, finding.selector, source.text)
    field = diagnostics.format_path(finding.path)
    return _problem(source.name, place, manifest.name, field, finding.message, excerpt, finding.severity)


def _problem(
    path: str,
    place: Place,
    named: ObjectName | None,
    field: str,
    message: str,
    excerpt: tuple[str, ...] = (),
    severity: Severity = Severity.ERROR,
) -> Problem:
    return Problem(
        path=diagnostics.limit_text(path, 4096),
        line=place.line,
        column=place.column,
        severity=severity,
        object=named,
        field=field,
        message=message,
        excerpt=excerpt,
    )


def _name(node: Node) -> ObjectName:
    def read_text(path: Path) -> str:
        value = node.find(path)
        return value.value if value is not None and isinstance(value.value, str) else ""

    def read_word(path: Path) -> str:
        # As written in the file, so that a name such as y, which is true in YAML, appears as it is.
        value = node.find(path)
        return value.text if value is not None and value.value is not None else ""

    return ObjectName(
        api_version=read_text(("apiVersion",)),
        kind=read_text(("kind",)),
        namespace=read_word(("metadata", "namespace")),
        name=read_word(("metadata", "name")),
    )


_KINDS: Final = {(kind.api_version, kind.name): kind for kind in KINDS}
_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def _unknown_kind(named: ObjectName, node: Node) -> tuple[str, str] | None:
    """Return the wrong field and the problem of an object that is not ours but seems meant to be."""
    group, _, _ = named.api_version.rpartition("/")
    same = _BY_NAME.get(named.kind)
    if not named.api_version or not named.kind:
        field = "kind" if named.api_version else "apiVersion"
        if near := diagnostics.find_nearest(field, node.keys.keys() - {"apiVersion", "kind"}, 0.8):
            return near, f"unknown field; did you mean {field}?"
        example = f"such as {same.api_version}" if same else "which every Kubernetes object has"
        return field, f"is required, {example}: add it, or omit the file"
    if same is not None and (_is_ours(group) or not group or diagnostics.find_nearest(group, [GROUP], 0.8)):
        return (
            "apiVersion",
            f"{quote(named.api_version)} does not define {named.kind}: write {same.api_version}",
        )
    if not _is_ours(group):
        return None
    return "kind", f"{quote(named.kind)} {_not_a_kind(named.kind)}"


def _not_a_kind(name: str) -> str:
    from modelplane.offline.check import renamed_fields  # noqa: PLC0415  few kinds are unknown

    if today := renamed_fields.KINDS.get(name):
        return f"is a kind of an earlier version: the current name is {today}"
    if near := diagnostics.find_nearest(name, _BY_NAME, 0.6):
        return f"is not a kind of Modelplane; did you mean {near}?"
    return f"is not a kind of Modelplane: its kinds are {diagnostics.join_choices([*_BY_NAME])}"


def _is_ours(group: str) -> bool:
    return group == GROUP or group.endswith(f".{GROUP}")


class _First(NamedTuple):
    """First position of an object, and its content."""

    file: str
    where: str
    content: int


class Repeats(msgspec.Struct):
    """Objects read so far."""

    alternatives: bool
    """True if different files may have different objects of one name."""
    _known: dict[tuple[str, ObjectName], _First] = msgspec.field(default_factory=dict)

    def find_problems(self, manifest: Manifest) -> Iterator[Problem]:
        """Reject an object of our kinds that replaces an earlier one."""
        if manifest.kind is None or not manifest.name.name:
            return
        file = manifest.source.name
        # Its hash, because the trees of a large fleet would fill the memory.
        this = _First(file, manifest.where, 0 if self.alternatives else hash(repr(manifest.node.to_plain())))
        first = self._known.setdefault((file if self.alternatives else "", _identity(manifest)), this)
        if first is this or (first.file != file and first.content == this.content):
            return
        message = (
            f"the same object is already at {first.where}, and the later one would replace it: remove "
            "or rename one"
        )
        yield manifest.report(("metadata", "name"), message)


def _identity(manifest: Manifest) -> ObjectName:
    namespaced = manifest.kind is not None and manifest.kind.namespaced
    # As with kubectl, an object without a namespace is in the one of its context.
    namespace = (manifest.name.namespace or "default") if namespaced else ""
    return replace(manifest.name, namespace=namespace)
