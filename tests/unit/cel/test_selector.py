"""Selectors: what is refused and where, and why a device does not match."""

import time
from typing import Any

import pytest

from modelplane import cel
from modelplane.api.values.quantity import Quantity
from modelplane.cel import Match, NoMatch
from modelplane.cel.bindings import ObservedValue
from modelplane.scheduler import Device, Version

MEMORY = ObservedValue("memory", "80Gi", Quantity(80 * 2**30 * 10**9))


def gpu(**changes: Any) -> Device:
    values: dict[str, Any] = {
        "name": "gpu",
        "driver": "gpu.nvidia.com",
        "count": 8,
        "attributes": {"architecture": "Ampere", "cudaComputeCapability": Version("8.0.0"), "ecc": True},
        "capacity": {"memory": "80Gi"},
    }
    return Device(**values | changes)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0', id="enough memory"
        ),
        pytest.param('device.attributes["gpu.nvidia.com"].architecture == "Ampere"', id="an architecture"),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].cudaComputeCapability.isLessThan(semver("9.0.0"))',
            id="a version",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].cudaComputeCapability in [semver("8.0.0"), semver("9.0.0")]',
            id="one of several versions",
        ),
        pytest.param('device.driver == "gpu.nvidia.com"', id="a driver"),
        pytest.param('"gpu.nvidia.com" in device.attributes', id="a domain that is published"),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].architecture == "Ampere" && \n'
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0\n',
            id="two conditions on two lines",
        ),
        pytest.param('device.attributes["nic.nvidia.com"].?link.orValue("none") == "none"', id="a default"),
    ],
)
def test_a_form_that_the_documents_show_matches(expression: str) -> None:
    assert cel.compile(expression).evaluate(gpu()) == Match()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("141Gi")) >= 0',
            NoMatch("memory is 80Gi", reads=(MEMORY,)),
            id="a mismatch shows the value that was compared",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].architecture == "Hopper" '
            '&& device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("1Gi")) >= 0',
            NoMatch('architecture is "Ampere"', reads=(ObservedValue("architecture", '"Ampere"'),)),
            id="what decided is shown, what was not looked at is not",
        ),
        pytest.param(
            "[device.attributes['gpu.nvidia.com'].architecture == 'Ada', "
            "!device.attributes['gpu.nvidia.com'].ecc, "
            "device.attributes['gpu.nvidia.com'].cudaComputeCapability.isLessThan(semver('8.0.0')), "
            "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('80Gi'))].exists(x, x)",
            NoMatch(
                'architecture is "Ampere", ecc is true, cudaComputeCapability is 8.0.0 and 1 more',
                reads=(
                    ObservedValue("architecture", '"Ampere"'),
                    ObservedValue("ecc", "true"),
                    ObservedValue("cudaComputeCapability", "8.0.0"),
                    MEMORY,
                ),
            ),
            id="of many values the first ones are shown, and the others counted",
        ),
        pytest.param(
            'device.driver == "gpu.amd.com"',
            NoMatch('the driver is "gpu.nvidia.com"'),
            id="with nothing read, the driver is what there is to say",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].architcture == "Hopper"',
            NoMatch(
                'it has no attribute "architcture" in domain "gpu.nvidia.com", did you mean architecture?',
                failed=True,
            ),
            id="a misspelt attribute is an error that names the nearest one",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].brand == "Tesla"',
            NoMatch(
                'it has no attribute "brand" in domain "gpu.nvidia.com", '
                "only architecture, cudaComputeCapability, ecc",
                failed=True,
            ),
            id="an unknown attribute is an error that names the known ones",
        ),
        pytest.param(
            '!(device.attributes["gpu.nvidia.com"].architcture == "Hopper")',
            NoMatch(
                'it has no attribute "architcture" in domain "gpu.nvidia.com", did you mean architecture?',
                failed=True,
            ),
            id="an error is not turned into a match by a negation",
        ),
        pytest.param(
            'device.capacity["nvidia.com"].memory.compareTo(quantity("1Gi")) >= 0',
            NoMatch('it has no capacity in domain "nvidia.com", did you mean gpu.nvidia.com?', failed=True),
            id="a misspelt domain is empty, and the error names the nearest one",
        ),
        pytest.param(
            'device.attributes["nic.example.com"].link == "ib"',
            NoMatch('it has no attribute in domain "nic.example.com", only in gpu.nvidia.com', failed=True),
            id="an unknown domain is empty, and the error names the known ones",
        ),
        pytest.param(
            'quantity("1\\n\\u2028Gi").isInteger()',
            NoMatch(
                '"1  Gi" is not a quantity: write a number and a unit, such as 80Gi or 500m',
                failed=True,
            ),
            id="a text of several lines is quoted in one",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].architecture.compareTo(quantity("1Gi")) >= 0',
            NoMatch(
                "compareTo cannot be applied to quantity or version",
                failed=True,
                reads=(ObservedValue("architecture", '"Ampere"'),),
            ),
            id="a type error that only the device can show",
        ),
        pytest.param(
            'device.attributes["gpu.nvidia.com"].architecture',
            NoMatch(
                "it gives neither true nor false for this device",
                failed=True,
                reads=(ObservedValue("architecture", '"Ampere"'),),
            ),
            id="a value that is no truth value",
        ),
        pytest.param(
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40gb")) >= 0',
            NoMatch(
                '"40gb" is not a quantity: write a number and a unit, such as 80Gi or 500m',
                failed=True,
                reads=(MEMORY,),
            ),
            id="a literal that is no quantity",
        ),
    ],
)
def test_a_device_that_does_not_match_says_why(expression: str, expected: NoMatch) -> None:
    assert cel.compile(expression).evaluate(gpu()) == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"attributes": {"driverVersion": Version("550.90")}},
            'its attribute "driverVersion" is malformed: "550.90" is not a version: '
            "write major.minor.patch, such as 9.0.0",
            id="a version of two parts",
        ),
        pytest.param(
            {"capacity": {"memory": "80GB"}},
            'its capacity "memory" is malformed: "80GB" is not a quantity: '
            "write a number and a unit, such as 80Gi or 500m",
            id="a quantity that is none",
        ),
        pytest.param(
            {"attributes": {}, "capacity": {}},
            'it has no attribute "ecc" in domain "gpu.nvidia.com", and none at all',
            id="a device that publishes nothing",
        ),
    ],
)
def test_a_malformed_device_says_so_to_every_selector(changes: dict[str, object], reason: str) -> None:
    selector = cel.compile('device.attributes["gpu.nvidia.com"].ecc')
    assert selector.evaluate(gpu(**changes)) == NoMatch(reason, failed=True)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param(
            'device.capacity["g"].memory.comparTo(quantity("1")) > 0',
            'cannot compile selector `device.capacity["g"].memory.comparTo(quantity("1")) > 0`: '
            'unknown name "comparTo", did you mean compareTo? at line 1, column 29',
            id="a misspelt function names the nearest one",
        ),
        pytest.param(
            'device.capacty["g"].memory > 0',
            'cannot compile selector `device.capacty["g"].memory > 0`: '
            'unknown name "device.capacty", did you mean device.capacity? at line 1, column 7',
            id="a misspelt field names the nearest one",
        ),
        pytest.param(
            'device.driver == "g" &&\n  device.capacity["g"].memory >= quantity("1")',
            'cannot compile selector `device.driver == "g" && device.capacity["g"].memory >= quantity("1")`: '
            "quantities have no order of their own, write a.compareTo(b) >= 0 at line 2, column 31",
            id="the caret is under the second line where the fault is there",
        ),
        pytest.param(
            "device == 1",
            "cannot compile selector `device == 1`: "
            "device is read through device.attributes, device.capacity and device.driver "
            "at line 1, column 1",
            id="the device as a whole is no value",
        ),
        pytest.param(
            "device.driver",
            "cannot compile selector `device.driver`: it gives string, but a selector gives true or false",
            id="a selector that gives a text",
        ),
        pytest.param(
            "device.driver ==",
            "cannot compile selector `device.driver ==`: it breaks off at line 1, column 17",
            id="a selector that breaks off",
        ),
        pytest.param(
            'device.driver in ["a", 1]',
            'cannot compile selector `device.driver in ["a", 1]`: '
            "it mixes string and int in one list at line 1, column 24",
            id="a list of mixed types, which Kubernetes refuses too",
        ),
        pytest.param(
            "!" + "(" * 200 + "true" + ")" * 200,
            "cannot compile selector `!" + "(" * 116 + "...`: it is nested too deeply",
            id="nesting is bounded",
        ),
        pytest.param(
            "true || " * 2000 + "true",
            f"cannot compile selector `{('true || ' * 15)[:117]}...`: it is longer than 10,240 bytes",
            id="length is bounded",
        ),
        pytest.param(
            "has(device.driver) && device.drivr == '\u4e2d'",
            "cannot compile selector `has(device.driver) && device.drivr == '\u4e2d'`: "
            'unknown name "device.drivr", did you mean device.driver? at line 1, column 29',
            id="a presence test before the fault does not move the caret",
        ),
        pytest.param(
            "'\u4e2d\u6587e\u0301' == 'a' ||\t'\u4e2d\u6587e\u0301' == foo",
            "cannot compile selector `'\u4e2d\u6587e\u0301' == 'a' || '\u4e2d\u6587e\u0301' == foo`: "
            'unknown name "foo", a selector reads device.attributes, device.capacity and device.driver; '
            "a text is written in quotes at line 1, column 28",
            id="wide characters, combining marks and tabs are counted as they are shown",
        ),
        pytest.param(
            f"{'true && ' * 20}foo && {'true && ' * 20}true",
            f"cannot compile selector `{('true && ' * 15)[:117]}...`: "
            'unknown name "foo", a selector reads device.attributes, device.capacity and device.driver; '
            "a text is written in quotes at line 1, column 161",
            id="of a long line, what is around the fault is shown",
        ),
        pytest.param(
            "device.attributes['a'].b.matches('(')",
            "cannot compile selector `device.attributes['a'].b.matches('(')`: "
            '"(" is not a regular expression: missing ): ( at line 1, column 34',
            id="a regular expression is checked before there is a device",
        ),
        pytest.param(
            " \n",
            "cannot compile selector ``: it is empty",
            id="nothing",
        ),
        pytest.param(
            'device.driver == "\ud800"',
            'cannot compile selector `device.driver == "\\ud800"`: it is not valid Unicode',
            id="half a surrogate pair, which the message can still be written with",
        ),
    ],
)
def test_a_selector_that_does_not_compile_shows_where(expression: str, message: str) -> None:
    with pytest.raises(cel.SelectorError) as error:
        cel.compile(expression)
    assert str(error.value) == message


