"""The schemas of kinds that are composed and belong to others, where the checkout has them beside it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "crds"


def definitions(origin: str) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of one origin; skip the test where they are not there."""
    folder = FOLDER / origin
    if not folder.is_dir():
        pytest.skip(f"the schemas of {origin} are not beside this checkout: no folder {folder}")
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


@cache
def schemas(origin: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the schema of each apiVersion and kind of one origin."""
    return {
        (f"{definition['spec']['group']}/{version['name']}", definition["spec"]["names"]["kind"]): version[
            "schema"
        ]["openAPIV3Schema"]
        for definition in definitions(origin)
        for version in definition["spec"]["versions"]
    }


def problems(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield what a schema does not know, lacks or does not allow: fields, types and words of an enum."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: neither a number nor a text"
    elif "type" in schema and not isinstance(value, _TYPES[schema["type"]]):
        yield f"{path}: not of type {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        yield from _fields(value, schema, path)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{number}]")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"


_TYPES: dict[str, Any] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": int | float,
    "object": dict,
    "string": str,
}


def _fields(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    # The server checks metadata itself, whatever a CRD says of it.
    anything = schema.get("x-kubernetes-preserve-unknown-fields") or path == ".metadata"
    for name, item in value.items():
        if name in known:
            yield from problems(item, known[name], f"{path}.{name}")
        elif isinstance(others, dict):
            yield from problems(item, others, f"{path}.{name}")
        elif not anything:
            yield f"{path}.{name}: unknown"
