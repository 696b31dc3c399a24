"""What Kubernetes' own code answers, recorded by `tests/oracle/record.py`, is what we answer."""

from decimal import Decimal
from typing import Any, Final

import pytest

from modelplane import cel
from modelplane.cel.value_types import quantity
from oracle.asking import RECORD, recorded
from oracle.comparison import answers, by_device, comparable, padded, without_cost_of_failure

DIFFERENCES: Final = "differences"
QUANTITIES: Final = "texts_of_quantities"


def lines(name: str) -> list[Any]:
    found = recorded(RECORD / f"{name}.json")
    return [pytest.param(*line, id=f"{name}: {line[0][:80]!r}") for line in map(padded, found)]


@pytest.mark.parametrize(
    ("expression", "estimate", "theirs"),
    [
        line
        for path in sorted(RECORD.glob("*.json"))
        if path.stem not in (DIFFERENCES, QUANTITIES)
        for line in lines(path.stem)
    ],
)
def test_a_selector_is_answered_as_kubernetes_does(
    expression: str, estimate: int | None, theirs: Any
) -> None:
    our_estimate, ours = answers(expression)
    if theirs != "refused" and ours != "refused":
        theirs = by_device(theirs)
        ours = {name: comparable(each, theirs[name]) for name, each in ours.items()}
        theirs = {name: without_cost_of_failure(each) for name, each in theirs.items()}
    assert (our_estimate, ours) == (estimate, theirs)


@pytest.mark.parametrize(("expression", "estimate", "theirs", "ours"), lines(DIFFERENCES))
def test_a_difference_is_one_that_is_written_down_and_never_selects_more(
    expression: str, estimate: int | None, theirs: Any, ours: Any
) -> None:
    _, found = answers(expression)
    if found != "refused":
        found = {name: each.rpartition(" ")[0] for name, each in found.items()}
    assert found == (ours if ours == "refused" else by_device(ours))
    for name, each in {} if found == "refused" else found.items():
        assert each != "match" or (theirs != "refused" and by_device(theirs)[name].startswith("match"))
    assert estimate is None or theirs != "refused"


@pytest.mark.parametrize(("text", "value", "integer"), lines(QUANTITIES))
def test_a_quantity_is_read_as_kubernetes_does(text: str, value: str | None, integer: bool | None) -> None:
    try:
        parsed = quantity.parse(text)
    except cel.QuantityError:
        assert value is None
        return
    assert value is not None
    assert (parsed.nano, parsed.as_integer() is not None) == (int(Decimal(value).scaleb(9)), integer)
