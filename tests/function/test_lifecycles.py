"""Every kind through its life under Crossplane: made, ready, edited, deleted."""

import base64

import pytest

from modelplane.compose.kinds import COMPOSERS
from support.crossplane.api import ApiError, Change
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import (
    CACHE,
    CLASS,
    DEPLOYMENT,
    ENDPOINT,
    GATEWAY,
    SERVICE,
    TEAM,
    image,
    inference_cluster,
    model_cache,
    model_deployment,
    model_endpoint,
    model_service,
    secret,
)
from support.crossplane.objects import Key, Object, condition, is_deleted, key_of
from support.crossplane.scenarios import far, serving, with_clusters

TOKEN = base64.b64encode(b"hf_not_a_real_token").decode()


@pytest.fixture
def a(fleet: Fleet) -> Fleet:
    """A fleet of one cluster, with room for two replicas."""
    return with_clusters(fleet, "a")


def is_quiet(fleet: Fleet, seconds: float = 65) -> bool:
    """Whether nothing at all is written for a while, although the function is asked again and again."""
    before, asked = fleet.versions(), sum(len(fleet.calls(kind)) for kind in COMPOSERS)
    fleet.run_for(seconds)
    return fleet.versions() == before and sum(len(fleet.calls(kind)) for kind in COMPOSERS) > asked


class TestInferenceClass:
    def test_it_is_ready_at_once(self, fleet: Fleet) -> None:
        fleet.run_until_ready("InferenceClass", CLASS, within=1)
        assert fleet.is_true("InferenceClass", CLASS, "Accepted")

    def test_it_cannot_be_deleted_from_under_a_cluster(self, a: Fleet) -> None:
        a.run_until(lambda: bool(a.children("InferenceClass", CLASS)), within=90)
        a.run_for(1)
        with pytest.raises(ApiError, match="InferenceClusters need it"):
            a.delete("InferenceClass", CLASS)
        a.delete("InferenceCluster", "a")
        a.run_until(lambda: not a.exists("InferenceCluster", "a"))
        a.run_for(600)
        a.delete("InferenceClass", CLASS)
        a.run_until(lambda: not a.exists("InferenceClass", CLASS), within=5)

    def test_an_edit_reaches_the_clusters_that_use_it(self, a: Fleet) -> None:
        devices = a.get("InferenceClass", CLASS)["spec"]["devices"]
        devices[0]["count"] = 4
        a.edit("InferenceClass", CLASS, devices=devices)
        a.run_until(
            lambda: a.get("InferenceCluster", "a")["status"]["gpuPools"][0]["devices"][0]["count"] == 4,
            within=90,
        )


