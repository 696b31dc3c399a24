"""The record is what Kubernetes' own code says today, and beyond the record we agree with it too."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from oracle import asking
from oracle.asking import Oracle
from oracle.comparison import Agreement, compare
from oracle.grammar import Grammar

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        shutil.which("go") is None, reason="the oracle is built with go, which is not on the PATH"
    ),
]

SELECTORS: Final = 3000


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with asking.running(asking.build(tmp_path_factory.mktemp("oracle"))) as running:
        yield running


@pytest.mark.parametrize("path", sorted(asking.RECORD.glob("*.json")), ids=lambda path: path.stem)
def test_the_record_is_what_kubernetes_says_today(oracle: Oracle, path: Path) -> None:
    assert asking.answered_anew(oracle, path) == asking.recorded(path)


@pytest.mark.parametrize("listed", [False, True], ids=["of all of CEL", "of what selectors have"])
def test_random_selectors_are_answered_as_kubernetes_does(oracle: Oracle, listed: bool) -> None:
    grammar = Grammar(random.Random(SELECTORS), listed=listed)  # noqa: S311  (a seed repeats it)
    texts = [grammar.selector(1 + number % 4) for number in range(SELECTORS)]
    fine = (Agreement.SAME, Agreement.REFUSED_BY_BOTH, Agreement.REFUSED_BY_NAME)
    assert [text for text in texts if compare(oracle.selector(text)) not in fine] == []
