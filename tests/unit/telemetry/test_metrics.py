"""What is exported, and that it is what the table and the documents say."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modelplane import __version__
from modelplane.controllers.state_samples import ControllersState, Queue
from modelplane.telemetry import metric_definitions, metrics
from modelplane.telemetry.metric_definitions import (
    LABELS,
    METRICS,
    SUM,
    Metric,
    Program,
    Result,
    Sample,
    Type,
)
from support.telemetry import Series, cluster, deployment, item, pool, ready, replica, scraped

ROOT = Path(__file__).parents[3]
OWN = re.compile(r"modelplane_\w+")
LOST = {"reason": "NodeNotReady", "name": "nodes", "count": 1}
EAST = cluster("east", {**pool("h200", 4), "usable": {"nodes": 3, "terms": [LOST]}})
EAST["status"]["conditions"].append(ready("True", "Observed", "CapacityObserved"))
NOTICE = {"node": "n1", "pool": "h200", "cause": "taint x", "noticedAt": "2026-11-24T12:00:00Z"}
EAST["status"]["evictionNotices"] = [{**NOTICE, "deadline": "2026-11-24T12:02:00Z"}]
EAST["status"]["gpuPools"][0]["blockedUntil"] = "2026-11-24T12:15:00Z"
STANDBY = deployment("qwen-int4", 3)
STANDBY["spec"]["standbyFor"] = {"name": "qwen"}
QWEN = deployment("qwen", 2, ready("False", "CanaryAborted", "Progressing"), total=1)
QWEN["status"]["replicas"]["spot"] = 1
UNHEALTHY = replica("qwen-1", "east", "h200")
UNHEALTHY["status"]["unhealthyDevices"] = [{"pod": "qwen-1-0", "device": "gpu-0"}]
QUOTA = item(
    "DeviceQuota",
    "blue",
    spec={"namespaces": ["ml-team"], "classes": [{"className": "h200", "nominalQuota": 8}]},
    status={"classes": [{"className": "h200", "deviceName": "gpu", "used": 8, "borrowed": 0}]},
)
STATE = ControllersState(
    queues={"decisions": Queue(0, 1), "work": Queue(3, 4)},
    reachable={"east": True},
    cluster_states={"east": "Reachable"},
    failover_paused=False,
    expiries={"models-tls": datetime(2027, 1, 1, tzinfo=UTC)},
    objects={
        "InferenceAutoscaler": [
            item("InferenceAutoscaler", "qwen", ready("True", "TooManyReplicas", "ScalingLimited"))
        ],
        "InferenceCluster": [EAST],
        "ModelDeployment": [
            QWEN,
            STANDBY,
        ],
        "DeviceQuota": [QUOTA],
        "ModelReplica": [UNHEALTHY],
    },
)


def _everything_happens() -> None:
    metrics.count_reconcile("ModelReplica", Result.SUCCESS, 0.02)
    metrics.count_reconcile("ModelReplica", Result.RETRY, 0.02)
    metrics.record_wait("work", 0.01)
    metrics.set_leading(True)
    metrics.count_answer("ModelReplica", Result.SUCCESS, 0.01)
    metrics.record_decoded(3, 7)


def _names(found: Series) -> set[str]:
    """Return the metrics of ours that were scraped; a histogram is three series, and one metric."""
    parts = re.compile("_(bucket|sum|count)$")
    histograms = {metric.name for metric in METRICS if metric.type is Type.HISTOGRAM}
    names = {name for name, _ in found if OWN.match(name)}
    return {stem if (stem := parts.sub("", name)) in histograms else name for name in names}


def _value(found: Series, metric: Metric, suffix: str = "", **labels: str) -> float:
    return found.get((metric.name + suffix, frozenset(labels.items())), 0.0)


@pytest.mark.parametrize("program", Program)
def test_a_program_exports_its_rows_of_the_table_and_nothing_else(program: Program) -> None:
    _everything_happens()
    found = scraped(program, lambda: STATE)
    assert _names(found) == {metric.name for metric in METRICS if program in metric.programs}


@pytest.mark.parametrize("program", Program)
def test_every_series_has_the_labels_of_its_row(program: Program) -> None:
    _everything_happens()
    rows = {metric.name: frozenset(metric.labels) for metric in METRICS}
    for name, labels in scraped(program, lambda: STATE):
        if OWN.match(name):
            stem = name if name in rows else name.rpartition("_")[0]
            assert {label for label, _ in labels} - {"le"} == rows[stem]


def test_the_process_is_told_of() -> None:
    names = {name for name, _ in scraped(Program.GATEWAY)}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names


def test_the_version_is_told() -> None:
    assert _value(scraped(Program.FUNCTION), metric_definitions.BUILD_INFO, version=__version__) == 1


def test_every_metric_is_a_constant_and_a_row_once() -> None:
    constants = [each for each in vars(metric_definitions).values() if isinstance(each, Metric)]
    assert sorted(each.name for each in constants) == sorted(each.name for each in METRICS)
    assert len({each.name for each in METRICS}) == len(METRICS)


def test_every_label_says_what_bounds_it() -> None:
    assert {label for metric in METRICS for label in metric.labels} == set(LABELS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"modelplane_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    is_time = metric.name.endswith("_timestamp_seconds") and metric.type is Type.GAUGE
    assert metric.name.endswith("_seconds") == (is_time or metric.type is Type.HISTOGRAM)
    assert bool(metric.buckets) == (metric.type is Type.HISTOGRAM)


def test_a_reconcile_is_counted_with_its_result_and_its_time() -> None:
    before = scraped(Program.CONTROLLER)
    metrics.count_reconcile("ModelService", Result.SUCCESS, 0.5)
    metrics.count_reconcile("ModelService", Result.REQUEUE_AFTER, 0.25)
    metrics.count_reconcile("ModelService", Result.BUG, 0.125)
    after = scraped(Program.CONTROLLER)

    def grown(metric: Metric, suffix: str = "", **labels: str) -> float:
        return _value(after, metric, suffix, **labels) - _value(before, metric, suffix, **labels)

    assert [grown(metric_definitions.RECONCILES, kind="ModelService", result=each) for each in Result] == [
        1,
        1,
        0,
        0,
        1,
    ]
    assert grown(metric_definitions.RECONCILE_ERRORS, kind="ModelService") == 1
    assert grown(metric_definitions.RECONCILE_DURATION, "_count", kind="ModelService") == 3
    assert grown(metric_definitions.RECONCILE_DURATION, "_sum", kind="ModelService") == 0.875
    assert grown(metric_definitions.RECONCILE_DURATION, "_bucket", kind="ModelService", le="0.25") == 2


def test_what_is_gone_is_told_no_more() -> None:
    states = [
        STATE,
        ControllersState({}, {}, {"InferenceCluster": [], "ModelDeployment": [], "ModelReplica": []}),
    ]
    found, gone = (scraped(Program.CONTROLLER, lambda state=state: state) for state in states)

    def named(series: Series) -> set[str]:
        return {
            value for _, labels in series for label, value in labels if label in {"cluster", "deployment"}
        }

    assert named(found) == {"east", "qwen", "qwen-int4"}
    assert named(gone) == set()


def test_the_buckets_of_an_observed_histogram_count_those_before_them() -> None:
    metric, endpoint = metric_definitions.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",)
    samples = [
        Sample(metric, endpoint, count, bucket) for bucket, count in (("1", 5), ("+Inf", 2), ("0.02", 3))
    ]
    registry = metrics.build_registry(Program.GATEWAY, lambda: [*samples, Sample(metric, endpoint, 7.5, SUM)])
    found = {
        (sample.name.removeprefix(metric.name), sample.labels.get("le", "")): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith(metric.name)
    }
    assert len(found) == len(metric.buckets) + 3
    expected = {"0.02": 3, "0.75": 3, "1.0": 8, "60.0": 8, "+Inf": 10}
    assert {bound: found["_bucket", bound] for bound in expected} == expected
    assert (found["_count", ""], found["_sum", ""]) == (10, 7.5)


def test_names_of_objects_are_quoted() -> None:
    odd: dict[str, Any] = item("ModelDeployment", 'a"b\\c\nd', spec={"replicas": 1})
    found = scraped(Program.CONTROLLER, lambda: ControllersState({}, {}, {"ModelDeployment": [odd]}))
    labels = {"namespace": "ml-team", "deployment": 'a"b\\c\nd', "state": "desired"}
    assert _value(found, metric_definitions.REPLICAS, **labels) == 1


PAGES = (ROOT / "docs" / "how-to" / "observe.md", ROOT / "package" / "grafana" / "modelplane.json")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_document_names_only_metrics_that_there_are(page: Path) -> None:
    histograms = {metric.name for metric in METRICS if metric.type is Type.HISTOGRAM}
    known = {metric.name for metric in METRICS}
    known |= {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")}
    assert set(OWN.findall(page.read_text())) - known == set()


def test_every_metric_is_on_the_board() -> None:
    board = json.loads(PAGES[1].read_text())
    expressions = " ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", ()))
    shown = set(OWN.findall(expressions))
    missing = {metric.name for metric in METRICS if not any(name.startswith(metric.name) for name in shown)}
    assert missing == set()


def test_a_standby_that_does_not_run_lacks_no_replica() -> None:
    running = deployment("second", 2, total=1)
    running["spec"]["standbyFor"] = {"name": "qwen"}
    running["status"]["standby"] = {"active": True}
    state = ControllersState(objects={"ModelDeployment": [STANDBY, running]})
    found = scraped(Program.CONTROLLER, lambda: state)
    for name, active, missing in (("qwen-int4", 0, 0), ("second", 1, 1)):
        labels = {"namespace": STANDBY["metadata"]["namespace"], "deployment": name}
        assert _value(found, metric_definitions.STANDBY_ACTIVE, **labels) == active
        assert _value(found, metric_definitions.UNSCHEDULABLE, reason="Unknown", **labels) == missing
