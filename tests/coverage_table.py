"""Print how much of each package the tests cover, lines and branches, from ``coverage json``."""

import json
import sys
from collections import defaultdict
from pathlib import Path


def table(report: Path) -> str:
    """Return a line for each package below ``modelplane``, the least covered first."""
    covered: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in json.loads(report.read_text())["files"].items():
        package = Path(name).relative_to("src/modelplane").parent.as_posix()
        summary = file["summary"]
        covered[package][0] += summary["covered_lines"] + summary["covered_branches"]
        covered[package][1] += summary["num_statements"] + summary["num_branches"]
    rows = sorted((done / whole, package, whole) for package, (done, whole) in covered.items() if whole)
    return "\n".join(f"{share:7.1%}  {package:32} {whole:6}" for share, package, whole in rows)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1])) + "\n")
