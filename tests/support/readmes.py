"""The lines for a shell that a page tells its reader to run."""

import re
from pathlib import Path

from support.transcripts import read_steps

_BLOCK = re.compile(r"^```(bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_for_a_shell(page: Path) -> tuple[str, ...]:
    """Return each block of lines for a shell, without outputs, in the order of the page."""
    return tuple(
        text if language == "bash" else "".join(f"{step.command}\n" for step in read_steps(text))
        for language, text in _BLOCK.findall(page.read_text())
    )
