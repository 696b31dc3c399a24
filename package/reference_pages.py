# ruff: noqa: INP001  part of a script, not a package
"""The reference pages in Markdown: one for each kind, one for all conditions.

A page says what ``kubectl explain`` says, on one screen: it is written from
the same schema that the API server enforces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from modelplane.api.conditions.reasons import EVERY_KIND, ROWS
from modelplane.api.conditions.row import Reason
from modelplane.api.kinds import KINDS, Kind
from modelplane.api.meta import GROUP, INFRASTRUCTURE_GROUP, VERSION
from modelplane.api.schema.crd import build_schema
from modelplane.api.schema.fields import FORMS
from modelplane.compose.kinds import COMPOSED

Schema = dict[str, Any]

EXAMPLES: Final = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a page's table, and the rules over the value."""

    path: str
    type: str
    required: bool
    default: str
    limits: str
    meaning: str
    rules: tuple[str, ...]


def kinds_page() -> str:
    """Return the list of all kinds, in the order of their list."""
    parts = [
        "# Kinds",
        "Each page describes one kind: an example, the fields, the rules, and the conditions.",
    ]
    for group, title in ((GROUP, "The fleet and its models"), (INFRASTRUCTURE_GROUP, "Cloud clusters")):
        parts += [f"## {title}", f"The API version is `{group}/{VERSION}`.", _kinds_table(group)]
    return "\n\n".join(parts) + "\n"


def _kinds_table(group: str) -> str:
    lines = ["| Kind | Short name | What it describes |", "|---|---|---|"]
    for kind in (kind for kind in KINDS if kind.group == group):
        about = build_schema(kind)["description"].partition(". ")[0].rstrip(".")
        lines.append(f"| [{kind.name}]({kind.module}.md) | `{kind.short}` | {about}. |")
    return "\n".join(lines)


def kind_page(kind: Kind) -> str:
    """Return the page of a kind."""
    whole = build_schema(kind)
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    parts = [
        f"# {kind.name}",
        whole["description"],
        f"`{kind.api_version}`, {scope}. `kubectl get {kind.plural}`, or `{kind.short}` for short.",
        f"`kubectl explain {kind.singular}.spec` shows the same descriptions.",
    ]
    if kind.group == INFRASTRUCTURE_GROUP:
        parts.append(_COMPOSED if kind in COMPOSED else _NOT_COMPOSED)
    if kind.scale is not None:
        parts.append(
            f"The kind has a scale subresource: `kubectl scale {kind.singular} NAME --replicas=N` sets "
            f"`{kind.scale.spec_replicas.lstrip('.')}`."
        )
    parts += [
        "## Example",
        _example(kind),
        "[Every field](../../examples/every-field/README.md) shows objects that use every field.",
    ]
    own = [row.reason for row in ROWS if row.kind == kind.name]
    spec, status = (list(_fields(name, whole["properties"][name])) for name in ("spec", "status"))
    refused = [f"- {message}." for message in _messages(whole)]
    refused += [f"- `spec`: {message}." for message in _messages(whole["properties"]["spec"])]
    refused += [f"- `{field.path}`: {message}." for field in spec for message in field.rules]
    parts += [
        "## spec",
        _spec_table(spec),
        *_forms(whole["properties"]["spec"]),
        "### Rules",
        "The API server refuses an object that breaks one of these rules.",
        "\n".join(refused),
        "## status",
        _status_table(status),
        "## Conditions",
        *([_conditions(own)] if own else []),
        f"Every kind {'also ' if own else ''}reports [Synced and Ready](conditions.md).",
    ]
    return "\n\n".join(parts) + "\n"


_COMPOSED = "[Cloud clusters](clouds.md) lists the managed resources that Modelplane creates for an object."
_NOT_COMPOSED = (
    "This version doesn't provision such clusters: an object of this kind is stored, and nothing acts on it."
)
_CONDITIONS = (
    "Every object reports its state in `status.conditions`. A condition has a `status`, a `reason` in one "
    "word, and a `message`: a sentence that also tells you what to do. `observedGeneration` is the "
    "`metadata.generation` that the condition describes. If it is lower than the object's generation, "
    "the condition is out of date."
)
_EVENTS = (
    "The `Ready` condition shows the reason and the message of the first condition that keeps the object "
    "from being ready. `kubectl get`, `modelplane explain`, `modelplane top` and the dashboard show this "
    "reason. Under Crossplane, Crossplane writes `Ready`, with the reason `Creating`. "
    "`kubectl wait --for=condition=Ready` works for every kind. Modelplane records an event when a condition "
    "changes: a warning if the reason is marked **warning**, and a normal event otherwise. For a new "
    "object's first conditions, only warnings are recorded."
)


def conditions_page() -> str:
    """Return the page of all conditions."""
    parts = ["# Conditions", _CONDITIONS, _EVENTS]
    for name in (EVERY_KIND, *(kind.name for kind in KINDS)):
        if rows := [row.reason for row in ROWS if row.kind == name]:
            parts += [f"## {name[:1].upper()}{name[1:]}", _conditions(rows)]
    return "\n\n".join(parts) + "\n"


def _conditions(rows: list[Reason]) -> str:
    lines = ["| Condition | Reason | What to do |", "|---|---|---|"]
    for type_, group in groupby(rows, key=lambda row: row.type):
        for row in group:
            mark = " **warning**" if row.warns else ""
            status = "True or False" if row.holds is None else row.holds
            lines.append(
                f"| `{type_}`<br>{status} | `{row}`{mark}<br>{row.meaning} | {row.remedy or 'Nothing.'} |"
            )
    return "\n".join(lines)


