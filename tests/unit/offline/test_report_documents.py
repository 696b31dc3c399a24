"""The documents of ``-o json``, their published schemas, and the fields that a schema version promises."""

import os
from pathlib import Path

import pytest

from modelplane.offline.files.report_documents import SCHEMA_VERSION, build_json_schema
from support.output_schemas import FOLDER, REPORTS, UPDATE, published

PROMISED = Path(__file__).with_name("output_fields") / f"{SCHEMA_VERSION}.txt"


@pytest.mark.parametrize("command", REPORTS)
def test_the_published_schema_is_that_of_the_type(command):
    assert published(command) == build_json_schema(REPORTS[command])


def test_every_published_schema_is_that_of_a_command():
    assert {file.name for file in FOLDER.iterdir()} == {f"{command}.schema.json" for command in REPORTS}


def test_a_schema_says_of_every_field_that_it_is_always_there():
    schema = build_json_schema(REPORTS["plan"])
    assert schema["$defs"]["Plan"]["required"] == [
        "schemaVersion",
        "kind",
        "placed",
        "deployments",
        "pools",
        "assumedReady",
    ]


def test_fields_stay_while_the_schema_version_is_the_same():
    current = {line for command in REPORTS for line in _fields(command, build_json_schema(REPORTS[command]))}
    promised = set(PROMISED.read_text().splitlines()) if PROMISED.exists() else set()
    assert promised - current == set(), "a field was removed or changed: raise SCHEMA_VERSION"
    if os.environ.get(UPDATE):
        PROMISED.parent.mkdir(exist_ok=True)
        PROMISED.write_text("\n".join(sorted(current)) + "\n")
        promised = current
    assert current - promised == set(), "a field is new: make golden"


def _fields(command, schema):
    """Yield each field of a document with its type, and each value of a closed set, as lines."""

    def walk(path, value):
        value = schema["$defs"][value["$ref"].rpartition("/")[2]] if "$ref" in value else value
        if "anyOf" in value:
            for each in value["anyOf"]:
                yield from walk(path, each)
            return
        yield from (f"{path} = {each}" for each in value.get("enum", ()))
        if "type" in value:
            yield f"{path}: {value['type']}"
        for name, inner in value.get("properties", {}).items():
            yield from walk(f"{path}.{name}", inner)
        if isinstance(value.get("items"), dict):
            yield from walk(f"{path}[]", value["items"])

    return walk(command, schema)
