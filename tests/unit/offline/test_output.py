"""The documents of ``-o json`` and their published schemas."""

import pytest

from modelplane.offline.output import json_schema
from support.output_schemas import FOLDER, REPORTS, published


@pytest.mark.parametrize("command", REPORTS)
def test_the_published_schema_is_that_of_the_type(command):
    assert published(command) == json_schema(REPORTS[command])


def test_every_published_schema_is_that_of_a_command():
    assert {file.name for file in FOLDER.iterdir()} == {f"{command}.schema.json" for command in REPORTS}