def _example(kind: Kind) -> str:
    """Return the directive that includes a short manifest, and a link to one with every field."""
    short = f"examples/reference/{kind.plural}.yaml"
    every = kind.module.replace("_", "-")
    path = short if (EXAMPLES.parent / short).exists() else f"examples/every-field/{every}.yaml"
    return f"<!-- include: {path}#{kind.name} -->"


def _spec_table(fields: list[Field]) -> str:
    lines = ["| Field | Meaning |", "|---|---|"]
    for field in fields:
        form = f"{field.type}, required" if field.required else field.type
        limits = ", ".join(filter(None, (field.default and f"default {field.default}", field.limits)))
        below = f"<br><small>{limits[0].upper()}{limits[1:]}.</small>" if limits else ""
        lines.append(f"| `{field.path}`<br>{form} | {field.meaning}{below} |")
    return "\n".join(lines)


def _status_table(fields: list[Field]) -> str:
    lines = ["| Field | Meaning |", "|---|---|"]
    lines += [f"| `{field.path}`<br>{field.type} | {field.meaning} |" for field in fields]
    return "\n".join(lines)


def _fields(path: str, whole: Schema, known: dict[str, str] | None = None) -> Iterator[Field]:
    """Yield the fields below a value; what is described already is referred to."""
    known = {} if known is None else known
    required = whole.get("required", ())
    for name, value in whole.get("properties", {}).items():
        yield from _value(f"{path}.{name}", value, name in required, known)


def _value(path: str, value: Schema, required: bool, known: dict[str, str]) -> Iterator[Field]:
    inner, inner_path = value, path
    while "items" in inner or "additionalProperties" in inner:
        inner_path += "[]" if "items" in inner else "{}"
        inner = inner.get("items") or inner["additionalProperties"]
    meaning = value.get("description", "")
    seen = known.get(repr(inner)) if "properties" in inner else None
    if seen is not None:
        meaning += f" Its fields are those of `{seen}`."
    rules = [
        rule["message"] for level in _levels(value) for rule in level.get("x-kubernetes-validations", ())
    ]
    yield Field(
        path=path,
        type=_type(value),
        required=required,
        default=_default(value),
        limits=_limits(value),
        meaning=meaning,
        rules=() if seen is not None else tuple(rules),
    )
    if "properties" in inner and seen is None:
        known[repr(inner)] = inner_path
        yield from _fields(inner_path, inner, known)


def _default(value: Schema) -> str:
    match value.get("default"):
        case None:
            return ""
        case list(words):
            return ", ".join(f"`{word}`" for word in words)
        case word:
            return f"`{word}`"


def _messages(value: Schema) -> list[str]:
    return [rule["message"] for rule in value.get("x-kubernetes-validations", ())]


def _levels(value: Schema) -> Iterator[Schema]:
    """Yield a value, and what its lists and maps hold."""
    yield value
    inner = value.get("items") or value.get("additionalProperties")
    if inner:
        yield from _levels(inner)


def _type(value: Schema) -> str:
    if "items" in value:
        return f"list of {_type(value['items'])}"
    if "additionalProperties" in value:
        return f"map of {_type(value['additionalProperties'])}"
    if "enum" in value:
        return " \\| ".join(f"`{word}`" for word in value["enum"])
    if "type" not in value:
        return " \\| ".join(dict.fromkeys(map(_form, value.get("anyOf", ())))) or "any value"
    return "time" if value.get("format") == "date-time" else str(value["type"])


def _form(value: Schema) -> Any:
    """Return one form of a value of several."""
    return (
        " \\| ".join(f"`{word}`" for word in value["enum"])
        if "enum" in value
        else value.get("type", "object")
    )


_UNITS = {"Length": "characters", "Items": "items", "Properties": "keys"}


def _limits(value: Schema) -> str:
    limits = []
    if "minimum" in value or "maximum" in value:
        limits.append(_range(value.get("minimum"), value.get("maximum"), ""))
    for suffix, unit in _UNITS.items():
        least, most = value.get(f"min{suffix}"), value.get(f"max{suffix}")
        if least or most:
            limits.append(_range(least, most, f" {unit}"))
    if pattern := value.get("pattern"):
        limits.append(FORMS.get(pattern) or f"`{_cell(pattern)}`")
    return ", ".join(limits)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _forms(whole: Schema) -> Iterator[str]:
    """Yield what the forms of a table's fields are, where there are any."""
    used = {value["pattern"] for value in _nested(whole) if "pattern" in value}
    rows = [f"- {name}: `{pattern}`" for pattern, name in FORMS.items() if pattern in used]
    if rows:
        yield "The named forms, as regular expressions:"
        yield "\n".join(rows)


def _nested(value: Schema) -> Iterator[Schema]:
    yield value
    for inner in value.get("properties", {}).values():
        yield from _nested(inner)
    for part in ("items", "additionalProperties"):
        if part in value:
            yield from _nested(value[part])


def _range(least: int | None, most: int | None, unit: str) -> str:
    if most is None:
        return "not empty" if unit and least == 1 else f"at least {least}{unit}"
    if least is None:
        return f"at most {most}{unit}"
    return f"exactly {least}" if least == most else f"{least} to {most}{unit}"
