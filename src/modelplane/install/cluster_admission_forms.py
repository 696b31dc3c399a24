"""Validations of admission policies, and forms: the permitted fields and values of an object."""

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from modelplane.kube.resources import Object


class Validation(NamedTuple):
    """An expression that holds for permitted requests, and the message about others."""

    expression: str
    message: str
    computed: str = ""
    """Expression of a message that replaces the other."""

    def build_manifest(self) -> Object:
        """Return the entry of a policy."""
        computed = {"messageExpression": self.computed} if self.computed else {}
        return {"expression": self.expression, "message": self.message, **computed, "reason": "Forbidden"}


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of a list."""

    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class Each:
    """A list whose items have one form."""

    item: "Form"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A value that only others set, outside of lists: the object has it already."""


ANY: Final = None
"""Any value."""

Form: TypeAlias = "Mapping[str, Form] | OneOf | Each | Unchanged | None"


def build_condition(path: str, form: Form, depth: int = 0) -> str | None:
    """Return the CEL expression that holds if the value at a path, which exists, has a form; None for any.

    ``depth`` is the number of the first free variable.
    """
    variable = f"v{depth}"
    if isinstance(form, OneOf):
        return f"{path} in {format_literal(form.values)}"
    if isinstance(form, Unchanged):
        before = ".?".join(("oldObject", *path.split(".")[1:]))
        return f"(oldObject != null && {before} == optional.of({path}))"
    if isinstance(form, Each):
        inner = build_condition(variable, form.item, depth + 1)
        return f"{path}.all({variable}, {inner})" if inner else None
    if form is ANY:
        return None
    return " && ".join(holds for _, holds in build_fields(path, form, depth))


def build_fields(path: str, form: Mapping[str, Form], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the CEL expression about the names of the fields at a path, and that of each restricted field.

    Each comes with the name of the field, which is empty for the first one.
    """
    variable = f"v{depth}"
    yield "", f"{path}.all({variable}, {variable} in {format_literal(tuple(form))})"
    for name, field in form.items():
        if holds := build_condition(f"{path}.{name}", field, depth + 1):
            yield name, f"(!has({path}.{name}) || {holds})"


def format_literal(values: tuple[str | int | bool, ...]) -> str:
    """Return a list of values in CEL."""
    texts = (str(value).lower() if isinstance(value, bool) else repr(value) for value in values)
    return f"[{', '.join(texts)}]"


def find_fields(type_: type[msgspec.Struct]) -> dict[str, Form]:
    """Return the fields of a type of the API, with the forms of the types in it."""
    hints = typing.get_type_hints(type_)
    return {field.encode_name: _form_of(hints[field.name]) for field in msgspec.structs.fields(type_)}


def _form_of(hint: Any) -> Form:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        [only] = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return _form_of(only)
    if origin is tuple:
        item = _form_of(typing.get_args(hint)[0])
        return ANY if item is ANY else Each(item)
    return find_fields(hint) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else ANY
