"""Pages of the dashboard: the same numbers and sentences as the commands, and a page for every path."""

from datetime import UTC, datetime

import pytest

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.dashboard import explanations
from modelplane.dashboard.pages import Pages
from modelplane.dashboard.snapshot import Devices, Snapshot
from modelplane.offline.plan import placements
from modelplane.offline.plan.fleet_of_files import assemble
from support import shown_fleet
from support.manifests import CLASS, DEPLOYMENT

NOW = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)

PATHS = (
    "/",
    "/clusters/eu-west-b",
    "/deployments",
    "/deployments/ml-team/llama-70b",
    "/services",
    "/services/ml-team/qwen-14b",
    "/replicas/ml-team/llama-70b-eu-north-a",
    "/events",
    "/plan",
)


@pytest.fixture
def pages() -> Pages:
    return Pages("a test")


@pytest.mark.parametrize("path", PATHS)
def test_each_path_has_a_page_whose_fragments_are_parts_of_it(pages, path):
    fleet = shown_fleet.small(NOW)
    page = pages.render(path, {}, fleet.view(shown_fleet.traffic_of(fleet)))

    assert page.status == 200
    assert all(html in page.html for html in page.fragments.values())


@pytest.mark.parametrize(
    "path", ["/clusters/none", "/deployments/ml-team", "/services/a/b", "/%2e%2e/x", "/none"]
)
def test_what_does_not_exist_is_not_found(pages, path):
    assert pages.render(path, {}, shown_fleet.small(NOW).view()).status == 404


def test_used_devices_are_those_of_the_replicas_claims():
    snapshot = shown_fleet.small(NOW).view().snapshot
    cluster = next(each for each in snapshot.clusters if each.name == "eu-north-a")

    assert [each.devices for each in cluster.pools] == [
        (Devices("h100", 8, 8),),
        (Devices("l4", 12, 2),),
    ]


def test_while_a_replica_cannot_be_read_the_used_devices_are_unknown(pages):
    fleet = shown_fleet.small(NOW)
    fleet.objects["ModelReplica"][0]["spec"] = {"clusterName": "eu-north-a", "engines": "?"}
    view = fleet.view()

    assert not view.snapshot.countable
    assert "unknown <small>a replica cannot be read" in pages.render("/", {}, view).html


def test_a_deployment_is_explained_in_the_words_of_the_command():
    snapshot = shown_fleet.small(NOW).view().snapshot
    deployment = snapshot.find("ModelDeployment", "ml-team", "llama-70b")
    assert deployment is not None
    objects = [item for kind, items in snapshot.objects.items() if kind != "Event" for item in items]

    explained = explanations.explain(snapshot, deployment)

    told = placements.explain(assemble(objects, live=True), deployment).deployment
    assert explained.verdict == f"{told.name}: {told.diagnosis}"
    assert "add 1 node to pool h100" in explained.verdict
    assert not explained.well


def test_everything_that_is_not_ready_is_linked_to_its_explanation(pages):
    html = pages.render("/", {}, shown_fleet.small(NOW).view()).html

    assert '<a href="/deployments/ml-team/llama-70b"><span class="state bad">' in html
    assert '<a href="/clusters/eu-west-b"><span class="state bad">' in html


def test_a_large_fleet_is_a_cell_for_each_cluster_and_a_table_of_fifty(pages):
    view = shown_fleet.large(NOW, 120).view()
    html = pages.render("/", {"page": "3"}, view).html

    assert html.count('class="cell f') == 120 + 3  # and the legend
    assert html.count("<tr>") == 1 + 20
    assert "Page 3 of 3" in html


@pytest.mark.parametrize("number", ["0", "-1", "99999999999", "x", "٣", ""])
def test_an_impossible_page_of_a_table_is_one_that_exists(pages, number):
    assert pages.render("/", {"page": number}, shown_fleet.large(NOW, 60).view()).status == 200


def test_a_filter_leaves_what_contains_it(pages):
    html = pages.render("/deployments", {"q": "QWEN"}, shown_fleet.small(NOW).view()).html

    assert "ml-team/qwen-14b</a>" in html
    assert "ml-team/llama-70b</a>" not in html


def test_a_stale_copy_is_said_on_every_page(pages):
    view = shown_fleet.small(NOW).view(problems=("modelreplicas: cannot be read: forbidden",))

    for path in PATHS:
        assert "modelreplicas: cannot be read: forbidden" in pages.render(path, {}, view).html


