"""Prints how our answers agree with those of Kubernetes' own code, by kind of agreement.

    .venv/bin/python tests/oracle/agreement.py

The recorded answers are compared; with Go, also 3,000 random selectors of all of CEL, and 3,000 of what
selectors can use. A line follows for each selector of a kind that needs a look.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LOOK = ("STRICTER", "DIFFERENT", "LESS_STRICT", "MORE_MATCHES")
SELECTORS = 3000

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # where the tests' folders are packages
    from oracle import asking
    from oracle.comparison import Agreement, compare
    from oracle.grammar import Grammar

    tables: dict[str, Counter[Agreement]] = {}

    def count(title: str, lines: Iterable[list[Any]]) -> None:
        tables[title] = Counter()
        for line in lines:
            agreement = compare(line)
            tables[title][agreement] += 1
            if agreement.name in LOOK:
                sys.stderr.write(f"{agreement.name}: {line[0]}\n")

    paths = [path for path in sorted(asking.RECORD.glob("*.json")) if path.stem != "texts_of_quantities"]
    count("recorded", (line for path in paths for line in asking.recorded(path)))
    if shutil.which("go") is not None:
        with tempfile.TemporaryDirectory() as folder, asking.running(asking.build(Path(folder))) as oracle:
            for title, listed in (("random", False), ("random, listed", True)):
                grammar = Grammar(random.Random(SELECTORS), listed=listed)  # noqa: S311  (a seed repeats it)
                texts = (grammar.selector(1 + number % 4) for number in range(SELECTORS))
                count(title, map(oracle.selector, texts))
    sys.stdout.write(f"{'':52}{''.join(f'{title:>18}' for title in tables)}\n")
    for agreement in Agreement:
        counts = "".join(f"{table[agreement]:18,}" for table in tables.values())
        sys.stdout.write(f"{agreement.value:52}{counts}\n")
