"""CEL rules of the schemas, one by one."""

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import build_schema
from modelplane.offline.check import structural

KEYS = "self.all(key, !format.qualifiedName().validate(key).hasValue())"


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        pytest.param("app", True, id="a name"),
        pytest.param("example.com/App_1.x", True, id="a name with a prefix"),
        pytest.param("a" * 63, True, id="63 characters"),
        pytest.param("a" * 64, False, id="64 characters"),
        pytest.param("a" * 254 + "/x", False, id="a prefix of 254 characters"),
        pytest.param("-a", False, id="a dash at the beginning"),
        pytest.param("a\n", False, id="a line break"),
        pytest.param("/a", False, id="an empty prefix"),
        pytest.param("a/", False, id="no name"),
        pytest.param("a/b/c", False, id="two prefixes"),
        pytest.param("Example.com/a", False, id="capitals in the prefix"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_a_qualified_name_is_what_kubernetes_takes_for_one(key, fits):
    assert structural.is_met(KEYS, {key: "x"}) is fits


@pytest.mark.parametrize(
    ("expression", "value", "holds"),
    [
        pytest.param("has(self.a)", {"a": 0}, True, id="a field that is there"),
        pytest.param("has(self.a)", {}, False, id="a field that is not"),
        pytest.param(
            "[has(self.string), has(self.bool)].filter(g, g).size() == 1",
            {"bool": False},
            True,
            id="a field named like a type",
        ),
        pytest.param("self.all(key, key.matches('^a$'))", {"a": 1}, True, id="a pattern"),
        pytest.param("self.all(key, key.matches('^a$'))", {"a\n": 1}, False, id="a pattern and a line break"),
        pytest.param("self.a == 'x'", {}, False, id="a rule that cannot be evaluated, as on the server"),
        pytest.param("self.a", {"a": "x"}, False, id="an answer that is neither true nor false"),
        pytest.param("self.a <= self.b", {"a": 2**80, "b": 1}, False, id="a number beyond CEL's"),
    ],
)
def test_a_rule_holds_or_does_not(expression, value, holds):
    assert structural.is_met(expression, value) is holds


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        pytest.param("size(self.metadata.name) <= 63", (("metadata", "name"),), id="a field of a field"),
        pytest.param(
            "!has(self.worker) || self.role == 'Worker'", (("role",), ("worker",)), id="several fields"
        ),
        pytest.param("self.members.exists(m, has(m.x))", (("members",),), id="a field and a function"),
        pytest.param("self.members[0].role == 'x'", (("members",),), id="an item of a list"),
        pytest.param("self.all(key, key != '')", ((),), id="the whole value"),
    ],
)
def test_a_rule_is_known_by_the_fields_that_it_reads(expression, paths):
    assert structural.list_fields(expression) == paths


def _expressions(part):
    for rule in part.get("x-kubernetes-validations", ()):
        yield rule["rule"]
    for child in part.get("properties", {}).values():
        yield from _expressions(child)
    for key in ("items", "additionalProperties"):
        if isinstance(part.get(key), dict):
            yield from _expressions(part[key])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_rule_of_every_kind_compiles(kind):
    for expression in _expressions(build_schema(kind)):
        assert structural._program(expression).return_type().name() in ("BOOL", "DYN")
