"""Envoy's metrics and those of its module, under the names of ours."""

from pathlib import Path

import pytest

from modelplane.host.errors import LocalError
from modelplane.proxy import admin, gateway_metrics
from modelplane.telemetry import metric_definitions as ours

TEXT = """\
# TYPE envoy_http_downstream_rq_xx counter
envoy_http_downstream_rq_xx{envoy_response_code_class="2",envoy_http_conn_manager_prefix="front-door"} 3
# TYPE envoy_modelplane_panics counter
envoy_modelplane_panics{} 0
# TYPE envoy_modelplane_refused counter
envoy_modelplane_refused{code="invalid_body"} 1
# TYPE envoy_modelplane_held_requests gauge
envoy_modelplane_held_requests{service="ml/qwen"} 4
# TYPE envoy_modelplane_holds counter
envoy_modelplane_holds{service="ml/qwen",result="released"} 5
# TYPE envoy_modelplane_tokens counter
envoy_modelplane_tokens{service="ml/qwen",kind="prompt"} 7
# TYPE envoy_modelplane_first_byte counter
envoy_modelplane_first_byte{endpoint="ml/qwen-1",le="0.05"} 2
# TYPE envoy_modelplane_first_byte_ms counter
envoy_modelplane_first_byte_ms{endpoint="ml/qwen-1"} 75
# TYPE envoy_modelplane_new counter
envoy_modelplane_new{service="ml/qwen"} 7
# TYPE envoy_cluster_upstream_rq_active gauge
envoy_cluster_upstream_rq_active{envoy_cluster_name="front-door/ml/qwen-1"} 6
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="front-door/held/ml/qwen"} 8
# TYPE envoy_cluster_upstream_rq_xx counter
envoy_cluster_upstream_rq_xx{envoy_response_code_class="2",envoy_cluster_name="front-door/ml/qwen-1"} 40
envoy_cluster_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="front-door/ml/qwen-1"} 1
# TYPE envoy_cluster_retry_upstream_rq_xx counter
envoy_cluster_retry_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="front-door/ml/qwen-1"} 2
# TYPE envoy_cluster_upstream_rq_rx_reset counter
envoy_cluster_upstream_rq_rx_reset{envoy_cluster_name="front-door/ml/qwen-1"} 3
# TYPE envoy_cluster_upstream_cx_destroy_remote_with_active_rq counter
envoy_cluster_upstream_cx_destroy_remote_with_active_rq{envoy_cluster_name="front-door/ml/qwen-1"} 4
# TYPE envoy_cluster_upstream_rq_time histogram
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="front-door/ml/qwen-1",le="0.5"} 0
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="front-door/ml/qwen-1",le="+Inf"} 41
envoy_cluster_upstream_rq_time_sum{envoy_cluster_name="front-door/ml/qwen-1"} 8200
envoy_cluster_upstream_rq_time_count{envoy_cluster_name="front-door/ml/qwen-1"} 41
# TYPE envoy_http_downstream_rq_active gauge
envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="front-door"} 2
"""


def test_what_envoy_counts_has_a_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "read_prometheus", lambda _directory, _pattern: TEXT)
    assert [each[: 4 if each.bucket else 3] for each in gateway_metrics.read_samples(Path("envoy"))] == [
        (ours.GATEWAY_REQUESTS, ("2xx",), 3),
        (ours.GATEWAY_PANICS, (), 0),
        (ours.GATEWAY_REFUSED, ("invalid_body",), 1),
        (ours.GATEWAY_HELD, ("ml/qwen",), 4),
        (ours.GATEWAY_HOLDS, ("ml/qwen", "released"), 5),
        (ours.GATEWAY_TOKENS, ("ml/qwen", "prompt"), 7),
        (ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 2, "0.05"),
        (ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 0.075, ours.SUM),
        (ours.GATEWAY_ENDPOINT_IN_PROGRESS, ("ml/qwen-1",), 6),
        (ours.GATEWAY_ENDPOINT_REQUESTS, ("held/ml/qwen",), 8),
        (ours.GATEWAY_IN_PROGRESS, (), 2),
        (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "2xx"), 40),
        (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "5xx"), 3),
        (ours.GATEWAY_ENDPOINT_CUT_OFF, ("ml/qwen-1",), 7),
        (ours.GATEWAY_ENDPOINT_SECONDS, ("ml/qwen-1",), 8.2),
        (ours.GATEWAY_ENDPOINT_TIMED, ("ml/qwen-1",), 41),
    ]


OF_MODULE = """\
# TYPE envoy_modelplane_panics counter
envoy_modelplane_panics{} 0
# TYPE envoy_modelplane_answers counter
envoy_modelplane_answers{endpoint="ml/qwen-1",class="2xx"} 40
envoy_modelplane_answers{endpoint="ml/qwen-1",class="5xx"} 1
# TYPE envoy_modelplane_complete_answers counter
envoy_modelplane_complete_answers{endpoint="ml/qwen-1"} 39
# TYPE envoy_modelplane_complete_answers_ms counter
envoy_modelplane_complete_answers_ms{endpoint="ml/qwen-1"} 8200
"""

NOT_REACHED = """\
# TYPE envoy_cluster_upstream_rq_pending_failure_eject counter
envoy_cluster_upstream_rq_pending_failure_eject{envoy_cluster_name="front-door/ml/qwen-1"} 3
# TYPE envoy_cluster_upstream_cx_none_healthy counter
envoy_cluster_upstream_cx_none_healthy{envoy_cluster_name="front-door/ml/qwen-1"} 2
"""

BEFORE = """\
# TYPE envoy_cluster_upstream_rq_xx counter
envoy_cluster_upstream_rq_xx{envoy_response_code_class="2",envoy_cluster_name="front-door/ml/qwen-1"} 5
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            OF_MODULE + NOT_REACHED,
            {
                (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "2xx")): 40,
                (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "5xx")): 1,
                (ours.GATEWAY_ENDPOINT_TIMED, ("ml/qwen-1",)): 39,
                (ours.GATEWAY_ENDPOINT_SECONDS, ("ml/qwen-1",)): 8.2,
                (ours.GATEWAY_ENDPOINT_CUT_OFF, ("ml/qwen-1",)): 5,
            },
            id="the module counts answers and Envoy what reached no instance",
        ),
        pytest.param(
            OF_MODULE + BEFORE,
            {
                (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "2xx")): 45,
                (ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "5xx")): 1,
                (ours.GATEWAY_ENDPOINT_TIMED, ("ml/qwen-1",)): 39,
                (ours.GATEWAY_ENDPOINT_SECONDS, ("ml/qwen-1",)): 8.2,
            },
            id="answers of a listener from before are added",
        ),
        pytest.param(
            BEFORE + NOT_REACHED,
            {(ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "2xx")): 5},
            id="without the module, Envoy has counted these as answers",
        ),
    ],
)
def test_answers_of_an_endpoint_are_counted_once(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: dict[object, float]
) -> None:
    monkeypatch.setattr(admin, "read_prometheus", lambda _directory, _pattern: text)
    found = {(each.metric, each.labels): each.value for each in gateway_metrics.read_samples(Path("envoy"))}
    found.pop((ours.GATEWAY_PANICS, ()), None)
    assert found == pytest.approx(expected)


def test_an_envoy_that_does_not_answer_has_no_metrics(tmp_path: Path) -> None:
    with pytest.raises(LocalError):
        admin.read_prometheus(tmp_path, "x")
    assert list(gateway_metrics.read_samples(tmp_path)) == []
