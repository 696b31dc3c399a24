"""Counted metrics, and their export with the observed ones in the text format of Prometheus.

A metric is either counted here or read at scrape time. Labels of counted
metrics have a few values that are known beforehand, so a deleted object leaves no series.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from modelplane import __version__
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import METRICS, Metric, Program, Result, Sample, Type

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped

_FAILED = frozenset({Result.RETRY, Result.BUG})
OTHER = "other"
"""The kind of an object of no kind of ours."""


def _counted(type_: Type) -> list[Metric]:
    return [metric for metric in METRICS if metric.type is type_ and not metric.observed]


_counters = {
    metric: prometheus_client.Counter(metric.name, metric.help, metric.labels, registry=None)
    for metric in _counted(Type.COUNTER)
}
_gauges = {
    metric: prometheus_client.Gauge(metric.name, metric.help, metric.labels, registry=None)
    for metric in _counted(Type.GAUGE)
}
_histograms = {
    metric: prometheus_client.Histogram(
        metric.name, metric.help, metric.labels, registry=None, buckets=metric.buckets
    )
    for metric in _counted(Type.HISTOGRAM)
}
_gauges[metric_definitions.BUILD_INFO].labels(__version__).set(1)


def count_reconcile(kind: str, result: Result, duration_s: float) -> None:
    """Count one reconcile of an object of a kind of ours."""
    _counters[metric_definitions.RECONCILES].labels(kind, result).inc()
    _histograms[metric_definitions.RECONCILE_DURATION].labels(kind).observe(duration_s)
    if result in _FAILED:
        _counters[metric_definitions.RECONCILE_ERRORS].labels(kind).inc()


def record_wait(queue: str, duration_s: float) -> None:
    """Count an object that waited in a queue for its turn."""
    _histograms[metric_definitions.QUEUE_LATENCY].labels(queue).observe(duration_s)


def set_leading(leads: bool) -> None:
    """Tell whether this process reconciles, or stands by."""
    _gauges[metric_definitions.LEADER].set(leads)


def count_answer(kind: str, result: Result, duration_s: float) -> None:
    """Count one request of Crossplane's, for a kind of ours or ``OTHER``."""
    _counters[metric_definitions.FUNCTION_REQUESTS].labels(kind, result).inc()
    _histograms[metric_definitions.FUNCTION_DURATION].labels(kind).observe(duration_s)


def set_unpublished(waits: bool) -> None:
    """Tell whether a gateway cannot publish what API keys have used."""
    _gauges[metric_definitions.GATEWAY_UNPUBLISHED].set(waits)


def record_decoded(objects: int, remembered: int) -> None:
    """Count objects that had to be decoded, and tell how many are now remembered."""
    _counters[metric_definitions.FUNCTION_DECODED].inc(objects)
    _gauges[metric_definitions.FUNCTION_CACHED].set(remembered)


_FAMILIES = {Type.COUNTER: CounterMetricFamily, Type.GAUGE: GaugeMetricFamily}


class _Observed(Collector):
    def __init__(self, program: Program, observe: Callable[[], Iterable[Sample]]) -> None:
        self._program = program
        self._observe = observe

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        observed = [
            declared for declared in METRICS if declared.observed and self._program in declared.programs
        ]
        families = {
            declared: _FAMILIES[declared.type](declared.name, declared.help, labels=declared.labels)
            for declared in observed
            if declared.type is not Type.HISTOGRAM
        }
        buckets: dict[Metric, dict[tuple[str, ...], dict[str, float]]] = {
            declared: {} for declared in observed if declared.type is Type.HISTOGRAM
        }
        for sample in self._observe():
            if sample.metric in buckets:
                buckets[sample.metric].setdefault(sample.labels, {})[sample.bucket] = sample.value
            else:
                families[sample.metric].add_metric(sample.labels, sample.value)
        yield from families.values()
        yield from (_histogram(metric, buckets_of_metric) for metric, buckets_of_metric in buckets.items())


def _histogram(
    metric: Metric, buckets: Mapping[tuple[str, ...], Mapping[str, float]]
) -> HistogramMetricFamily:
    """Return a histogram, whose buckets count those before them too."""
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(str, metric.buckets), "+Inf"]
    for labels, values in buckets.items():
        counts = {float(bound): count for bound, count in values.items() if bound != metric_definitions.SUM}
        below = accumulate(counts.get(float(bound), 0.0) for bound in bounds)
        total = values.get(metric_definitions.SUM, 0.0)
        family.add_metric(labels, list(zip(bounds, below, strict=True)), total)
    return family


def build_registry(program: Program, observe: Callable[[], Iterable[Sample]] = tuple) -> CollectorRegistry:
    """Return the registry of a program: its metrics, and those of its process.

    ``observe`` returns the observed ones; it is called for each answer, in a thread of the server's.
    """
    collectors = CollectorRegistry(auto_describe=False)
    prometheus_client.ProcessCollector(registry=collectors)
    prometheus_client.PlatformCollector(registry=collectors)
    for instruments in (_counters, _gauges, _histograms):
        for metric, instrument in instruments.items():
            if program in metric.programs:
                collectors.register(instrument)
    collectors.register(_Observed(program, observe))
    return collectors
