"""Never delete on doubt: whatever cannot be read, or makes no sense, takes nothing away."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from modelplane.api import labels
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Composition, Request, Unknown
from modelplane.compose.kinds import COMPOSERS
from support.goldens import GOLDENS

CASES = [name for name in GOLDENS.names() if GOLDENS.input(name).get("observed")]


def _compose(case: dict[str, Any]) -> Composition | Blocked:
    owner = case["owner"]
    composer = COMPOSERS[owner["kind"]]
    required: dict[str, Any] = {
        key: Unknown(found["unknown"]) if isinstance(found, dict) else tuple(found)
        for key, found in case.get("required", {}).items()
    }
    decoded = decode_as(composer.type, owner)
    for requirement in composer.requirements(decoded):
        required.setdefault(requirement.key, ())
    return composer.compose(Request(decoded, case["observed"], required, composer.facts()))


def _lost(case: dict[str, Any]) -> set[str]:
    """Return the children that would be deleted."""
    try:
        composition = _compose(case)
    except InvalidObject:
        return set()  # whoever composes says so, and changes nothing
    if isinstance(composition, Blocked):
        return set()
    return set(case["observed"]) - {child.key for child in composition.children}


def _requirements(case: dict[str, Any]) -> list[str]:
    composer = COMPOSERS[case["owner"]["kind"]]
    return [each.key for each in composer.requirements(decode_as(composer.type, case["owner"]))]


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_read_takes_nothing_away(name: str) -> None:
    case = GOLDENS.input(name)
    usual = _lost(case)
    for key in _requirements(case):
        doubtful = copy.deepcopy(case)
        doubtful.setdefault("required", {})[key] = {"unknown": "the server does not answer"}
        assert _lost(doubtful) <= usual, key


@pytest.mark.parametrize("name", CASES)
def test_what_makes_no_sense_takes_nothing_away(name: str) -> None:
    case = GOLDENS.input(name)
    usual = _lost(case)
    for key in _requirements(case):
        found = case.get("required", {}).get(key, ())
        if isinstance(found, dict):
            continue
        for at in range(len(found)):
            doubtful = copy.deepcopy(case)
            doubtful["required"][key][at] |= {"spec": {"unheard": "of"}, "status": {}}
            assert _lost(doubtful) <= usual, key


def _forgetful(child: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a child as it may be seen after somebody, or a backup, has touched it."""
    yield "no status", {name: value for name, value in child.items() if name != "status"}
    for index in (None, "", "x", "7", "99999999999"):
        touched = copy.deepcopy(child)
        found = touched["metadata"].setdefault("labels", {})
        found.pop(labels.REPLICA_INDEX, None)
        if index is not None:
            found[labels.REPLICA_INDEX] = index
        yield f"index {index}", touched


DEPLOYMENTS = [name for name in CASES if name.startswith("model_deployment/")]
KEPT = [name for name in DEPLOYMENTS if "scale-down" not in name]


@pytest.mark.parametrize("name", KEPT)
def test_what_a_child_no_longer_tells_takes_nothing_away(name: str) -> None:
    case = GOLDENS.input(name)
    usual = _lost(case)
    for key, child in case["observed"].items():
        for what, touched in _forgetful(child):
            doubtful = copy.deepcopy(case)
            doubtful["observed"][key] = touched
            assert _lost(doubtful) <= usual, (key, what)


SELECTORS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        (
            "device.driver ==",
            'device.drivers == "x"',
            "1",
            "quantity('x') == quantity('y')",
            'device.attributes["gpu.nvidia.com"].missing == 1',
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("999Ti")) >= 0',
        )
    ),
)


@given(st.sampled_from(DEPLOYMENTS), SELECTORS)
def test_an_edited_selector_takes_no_replica_that_serves(name: str, selector: str) -> None:
    """It is invalid, or it fails, or nothing matches it: what serves goes on serving."""
    case = GOLDENS.input(name)
    usual = _lost(case)
    spec = case["owner"]["spec"]
    engines = spec["engines"] if "engines" in spec else spec["template"]["spec"]["engines"]
    for engine in engines:
        for member in engine["members"]:
            for device in member.get("nodeSelector", {}).get("devices", ()):
                device["selectors"] = [{"cel": selector or "x"}]
    assert _lost(case) <= usual
