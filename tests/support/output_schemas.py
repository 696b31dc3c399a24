"""The published JSON Schemas of what commands print with ``-o json``."""

import json
import os
from pathlib import Path

import jsonschema_rs

from modelplane.offline.check.validation import Validation
from modelplane.offline.explain.replica_explanation import ReplicaExplanation
from modelplane.offline.explain.service_explanation import ServiceExplanation
from modelplane.offline.files.report_documents import Report, build_json_schema
from modelplane.offline.models.size_report import Size
from modelplane.offline.plan.placements import Explanation, Plan
from modelplane.offline.plan.plan_comparison import PlanComparison
from modelplane.offline.render.rendering import Rendering

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "output"
REPORTS: dict[str, type[Report]] = {
    "validate": Validation,
    "render": Rendering,
    "plan": Plan,
    "plan-compare": PlanComparison,
    "size": Size,
    "explain": Explanation,
    "explain-service": ServiceExplanation,
    "explain-replica": ReplicaExplanation,
}
UPDATE = "MODELPLANE_UPDATE_GOLDEN"


def published(command):
    """Return the schema of a command's output, written anew where that is asked for."""
    file = FOLDER / f"{command}.schema.json"
    if os.environ.get(UPDATE):
        file.write_text(json.dumps(build_json_schema(REPORTS[command]), indent=2) + "\n")
    return json.loads(file.read_text())


def parsed(command, text):
    """Return a command's output, which must be what its schema says, without any field beside it."""
    document = json.loads(text)
    jsonschema_rs.Draft202012Validator(_closed(published(command))).validate(document)
    return document


def _closed(schema):
    """Return a schema that refuses fields that it does not name."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return closed | {"additionalProperties": False} if "properties" in schema else closed
