"""The code of an earlier commit, whose fleets that of the working tree takes over.

``make takeover BASE=COMMIT`` names the commit.
"""

import os
from pathlib import Path

import pytest

from support.checkouts import checkout_of

BASE = "MODELPLANE_TAKEOVER_BASE"


@pytest.fixture(scope="session")
def earlier() -> Path:
    """A folder with the files of the commit."""
    commit = os.environ.get(BASE, "")
    if not commit:
        pytest.skip(f"no commit to take over from is named: make takeover, or set {BASE}")
    return checkout_of(commit)
