"""YAML of objects that kubectl reads back unchanged."""

from typing import Any

import yaml

from modelplane.offline.files.scalars import NotFinite, resolve

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the base is chosen at run time
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  PyYAML's signature
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _means_more(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _means_more(text: str) -> bool:
    """Return True if a text without quotes has another meaning to kubectl, such as y or 1e3."""
    try:
        return not isinstance(resolve(text), str)
    except NotFinite:
        return True


_Dumper.add_representer(str, _text)


def to_yaml(item: Any) -> str:
    """Return an object as a YAML document."""
    return str(yaml.dump(item, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))
