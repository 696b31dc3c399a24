"""Who owns which field: server-side apply as the Kubernetes API reference has it under "Server-Side Apply".

One rule: a path is a leaf. Maps are granular, lists are one leaf each unless their schema gives them keys; an
item of a list with keys is itself a leaf, by which it is there at all.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from support.plain_objects import copied

Path: TypeAlias = tuple[Any, ...]
Schema: TypeAlias = Mapping[str, Any]

KEYS = "x-kubernetes-list-map-keys"
TYPE = "x-kubernetes-list-type"
_ANY: Schema = {}


class Item(tuple[tuple[str, Any], ...]):
    """Names an item of a list with keys by these, each with its value."""

    __slots__ = ()


class Member(tuple[Any, ...]):
    """Names a member of a set."""

    __slots__ = ()


def leaves(value: Any, schema: Schema = _ANY, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every leaf of a value, with what it holds."""
    if isinstance(value, dict) and value and schema.get("x-kubernetes-map-type") != "atomic":
        for name, item in value.items():
            yield from leaves(item, _field(schema, name), (*path, name))
    elif isinstance(value, list) and KEYS in schema:
        for item in value:
            named = _named(item, schema)
            yield (*path, named), None
            rest = {name: field for name, field in item.items() if name not in schema[KEYS]}
            if rest:
                yield from leaves(rest, schema.get("items", _ANY), (*path, named))
    elif isinstance(value, list) and schema.get(TYPE) == "set":
        for item in value:
            yield (*path, Member((item,))), None
    else:
        yield path, value


def merged(live: Any, applied: Any, schema: Schema = _ANY) -> Any:
    """Return what is live with what is applied laid over it."""
    if (
        isinstance(live, dict)
        and isinstance(applied, dict)
        and schema.get("x-kubernetes-map-type") != "atomic"
    ):
        both = dict(live)
        for name, item in applied.items():
            both[name] = merged(live[name], item, _field(schema, name)) if name in live else copied(item)
        return both
    if isinstance(live, list) and isinstance(applied, list) and KEYS in schema:
        items = {_named(item, schema): item for item in live}
        for item in applied:
            name = _named(item, schema)
            items[name] = (
                merged(items[name], item, schema.get("items", _ANY)) if name in items else copied(item)
            )
        return list(items.values())
    if isinstance(live, list) and isinstance(applied, list) and schema.get(TYPE) == "set":
        return [*live, *(item for item in applied if item not in live)]
    return copied(applied)


def without(value: Any, path: Path, schema: Schema = _ANY) -> Any:
    """Return a value without one leaf, and without what is empty then."""
    step, rest = path[0], path[1:]
    if isinstance(step, Member):
        return [item for item in value if item != step[0]] if isinstance(value, list) else value
    if isinstance(step, Item):
        return _without_item(value, step, rest, schema)
    if not isinstance(value, dict) or step not in value:
        return value
    left = {name: item for name, item in value.items() if name != step}
    if rest:
        item = without(value[step], rest, _field(schema, step))
        if item not in ({}, []):
            return {**value, step: item}
    return left


def _without_item(value: Any, step: Item, rest: Path, schema: Schema) -> Any:
    if not isinstance(value, list):
        return value
    left = []
    for item in value:
        if _named(item, schema) != step:
            left.append(item)
        elif rest:
            left.append(without(item, rest, schema.get("items", _ANY)))
    return left


def fields_v1(paths: frozenset[Path]) -> dict[str, Any]:
    """Return paths as ``managedFields`` writes them."""
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=str):
        node = tree
        for step in path:
            node = node.setdefault(_written(step), {})
            if isinstance(step, Item):
                # That the item is there, and its keys, belong to whoever applied it.
                node |= {".": {}, **{f"f:{key}": {} for key, _ in step}}
    return tree


def _written(step: Any) -> str:
    if isinstance(step, Item):
        return "k:" + json.dumps(dict(step), separators=(",", ":"))
    if isinstance(step, Member):
        return "v:" + json.dumps(step[0])
    return f"f:{step}"


def _field(schema: Schema, name: str) -> Schema:
    known: Schema | None = schema.get("properties", _ANY).get(name)
    if known is None:
        others = schema.get("additionalProperties")
        return others if isinstance(others, dict) else _ANY
    return known


def _named(item: Mapping[str, Any], schema: Schema) -> Item:
    return Item((key, item.get(key)) for key in schema[KEYS])
