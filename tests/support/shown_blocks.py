"""The blocks of code that pages show, and how a test proves each.

Run as a program, it prints how many blocks are executed and how many are only validated, and why.
"""

import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support import page_runs
from support.shell_lines import commands
from support.transcripts import FENCE, Step, join_commands, read_steps

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(
        part.startswith(".") or part in {"build", "dist", "target", "decisions"}
        for part in page.relative_to(ROOT).parts
    )
)

EXECUTED: Mapping[str, str] = {
    "docs/how-to/crossplane-packages.md": "tests/kubernetes/test_registry.py",
    "docs/how-to/move-to-crossplane.md": "tests/kubernetes/test_move.py",
    "README.md": "tests/kubernetes/test_wheel.py",
    "docs/README.md": "tests/kubernetes/test_wheel.py",
    "examples/01-first-answer/README.md": "tests/kubernetes/test_wheel.py",
    "examples/02-build-the-platform/README.md": "tests/kubernetes/test_tour.py",
    "examples/03-deploying-a-model/README.md": "tests/kubernetes/test_tour.py",
    "examples/04-scale-the-platform/README.md": "tests/kubernetes/test_tour.py",
    "examples/05-scale-the-model/README.md": "tests/kubernetes/test_tour.py",
    "examples/06-lose-a-region/README.md": "tests/kubernetes/test_tour.py",
    "examples/07-api-keys/README.md": "tests/kubernetes/test_first_answer.py",
}
"""Pages of which a test runs every line for a shell, as a reader would, with the test."""

_CLOUD = "needs a cloud account"
_CLUSTER = "needs a Kubernetes cluster of the reader's own; the steps are tested there with other names"
_NAMES = "has names of the reader's own; tests run the same commands on other objects"
_CHOICES = "shows alternatives, of which a reader takes one"

VALIDATED: Mapping[str, str] = {
    "CONTRIBUTING.md": "the targets themselves are what the tests are run by",
    "docs/explanation/deletion.md": _NAMES,
    "docs/how-to/crossplane.md": "needs Crossplane",
    "docs/how-to/dashboard.md": "does not end by itself",
    "docs/how-to/images.md": "needs a registry of the reader's own",
    "docs/how-to/install-eks.md": _CLOUD,
    "docs/how-to/install-gke.md": _CLOUD,
    "docs/how-to/install-kind.md": "needs kind",
    "docs/how-to/tls.md": "takes six minutes; tests replace the key with shorter times",
    "docs/reference/components.md": _CLUSTER,
    "docs/reference/commands/": "has an example of each command; the commands have tests of their own",
    "examples/": _CLOUD,
    "skills/": _NAMES,
    "examples/README.md": _CHOICES,
}
"""Pages with lines for a shell that no test runs, with the reason. A folder ends with a slash."""

MOST_WITHOUT_OUTPUT = 8
"""Of all blocks for a shell in the how-tos, as many may show no output. The number may only fall, to 10."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code of a page."""

    page: str
    line: int
    language: str
    text: str
    steps: tuple[Step, ...] = ()
    """Of a block with outputs; ``text`` has the commands alone."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(language: str) -> Iterator[Block]:
    """Yield the blocks of all pages in a language; ``bash`` are also those with outputs."""
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            place = str(page.relative_to(ROOT)), text.count("\n", 0, match.start()) + 1
            if match["language"] == language:
                yield Block(*place, language, textwrap.dedent(match["text"]))
            elif (match["language"], language) == ("console", "bash"):
                steps = read_steps(match["text"])
                yield Block(*place, language, join_commands(steps), steps)


OFFLINE = {"classes", "example", "plan", "render", "validate"}
"""Commands of Modelplane that need no server."""


def is_offline(block: Block) -> bool:
    """Return true if a block consists of commands over files of the repository: a test runs them."""
    found = list(commands(block.text))
    return bool(found) and all(_is_offline(words) for words in found)


def _is_offline(words: list[str]) -> bool:
    name, *arguments = words
    paths = [each for each in arguments[1:] if "/" in each]
    return (
        name == "modelplane"
        and arguments[0] in OFFLINE
        and not {"--live", "--dir"} & set(arguments)
        and bool(paths)
        and all((ROOT / each).exists() for each in paths)
    )


def is_run(block: Block) -> bool:
    """Return true if a test runs a block."""
    return (
        block.page in EXECUTED or is_offline(block) or (bool(block.steps) and block.page in page_runs.PAGES)
    )


def reason(page: str) -> str:
    """Return why the lines of a page are only validated; empty without a row."""
    folder = next((name for name in VALIDATED if name.endswith("/") and page.startswith(name)), "")
    return VALIDATED.get(page) or VALIDATED.get(folder, "")


def summary() -> str:
    """Return how many blocks are executed, and how many are only validated and why."""
    shown = list(blocks("bash"))
    kept = [block for block in shown if not is_run(block)]
    counts = Counter((reason(block.page), block.page) for block in kept)
    lines = [
        f"{len(shown)} blocks for a shell: {len(shown) - len(kept)} executed, {len(kept)} only validated:"
    ]
    for why in sorted({why for why, _ in counts}):
        pages = {page: count for (each, page), count in counts.items() if each == why}
        lines.append(f"  {sum(pages.values()):3}  {why}: {', '.join(sorted(pages))}")
    lines.append(f"{len(list(blocks('yaml')))} manifests and parts of manifests: all validated")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{summary()}\n")
