"""What Kubernetes' own code answers, recorded by `tests/oracle/record.py`, is what we answer."""

from collections import Counter
from decimal import Decimal
from typing import Any, Final

import pytest

from modelplane.api.values import quantity
from oracle.asking import RECORD, recorded
from oracle.comparison import Agreement, answers, compare

QUANTITIES: Final = "texts_of_quantities"
SELECTORS: Final[list[list[Any]]] = [
    line for path in sorted(RECORD.glob("*.json")) if path.stem != QUANTITIES for line in recorded(path)
]
STRICTER: Final = {
    'device.capacity["nic.example.com"].total.add(1).isGreaterThan(quantity("1"))': (
        "Kubernetes changes the device's own quantity, for the rest of the evaluation"
    ),
}
"""Selectors that fail here on a device that Kubernetes answers for, and why."""
REFUSED: Final = (
    "selectors have no ",
    "quantities are not compared with ",
    "lists, optionals and domains with attributes are not compared",
    "exists and all ",
    "exists has one variable",
    "all has one variable",
    "an attribute has no fields",
    "device is read through ",
    "it is nested too deeply",
    'unknown name "kubernetes.DRADevice"',
)
"""Beginnings of the reasons for which a selector is refused here alone: each names what it is about."""


@pytest.mark.parametrize("line", SELECTORS, ids=[repr(line[0][:80]) for line in SELECTORS])
def test_a_selector_is_answered_as_kubernetes_does_or_refused_by_name(line: list[Any]) -> None:
    agreement = compare(line)
    if agreement is Agreement.REFUSED_BY_NAME:
        _, problem = answers(line[0])
        assert str(problem).startswith(REFUSED)
    elif line[0] in STRICTER:
        assert agreement is Agreement.STRICTER
    else:
        assert agreement in (Agreement.SAME, Agreement.REFUSED_BY_BOTH)


def test_enough_of_the_record_is_still_answered() -> None:
    agreements = Counter(map(compare, SELECTORS))
    assert agreements[Agreement.SAME] >= 400


@pytest.mark.parametrize(
    ("text", "value", "integer"),
    [pytest.param(*line, id=repr(line[0][:80])) for line in recorded(RECORD / f"{QUANTITIES}.json")],
)
def test_a_quantity_is_read_as_kubernetes_does(text: str, value: str | None, integer: bool | None) -> None:
    try:
        parsed = quantity.parse(text)
    except quantity.QuantityError:
        assert value is None
        return
    assert value is not None
    assert (parsed.nano, parsed.as_integer() is not None) == (int(Decimal(value).scaleb(9)), integer)
