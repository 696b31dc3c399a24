"""Names that fleets of earlier releases rely on: run ``python -m contract.frozen`` to add those of today.

Crossplane deletes a child whose key changes, controllers lose sight of one whose label changes, and
dashboards query metrics by name. So a name stays as long as a fleet may have it.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from contract.golden_cases import golden_cases
from contract.names import names

FILE = Path(__file__).with_name("frozen_names.txt")
_ROOT = Path(__file__).parents[2]
_HASH = re.compile(r"(?<=-)(?=[0-9a-f]*[0-9])[0-9a-f]{5,10}(?=-|$)")


def frozen() -> set[str]:
    """Return the recorded names: each a line with its sort first."""
    return set(FILE.read_text(encoding="utf-8").splitlines())


def present(root: Path = _ROOT) -> set[str]:
    """Return the names that the code of a checkout has, and those of the children in its goldens."""
    found = names(root / "src" / "modelplane")
    keys = (key for key in found["keys"] if "modelplane" in key)
    return {
        *(f"metric {name}" for name in found["metrics"]),
        *(f"key {name}" for name in keys),
        *(f"name {name}" for name in (*found["ours"], *found["composed"])),
        *chain.from_iterable(_of(name, output) for name, (_, output) in golden_cases(root).items()),
    }


def _of(name: str, output: dict[str, Any]) -> Iterator[str]:
    """Yield the keys and the names of the children of a golden case, without their hashes."""
    for child in output.get("children") or ():
        if "manifest" in child:
            kind, metadata = child["manifest"]["kind"], child["manifest"]["metadata"]
            words = (name.partition("/")[0], kind, child["key"], metadata.get("name", ""))
            yield "child " + " ".join(_HASH.sub("#", word) for word in words)


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in sorted(frozen() | present())), encoding="utf-8")
