import pytest

from modelplane.scheduler.placement.unmet_conditions import conditions, reads


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        pytest.param("a", ("a",), id="one"),
        pytest.param("a && b &&\n c", ("a", "b", "c"), id="several"),
        pytest.param("(a && (b && c))", ("a", "b", "c"), id="in brackets"),
        pytest.param("(a) && (b || c && d)", ("(a)", "(b || c && d)"), id="brackets of one condition"),
        pytest.param("a || b && c", ("a || b && c",), id="alternatives are one condition"),
        pytest.param("a ? b : c && d", ("a ? b : c && d",), id="a choice is one condition"),
        pytest.param(
            'x.?y == "a && b" && z[?0].hasValue()', ('x.?y == "a && b"', "z[?0].hasValue()"), id="texts"
        ),
        pytest.param("// a && b\nc", ("// a && b\nc",), id="comments"),
        pytest.param(" && ".join(["a"] * 17), (" && ".join(["a"] * 17),), id="too many to look at"),
    ],
)
def test_what_a_selector_joins_are_its_conditions(expression: str, found: tuple[str, ...]) -> None:
    assert conditions(expression) == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        pytest.param('"device.driver" == "x"', set(), id="nothing"),
        pytest.param('device.driver == "x"', {"device.driver"}, id="the driver"),
        pytest.param(
            'device.capacity["g"].memory.compareTo(x) > 0 || has( device.attributes["g"] .a)',
            {'device.capacity["g"].memory', 'device.attributes["g"].a'},
            id="values",
        ),
        pytest.param('"g" in device.attributes', {"device.attributes"}, id="domains"),
    ],
)
def test_what_a_condition_looks_at(condition: str, found: set[str]) -> None:
    assert reads(condition) == found
