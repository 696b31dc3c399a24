"""The external metrics API: counts of deployments, as HorizontalPodAutoscalers read them.

A metric of a namespace has a value for each deployment, with the deployment's name as a label (Kubernetes,
"external.metrics.k8s.io/v1beta1").
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from modelplane.deciders.autoscaling.evidence import Sample

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"
LABEL = "deployment"
"""Label of a value: the name of its ModelDeployment."""

_LIST = "ExternalMetricValueList"
_ROOT = f"/apis/{GROUP_VERSION}"
METRICS: dict[str, Callable[[Sample], int]] = {
    "modelplane_requests": lambda sample: sample.load,
    "modelplane_requests_in_flight": lambda sample: sample.in_flight,
    "modelplane_requests_held": lambda sample: sample.held,
}
"""Requests in progress and held, and each of them."""

Samples = Callable[[str, str], Iterable[tuple[str, Sample | None]]]
"""Returns the deployments of a namespace, or one by its name, with counts; None while those are unknown."""

Answer = tuple[int, dict[str, Any]]


def answer(target: str, samples: Samples, now: str) -> Answer:
    """Return the status and the body for a path with a query, at a time (RFC 3339)."""
    parts = urlsplit(target)
    if parts.path.rstrip("/") == _ROOT:
        resource = {"singularName": "", "namespaced": True, "kind": _LIST, "verbs": ["get"]}
        return 200, {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": GROUP_VERSION,
            "resources": [{"name": name, **resource} for name in METRICS],
        }
    match [unquote(part) for part in parts.path.removeprefix(f"{_ROOT}/").split("/")]:
        case ["namespaces", namespace, metric] if metric in METRICS and parts.path.startswith(_ROOT):
            selector = parse_qs(parts.query).get("labelSelector", [""])[0]
            return _values(metric, selector, partial(samples, namespace), now)
    return 404, _status(404, "NotFound", f"there is nothing but {_ROOT} with {', '.join(METRICS)}")


def _values(
    metric: str, selector: str, samples: Callable[[str], Iterable[tuple[str, Sample | None]]], now: str
) -> Answer:
    labels = _wanted(selector)
    if labels is None:
        message = f"the selector {selector!r} is not supported: use {LABEL}=NAME"
        return 400, _status(400, "BadRequest", message)
    chosen = [*samples(labels)]
    # A value that is too small would take replicas away, so there is none without every gateway.
    if any(sample is None or not sample.complete for _, sample in chosen):
        return 503, _status(503, "ServiceUnavailable", "the counts of a deployment are unknown")
    items = [
        {
            "metricName": metric,
            "metricLabels": {LABEL: name},
            "timestamp": now,
            "value": str(METRICS[metric](sample)),
        }
        for name, sample in chosen
        if sample is not None
    ]
    return 200, {"kind": _LIST, "apiVersion": GROUP_VERSION, "metadata": {}, "items": items}


def _wanted(selector: str) -> str | None:
    """Return the deployment that a selector names; empty for all, None if it says something else."""
    if not selector:
        return ""
    key, is_equal, name = selector.replace("==", "=").partition("=")
    return name if is_equal and key == LABEL and name and "," not in name else None


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
