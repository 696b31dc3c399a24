"""Metrics of Envoy and of its module, under the names of ours, and the load of gateways that they show.

The load is asked of an Envoy on this machine, or of the metrics of the gateway's pods.
"""

import asyncio
import http.client
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from prometheus_client.parser import text_string_to_metric_families

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS
from modelplane.gateway.usage.load import METRICS_PORT, Load, Reading
from modelplane.host.errors import LocalError
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
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

# Requests that reached no instance. Without the module, Envoy also counts them as answers with 503.
_NOT_REACHED = frozenset(
    {"envoy_cluster_upstream_rq_pending_failure_eject", "envoy_cluster_upstream_cx_none_healthy"}
)

_TIMEOUT_S = 3.0
_MOST_ANSWER_BYTES = 32 << 20
_COMPLETION = "completion"
_Counts = dict[str, dict[str, int]]
_FIELDS = {
    ours.GATEWAY_ENDPOINT_IN_PROGRESS.name: ("in_flight", "endpoint", 1),
    ours.GATEWAY_ENDPOINT_REQUESTS.name: ("requests", "endpoint", 1),
    ours.GATEWAY_HELD.name: ("held", "service", 1),
    ours.GATEWAY_HOLDS.name: ("holds", "service", 1),
    ours.GATEWAY_TOKENS.name: ("tokens", "service", 1),
    ours.GATEWAY_ENDPOINT_ANSWERS.name: ("answers", "endpoint", 1),
    ours.GATEWAY_ENDPOINT_CUT_OFF.name: ("errors", "endpoint", 1),
    ours.GATEWAY_ENDPOINT_TIMED.name: ("timed", "endpoint", 1),
    ours.GATEWAY_ENDPOINT_SECONDS.name: ("milliseconds", "endpoint", 1000),
}
"""The field of a reading, the label of its subject and the unit, by metric."""


def read_samples(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy; none without an answer."""
    try:
        yield from read(directory)
    except LocalError:
        return


def read(directory: Path) -> Iterator[Sample]:
    """Yield the metrics of an Envoy. Raises ``LocalError`` without an answer."""
    text = admin.read_prometheus(directory, _WANTED)
    cut_off = _CUT_OFF | _NOT_REACHED if "envoy_modelplane_panics" in text else _CUT_OFF
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
            elif stem == "envoy_http_downstream_rq_xx":
                yield Sample(ours.GATEWAY_REQUESTS, (f"{labels[_CLASS]}xx",), value)
            elif stem == "envoy_http_downstream_rq_active":
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
    return labels["envoy_cluster_name"].removeprefix(f"{FLEET_LISTENER}/")


class Source(Protocol):
    """Source of counts."""

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Informers to run."""

    async def load(self) -> Load:
        """Return what every gateway counts of requests, and which of them could not be asked."""


class DirectorySource:
    """The Envoy of a directory."""

    informers: tuple[Informer, ...] = ()

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def load(self) -> Load:
        """Return what Envoy counts."""
        return await asyncio.to_thread(read_directory, self._directory)


class PodSource:
    """The pods of the gateway's Service."""

    def __init__(self, client: Client, namespace: str, service: str) -> None:
        selector = f"kubernetes.io/service-name={service}"
        self._slices = Informer(client, resources.ENDPOINT_SLICES, namespace=namespace, labels=selector)
        self.informers = (self._slices,)

    async def load(self) -> Load:
        """Return what the ready pods count."""
        return await read_pods(list_ready_pods(tuple(self._slices)))


def read_directory(directory: Path) -> Load:
    """Return what the Envoy of a directory counts."""
    counts, buckets = _counts(), dict[str, list[int]]()
    try:
        for sample in read(directory):
            labels = dict(zip(sample.metric.labels, sample.labels, strict=True))
            if sample.metric is not ours.GATEWAY_FIRST_TOKEN:
                _add(counts, sample.metric.name, labels, sample.value)
            elif sample.bucket != ours.SUM:
                _add_bucket(buckets, labels["endpoint"], sample.bucket, sample.value)
    except LocalError as error:
        return Load(problem=str(error))
    return Load({"": Reading(**counts, first_tokens=buckets)})


def list_ready_pods(slices: Iterable[Object]) -> tuple[str, ...]:
    """Return an address of each pod that is ready, by the EndpointSlices of its Service."""
    addresses: dict[str, str] = {}
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.get("endpoints") or ():
            if endpoint.get("conditions", {}).get("ready", True):
                address = endpoint["addresses"][0]
                addresses.setdefault(endpoint.get("targetRef", {}).get("uid", address), address)
    return tuple(sorted(addresses.values()))


async def read_pods(addresses: Iterable[str], port: int = METRICS_PORT) -> Load:
    """Return what pods count; those that do not answer are the problem."""
    names = tuple(addresses)
    if not names:
        return Load(problem="the gateway has no ready pod")
    answers = await asyncio.gather(*(asyncio.to_thread(_of_pod, name, port) for name in names))
    problems = [reading for reading in answers if isinstance(reading, str)]
    readings = {
        name: reading for name, reading in zip(names, answers, strict=True) if isinstance(reading, Reading)
    }
    return Load(readings, problems[0] if problems else "")


def _of_pod(address: str, port: int) -> Reading | str:
    connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read(_MOST_ANSWER_BYTES).decode()
        if answer.status != http.client.OK:
            return f"the gateway's pod at {address} returned {answer.status} for its metrics"
        return _reading(text)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"cannot read the metrics of the gateway's pod at {address}: {error}"
    finally:
        connection.close()


def _reading(text: str) -> Reading:
    counts, buckets = _counts(), dict[str, list[int]]()
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            if name == f"{ours.GATEWAY_FIRST_TOKEN.name}_bucket":
                _add_bucket(buckets, labels["endpoint"], labels["le"], value)
            else:
                _add(counts, name, labels, value)
    # Envoy counts in a bucket what is in those before it, too.
    first_tokens = {
        endpoint: [max(0, count - before) for before, count in pairwise((0, *below))]
        for endpoint, below in buckets.items()
    }
    return Reading(**counts, first_tokens=first_tokens)


def _add_bucket(found: dict[str, list[int]], endpoint: str, bound: str, value: float) -> None:
    """Set the count of a bucket. A bound that is not known is another version's, and goes up."""
    counts = found.setdefault(endpoint, [0] * BUCKETS)
    counts[bisect_left(BOUNDS_S, float(bound))] += max(0, int(value))


def _counts() -> _Counts:
    return {field: {} for field, _, _ in _FIELDS.values()}


def _add(counts: _Counts, name: str, labels: Mapping[str, str], value: float) -> None:
    if name not in _FIELDS or labels.get("kind", _COMPLETION) != _COMPLETION:
        return
    field, subject, unit = _FIELDS[name]
    count = max(0, round(value * unit))
    _count(counts[field], labels[subject], count)
    if field == "answers" and labels["class"] == "5xx":
        _count(counts["errors"], labels[subject], count)


def _count(sums: dict[str, int], subject: str, count: int) -> None:
    sums[subject] = sums.get(subject, 0) + count
