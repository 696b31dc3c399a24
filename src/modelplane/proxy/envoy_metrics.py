"""Metrics of Envoy and of its module, under the names of ours."""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from modelplane.host.errors import LocalError
from modelplane.proxy import admin
from modelplane.proxy.interface import FLEET_LISTENER
from modelplane.telemetry import metric_definitions as ours
from modelplane.telemetry.metric_definitions import Sample

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
_WANTED = rf"^(modelplane[.]|http[.]{FLEET_LISTENER}[.]downstream_rq_([1-5]xx|active)$|{_OF_CLUSTERS})"
_NAME = "envoy_cluster_name"


def samples(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy; none without an answer."""
    try:
        yield from read(directory)
    except LocalError:
        return


def read(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy. Raises ``LocalError`` without an answer."""
    text = admin.prometheus(directory, _WANTED)
    for family in text_string_to_metric_families(text):
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
                endpoint = labels[_NAME].removeprefix(f"{FLEET_LISTENER}/")
                yield Sample(metric, (endpoint,), value)
            elif stem == _REQUESTS:
                yield Sample(ours.GATEWAY_REQUESTS, (f"{labels['envoy_response_code_class']}xx",), value)
            elif stem == _IN_PROGRESS:
                yield Sample(ours.GATEWAY_IN_PROGRESS, (), value)
