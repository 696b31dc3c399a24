"""CustomResourceDefinitions, generated from the types.

Every field is described, so that ``kubectl explain`` is the manual; every
schema is structural (Kubernetes API reference, "Specifying a structural
schema"). Nothing is written here that a type could say. No field is immutable.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, inspect

from modelplane.api.kinds import CATEGORY, Kind, Scale
from modelplane.api.meta import Model
from modelplane.api.names import MAX_LENGTH
from modelplane.api.printer_columns import Column
from modelplane.api.schema.fields import Rule

Schema = dict[str, Any]

_NAME_RULE = Rule(
    f"size(self.metadata.name) <= {MAX_LENGTH}",
    f"metadata.name must have at most {MAX_LENGTH} characters: labels and other names are made from it",
)


def crd(kind: Kind) -> Schema:
    """Return the CustomResourceDefinition of a kind, as it is applied."""
    subresources: Schema = {"status": {}}
    if kind.scale is not None:
        subresources["scale"] = scale_paths(kind.scale)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.definition},
        "spec": {
            "group": kind.group,
            "names": build_names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": build_printer_columns(kind.columns),
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": build_schema(kind)},
                }
            ],
        },
    }


def build_names(kind: Kind, *categories: str) -> Schema:
    """Return the names of a kind, in its own category and those given."""
    return {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": [kind.short],
        "categories": [*categories, CATEGORY],
    }


def build_printer_columns(columns: Iterable[Column]) -> list[Schema]:
    """Return columns of ``kubectl get``."""
    return [{"name": column.name, "jsonPath": column.path, "type": column.type} for column in columns]


def scale_paths(scale: Scale) -> Schema:
    """Return the scale subresource."""
    return {
        "specReplicasPath": scale.spec_replicas,
        "statusReplicasPath": scale.status_replicas,
        "labelSelectorPath": scale.label_selector,
    }


def build_schema(kind: Kind) -> Schema:
    """Return the structural schema of a kind's objects."""
    fields = {field.encode_name: field for field in _fields(kind.type)}
    return {
        "description": _sentence(kind.type),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {kind.api_version}."},
            "kind": {"type": "string", "description": f"Always {kind.name}."},
            "metadata": {"type": "object"},
            "spec": _Writer(with_rules=True).value(fields["spec"].type),
            # We write the status: a rule there could only keep a controller from reporting.
            "status": _Writer(with_rules=False).value(fields["status"].type),
        },
        "x-kubernetes-validations": [rule.build_schema() for rule in (_NAME_RULE, *kind.type.__rules__)],
    }


class _Writer:
    """Writes the schema of types, with the rules over them or without."""

    def __init__(self, with_rules: bool) -> None:
        self._with_rules = with_rules

    def value(self, type_: inspect.Type) -> Schema:
        """Return the schema of one value."""
        match type_:
            case inspect.Metadata(inner, extra):
                return self.value(inner) | {
                    key: said for key, said in (extra or {}).items() if self._with_rules or key != _RULES
                }
            case inspect.UnionType(members):
                return self._union([member for member in members if not isinstance(member, inspect.NoneType)])
            case inspect.StructType():
                return self._struct(type_)
            case inspect.VarTupleType(item, least, most):
                limits = {"minItems": least, "maxItems": most}
                return {"type": "array", **_given(limits), "items": self.value(item)}
            case inspect.DictType(_, item, least, most):
                limits = {"minProperties": least, "maxProperties": most}
                return {"type": "object", **_given(limits), "additionalProperties": self.value(item)}
            case _:
                return _scalar(type_)

    def _struct(self, type_: inspect.StructType) -> Schema:
        cls = type_.cls
        properties: Schema = {}
        required = []
        for field in type_.fields:
            properties[field.encode_name] = self.value(field.type) | _default(field)
            if field.required:
                required.append(field.encode_name)
        written: Schema = {"type": "object", "description": _sentence(cls), "properties": properties}
        if required:
            written["required"] = required
        if self._with_rules and issubclass(cls, Model) and cls.__rules__:
            written[_RULES] = [rule.build_schema() for rule in cls.__rules__]
        return written

    def _union(self, members: list[inspect.Type]) -> Schema:
        """Return the schema of an optional value, of a number or a text, or of a word or an object.

        A structural schema gives each value one type. A number or a text is Kubernetes' ``IntOrString``. A
        word or an object has no type, and its field says by ``any_of`` which forms it has: the server keeps
        what it is given there, and fills in defaults.
        """
        if len(members) == 1:
            return self.value(members[0])
        bare = (member.type if isinstance(member, inspect.Metadata) else member for member in members)
        if {type(member) for member in bare} == {inspect.IntType, inspect.StrType}:
            forms = [self.value(member) for member in members]
            limits = {key: form[key] for form in forms for key in _LIMITS if key in form}
            kinds = [{"type": form["type"]} for form in forms]
            return {"x-kubernetes-int-or-string": True, "anyOf": kinds, **limits}
        (struct,) = (member for member in members if isinstance(member, inspect.StructType))
        properties = self._struct(struct)["properties"]
        return {"x-kubernetes-preserve-unknown-fields": True, "properties": properties}


_LIMITS = ("minimum", "maximum", "pattern")
"""Limits that a value of one type ignores if they are those of the other."""

_RULES = "x-kubernetes-validations"
_SIMPLE: dict[type[inspect.Type], Schema] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.AnyType: {"x-kubernetes-preserve-unknown-fields": True},
}


def _scalar(type_: inspect.Type) -> Schema:
    match type_:
        case inspect.StrType(least, most, pattern):
            return {"type": "string", **_given({"minLength": least, "maxLength": most, "pattern": pattern})}
        case inspect.IntType():
            return {
                "type": "integer",
                "format": "int64",
                **_given({"minimum": type_.ge, "maximum": type_.le}),
            }
        case inspect.BoolType() | inspect.DateTimeType() | inspect.AnyType():
            return dict(_SIMPLE[type(type_)])
        case inspect.EnumType(cls):
            return {"type": "string", "enum": [str(member.value) for member in cls]}
        case inspect.LiteralType(values):
            return {"type": "string", "enum": list(values)}
        case _:
            raise TypeError(f"no schema is known for {type_}: teach modelplane.api.schema.crd about it")


def _default(field: inspect.Field) -> Schema:
    """Return the default that the server fills in: one that is not empty, of words or a number."""
    match field.default:
        case str(word) if word:
            return {"default": str(word)}
        case int(number) if number:
            return {"default": number}
        case tuple(words) if words:
            return {"default": [str(word) for word in words]}
        case _:
            return {}


def _fields(cls: type[Struct]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(cls)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"{cls.__name__} is not a struct")
    return described.fields


def _given(limits: Schema) -> Schema:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _sentence(cls: type[Struct]) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").split("\n\n")[0].split())
