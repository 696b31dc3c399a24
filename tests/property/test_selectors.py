"""Whatever a selector says: it is refused or answered, soon, and with one line of reason."""

import random
import time
from typing import Final

from hypothesis import HealthCheck, example, given, settings, strategies as st

from modelplane import cel
from oracle.comparison import DEVICES
from oracle.grammar import Grammar

BOUNDED: Final = settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
SECONDS: Final = 2.0  # of processor time, for one selector over all devices; a tenth is usual at worst

WORDS: Final = st.sampled_from(
    [
        *(
            "device",
            ".",
            "attributes",
            "capacity",
            "driver",
            "[",
            "]",
            "(",
            ")",
            "{",
            "}",
            ",",
            ":",
            "?",
            "!",
        ),
        *("'gpu.nvidia.com'", '"a"', "1", "1u", "1.5", "==", "<", "&&", "||", "+", "-", "*", "/", "%", "in"),
        *("has(", "all(x,", "map(x,", "x", "quantity(", "semver(", "cel.bind(x,", ".?", "[?", "dyn(", "null"),
        *(
            ".exists(x,",
            ".orValue(",
            ".compareTo(",
            ".size()",
            ".x",
            "in",
            ".value()",
            "@plain(",
            "b'a'",
            "\\0",
        ),
        *(
            ".matches(",
            ".sortBy(x,",
            "lists.range(",
            "true",
            "type(",
            "`",
            "//",
            "\n",
        ),
    ]
)


def answered(expression: str) -> None:
    """Compile and evaluate; anything but a refusal or an answer with a reason fails the test."""
    started = time.process_time()
    try:
        selector = cel.compile(expression)
    except cel.SelectorError as refusal:
        assert_one_line(str(refusal))
        return
    for device in DEVICES.values():
        verdict = selector.evaluate(device)
        if isinstance(verdict, cel.NoMatch):
            assert_one_line(verdict.reason)
    assert time.process_time() - started < SECONDS


def assert_one_line(text: str) -> None:
    assert text.strip()
    assert len(text.splitlines()) == 1


@BOUNDED
@given(st.text(max_size=60))
@example("\u2028 == \u0301")
@example("'\ud800' == ''")
@example("'\x00' == '\x00'")
@example("\t\t\u4e2d == 1")
def test_any_text_is_refused_or_answered(expression: str) -> None:
    answered(expression)


@BOUNDED
@given(st.lists(WORDS, max_size=25).map(" ".join))
def test_any_words_are_refused_or_answered(expression: str) -> None:
    answered(expression)


@BOUNDED
@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
def test_what_the_grammar_makes_is_refused_or_answered(seed: int, depth: int, listed: bool) -> None:
    answered(Grammar(random.Random(seed), listed=listed).selector(depth))  # noqa: S311  (a seed repeats it)


@BOUNDED
@given(st.text(alphabet="abcdef|()[]{}*+?.^$\\dDwWsSpPQEz0123456789,:-<>!=i", max_size=25))
def test_any_regular_expression_is_refused_or_answered(pattern: str) -> None:
    quoted = pattern.replace("\\", "\\\\")
    answered(f'device.driver.matches("{quoted}")')
    answered(f'["{quoted}", "a"].exists(x, device.driver.matches(x))')


@settings(BOUNDED, max_examples=30)
@given(
    st.sampled_from(
        ["(", "[", "{1: ", "!", "-", "1 + ", "true ? ", "[1].all(x, ", "size(", "has(", "a.", "1 == ", "a[0]"]
    ),
    st.integers(1, 600),
)
def test_deep_nesting_is_refused_or_answered(opening: str, depth: int) -> None:
    closing = {"(": ")", "[": "]", "{": "}"}
    tail = "".join(closing.get(character, "") for character in reversed(opening))
    answered((opening * depth + "1" + tail * depth)[:10_240])
