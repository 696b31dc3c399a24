import re

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.model_service import EndpointEntry
from modelplane.api.schema.crd import build_schema, crd
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.fleet_resources import resource_for

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _values(path, value):
    yield path, value
    for name, inner in value.get("properties", {}).items():
        yield from _values(f"{path}.{name}", inner)
    for part, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if part in value:
            yield from _values(path + mark, value[part])


def _sections(kind):
    for name in ("spec", "status"):
        yield from _values(name, build_schema(kind)["properties"][name])


@every_kind
def test_every_field_can_be_explained(kind):
    silent = [
        path
        for path, value in _sections(kind)
        if not path.endswith(("[]", "{}")) and not value.get("description", "").endswith(".")
    ]
    assert silent == []


_BOUND = {"string": "maxLength", "array": "maxItems"}
_REFUSED_LATER = ("components[].values{}",)
"""Values of any type, which a schema cannot bound: too large ones are refused when they are composed."""


@every_kind
def test_every_field_of_a_spec_is_bounded(kind):
    """Without a bound, one tenant's object could take the time of all."""
    unbounded = [
        path
        for path, value in _values("spec", build_schema(kind)["properties"]["spec"])
        if not (
            value.keys() & {"enum", "anyOf", _BOUND.get(value.get("type"), "type")}
            or path.endswith(_REFUSED_LATER)
        )
        or ("additionalProperties" in value and "maxProperties" not in value)
    ]
    assert unbounded == []


@every_kind
def test_the_api_server_and_python_read_a_pattern_alike(kind):
    # Go's classes are of ASCII, and its \\s has no vertical tab.
    patterns = [(path, value["pattern"]) for path, value in _sections(kind) if "pattern" in value]
    assert [path for path, pattern in patterns if re.search(r"\\[sSwWdDbB]", pattern)] == []


@every_kind
def test_no_rule_can_keep_a_status_from_being_written(kind):
    ruled = [
        path
        for path, value in _values("status", build_schema(kind)["properties"]["status"])
        if "x-kubernetes-validations" in value
    ]
    assert ruled == []


@every_kind
def test_no_rule_forbids_a_change(kind):
    rules = [
        rule["rule"] for _, value in _sections(kind) for rule in value.get("x-kubernetes-validations", ())
    ]
    assert [rule for rule in rules if "oldSelf" in rule] == []


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in COMPOSERS], ids=lambda kind: kind.name
)
def test_a_kind_that_is_composed_is_served_where_the_client_looks_for_it(kind):
    resource = resource_for(kind.api_version, kind.name)
    assert (resource.plural, resource.namespaced) == (kind.plural, kind.namespaced)


def test_only_a_deployment_is_scaled():
    subresources = {kind.name: crd(kind)["spec"]["versions"][0]["subresources"] for kind in KINDS}
    scaled = {name: found["scale"] for name, found in subresources.items() if "scale" in found}
    assert scaled == {
        "ModelDeployment": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas.total",
            "labelSelectorPath": ".status.selector",
        }
    }
    assert all("status" in found for found in subresources.values())


def test_a_weight_that_is_not_given_stays_absent():
    (services,) = (kind for kind in KINDS if kind.name == "ModelService")
    spec = build_schema(services)["properties"]["spec"]
    weight = spec["properties"]["endpoints"]["items"]["properties"]["weight"]
    assert "default" not in weight
    assert {"weight", "selector"} < set(EndpointEntry.__struct_fields__)


def test_a_default_list_is_filled_in_by_the_server():
    (eks,) = (kind for kind in KINDS if kind.name == "EKSCluster")
    spec = build_schema(eks)["properties"]["spec"]
    subnets = spec["properties"]["networking"]["properties"]["subnetCidrs"]
    assert subnets["default"] == ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"]


def test_a_description_never_spans_lines():
    texts = [value["description"] for kind in KINDS for _, value in _sections(kind) if "description" in value]
    assert [text for text in texts if "\n" in text or "  " in text] == []