class TestInferenceCluster:
    def test_it_tells_what_is_found_there(self, fleet: Fleet) -> None:
        fleet.cluster("a", kinds=("leaderworkersets.leaderworkerset.x-k8s.io",))
        fleet.apply(inference_cluster("a"))
        fleet.run_until_ready("InferenceCluster", "a", within=5)
        fleet.run_for(5)
        status = fleet.get("InferenceCluster", "a")["status"]
        assert status["gateway"] == {"address": "10.0.0.1"}
        absent = dict.fromkeys(("inferencePool", "llmInferenceService"), False)
        assert status["capabilities"] == {"dra": True, "leaderWorkerSet": True, **absent}

    def test_one_without_a_gateway_waits_for_it(self, fleet: Fleet) -> None:
        fleet.cluster("a", gateway=False)
        fleet.apply(inference_cluster("a"))
        fleet.run_for(5)
        assert condition(fleet.get("InferenceCluster", "a"), "BackendReady")["reason"] == "Installing"
        assert fleet.is_true("InferenceCluster", "a", "ClusterReady")

    def test_more_nodes_are_more_room(self, a: Fleet) -> None:
        pools = a.get("InferenceCluster", "a")["spec"]["nodePools"]
        a.edit("InferenceCluster", "a", nodePools=[{**pools[0], "nodeCount": 7}])
        a.run_until(lambda: a.get("InferenceCluster", "a")["status"]["gpuPools"][0]["nodes"] == 7, within=5)
        a.run_until_ready("InferenceCluster", "a")

    def test_it_cannot_be_deleted_from_under_a_replica(self, a: Fleet) -> None:
        serving(a).run_for(70)
        with pytest.raises(ApiError, match="ModelReplicas need it"):
            a.delete("InferenceCluster", "a")
        a.delete("ModelDeployment", DEPLOYMENT)
        a.run_until(lambda: a.named("ModelReplica") == [], within=60)
        a.run_for(600)
        a.delete("InferenceCluster", "a")
        a.run_until(lambda: not a.exists("InferenceCluster", "a"), within=5)
        a.run_until(
            lambda: not any(item["kind"] in ("Object", "ClusterProviderConfig") for item in a.api.all())
        )
        assert far(a, "Deployment") == []

    def test_deleting_it_takes_nothing_from_the_cluster(self, a: Fleet) -> None:
        before = a.clusters["a"].objects("Gateway")
        a.delete("InferenceCluster", "a")
        a.run_for(60)
        assert a.clusters["a"].objects("Gateway") == before
        assert not any(item["kind"] == "Object" for item in a.api.all())


class TestInferenceGateway:
    def test_it_publishes_the_address_of_the_gateway(self, fleet: Fleet) -> None:
        fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
        status = fleet.get("InferenceGateway", GATEWAY)["status"]
        assert (status["address"], status["backend"]) == ("203.0.113.1", "GatewayAPI")

    def test_another_one_is_ignored(self, fleet: Fleet) -> None:
        other = {**fleet.get("InferenceGateway", GATEWAY), "metadata": {"name": "second"}}
        fleet.apply({**other, "status": {}})
        fleet.run_for(5)
        assert (
            condition(fleet.get("InferenceGateway", "second"), "ControllerReady")["reason"]
            == "InvalidSettings"
        )
        fleet.delete("InferenceGateway", "second")
        fleet.run_until(lambda: not fleet.exists("InferenceGateway", "second"), within=5)


