"""Functions of selectors that version 0.10 refuses."""

import pytest

from modelplane.cel.listed_functions import unlisted


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        pytest.param('device.driver == "gpu.nvidia.com" && !(1 < 2) || true', (), id="comparison and logic"),
        pytest.param('device.driver in ["a", "b"] ? true : false', (), id="in, and a choice"),
        pytest.param('device.attributes["a"].type in ("b")', (), id="in with parentheses"),
        pytest.param('device.attributes["a"].?type.orValue("") == ""', (), id="optional access"),
        pytest.param(
            'has(device.attributes["a"].type) && size("a") > -1', (), id="has, and a negative number"
        ),
        pytest.param('"A".lowerAscii().startsWith("a") && "a".matches("b")', (), id="texts"),
        pytest.param("[1, 2].exists(x, x > 1e-5) && [1].all(x, x < 2.5e+3)", (), id="lists"),
        pytest.param(
            'device.capacity["a"].memory.compareTo(quantity("1Gi")) >= 0 && quantity("1").add(quantity("2"))'
            '.isGreaterThan(quantity("1")) && semver("1.0.0").major() == 1',
            (),
            id="quantities and versions",
        ),
        pytest.param('device.driver == "math.greatest(1) + split(2)" // trim()', (), id="texts and comments"),
        pytest.param("math.greatest(1, 2) == 2", ("math.greatest",), id="a function of a namespace"),
        pytest.param('"a,b".split(",").size() == 2', ("split",), id="a method"),
        pytest.param("int('1') == 1 && string(1) == '1'", ("int", "string"), id="conversions"),
        pytest.param("[1].exists_one(x, x == 1)", ("exists_one",), id="another macro of lists"),
        pytest.param("cel.bind(a, 1, a == 1)", ("cel.bind",), id="a binding"),
        pytest.param("[3, 1].map(x, x * 2).filter(x, x > 1).size() == 2", ("map", "filter", "*"), id="order"),
        pytest.param('"a" + "b" == "ab"', ("+",), id="sum of texts"),
        pytest.param("size('abc') - 1 == 2 && 4 / 2 == 5 % 3", ("-", "/", "%"), id="arithmetic"),
    ],
)
def test_what_is_not_listed_is_found(expression: str, found: tuple[str, ...]) -> None:
    assert unlisted(expression) == found
