"""Values of a release, and what of them a message may say."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.controllers.helm.instruction import (
    Instruction,
    ValuesSource,
    read_instruction,
)
from modelplane.controllers.helm.release_values import hide_secrets, merge_values

RELEASE = {
    "metadata": {"name": "r"},
    "spec": {
        "forProvider": {
            "chart": {"name": "c", "repository": "oci://r.example.com", "version": "1"},
            "values": {"own": True, "nested": {"b": 2}},
        }
    },
}


def _instruction(*names: str, optional: bool = False) -> Instruction:
    instruction = read_instruction(RELEASE)
    assert isinstance(instruction, Instruction)
    return replace(instruction, values_from=tuple(ValuesSource(each, "values", optional) for each in names))


def _secret(text: str) -> dict[str, Any]:
    return {"data": {"values": base64.b64encode(text.encode()).decode()}}


def test_the_release_overrides_its_secrets_and_a_later_secret_an_earlier_one() -> None:
    secrets = {
        "one": _secret("own: false\nnested: {a: 1, b: 1}\nlist: [1]"),
        "two": _secret("list: [2, topsecret]"),
    }
    assert merge_values(_instruction("one", "two"), secrets.get) == (
        {"own": True, "nested": {"a": 1, "b": 2}, "list": [2, "topsecret"]},
        frozenset({"topsecret"}),
    )


@pytest.mark.parametrize(
    ("secrets", "cause"),
    [
        ({}, "does not exist"),
        ({"one": {"data": {}}}, 'has no key "values"'),
        ({"one": _secret("- topsecret")}, "is not a YAML object"),
        ({"one": _secret("a: 'topsecret")}, "is not a YAML object"),
        ({"one": _secret("!!python/object/apply:os.system [topsecret]")}, "is not a YAML object"),
        ({"one": _secret("a: &a [1]\nb: [*a, *a]")}, "has aliases"),
        ({"one": _secret("x" * (1 << 20))}, "is larger than 512 KiB"),
    ],
)
def test_values_that_cannot_be_read_change_nothing(secrets: dict[str, Any], cause: str) -> None:
    refused = merge_values(_instruction("one"), secrets.get)
    assert isinstance(refused, Rejected)
    assert cause in refused.message
    assert "topsecret" not in refused.message


def test_an_optional_secret_may_be_missing() -> None:
    assert merge_values(_instruction("one", optional=True), lambda _name: None) == (
        {"own": True, "nested": {"b": 2}},
        frozenset(),
    )


def test_a_message_has_no_secret_and_an_end() -> None:
    texts = frozenset({"topsecret", "topsecret-and-more"})
    assert hide_secrets("bad value topsecret-and-more!", texts) == "bad value (hidden)!"
    assert len(hide_secrets("x" * 5000, texts)) == 1024
