"""The lines for a shell that a page tells its reader to run."""

import re
from pathlib import Path


def lines_for_a_shell(page: Path) -> tuple[str, ...]:
    """Return each block of lines for a shell, in the order of the page."""
    return tuple(re.findall(r"^```bash\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
