"""Names of objects on the command line: ``md/NAME``, as for kubectl, and a namespace if ambiguous."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from modelplane.api.listing import listing
from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object

_MAX_LISTED = 10


def parse_object_name(text: str, kinds: "Sequence[Kind]") -> "tuple[Kind, str] | None":
    """Return the kind and the name in a text; without a kind, the first of ``kinds``.

    Return None if the text names none of these kinds, or no object.
    """
    resource, slash, name = text.rpartition("/")
    meant = resource.lower()
    matching = kinds[:1]
    if slash:
        matching = [
            kind for kind in kinds if meant in {kind.short, kind.singular, kind.plural, kind.definition}
        ]
    return (matching[0], name) if matching and name else None


def list_forms(kinds: "Iterable[Kind]") -> list[str]:
    """Return the form of a name of each kind, such as ``md/NAME``."""
    return [f"{kind.short}/NAME" for kind in kinds]


def find_one(objects: "Iterable[Object]", kind: str, name: str, namespace: str) -> "Object":
    """Return the object of a name among all of its kind; raise ``UserError`` unless there is exactly one."""
    everything = tuple(objects)
    named = [
        item
        for item in everything
        if item["metadata"]["name"] == name and namespace in ("", item["metadata"]["namespace"])
    ]
    if len(named) == 1:
        return named[0]
    if named:
        where = ", ".join(sorted(item["metadata"]["namespace"] for item in named))
        raise UserError(f'there is a {kind} "{name}" in several namespaces: name one with -n: {where}')
    where = f' in namespace "{namespace}"' if namespace else ""
    names = [f"{item['metadata']['name']} -n {item['metadata']['namespace']}" for item in everything]
    nothing = "name another namespace with -n" if namespace else "it holds none at all"
    choice = f"there are: {listing(names, _MAX_LISTED)}" if names else nothing
    raise UserError(f'the fleet has no {kind} "{name}"{where}; {choice}')
