"""The pages of the tour on this machine, in their order."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOUR = tuple(
    ROOT / "examples" / folder / "README.md"
    for folder in (
        "02-build-the-platform",
        "03-deploying-a-model",
        "04-scale-the-platform",
        "05-scale-the-model",
        "06-lose-a-region",
    )
)


def heading(page: Path) -> str:
    """Return the title of a page. Raises ValueError if it has none."""
    match = re.match(r"# (.+)\n", page.read_text())
    if match is None:
        raise ValueError(f"{page} has no title")
    return match[1]
