"""The stand-in of the endpoint picker: whom it chooses, and what it answers Envoy."""

from typing import Any

import pytest

from modelplane.kubelet.engines import endpoint_picker
from modelplane.kubelet.engines.endpoint_picker import Choice, RoundRobin, build_answer, is_divided

POOL = {
    "spec": {"selector": {"matchLabels": {"serving": "r"}}, "targetPorts": [{"number": 8000}]},
}


def pod(number: int, role: str = "", ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"serving": "r", "llm-d.ai/role": role}},
        "status": {"podIP": f"198.18.0.{number}", "conditions": [{"type": "Ready", "status": ready}]},
    }


def at(number: int) -> str:
    return f"127.77.0.{number}:8000"


PODS = [pod(1, "decode"), pod(2, "decode"), pod(3, "prefill")]


@pytest.mark.parametrize(
    ("pods", "choices"),
    [
        pytest.param(PODS, [Choice(at(1), at(3)), Choice(at(2), at(3)), Choice(at(1), at(3))], id="in turn"),
        pytest.param([pod(1, "decode"), pod(3, "prefill", "False")], [Choice(at(1))], id="without prefill"),
        pytest.param([pod(3, "prefill")], [None], id="without decode"),
        pytest.param([], [None], id="without pods"),
    ],
)
def test_a_decode_pod_answers_and_a_prefill_pod_helps(
    pods: list[dict[str, Any]], choices: list[Choice | None]
) -> None:
    turns = RoundRobin(is_divided=True)
    assert [turns.choose(POOL, pods) for _ in choices] == choices


def test_every_pod_of_an_undivided_pool_answers() -> None:
    turns = RoundRobin(is_divided=False)
    assert [turns.choose(POOL, [pod(1), pod(2)]) for _ in range(3)] == [
        Choice(at(1)),
        Choice(at(2)),
        Choice(at(1)),
    ]


def test_the_configuration_says_whether_requests_are_divided() -> None:
    assert is_divided({"plugins": [{"type": "queue-scorer"}, {"type": "disagg-profile-handler"}]})
    assert not is_divided({"plugins": [{"type": "queue-scorer"}]})


def asked(**parts: Any) -> Any:
    return endpoint_picker.ProcessingRequest.FromString(
        endpoint_picker.ProcessingRequest(**parts).SerializeToString()
    )


def test_the_pods_are_told_in_headers_that_replace_those_of_clients() -> None:
    said = build_answer(lambda: Choice(at(1), at(3)))(asked(request_headers={"end_of_stream": False}))
    options = said.request_headers.response.header_mutation.set_headers
    assert [(each.header.key, each.header.raw_value.decode(), each.append_action) for each in options] == [
        ("x-gateway-destination-endpoint", at(1), 2),
        ("x-prefiller-host-port", at(3), 2),
    ]
    assert said.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"] == at(1)


def test_a_body_goes_back_as_it_came() -> None:
    said = build_answer(lambda: None)(asked(request_body={"body": b"{}", "end_of_stream": True}))
    streamed = said.request_body.response.body_mutation.streamed_response
    assert (streamed.body, streamed.end_of_stream) == (b"{}", True)


def test_without_a_pod_the_request_is_refused() -> None:
    said = build_answer(lambda: None)(asked(request_headers={}))
    assert (said.WhichOneof("kind"), said.immediate_response.status.code) == ("immediate_response", 503)


def test_trailers_are_answered() -> None:
    assert build_answer(lambda: None)(asked(request_trailers={})).WhichOneof("kind") == "request_trailers"