LIST = "[" + ",".join("1" * 60) + "]"
STEPS = "loop over fewer elements, or use contains instead of a large regular expression"
ZEROS = "[" + ",".join("0" * 100) + "]"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param(
            f"{LIST}.all(a, {LIST}.all(b, {LIST} == {LIST} && '{'a' * 1000}'.contains('{'a' * 1000}')))",
            "it may cost 36,105,251 units, and Kubernetes allows 1,000,000",
            id="a search in each turn",
        ),
        pytest.param(
            'device.attributes["a"].?b.orValue("").contains("c")',
            "it may cost more than can be told, and Kubernetes allows 1,000,000",
            id="a text whose size nothing bounds",
        ),
        pytest.param(
            f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, c > 0)))",
            "exists and all are nested more than 2 deep",
            id="loops in loops in loops",
        ),
        pytest.param(
            f"{ZEROS}.all(a, {ZEROS}.all(b, a == b && size({ZEROS}) > 0))",
            "it takes up to 1,431,500 steps, and 200,000 are allowed: " + STEPS,
            id="a list that is made in each turn",
        ),
        pytest.param(
            f"{ZEROS}.all(a, device.driver.matches('\\\\pL{{900}}') || true)",
            "it takes up to 1,103,700 steps, and 200,000 are allowed: " + STEPS,
            id="a class of Unicode, which the library compiles in each turn",
        ),
        pytest.param(
            f"{ZEROS}.all(a, {ZEROS[:60]}0].all(b, device.driver.matches('^(a|b|c|d)*(e|f|g)*x{{3}}$')))",
            "it takes up to 3,139,500 steps, and 200,000 are allowed: " + STEPS,
            id="many turns",
        ),
    ],
)
def test_a_selector_that_may_cost_too_much_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(cel.SelectorError) as error:
        cel.compile(expression)
    assert error.value.problem == problem


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(
            f"{ZEROS}.all(a, {ZEROS[:50]}0].all(b, "
            f"!semver('1.0.0-{'a.' * 120}b').isLessThan(semver('1.0.0'))))",
            id="a version of many identifiers",
        ),
        pytest.param(
            f"{ZEROS}.all(a, quantity('{'0' * 9000}x').isInteger() || true)",
            id="a long text that is no quantity, in each turn",
        ),
        pytest.param(f"quantity('{'9' * 9000}').isInteger()", id="a number of thousands of digits"),
        pytest.param(
            f"'{'a' * 9000}'.matches('(a?){{20}}a*b')", id="a text and an expression that backtrack"
        ),
    ],
)
def test_work_that_kubernetes_counts_as_cheap_is_bounded(expression: str) -> None:
    started = time.process_time()
    cel.compile(expression).evaluate(gpu())
    assert time.process_time() - started < 1.0


