"""Answers in Crossplane's protocol."""

from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.json_format import MessageToDict

from modelplane.compose.composition import Blocked, Requirement
from modelplane.crossplane.function.answer import Answer, Child, Event, Statement
from modelplane.crossplane.function.runner import encode

API = "modelplane.ai/v1alpha1"
ENDPOINT: dict[str, Any] = {
    "apiVersion": API,
    "kind": "ModelEndpoint",
    "metadata": {"name": "e"},
}
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "former", "labels": {"a": "b"}},
}


def _encoded(answer: Answer, earlier: fnv1.State | None = None) -> dict[str, object]:
    request = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="tag"))
    encoded: dict[str, object] = MessageToDict(encode(answer, request, earlier or fnv1.State()))
    return encoded


def test_every_part_of_an_answer_is_encoded() -> None:
    answer = Answer(
        30,
        {"endpoint": Child(ENDPOINT, ready=False)},
        {"clusters": ["east"]},
        (
            Statement("ModelReady", "False", "ModelStarting", "x" * 40_000),
            Statement("Odd", "Maybe", "None", "it is odd"),
        ),
        (Event("Failed", "y" * 2_000, is_warning=True), Event("Serving", "it serves", is_warning=False)),
        ready=False,
        requirements=(Requirement("cluster", API, "InferenceCluster", name="east"),),
    )
    target = {"target": "TARGET_COMPOSITE"}
    assert _encoded(answer) == {
        "meta": {"tag": "tag", "ttl": "30s"},
        "desired": {
            "composite": {"resource": {"status": {"clusters": ["east"]}}, "ready": "READY_FALSE"},
            "resources": {"endpoint": {"resource": ENDPOINT, "ready": "READY_FALSE"}},
        },
        "requirements": {
            "resources": {
                "cluster": {
                    "apiVersion": API,
                    "kind": "InferenceCluster",
                    "matchName": "east",
                }
            }
        },
        "conditions": [
            {
                "type": "ModelReady",
                "status": "STATUS_CONDITION_FALSE",
                "reason": "ModelStarting",
                "message": "x" * 32_768,
                **target,
            },
            {
                "type": "Odd",
                "status": "STATUS_CONDITION_UNKNOWN",
                "reason": "None",
                "message": "it is odd",
                **target,
            },
        ],
        "results": [
            {"severity": "SEVERITY_WARNING", "message": "y" * 1_024, "reason": "Failed", **target},
            {"severity": "SEVERITY_NORMAL", "message": "it serves", "reason": "Serving", **target},
        ],
        "context": {},
    }


def test_an_empty_answer_leaves_status_and_readiness_to_crossplane() -> None:
    assert _encoded(Answer(15, blocked=Blocked("no"))) == {
        "meta": {"tag": "tag", "ttl": "15s"},
        "desired": {},
        "requirements": {},
        "results": [{"severity": "SEVERITY_FATAL", "message": "no", "target": "TARGET_COMPOSITE"}],
        "context": {},
    }


def test_children_of_earlier_functions_are_passed_on_and_ours_replace_theirs() -> None:
    earlier = fnv1.State()
    for key in ("former", "endpoint"):
        earlier.resources[key].resource.update(SECRET)
    encoded = _encoded(Answer(15, {"endpoint": Child(ENDPOINT)}), earlier)
    assert encoded["desired"] == {
        "resources": {
            "former": {"resource": SECRET},
            "endpoint": {"resource": ENDPOINT, "ready": "READY_TRUE"},
        }
    }
