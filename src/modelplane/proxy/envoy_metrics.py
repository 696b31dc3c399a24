"""Metrics of Envoy and of its module, under the names of ours."""

from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from modelplane.host.errors import LocalError
from modelplane.proxy import admin
from modelplane.proxy.interface import FLEET_LISTENER
from modelplane.telemetry import metric_definitions as ours
from modelplane.telemetry.metric_definitions import Metric, Sample

_OF_THE_MODULE = {
    "envoy_modelplane_tokens": ours.GATEWAY_TOKENS,
    "envoy_modelplane_estimated": ours.GATEWAY_ESTIMATED,
    "envoy_modelplane_overflowed": ours.GATEWAY_OVERFLOWED,
    "envoy_modelplane_refused": ours.GATEWAY_REFUSED,
    "envoy_modelplane_held_requests": ours.GATEWAY_HELD,
    "envoy_modelplane_holds": ours.GATEWAY_HOLDS,
    "envoy_modelplane_reload_failures": ours.GATEWAY_RELOAD_FAILURES,
    "envoy_modelplane_panics": ours.GATEWAY_PANICS,
}
_FIRST_BYTE = "envoy_modelplane_first_byte"
_REQUESTS = "envoy_http_downstream_rq_xx"
_IN_PROGRESS = "envoy_http_downstream_rq_active"
_OF_ENDPOINTS = {
    "envoy_cluster_upstream_rq_active": ours.GATEWAY_ENDPOINT_IN_PROGRESS,
    "envoy_cluster_upstream_rq": ours.GATEWAY_ENDPOINT_REQUESTS,
}
_OF_CLUSTERS = rf"cluster[.]{FLEET_LISTENER}/.*[.]upstream_rq_(active|total)$"
_OF_ANSWERS = (
    rf"cluster[.]{FLEET_LISTENER}/[^.]*[.]((retry[.])?upstream_rq_[1-5]xx|upstream_rq_rx_reset"
    r"|upstream_cx_destroy_remote_with_active_rq|upstream_rq_pending_failure_eject|upstream_cx_none_healthy"
    r"|upstream_rq_time)$"
)
_OF_LISTENER = rf"http[.]{FLEET_LISTENER}[.]downstream_rq_([1-5]xx|active)$"
_WANTED = rf"^(modelplane[.]|{_OF_LISTENER}|{_OF_CLUSTERS}|{_OF_ANSWERS})"
_NAME = "envoy_cluster_name"
_CLASS = "envoy_response_code_class"
# An answer after which another endpoint is asked is counted apart.
_ANSWERS = frozenset({"envoy_cluster_upstream_rq_xx", "envoy_cluster_retry_upstream_rq_xx"})
# A connection carries one request of HTTP/1.1; of HTTP/2, a request that is cut off is a reset.
_CUT_OFF = frozenset(
    {"envoy_cluster_upstream_cx_destroy_remote_with_active_rq", "envoy_cluster_upstream_rq_rx_reset"}
)
_TIMES = {
    "envoy_cluster_upstream_rq_time_count": (ours.GATEWAY_ENDPOINT_TIMED, 1),
    "envoy_cluster_upstream_rq_time_sum": (ours.GATEWAY_ENDPOINT_SECONDS, 0.001),
}
# In place of Envoy's statistics of answers.
_ANSWERS_OF_THE_MODULE = {
    "envoy_modelplane_answers": (ours.GATEWAY_ENDPOINT_ANSWERS, 1),
    "envoy_modelplane_complete_answers": (ours.GATEWAY_ENDPOINT_TIMED, 1),
    "envoy_modelplane_complete_answers_ms": (ours.GATEWAY_ENDPOINT_SECONDS, 0.001),
}
_HAS_MODULE = "envoy_modelplane_panics"
# Requests that reached no instance. Without the module, Envoy also counts them as answers with 503.
_NOT_REACHED = frozenset(
    {"envoy_cluster_upstream_rq_pending_failure_eject", "envoy_cluster_upstream_cx_none_healthy"}
)


def read_samples(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy; none without an answer."""
    try:
        yield from read(directory)
    except LocalError:
        return


def read(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy. Raises ``LocalError`` without an answer."""
    text = admin.read_prometheus(directory, _WANTED)
    cut_off = _CUT_OFF | _NOT_REACHED if _HAS_MODULE in text else _CUT_OFF
    sums: dict[tuple[Metric, tuple[str, ...]], float] = {}
    # The buckets of histograms are not needed, and are most of the text.
    lines = (line for line in text.splitlines(keepends=True) if "_bucket{" not in line)
    for family in text_string_to_metric_families("".join(lines)):
        for name, labels, value, *_ in family.samples:
            # The library adds a suffix to the names of counters.
            stem = name.removesuffix("_total")
            if stem == _FIRST_BYTE:
                yield Sample(ours.GATEWAY_FIRST_TOKEN, (labels["endpoint"],), value, labels["le"])
            elif stem == f"{_FIRST_BYTE}_ms":
                yield Sample(ours.GATEWAY_FIRST_TOKEN, (labels["endpoint"],), value / 1000, ours.SUM)
            elif metric := _OF_THE_MODULE.get(stem):
                yield Sample(metric, tuple(labels[label] for label in metric.labels), value)
            elif metric := _OF_ENDPOINTS.get(stem):
                yield Sample(metric, (_endpoint(labels),), value)
            elif stem == _REQUESTS:
                yield Sample(ours.GATEWAY_REQUESTS, (f"{labels[_CLASS]}xx",), value)
            elif stem == _IN_PROGRESS:
                yield Sample(ours.GATEWAY_IN_PROGRESS, (), value)
            elif answer := _answer(stem, labels, cut_off):
                metric, of, unit = answer
                sums[metric, of] = sums.get((metric, of), 0) + value * unit
    for (metric, of), value in sums.items():
        yield Sample(metric, of, value)


def _answer(
    stem: str, labels: Mapping[str, str], cut_off: Set[str]
) -> tuple[Metric, tuple[str, ...], float] | None:
    """Return the metric of ours that a sample is a part of, its labels, and the unit of the sample."""
    if described := _ANSWERS_OF_THE_MODULE.get(stem):
        metric, unit = described
        return metric, tuple(labels[label] for label in metric.labels), unit
    if stem in _ANSWERS:
        return ours.GATEWAY_ENDPOINT_ANSWERS, (_endpoint(labels), f"{labels[_CLASS]}xx"), 1
    if stem in cut_off:
        return ours.GATEWAY_ENDPOINT_CUT_OFF, (_endpoint(labels),), 1
    if stem in _TIMES:
        metric, unit = _TIMES[stem]
        return metric, (_endpoint(labels),), unit
    return None


def _endpoint(labels: Mapping[str, str]) -> str:
    return labels[_NAME].removeprefix(f"{FLEET_LISTENER}/")
