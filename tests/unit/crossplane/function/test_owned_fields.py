"""What of an object comes back to be applied again."""

from typing import Any

import pytest

from modelplane.crossplane.function.applied_fields import owned, without_crossplane

COMPOSED = "apiextensions.crossplane.io/composed/0123"


def _object(*managed: dict[str, Any], **content: Any) -> dict[str, Any]:
    metadata = {
        "name": "r",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "labels": {"modelplane.ai/cluster": "east", "crossplane.io/composite": "d", "argocd": "x"},
        "annotations": {"crossplane.io/composition-resource-name": "replica-east-0", "mine": "y"},
        "ownerReferences": [{"uid": "o"}],
        "finalizers": ["composite.apiextensions.crossplane.io"],
    }
    if managed:
        metadata["managedFields"] = list(managed)
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelReplica", "metadata": metadata, **content}


def _managed(fields: dict[str, Any], manager: str = COMPOSED, **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "fieldsV1": fields, **more}


METADATA = {"name": "r", "namespace": "ml"}


@pytest.mark.parametrize(
    ("spec", "fields", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"f:a": {}}, {"a": 1}, id="a field of others is left out"),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {"f:a": {"f:b": {}}},
            {"a": {"b": 1}},
            id="a field of others within a map is left out",
        ),
        pytest.param({"a": [1, 2]}, {"f:a": {}}, {"a": [1, 2]}, id="an atomic list is one value"),
        pytest.param({"a": {}}, {"f:a": {}}, {"a": {}}, id="an empty map is a value"),
        pytest.param({"a": ["x", "y"]}, {"f:a": {'v:"y"': {}}}, {"a": ["y"]}, id="a set is owned by member"),
        pytest.param(
            {"a": [{"name": "x", "v": 1, "w": 2}, {"name": "z"}]},
            {"f:a": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:v": {}}}},
            {"a": [{"name": "x", "v": 1}]},
            id="a list of named things is owned by thing and field",
        ),
        pytest.param(
            {"a": [{"port": 80, "protocol": "TCP", "x": 1}]},
            {"f:a": {'k:{"port":80,"protocol":"TCP"}': {"f:x": {}}}},
            {"a": [{"port": 80, "protocol": "TCP", "x": 1}]},
            id="the keys of a thing come with it",
        ),
        pytest.param({"a": 1}, {"f:a": {}, "f:gone": {}}, {"a": 1}, id="what is gone is not made"),
    ],
)
def test_the_fields_that_were_applied(
    spec: dict[str, Any], fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    item = _object(_managed({"f:spec": fields}), spec=spec, status={"s": 1})
    assert owned(item) == {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": METADATA,
        "spec": expected,
    }


def test_marks_that_were_applied_stay_and_those_of_crossplane_come_anew() -> None:
    marks: dict[str, Any] = {"f:modelplane.ai/cluster": {}, "f:crossplane.io/composite": {}}
    fields = {"f:metadata": {"f:labels": marks, "f:annotations": {}, "f:ownerReferences": {}}, "f:spec": {}}
    item = _object(_managed(fields), spec={"a": 1})
    assert owned(item)["metadata"] == {
        **METADATA,
        "labels": {"modelplane.ai/cluster": "east"},
        "annotations": {"mine": "y"},
    }


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(_managed({"f:spec": {}}, "kubectl"), id="another manager"),
        pytest.param(_managed({"f:spec": {}}, subresource="status"), id="a subresource"),
        pytest.param(_managed({"f:spec": {}}) | {"operation": "Update"}, id="an update"),
        pytest.param(_managed({"f:spec": {}}) | {"fieldsV1": None}, id="no fields"),
    ],
)
def test_an_object_that_does_not_tell_comes_back_without_what_others_write(entry: dict[str, Any]) -> None:
    item = _object(entry, spec={"a": 1, "crossplane": {"resourceRefs": []}}, status={"s": 1})
    assert owned(item) == {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": {**METADATA, "labels": {"modelplane.ai/cluster": "east"}},
        "spec": {"a": 1},
    }


def test_what_is_no_object_comes_back_as_it_is() -> None:
    assert owned({"kind": "x"}) == {"kind": "x"}


def test_only_our_objects_have_notes_of_crossplane() -> None:
    foreign = {"apiVersion": "v1", "spec": {"crossplane": 1}}
    assert without_crossplane(foreign) == foreign
    ours = {"apiVersion": "infrastructure.modelplane.ai/v1alpha1", "spec": {"crossplane": 1, "a": 1}}
    assert without_crossplane(ours) == {**ours, "spec": {"a": 1}}
