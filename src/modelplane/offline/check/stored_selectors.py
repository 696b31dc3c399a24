"""Device selectors that a fleet has stored, and that are no longer accepted."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from modelplane import cel
from modelplane.api.meta import Object
from modelplane.offline.files.diagnostics import ObjectName, Path, Problem, Severity, format_path, limit_text

_WHERE: Final = "control plane"


def find_problems(items: Iterable[Object]) -> Iterator[Problem]:
    """Yield an error for each selector that does not compile."""
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
            try:
                cel.compile(expression)
            except cel.SelectorError as error:
                yield Problem(
                    path=_WHERE,
                    line=0,
                    column=0,
                    severity=Severity.ERROR,
                    object=name,
                    field=format_path(path),
                    message=f"selector `{limit_text(expression)}` does not compile: {error.problem}",
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