def test_unknown_traffic_is_said_and_not_shown_as_none(pages):
    html = pages.render("/services", {}, shown_fleet.small(NOW).view(traffic_problem="no permission")).html

    assert "No rates: no permission" in html
    assert "No request in the last 5 minutes" not in html


PLAN = DEPLOYMENT.replace("name: qwen\n  namespace", "name: new\n  namespace")


def test_a_manifest_is_planned_on_the_fleet_as_it_is(pages):
    view = shown_fleet.small(NOW).view()
    explained = explanations.plan(view.snapshot, PLAN)

    assert explained.verdict == "1 of 1 replicas placed"
    assert "1 of 1 replicas placed" in pages.plan(PLAN, view).html


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("{", "The manifest has errors"),
        (CLASS, "The manifest contains no ModelDeployment: paste a manifest that contains one"),
        (PLAN.replace("ml-team", "modelplane-system"), "The manifest has errors"),
    ],
)
def test_a_manifest_that_cannot_be_planned_says_why(text, verdict):
    explained = explanations.plan(shown_fleet.small(NOW).view().snapshot, text)

    assert explained.verdict.startswith(verdict)
    assert not explained.well


def _with_canary(**status):
    fleet = shown_fleet.small(NOW)
    item = next(each for each in fleet.objects["ModelDeployment"] if each["metadata"]["name"] == "llama-70b")
    steps = [{"weight": 5, "durationSeconds": 60}, {"weight": 50, "durationSeconds": 60}]
    item["spec"]["rollout"] = {"canary": {"steps": steps}}
    canary = {"phase": "Running", "revision": "f5361840ba", "step": 2, "weight": 50, **status}
    item.setdefault("status", {})["rollout"] = {"revision": "f5361840ba", "canary": canary}
    return fleet, item


def _canary_of(pages, fleet):
    return pages.render("/deployments/ml-team/llama-70b", {}, fleet.view()).fragments["canary"]


def test_a_canary_is_shown_with_its_step_weight_and_verdict(pages):
    fleet, _ = _with_canary(stepStartTime="2026-07-01T11:00:00Z", message="new revision 412 answers")
    html = _canary_of(pages, fleet)

    for told in ("<dd>2 of 2</dd>", "<dd>50%</dd>", "f5361840ba", "Undecided", "new revision 412 answers"):
        assert told in html


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ({}, "Waits for its replicas"),
        ({"phase": "Aborted", "weight": 0, "abortTime": "2026-07-01T11:00:00Z"}, "Aborted"),
        ({"phase": "Promoted", "weight": 0}, "Promoted"),
    ],
)
def test_the_verdict_on_a_canary_is_told(pages, status, verdict):
    assert verdict in _canary_of(pages, _with_canary(**status)[0])


def test_a_canary_that_is_held_says_why(pages):
    fleet, item = _with_canary(stepStartTime="2026-07-01T11:00:00Z")
    message = "The step is not decided: answers cannot be counted"
    item["status"]["conditions"] = [fleet.condition("Progressing", False, "CanaryHolds", message)]
    html = _canary_of(pages, fleet)

    assert "Held" in html
    assert message in html


def test_texts_of_a_canary_are_escaped(pages):
    evil = "<script>alert(1)</script>"
    fleet, _ = _with_canary(stepStartTime="2026-07-01T11:00:00Z", message=evil, revision=evil)
    html = pages.render("/deployments/ml-team/llama-70b", {}, fleet.view()).html

    assert evil not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize("canary", ["?", {"phase": "Other"}, None])
def test_a_canary_that_cannot_be_read_is_not_shown(pages, canary):
    fleet, item = _with_canary()
    item["status"]["rollout"]["canary"] = canary

    assert "Canary" not in _canary_of(pages, fleet)


def test_without_a_canary_nothing_is_shown(pages):
    assert _canary_of(pages, shown_fleet.small(NOW)).strip() == ""


def test_the_endpoint_of_a_replica_that_does_not_serve_is_not_counted() -> None:
    def endpoint(name: str, **annotations: str) -> Object:
        metadata = {"namespace": "ml", "name": name, "labels": {"app": "qwen"}, "annotations": annotations}
        return {"metadata": metadata}

    entries = [{"selector": {"matchLabels": {"app": "qwen"}}}]
    service = {"metadata": {"namespace": "ml", "name": "qwen"}, "spec": {"endpoints": entries}}
    endpoints = (endpoint("a"), endpoint("b", **{labels.DRAINING: labels.NOT_SERVING}))
    [shown] = Snapshot({"ModelService": (service,), "ModelEndpoint": endpoints}).services
    assert shown.endpoints == 1
