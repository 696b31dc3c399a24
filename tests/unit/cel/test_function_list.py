"""Functions that selectors do not have are refused by name, with what to write instead."""

import pytest

from modelplane import cel

TEXT = "use startsWith, endsWith, contains or matches"
LOOP = "write the condition in exists or all"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param('device.driver == "gpu.nvidia.com" && !(1 < 2) || true', id="comparison and logic"),
        pytest.param('device.driver in ["a", "b"] ? true : false', id="in, and a choice"),
        pytest.param('device.attributes["a"].?type.orValue("") == ""', id="optional access"),
        pytest.param('has(device.attributes["a"].type) && size("a") > -1', id="has, and a negative number"),
        pytest.param('"A".lowerAscii().startsWith("a") && "a".matches("b")', id="texts"),
        pytest.param("[1.5, 2.0].exists(x, x > 1e-5) && [1].all(x, x < 2.5e+3)", id="lists"),
        pytest.param(
            'device.capacity["a"].memory.compareTo(quantity("1Gi")) >= 0 && quantity("1").add(quantity("2"))'
            '.isGreaterThan(quantity("1")) && semver("1.0.0").major() == 1',
            id="quantities and versions",
        ),
        pytest.param('device.driver == "math.greatest(1) + split(2)" // trim()', id="texts and comments"),
        pytest.param("has(device.driver)", id="the presence of a field that is always there"),
    ],
)
def test_what_selectors_have_is_accepted(expression: str) -> None:
    assert cel.compile(expression).estimate < 100


@pytest.mark.parametrize(
    ("expression", "problem", "column"),
    [
        pytest.param(
            "math.greatest(1, 2) == 2", "function math.greatest: compare with each value", 1, id="a namespace"
        ),
        pytest.param('device.driver.split(",").size() == 2', f"function split: {TEXT}", 15, id="a method"),
        pytest.param(
            "true && int('1') == 1",
            "function int: compare a value with one of its own type",
            9,
            id="a conversion",
        ),
        pytest.param("[1].exists_one(x, x == 1)", "function exists_one: use exists", 5, id="exactly one"),
        pytest.param(
            "cel.bind(a, 1, a == 1)", "function cel.bind: write the value in each place", 1, id="a binding"
        ),
        pytest.param("[3, 1].map(x, x).size() == 2", f"function map: {LOOP}", 8, id="a new list"),
        pytest.param("[3, 1].filter(x, x > 1) == [3]", f"function filter: {LOOP}", 8, id="a shorter list"),
        pytest.param(
            "device.attributes['a'].?b.optMap(x, x).orValue(true)",
            "function optMap: use .?name.orValue(default)",
            27,
            id="a macro of optionals",
        ),
        pytest.param(
            '"a" + "b" == "ab"',
            "operator +: write the sum, or add(...) of a quantity",
            5,
            id="a sum of texts",
        ),
        pytest.param(
            "size('abc') - 1 == 2",
            "operator -: write the difference, or sub(...) of a quantity",
            13,
            id="a difference",
        ),
        pytest.param("4 / 2 == 2", "operator /: write the result", 3, id="a quotient"),
        pytest.param("-size('a') == 1", "operator -: write a negative number", 1, id="a negation"),
        pytest.param(
            'format.dns1123Label().validate("a").hasValue()',
            "function format.dns1123Label",
            1,
            id="a library that has no remedy",
        ),
        pytest.param("device.driver.getScheme() == 'a'", "function getScheme", 15, id="a function of none"),
        pytest.param("{'a': 1}.size() == 1", "maps: compare the values one by one", 1, id="a map"),
        pytest.param("device.driver == 'a' || null == null", "null: ask for a name with has", 25, id="null"),
        pytest.param("b'a' == b'a'", "bytes: compare texts", 1, id="bytes"),
        pytest.param(
            "[?device.attributes['a'].?b] == []",
            "optional elements of lists: use orValue(default)",
            1,
            id="an optional element",
        ),
    ],
)
def test_what_selectors_do_not_have_is_refused_by_name(expression: str, problem: str, column: int) -> None:
    with pytest.raises(cel.SelectorError) as error:
        cel.compile(expression)
    assert (error.value.problem, error.value.column) == (f"selectors have no {problem}", column)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param(
            "device.capacity['a'].memory == quantity('1Gi')",
            "quantities are not compared with ==, != or in: write a.compareTo(b) == 0",
            id="equality of quantities, which Kubernetes answers unlike itself for sums",
        ),
        pytest.param(
            "device.capacity['a'].memory in [quantity('1Gi')]",
            "quantities are not compared with ==, != or in: write a.compareTo(b) == 0",
            id="equality with one of several",
        ),
        pytest.param(
            "device.capacity['a'] == device.capacity['b']",
            "quantities are not compared with ==, != or in: write a.compareTo(b) == 0",
            id="equality of all quantities of a domain",
        ),
        pytest.param(
            "[device.attributes['a'].b] == ['c']",
            "lists, optionals and domains with attributes are not compared: compare each attribute",
            id="a list with an attribute, which Kubernetes takes for equal if the attribute is a version",
        ),
        pytest.param(
            'device.attributes.exists(d, d == "a")',
            'exists and all are for lists: ask for a domain with "domain" in device.attributes',
            id="a loop over domains",
        ),
        pytest.param(
            "[1].exists(i, x, x == i)", "exists has one variable: write exists(x, condition)", id="two"
        ),
        pytest.param(
            "device.attributes['a'].b.c == 1", "an attribute has no fields and no elements", id="field"
        ),
        pytest.param("int == int", 'unknown name "int"', id="a type"),
        pytest.param("'a\\u0000' == 'a'", "a text has a null character", id="a null character"),
    ],
)
def test_a_form_that_selectors_do_not_have_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(cel.SelectorError) as error:
        cel.compile(expression)
    assert error.value.problem == problem
