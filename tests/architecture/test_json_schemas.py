"""The JSON Schemas of the kinds accept what an API server accepts, and refuse what it prunes or refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from modelplane.api.kinds import KINDS, Kind
from modelplane.api.schema.json_schema import build_json_schema, combine_schemas

ROOT = Path(__file__).resolve().parents[2]
ALL = jsonschema_rs.Draft7Validator(combine_schemas(KINDS))


def _examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(file.read_text())):
            if isinstance(document, dict) and "modelplane.ai/" in str(document.get("apiVersion")):
                yield f"{file.relative_to(ROOT)}:{number}", document


EXAMPLES = dict(_examples())
OURS = {kind.name: kind for kind in KINDS}


def test_every_example_is_valid() -> None:
    assert len(EXAMPLES) > 200
    wrong = {
        name: [str(error) for error in ALL.iter_errors(each)]
        for name, each in EXAMPLES.items()
        if not ALL.is_valid(each)
    }
    assert wrong == {}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_of_its_own_and_among_all_is_the_same(kind: Kind) -> None:
    alone = build_json_schema(kind)
    among = combine_schemas(KINDS)["definitions"][kind.name]
    assert {key: alone[key] for key in among} == among
    jsonschema_rs.meta.validate(alone)


def _misspelled(value: Any) -> Iterator[Any]:
    """Yield a value once for each field of an object in it, with that field misspelled."""
    if isinstance(value, dict):
        for key, each in value.items():
            others = {name: kept for name, kept in value.items() if name != key}
            yield {**others, f"{key}X": each}
            yield from ({**others, key: changed} for changed in _misspelled(each))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in _misspelled(each))


def test_a_misspelled_field_is_refused_wherever_the_names_are_fixed() -> None:
    """Labels, settings of charts, Kubernetes' own objects and other maps have names of their own."""
    every_field = [each for name, each in EXAMPLES.items() if "/every-field/" in name]
    assert every_field
    refused = accepted = 0
    for each in every_field:
        for changed in _misspelled({"spec": each["spec"]}):
            if ALL.is_valid({**each, "spec": None, **changed}):
                accepted += 1
            else:
                refused += 1
    assert refused > 5 * accepted
    deployment = next(each for each in every_field if each["kind"] == "ModelDeployment")
    [error, *_] = ALL.iter_errors({**deployment, "spec": {**deployment["spec"], "replica": 1}})
    assert "replica" in error.message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"kind": "ModelDeploymnt"}, "", id="another kind is none of ours"),
        pytest.param({"metadata": {"name": "a" * 64}}, "metadata/name", id="a name that is too long"),
        pytest.param({"spec": {"replicas": "2", "engines": []}}, "spec", id="a number in quotes"),
    ],
)
def test_what_a_server_refuses_is_refused_at_its_field(change: dict[str, Any], field: str) -> None:
    deployment = next(each for each in EXAMPLES.values() if each["kind"] == "ModelDeployment")
    paths = ["/".join(map(str, error.instance_path)) for error in ALL.iter_errors(deployment | change)]
    assert any(path.startswith(field) for path in paths) if field else paths == []
