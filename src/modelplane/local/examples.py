"""Examples: the manifests that come with Modelplane, one folder each, found by name.

One source: the folder ``examples`` of the repository. A wheel carries a copy of it. A name is looked up
among the folders that exist; it is never made part of a path.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import modelplane
from modelplane.host.errors import LocalError

_PACKAGE = Path(modelplane.__file__).parent
_README = "README.md"


@dataclass(frozen=True, slots=True)
class Example:
    """A folder of manifests, and the page that explains them."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder's own name, such as ``01-first-answer``."""
        return self.folder.name

    @property
    def title(self) -> str:
        """The heading of the page."""
        return (self.folder / _README).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")

    @property
    def manifests(self) -> tuple[Path, ...]:
        """The manifests, in the order in which kubectl applies the folder."""
        return tuple(sorted(self.folder.glob("*.yaml")))

    def is_named(self, name: str) -> bool:
        """Return True if the name is this example's, with or without the number of its step."""
        return name in (self.name, self.name.lstrip("0123456789").removeprefix("-"))


def find_root() -> Path:
    """Return the folder of all examples: the wheel's copy, or the repository's."""
    for candidate in (_PACKAGE / "_examples", _PACKAGE.parents[1] / "examples"):
        if candidate.is_dir():
            return candidate
    raise LocalError("this installation lacks the examples: reinstall Modelplane")


def list_examples() -> tuple[Example, ...]:
    """Return every example, in the order of their paths."""
    pages = sorted(find_root().rglob(_README))
    return tuple(example for page in pages if (example := Example(page.parent)).manifests)


def find(name: str) -> Example:
    """Return the example of a name."""
    examples = list_examples()
    for example in examples:
        if example.is_named(name):
            return example
    near = get_close_matches(name, [example.name for example in examples], n=1)
    meant = f'did you mean "{near[0]}"? ' if near else ""
    raise LocalError(f'unknown example "{name}": {meant}`modelplane example` lists the examples')