class TestModelCache:
    def test_it_is_staged_on_every_cluster(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", "b")
        fleet.apply(model_cache())
        fleet.run_until_ready("ModelCache", CACHE)
        assert fleet.get("ModelCache", CACHE)["status"]["summary"] == {"ready": "2/2"}
        for cluster in "ab":
            assert [claim["status"]["phase"] for claim in far(fleet, "PersistentVolumeClaim", cluster)] == [
                "Bound"
            ]

    def test_its_token_reaches_the_cluster_and_stands_in_no_message(self, a: Fleet) -> None:
        a.clusters["a"].runs = False
        a.apply(secret("hf", token=TOKEN), model_cache(secret="hf"))
        a.run_until(lambda: bool(far(a, "Job")), within=60)
        a.run_until(lambda: bool(far(a, "Secret")), within=60)
        assert [item["data"] for item in far(a, "Secret")] == [{"token": TOKEN}]
        for call in a.calls("ModelCache"):
            assert TOKEN not in str(call.response.conditions)
            assert TOKEN not in str(call.response.results)
            assert TOKEN not in str(call.response.desired.composite)

    def test_when_the_download_is_done_the_job_and_the_token_go(self, a: Fleet) -> None:
        a.apply(secret("hf", token=TOKEN), model_cache(secret="hf"))
        a.run_until_ready("ModelCache", CACHE)
        a.run_until(lambda: not far(a, "Job") and not far(a, "Secret"))
        assert len(far(a, "PersistentVolumeClaim")) == 1

    def test_the_volume_goes_with_the_cache(self, a: Fleet) -> None:
        a.apply(model_cache())
        a.run_until_ready("ModelCache", CACHE)
        a.delete("ModelCache", CACHE)
        a.run_until(lambda: not far(a, "PersistentVolumeClaim"))

    def test_a_selector_that_leaves_a_cluster_keeps_what_is_there(self, a: Fleet) -> None:
        a.apply(model_cache())
        a.run_until_ready("ModelCache", CACHE)
        a.edit("ModelCache", CACHE, clusterSelector={"matchLabels": {"none": "such"}})
        a.run_for(120)
        assert len(far(a, "PersistentVolumeClaim")) == 1

    def test_one_that_was_restored_without_its_status_keeps_its_volumes(self, a: Fleet) -> None:
        a.apply(model_cache())
        a.run_until_ready("ModelCache", CACHE)
        before = [claim["metadata"]["uid"] for claim in far(a, "PersistentVolumeClaim")]
        a.api.update_status({**a.get("ModelCache", CACHE), "status": {}}, "restore")
        a.run_for(20)
        assert [claim["metadata"]["uid"] for claim in far(a, "PersistentVolumeClaim")] == before

    def test_a_replica_waits_for_its_weights(self, a: Fleet) -> None:
        a.clusters["a"].runs = False
        a.apply(model_cache(), model_deployment(modelCacheRef={"name": "weights"}))
        a.run_for(60)
        assert far(a, "Deployment") == []
        a.clusters["a"].runs = True
        a.clusters["a"].run_all()
        a.run_until_ready("ModelCache", CACHE, within=120)
        a.run_until_ready("ModelDeployment", DEPLOYMENT, within=120)


class TestModelDeployment:
    def test_it_is_ready_when_its_replicas_are(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", "b", nodes=1)
        fleet.apply(model_deployment(replicas=2))
        fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
        assert fleet.get("ModelDeployment", DEPLOYMENT)["status"]["replicas"] == {
            "total": 2,
            "ready": 2,
            "updated": 2,
        }
        assert [len(far(fleet, "Deployment", cluster)) for cluster in "ab"] == [1, 1]
        assert len(fleet.announced()) == 2

    def test_when_all_is_ready_nothing_is_written_any_more(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", "b")
        fleet.apply(model_service(), model_cache())
        serving(fleet, replicas=3)
        fleet.run_for(65)
        assert is_quiet(fleet)

    def test_scaling_up_adds_and_changes_nothing_else(self, a: Fleet) -> None:
        serving(a)
        (first,) = a.named("ModelReplica")
        before = {key: version for key, version in a.versions().items() if key.kind == "Object"}
        a.edit("ModelDeployment", DEPLOYMENT, replicas=2)
        a.run_until(lambda: len(a.named("ModelReplica")) == 2)
        a.run_until_ready("ModelDeployment", DEPLOYMENT)
        assert first in a.named("ModelReplica")
        assert {key: a.versions().get(key) for key in before} == before

    def test_scaling_down_drains_before_it_deletes(self, a: Fleet) -> None:
        serving(a, replicas=2)
        since = len(a.history)
        a.edit("ModelDeployment", DEPLOYMENT, replicas=1)
        a.run_until(lambda: len(a.named("ModelReplica")) == 1 and len(far(a, "Deployment")) == 1)
        steps = []
        for event in a.history[since:]:
            item = event.new.object
            if event.key.kind == "ModelReplica" and item["spec"].get("draining") and "told" not in steps:
                steps.append("told")
            elif event.key.kind == "ModelEndpoint" and event.change is Change.DELETED:
                steps.append("endpoint gone")
            elif event.key.kind == "ModelReplica" and is_deleted(item) and "replica deleted" not in steps:
                steps.append("replica deleted")
            elif event.key.kind == "Object" and is_deleted(item) and "workload deleted" not in steps:
                steps.append("workload deleted")
        assert steps == ["told", "endpoint gone", "replica deleted", "workload deleted"]

    def test_an_edit_reaches_one_replica_after_the_other(self, a: Fleet) -> None:
        serving(a, replicas=2)
        since = len(a.history)
        a.edit("ModelDeployment", DEPLOYMENT, engines=image(a.get("ModelDeployment", DEPLOYMENT), "vllm:new"))
        a.run_until(lambda: self._images(a) == ["vllm:new", "vllm:new"])
        a.run_until_ready("ModelDeployment", DEPLOYMENT)
        ready = dict.fromkeys(a.named("ModelReplica"), True)
        for event in a.history[since:]:
            if event.key.kind == "ModelReplica":
                item = event.new.object
                told = condition(item, "Ready")
                current = told.get("observedGeneration") == item["metadata"]["generation"]
                ready[f"{TEAM}/{event.key.name}"] = told["status"] == "True" and current
                assert any(ready.values()), "no replica served for a moment"

    def _images(self, fleet: Fleet) -> list[str]:
        return [
            item["spec"]["template"]["spec"]["containers"][0]["image"] for item in far(fleet, "Deployment")
        ]

    def test_deleting_it_leaves_nothing_behind(self, a: Fleet) -> None:
        serving(a, replicas=2)
        a.delete("ModelDeployment", DEPLOYMENT)
        a.run_until(lambda: not a.exists("ModelDeployment", DEPLOYMENT), within=5)
        a.run_until(lambda: not any(key.kind == "Object" and key.namespace == TEAM for key in a.versions()))
        assert (a.named("ModelReplica"), a.named("ModelEndpoint")) == ([], [])
        assert [far(a, kind) for kind in ("Deployment", "Service", "HTTPRoute", "ResourceClaimTemplate")] == [
            [],
            [],
            [],
            [],
        ]

    def test_two_deployments_do_not_take_the_same_room(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", nodes=1)
        fleet.apply(model_deployment(), model_deployment(name=f"{TEAM}/second"))
        fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
        fleet.run_for(60)
        assert len(fleet.named("ModelReplica")) == 1
        second = condition(fleet.get("ModelDeployment", f"{TEAM}/second"), "ReplicasScheduled")
        assert (second["status"], second["reason"]) == ("False", "InsufficientCapacity")

    def test_room_that_comes_free_is_taken(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", nodes=1)
        fleet.apply(model_deployment(), model_deployment(name=f"{TEAM}/second"))
        fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
        fleet.delete("ModelDeployment", DEPLOYMENT)
        fleet.run_until_ready("ModelDeployment", f"{TEAM}/second")


class TestModelReplica:
    def test_it_says_what_keeps_it_from_serving(self, a: Fleet) -> None:
        a.clusters["a"].refuses = lambda item: "denied by policy" if item["kind"] == "Deployment" else ""
        a.apply(model_deployment())
        a.run_for(20)
        (replica,) = a.named("ModelReplica")
        assert "denied by policy" in condition(a.get("ModelReplica", replica), "ModelAccepted")["message"]
        a.clusters["a"].refuses = lambda _item: ""
        a.run_until_ready("ModelDeployment", DEPLOYMENT, within=90)

    def test_it_is_announced_only_while_it_serves(self, a: Fleet) -> None:
        serving(a)
        (workload,) = far(a, "Deployment")
        a.clusters["a"].stop(key_of(workload))
        a.run_until(lambda: a.announced() == [], within=5)
        assert len(far(a, "Deployment")) == 1
        a.clusters["a"].run(key_of(workload))
        a.run_until(lambda: len(a.announced()) == 1, within=5)
        a.run_until_ready("ModelDeployment", DEPLOYMENT)

    def test_a_slow_cluster_delays_it_and_no_other(self, fleet: Fleet) -> None:
        with_clusters(fleet, "a", "b", nodes=1)
        fleet.clusters["a"].latency_s = 30
        fleet.apply(model_deployment(replicas=2))
        fleet.run_until(
            lambda: sum(fleet.is_true("ModelReplica", name) for name in fleet.named("ModelReplica")) == 1,
            within=5,
        )
        fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=300)

    def test_what_somebody_deletes_on_its_cluster_comes_back(self, a: Fleet) -> None:
        serving(a)
        for route in far(a, "HTTPRoute"):
            a.clusters["a"].api.delete(key_of(route))
        a.run_until(lambda: len(far(a, "HTTPRoute")) == 1, within=660)

    def test_an_object_that_somebody_deletes_comes_back(self, a: Fleet) -> None:
        serving(a)
        (replica,) = a.named("ModelReplica")
        before = a.children("ModelReplica", replica)
        a.api.delete(key_of(before["model-route"]))
        a.run_until(lambda: a.children("ModelReplica", replica).keys() == before.keys(), within=60)
        a.run_until_ready("ModelDeployment", DEPLOYMENT)

    def test_what_its_engines_name_is_copied_with_it(self, a: Fleet) -> None:
        deployment = model_deployment()
        container = deployment["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]
        source = {"secretKeyRef": {"name": "hf", "key": "token"}}
        container["env"] = [{"name": "HF_TOKEN", "valueFrom": source}]
        a.apply(secret("hf", token=TOKEN), deployment)
        a.run_until_ready("ModelDeployment", DEPLOYMENT)
        a.run_until(lambda: bool(far(a, "Secret")), within=60)
        assert [item["data"] for item in far(a, "Secret")] == [{"token": TOKEN}]
        a.delete("ModelDeployment", DEPLOYMENT)
        a.run_until(lambda: far(a, "Secret") == [])
        a.run_until(
            lambda: (
                "finalizers" not in (a.api.get(Key("", "Secret", TEAM, "hf")) or {})["metadata"]
                or not (a.api.get(Key("", "Secret", TEAM, "hf")) or {})["metadata"]["finalizers"]
            )
        )


class TestModelEndpoint:
    def test_it_stands_for_a_provider_outside(self, fleet: Fleet) -> None:
        fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
        fleet.apply(model_endpoint())
        fleet.run_until_ready("ModelEndpoint", ENDPOINT, within=5)
        kinds = sorted(child["kind"] for child in fleet.children("ModelEndpoint", ENDPOINT).values())
        assert "Service" in kinds

    def test_another_url_changes_what_stands_for_it(self, fleet: Fleet) -> None:
        fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
        fleet.apply(model_endpoint())
        fleet.run_until_ready("ModelEndpoint", ENDPOINT)
        fleet.edit("ModelEndpoint", ENDPOINT, url="http://192.0.2.7:8000/v1")
        fleet.run_until_ready("ModelEndpoint", ENDPOINT)
        fleet.run_for(5)
        assert "192.0.2.7" in str(fleet.children("ModelEndpoint", ENDPOINT))
        fleet.delete("ModelEndpoint", ENDPOINT)
        fleet.run_until(lambda: not any(item["kind"] == "EndpointSlice" for item in fleet.api.all()))

    def test_a_url_that_makes_no_sense_keeps_what_was_there(self, fleet: Fleet) -> None:
        fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
        fleet.apply(model_endpoint())
        fleet.run_until_ready("ModelEndpoint", ENDPOINT)
        before = fleet.children("ModelEndpoint", ENDPOINT)
        fleet.edit("ModelEndpoint", ENDPOINT, url="http://provider.example:0/v1")
        fleet.run_for(5)
        assert condition(fleet.get("ModelEndpoint", ENDPOINT), "RoutingReady")["reason"] == "InvalidURL"
        assert fleet.children("ModelEndpoint", ENDPOINT) == before


class TestModelService:
    def test_it_routes_to_the_replicas_of_a_deployment(self, a: Fleet) -> None:
        a.apply(model_service())
        serving(a, replicas=2)
        a.run_until_ready("ModelService", SERVICE, within=90)
        assert a.get("ModelService", SERVICE)["status"]["address"] == f"http://203.0.113.1/{TEAM}/chat"
        route = a.children("ModelService", SERVICE)["httproute"]
        assert len(route["spec"]["rules"][0]["backendRefs"]) == 2

    def test_a_replica_that_leaves_leaves_the_route_first(self, a: Fleet) -> None:
        a.apply(model_service())
        serving(a, replicas=2)
        a.run_until_ready("ModelService", SERVICE, within=90)
        a.edit("ModelDeployment", DEPLOYMENT, replicas=1)

        def gone() -> bool:
            # Whatever the route names is there, and so is the engine behind it, at every moment.
            named = {each["name"] for each in self._references(a)}
            assert named <= {item["metadata"]["name"] for item in a.api.all() if item["kind"] == "Service"}
            assert len(named) <= len(far(a, "Deployment"))
            return len(a.named("ModelReplica")) == 1

        a.run_until(gone, within=60)
        assert self._backends(a) == 1
        assert len(a.announced()) == 1

    def test_without_an_endpoint_it_keeps_its_address(self, a: Fleet) -> None:
        a.apply(model_service())
        serving(a)
        a.run_until_ready("ModelService", SERVICE, within=90)
        a.delete("ModelDeployment", DEPLOYMENT)
        a.run_until(lambda: not a.is_true("ModelService", SERVICE), within=60)
        assert a.get("ModelService", SERVICE)["status"]["address"] == f"http://203.0.113.1/{TEAM}/chat"

    def test_its_route_goes_with_it(self, a: Fleet) -> None:
        a.apply(model_service())
        serving(a)
        a.run_until_ready("ModelService", SERVICE, within=90)
        a.delete("ModelService", SERVICE)
        a.run_until(lambda: not any(item["kind"] == "HTTPRoute" for item in a.api.all()), within=5)

    def _backends(self, fleet: Fleet) -> int:
        return len(self._references(fleet))

    def _references(self, fleet: Fleet) -> list[Object]:
        route = fleet.children("ModelService", SERVICE)["httproute"]
        references: list[Object] = route["spec"]["rules"][0]["backendRefs"]
        return references


@pytest.mark.parametrize(("kind", "name"), [("InferenceCluster", "a"), ("ModelCache", CACHE)])
def test_a_deletion_that_was_refused_is_not_carried_out_later(a: Fleet, kind: str, name: str) -> None:
    a.apply(model_cache())
    a.run_until_ready("ModelCache", CACHE, within=120)
    a.apply(model_deployment(modelCacheRef={"name": "weights"}))
    a.run_until_ready("ModelDeployment", DEPLOYMENT, within=120)
    a.run_for(70)
    with pytest.raises(ApiError, match="ModelReplicas need it"):
        a.delete(kind, name)
    a.delete("ModelDeployment", DEPLOYMENT)
    a.run_for(900)
    assert a.named("ModelReplica") == []
    assert a.exists(kind, name)
    a.delete(kind, name)
    a.run_until(lambda: not a.exists(kind, name))


class TestNamespace:
    def test_deleting_it_frees_what_its_models_hold(self, a: Fleet) -> None:
        a.apply(model_cache())
        a.run_until_ready("ModelCache", CACHE, within=120)
        a.apply(model_deployment(replicas=2, modelCacheRef={"name": "weights"}))
        a.run_until_ready("ModelDeployment", DEPLOYMENT, within=120)
        a.run_for(70)
        assert len(far(a, "Deployment")) == 2
        assert [usage["kind"] for usage in a.children("ModelCache", CACHE).values()].count("Usage") == 1
        a.api.delete(Key("", "Namespace", "", TEAM))
        a.run_until(lambda: a.api.get(Key("", "Namespace", "", TEAM)) is None, within=300)
        assert far(a, "Deployment") == []
        assert not any(item["metadata"].get("namespace") == TEAM for item in a.api.all())
        a.run_until_ready("InferenceCluster", "a", within=5)
