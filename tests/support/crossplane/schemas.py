"""What the API server knows of a kind: lists with keys, what it fills in, drops and refuses."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from modelplane.api.kinds import KINDS, Kind
from modelplane.api.schema import crd
from support.crossplane.fields import KEYS, TYPE, Schema
from support.plain_objects import copied
from support.third_party_crds import FOLDER, problems

OBJECTS = "kubernetes.m.crossplane.io"
PROTECTION = "protection.crossplane.io"

_METADATA: Schema = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "ownerReferences": {
            "type": "array",
            TYPE: "map",
            KEYS: ["uid"],
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "finalizers": {"type": "array", TYPE: "set", "items": {"type": "string"}},
    },
}
_CONDITIONS: Schema = {
    "type": "array",
    TYPE: "map",
    KEYS: ["type"],
    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_ANYTHING: Schema = {
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "metadata": _METADATA,
        "status": {"x-kubernetes-preserve-unknown-fields": True, "properties": {"conditions": _CONDITIONS}},
    },
}
_OBJECT: Schema = {
    **_ANYTHING,
    "properties": {
        **_ANYTHING["properties"],
        "spec": {
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "forProvider": {
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"deletionPropagationPolicy": {"default": "Background"}},
                },
                "managementPolicies": {"default": ["*"]},
                "providerConfigRef": {"default": {"kind": "ClusterProviderConfig", "name": "default"}},
                "readiness": {
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"policy": {"default": "SuccessfulCreate"}},
                },
                "watch": {"default": False},
            },
        },
    },
}
_ORIGINS = {
    OBJECTS: "provider-kubernetes",
    PROTECTION: "crossplane",
    "gateway.networking.k8s.io": "gateway-api",
    "inference.networking.k8s.io": "gateway-api-inference-extension",
    "leaderworkerset.x-k8s.io": "lws",
}
_LEVELS = 14
"""How deep the schema of LeaderWorkerSet is, whose containers have probes that have headers."""

COMPOSITES = {(kind.group, kind.name): kind for kind in KINDS}


def schema_of(group: str, kind: str) -> Schema:
    """Return the schema of a kind, as far as the simulation needs it."""
    if own := COMPOSITES.get((group, kind)):
        return _composite(own)
    return _OBJECT if (group, kind) == (OBJECTS, "Object") else _ANYTHING


@cache
def _composite(kind: Kind) -> Schema:
    """Return the schema that Crossplane makes from the definition of one of our kinds."""
    schema = crd.build_schema(kind)
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    own: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return schema | {
        "properties": schema["properties"]
        | {
            "metadata": _METADATA,
            "spec": spec | {"properties": spec["properties"] | {"crossplane": own}},
            "status": status
            | {"properties": status["properties"] | {"crossplane": own, "conditions": _CONDITIONS}},
        }
    }


def admitted(value: Any, group: str, kind: str) -> Any:
    """Return an object as the server stores it: without what the schema does not know, with its defaults."""
    return _defaulted(_pruned(value, schema_of(group, kind)), schema_of(group, kind))


def refusals(value: dict[str, Any], group: str, kind: str) -> list[str]:
    """Return why the server refuses an object; of other projects' kinds, where their schemas are at hand."""
    if (group, kind) in COMPOSITES:
        return list(problems(value, dict(schema_of(group, kind))))
    if group not in _ORIGINS or not FOLDER.is_dir():
        return []
    schema = _others(group).get((value["apiVersion"], kind))
    if schema is None:
        return [f"{value['apiVersion']} has no kind {kind}"]
    return list(problems(value, schema))


@cache
def _others(group: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the schemas of another project's group, by apiVersion and kind."""
    found = {}
    for path in sorted((FOLDER / _ORIGINS[group]).glob(f"{group}_*.yaml")):
        spec = _read(path)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def definition_of(name: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of another project; where those are not at hand, one as deep."""
    plural, _, group = name.partition(".")
    found = FOLDER / _ORIGINS.get(group, group) / f"{group}_{plural}.yaml"
    definition: dict[str, Any] = copied(_read(found) if found.is_file() else _made_up(name))
    return definition


@cache
def _read(path: Path) -> dict[str, Any]:
    definition: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    return definition


def _made_up(name: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(_LEVELS):
        schema = {"type": "object", "properties": {"of": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _pruned(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return dict(_kept(value, schema))
    if isinstance(value, list) and "items" in schema:
        return [_pruned(item, schema["items"]) for item in value]
    return value


def _kept(value: dict[str, Any], schema: Schema) -> Iterator[tuple[str, Any]]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in known:
            yield name, _pruned(item, known[name])
        elif isinstance(others, dict):
            yield name, _pruned(item, others)
        elif schema.get("x-kubernetes-preserve-unknown-fields") or not known:
            yield name, item


def _defaulted(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        filled = {name: _defaulted(item, _known(schema, name)) for name, item in value.items()}
        for name, field in schema.get("properties", {}).items():
            if name not in filled and "default" in field:
                filled[name] = copied(field["default"])
        return filled
    if isinstance(value, list) and "items" in schema:
        return [_defaulted(item, schema["items"]) for item in value]
    return value


def _known(schema: Schema, name: str) -> Schema:
    others = schema.get("additionalProperties")
    known: Schema = schema.get("properties", {}).get(name, others if isinstance(others, dict) else {})
    return known
