import pytest

from modelplane.api.values import quantity
from modelplane.api.values.quantity import Quantity, QuantityError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "40 Gi",
            '"40 Gi" is not a quantity: write a number and a unit, such as 80Gi or 500m',
            id="a blank is not allowed",
        ),
        pytest.param(
            "40K",
            '"40K" is not a quantity: unknown unit "K", known are '
            "Ki, Mi, Gi, Ti, Pi, Ei, n, u, m, k, M, G, T, P, E",
            id="an unknown unit lists the known ones",
        ),
        pytest.param("Ei", '"Ei" is not a quantity: it has no digits', id="a unit alone is no number"),
        pytest.param(
            "1e9999999999",
            '"1e9999999999" is not a quantity: its exponent is beyond 1000',
            id="an exponent is bounded, so that no text costs more than its length",
        ),
    ],
)
def test_a_malformed_quantity_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as error:
        quantity.parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("less", "more"),
    [
        pytest.param("80G", "80Gi", id="a decimal unit is less than the binary one"),
        pytest.param("81559Mi", "80Gi", id="what a driver reports is less than the nominal size"),
        pytest.param("999m", "1", id="thousandths"),
        pytest.param("-1", "0.000000001", id="the sign counts"),
    ],
)
def test_quantities_are_ordered_by_value(less: str, more: str) -> None:
    assert quantity.parse(less) < quantity.parse(more)


@pytest.mark.parametrize("text", ["+", "-", ".", "Ki"])
def test_a_missing_number_is_zero_as_in_kubernetes(text: str) -> None:
    assert quantity.parse(text) == quantity.parse("0")


def test_equal_quantities_are_equal_however_written() -> None:
    assert {quantity.parse(text) for text in ("80Gi", "81920Mi", "85899345920", "85899345920000m")} == {
        Quantity(85899345920 * 10**9)
    }


def test_a_sum_is_exact() -> None:
    assert quantity.parse("0.1") + quantity.parse("0.2") == quantity.parse("300m")


@pytest.mark.parametrize(
    ("left", "right", "integer"),
    [
        pytest.param("1k", "1", 1001, id="two whole numbers"),
        pytest.param("1", "500m", None, id="a fraction"),
        pytest.param("1", "0m", 1, id="nothing is added"),
        pytest.param("0m", "1", 1, id="something is added to nothing"),
        pytest.param("1", "9Ei", None, id="a capped value is no longer a plain number"),
    ],
)
def test_a_sum_is_an_integer_where_kubernetes_says_so(left: str, right: str, integer: int | None) -> None:
    assert (quantity.parse(left) + quantity.parse(right)).as_integer() == integer
