"""Golden cases of a checkout, in the form of their files today or in that of releases before 0.10."""

from pathlib import Path
from typing import Any

import yaml

from support.goldens import Goldens

Document = dict[str, Any]


def golden_cases(checkout: Path) -> dict[str, tuple[Document, Document]]:
    """Return the input and the output of each case, by its name, with sorted fields."""
    goldens = Goldens(checkout / "tests" / "golden")
    cases = {name: (goldens.input(name), goldens.output(name)) for name in goldens.names()}
    cases = cases or dict(map(_former, sorted(goldens.root.glob("composition/*/*/input.yaml"))))
    return {name: (_sorted(given), _sorted(composed)) for name, (given, composed) in cases.items()}


def _former(path: Path) -> tuple[str, tuple[Document, Document]]:
    given, composed = (_read(path.with_name(name)) for name in ("input.yaml", "expected.yaml"))
    del given["reason"]
    return f"{path.parent.parent.name}/{path.parent.name}", (given, composed)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(inner) for name, inner in sorted(value.items())}
    return [*map(_sorted, value)] if isinstance(value, list) else value


def _read(path: Path) -> Document:
    document: Document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return document
