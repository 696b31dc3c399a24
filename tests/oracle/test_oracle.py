"""The record is what Kubernetes' own code says today, and beyond the record we agree with it too."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from oracle import asking
from oracle.asking import Oracle
from oracle.comparison import answers, by_device, comparable, padded, without_cost_of_failure
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


def test_random_selectors_are_answered_as_kubernetes_does(oracle: Oracle) -> None:
    grammar = Grammar(random.Random(SELECTORS))  # noqa: S311  (a seed repeats it)
    texts = [grammar.selector(1 + number % 4) for number in range(SELECTORS)]
    assert [text for text in texts if not agree(text, oracle.selector(text))] == []


def agree(text: str, line: list[Any]) -> bool:
    """Tell whether we answer as recorded. Costs are compared as far as both reach a result."""
    _, estimate, theirs = padded(line)
    our_estimate, ours = answers(text)
    if theirs == "refused" or ours == "refused":
        return bool(ours == theirs)
    theirs = by_device(theirs)
    return our_estimate == estimate and all(
        same(comparable(ours[name], theirs[name]), without_cost_of_failure(theirs[name])) for name in theirs
    )


def same(ours: str, theirs: str) -> bool:
    """Tell whether two answers agree; where an error was absorbed, ours may cost a little less."""
    return ours.partition(" ")[0] == theirs.partition(" ")[0]
