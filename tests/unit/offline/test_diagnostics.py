"""Values, names and paths in a sentence."""

import pytest

from modelplane.offline.files.diagnostics import (
    find_nearest,
    format_path,
    join_choices,
    limit_text,
    quote,
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param((), "", id="the whole object"),
        pytest.param(("spec", "engines", 0, "name"), "spec.engines[0].name", id="an item of a list"),
        pytest.param(
            ("metadata", "labels", "example.com/x"), "metadata.labels[example.com/x]", id="a key with a dot"
        ),
        pytest.param(("spec", "a\nb"), "spec[a\\nb]", id="a key with a line break"),
    ],
)
def test_a_path_is_written_as_kubernetes_writes_it(path, text):
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("x", '"x"', id="a text"),
        pytest.param("a\x1b[31m\u2028b", '"a\\u001b[31m\\u2028b"', id="a text that would colour a terminal"),
        pytest.param("x" * 100, f'"{"x" * 77}..."', id="a long text"),
        pytest.param(None, "null", id="nothing"),
        pytest.param(True, "true", id="a truth value"),
        pytest.param([1], "a list", id="a list"),
        pytest.param({}, "a mapping", id="a mapping"),
    ],
)
def test_a_value_is_one_line(value, text):
    assert quote(value) == text


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("replica", "replicas", id="a letter is missing"),
        pytest.param("Replicas", "replicas", id="another case"),
        pytest.param("node_selector", "nodeSelector", id="another style"),
        pytest.param("colour", "", id="nothing like it"),
        pytest.param("r" * 1_000_000, "", id="a name too long to be one"),
    ],
)
def test_the_name_that_was_meant_is_found(name, found):
    assert find_nearest(name, ["replicas", "nodeSelector", "engines"]) == (found or None)


def test_many_choices_are_not_all_listed():
    assert join_choices("abc") == "a, b and c"
    assert join_choices("kjihgfedcba") == "k, j, i, h, g, f, e, d and 3 more"
    assert limit_text("short") == "short"
