"""Device selectors that a fleet has stored, and that a later version will not accept."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.cel.listed_functions import unlisted
from modelplane.offline.files.diagnostics import ObjectName, Path, Problem, Severity, format_path, limit_text

_WHERE: Final = "control plane"


def find_problems(items: Iterable[Object]) -> Iterator[Problem]:
    """Yield a warning for each selector with a function that version 0.10 refuses."""
    for item in items:
        metadata = item["metadata"]
        if metadata.get("ownerReferences"):
            continue  # written by Modelplane, from an object that is listed itself
        name = ObjectName(
            api_version=item["apiVersion"],
            kind=item["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
        )
        for path, expression in _selectors(item.get("spec", {}), ("spec",)):
            if used := unlisted(expression):
                yield Problem(
                    path=_WHERE,
                    line=0,
                    column=0,
                    severity=Severity.WARNING,
                    object=name,
                    field=format_path(path),
                    message=(
                        f"selector `{limit_text(expression)}` uses {', '.join(used)}, which no selector "
                        "can use from version 0.10 on: rewrite the selector before you upgrade"
                    ),
                )


def _selectors(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "cel" and isinstance(inner, str):
                yield (*path, key), inner
            else:
                yield from _selectors(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _selectors(inner, (*path, index))
