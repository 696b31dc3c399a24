"""What Kubernetes' own code answers, recorded by `answers/record.go`."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from modelplane import cel
from modelplane.cel import quantity
from modelplane.scheduler import Device, Version

ANSWERS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "answers" / "kubernetes.json").read_text()
)
DEVICE: Final = Device(
    name="gpu",
    driver="gpu.nvidia.com",
    count=8,
    attributes={
        "architecture": "Hopper",
        "cudaComputeCapability": Version("9.0.0"),
        "n": 8,
        "ecc": True,
        "other.com/x": "y",
    },
    capacity={"memory": "80Gi"},
)


def answer(expression: str) -> str:
    try:
        verdict = cel.compile(expression).evaluate(DEVICE)
    except cel.SelectorError:
        return "refused"
    if isinstance(verdict, cel.Match):
        return "match"
    return "failed" if verdict.failed else "false"


@pytest.mark.parametrize(("expression", "expected"), ANSWERS["selectors"])
def test_a_selector_is_answered_as_kubernetes_does(expression: str, expected: str) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(("expression", "theirs", "ours"), ANSWERS["differences"])
def test_a_difference_is_one_that_is_written_down(expression: str, theirs: str, ours: str) -> None:
    assert (answer(expression), theirs) == (ours, theirs)
    assert ours != "match" or theirs in ("refused", "false")


@pytest.mark.parametrize(("text", "value", "integer"), ANSWERS["quantities"])
def test_a_quantity_is_read_as_kubernetes_does(text: str, value: str | None, integer: bool | None) -> None:
    try:
        parsed = quantity.parse(text)
    except cel.QuantityError:
        assert value is None
        return
    assert value is not None
    assert (parsed.nano, parsed.as_integer() is not None) == (int(Decimal(value).scaleb(9)), integer)
