"""Asks Kubernetes' own code all recorded questions again and writes its answers.

    .venv/bin/python tests/oracle/record.py

To record a new question, add the line `["the selector"]` to a file of `tests/unit/cel/answers` first. Needs
Go.
"""

import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # where the tests' folders are packages
    from oracle import asking

    with tempfile.TemporaryDirectory() as folder, asking.running(asking.build(Path(folder))) as oracle:
        for path in sorted(asking.RECORD.glob("*.json")):
            asking.write(path, asking.answered_anew(oracle, path))