def test_a_device_is_read_once_for_many_selectors() -> None:
    device = cel.bind(gpu())
    memory, driver = (
        cel.compile(text)
        for text in (
            'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("1Ti"))',
            'device.driver == "gpu.amd.com"',
        )
    )
    assert [memory.evaluate(device), driver.evaluate(device)] == [
        memory.evaluate(gpu()),
        driver.evaluate(gpu()),
    ]


def test_a_malformed_device_is_refused_by_each_selector() -> None:
    device = cel.bind(gpu(capacity={"memory": "80GB"}))
    assert device == cel.compile("true").evaluate(gpu(capacity={"memory": "80GB"}))
    assert cel.compile("true").evaluate(device) == device


@pytest.mark.parametrize(
    ("expression", "problem", "column"),
    [
        pytest.param("device.driver = 'a'", '"=" is not an operator, write ==', 15, id="one equals sign"),
        pytest.param("true and true", '"and" is not an operator, write &&', 6, id="a word for an operator"),
        pytest.param("not true", '"not" is not an operator, write !', 1, id="a word for a negation"),
        pytest.param("device.driver == 'a", "a text is not closed", 18, id="a quote is missing"),
        pytest.param("device.driver == \u201ca\u201d", 'unexpected "\u201c"', 18, id="a typographic quote"),
        pytest.param(
            "device.driver in ('a', 'b')", 'unexpected ",": a list is written in [ ]', 22, id="a tuple"
        ),
        pytest.param(
            "driver == 'a'", 'unknown name "driver", did you mean device.driver?', 1, id="no device"
        ),
        pytest.param(
            "device.driver == gpu.nvidia.com",
            'unknown name "gpu.nvidia.com", a selector reads device.attributes, device.capacity and '
            "device.driver; a text is written in quotes",
            18,
            id="a text without quotes",
        ),
        pytest.param(
            "device.driver.toLower() == 'a'",
            'unknown name "toLower", did you mean lowerAscii?',
            15,
            id="a function of another language",
        ),
        pytest.param(
            "exists(device.driver)",
            "exists is not called so, write list.exists(x, ...) with a variable and what is done with it",
            1,
            id="a macro called as a function",
        ),
        pytest.param(
            "has(device.attributes['a'])",
            'has takes a name behind a dot; of a domain, ask "domain" in device.attributes',
            22,
            id="the presence of a domain",
        ),
        pytest.param(
            "device.capacity['a'].memory.compareTo('1Gi') >= 0",
            "compareTo cannot be applied to quantity and string, write quantity(...) around the text",
            29,
            id="a quantity compared with a text",
        ),
        pytest.param(
            "device.capacity['a'].memory.compareTo(quantity('1Gi'))",
            "it gives int, but a selector gives true or false: compare it, as in `... >= 0`",
            0,
            id="a comparison without what it is compared with",
        ),
    ],
)
def test_a_usual_mistake_is_answered_with_what_to_write(expression: str, problem: str, column: int) -> None:
    with pytest.raises(cel.SelectorError) as error:
        cel.compile(expression)
    assert (error.value.problem, error.value.column) == (problem, column)


def test_a_text_is_compiled_once() -> None:
    assert cel.compile("device.driver == 'a'") is cel.compile("device.driver == 'a'")
