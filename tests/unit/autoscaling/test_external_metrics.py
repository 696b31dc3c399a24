"""The external metrics API, request by request."""

from collections.abc import Iterator

import pytest

from modelplane.deciders.autoscaling.evidence import Sample
from modelplane.deciders.autoscaling.external_metrics import answer

ROOT = "/apis/external.metrics.k8s.io/v1beta1"
NOW = "2026-11-24T10:00:00Z"
FOUND: dict[str, dict[str, Sample | None]] = {
    "ml": {"qwen": Sample(0, 7, 2), "gemma": Sample(0, 1)},
    "dark": {"qwen": None, "gemma": Sample(0)},
    "partly": {"qwen": Sample(0, 7, complete=False)},
}


def samples(namespace: str, name: str) -> Iterator[tuple[str, Sample | None]]:
    for each, sample in FOUND.get(namespace, {}).items():
        if name in ("", each):
            yield each, sample


def values(path: str) -> dict[str, str]:
    status, body = answer(f"{ROOT}/{path}", samples, NOW)
    assert (status, body["kind"]) == (200, "ExternalMetricValueList")
    return {each["metricLabels"]["deployment"]: each["value"] for each in body["items"]}


def test_the_metrics_are_discovered() -> None:
    status, body = answer(ROOT, samples, NOW)
    assert (status, body["groupVersion"]) == (200, "external.metrics.k8s.io/v1beta1")
    assert [each["name"] for each in body["resources"]] == [
        "modelplane_requests",
        "modelplane_requests_in_flight",
        "modelplane_requests_held",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("namespaces/ml/modelplane_requests?labelSelector=deployment%3Dqwen", {"qwen": "9"}),
        ("namespaces/ml/modelplane_requests_in_flight?labelSelector=deployment==qwen", {"qwen": "7"}),
        ("namespaces/ml/modelplane_requests_held", {"qwen": "2", "gemma": "0"}),
        ("namespaces/ml/modelplane_requests?labelSelector=deployment%3Dother", {}),
        ("namespaces/other/modelplane_requests", {}),
        ("namespaces/dark/modelplane_requests?labelSelector=deployment%3Dgemma", {"gemma": "0"}),
    ],
)
def test_a_deployment_has_its_own_counts(path: str, expected: dict[str, str]) -> None:
    assert values(path) == expected


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("namespaces/dark/modelplane_requests", 503, id="no gateway can be read"),
        pytest.param("namespaces/partly/modelplane_requests", 503, id="one of several cannot be read"),
        pytest.param("namespaces/ml/modelplane_requests?labelSelector=a%3Db", 400, id="another label"),
        pytest.param("namespaces/ml/modelplane_requests?labelSelector=deployment", 400, id="no equality"),
        pytest.param("namespaces/ml/other", 404, id="another metric"),
        pytest.param("namespaces/ml", 404, id="no metric"),
        pytest.param("../../secrets", 404, id="another path"),
    ],
)
def test_what_cannot_be_answered_is_an_error_and_not_zero(path: str, status: int) -> None:
    found, body = answer(f"{ROOT}/{path}", samples, NOW)
    assert (found, body["kind"], body["code"]) == (status, "Status", status)
