"""The stand-in does what Crossplane does; what the other tests here say is worth as much as that."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct

from support.crossplane.api import ApiError, Change
from support.crossplane.composite import Run
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import (
    ENDPOINT,
    TEAM,
    inference_cluster,
    model_endpoint,
    namespace,
    secret,
)
from support.crossplane.objects import Key, Object, condition, key_of
from support.crossplane.protobuf import plain, struct
from support.crossplane.provider_kubernetes import OBJECT
from support.crossplane.schemas import PROTECTION, definition_of

KIND = "ModelEndpoint"


def child(name: str = "child", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data or {"key": "value"},
    }


def answer(*children: Object, ready: bool = True, ttl: int = 60) -> fnv1.RunFunctionResponse:
    response = fnv1.RunFunctionResponse()
    response.meta.ttl.seconds = ttl
    for each in children:
        composed = response.desired.resources[each["metadata"]["name"]]
        composed.resource.CopyFrom(struct(each))
        composed.ready = fnv1.READY_TRUE if ready else fnv1.READY_FALSE
    return response


def composing(*children: Object, ready: bool = True, ttl: int = 60) -> Run:
    return lambda _request: answer(*children, ready=ready, ttl=ttl)


def composed(run: Run) -> Fleet:
    fleet = Fleet(run)
    fleet.apply(namespace(TEAM), model_endpoint())
    fleet.simulation.settle()
    return fleet


def answers(fleet: Fleet, run: Run) -> None:
    """Have the function answer otherwise from now on, and be asked again."""
    for composite in fleet.composites.values():
        composite.run = run
    fleet.simulation.enqueue(fleet.composites[KIND], fleet.key(KIND, ENDPOINT))
    fleet.simulation.settle()


def the_child(fleet: Fleet, name: str = "child") -> Object:
    found = fleet.api.get(Key("", "ConfigMap", TEAM, name))
    assert found is not None
    return found


class TestApplying:
    def test_what_is_applied_again_changes_nothing(self) -> None:
        fleet = composed(composing(child()))
        before = fleet.versions()
        answers(fleet, composing(child()))
        assert fleet.versions() == before

    def test_a_field_that_is_no_longer_applied_goes(self) -> None:
        fleet = composed(composing(child(a="1", b="2")))
        answers(fleet, composing(child(a="1")))
        assert the_child(fleet)["data"] == {"a": "1"}

    def test_what_others_have_set_stays(self) -> None:
        fleet = composed(composing(child()))
        marked = the_child(fleet)
        marked["metadata"]["labels"]["team"] = "mine"
        marked["data"]["theirs"] = "too"
        fleet.api.update(marked, "kubectl")
        answers(fleet, composing(child(key="new")))
        assert the_child(fleet)["data"] == {"key": "new", "theirs": "too"}
        assert the_child(fleet)["metadata"]["labels"]["team"] == "mine"

    def test_a_field_with_two_owners_stays_when_one_lets_it_go(self) -> None:
        fleet = composed(composing(child(a="1", b="2")))
        fleet.api.apply(child(b="2") | {"metadata": {"name": "child", "namespace": TEAM}}, "another")
        answers(fleet, composing(child(a="1")))
        assert the_child(fleet)["data"] == {"a": "1", "b": "2"}

    def test_a_child_has_the_marks_of_its_composite(self) -> None:
        fleet = composed(composing(child()))
        metadata = the_child(fleet)["metadata"]
        assert metadata["annotations"] == {"crossplane.io/composition-resource-name": "child"}
        assert metadata["labels"] == {"crossplane.io/composite": "provider"}
        owner = fleet.get(KIND, ENDPOINT)["metadata"]["uid"]
        assert [(each["uid"], each["controller"]) for each in metadata["ownerReferences"]] == [(owner, True)]

    def test_what_the_schema_refuses_leaves_the_composite_unsynced(self) -> None:
        def run(_request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            response = answer()
            broken = {**model_endpoint(), "spec": {"url": 5}, "metadata": {"name": "broken"}}
            response.desired.resources["broken"].resource.CopyFrom(struct(broken))
            return response

        fleet = composed(run)
        synced = condition(fleet.get(KIND, ENDPOINT), "Synced")
        assert (synced["status"], synced["message"]) == ("False", "Unsynced resources: broken")


class TestAsking:
    def test_the_first_request_of_a_reconcile_has_nothing_that_was_required(self) -> None:
        def run(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            given.append({key: len(found.items) for key, found in request.required_resources.items()})
            response = answer()
            for name in ("there", "absent"):
                selector = response.requirements.resources[name]
                selector.api_version, selector.kind, selector.match_name = "v1", "Secret", name
                selector.namespace = TEAM
            return response

        given: list[dict[str, int]] = []
        fleet = Fleet(run)
        fleet.apply(namespace(TEAM), secret("there"), model_endpoint())
        fleet.simulation.settle()
        assert given[:2] == [{}, {"there": 1, "absent": 0}]
        assert given == given[:2] * (len(given) // 2)

    @pytest.mark.parametrize(
        ("place", "labels", "found"),
        [
            pytest.param(TEAM, {}, ["a", "b"], id="of one namespace"),
            pytest.param("", {}, ["a", "b", "c"], id="of all namespaces, where it names none"),
            pytest.param("", {"size": "large"}, ["b", "c"], id="with labels"),
            pytest.param("default", {"size": "small"}, [], id="with labels that nothing has there"),
        ],
    )
    def test_what_is_required_by_labels_is_what_matches(
        self, place: str, labels: dict[str, str], found: list[str]
    ) -> None:
        def run(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            for each in request.required_resources["all"].items if request.required_resources else ():
                names.add(plain(each.resource)["metadata"]["name"])
            response = answer()
            selector = response.requirements.resources["all"]
            selector.api_version, selector.kind = "v1", "Secret"
            selector.match_labels.labels.update(labels)
            if place:
                selector.namespace = place
            return response

        names: set[str] = set()
        fleet = Fleet(run)
        fleet.apply(namespace(TEAM))
        for name, where, size in (("a", TEAM, "small"), ("b", TEAM, "large"), ("c", "default", "large")):
            metadata = {"name": name, "namespace": where, "labels": {"size": size}}
            fleet.apply({**secret(name), "metadata": metadata})
        fleet.apply(model_endpoint())
        fleet.simulation.settle()
        assert sorted(names) == found

    def test_a_function_that_never_stops_asking_is_given_up_on_after_five_calls(self) -> None:
        def run(_request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            calls.append(1)
            response = answer(child())
            response.requirements.resources[f"more-{len(calls)}"].api_version = "v1"
            return response

        calls: list[int] = []
        fleet = Fleet(run)
        fleet.apply(namespace(TEAM), model_endpoint())
        fleet.run_until(lambda: len(calls) >= 5, within=1)
        fleet.simulation.settle()
        assert len(calls) % 5 == 0
        assert "stabilize" in condition(fleet.get(KIND, ENDPOINT), "Synced")["message"]
        assert fleet.children(KIND, ENDPOINT) == {}

    def test_a_fatal_result_changes_no_child(self) -> None:
        def fatal(_request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            response = fnv1.RunFunctionResponse()
            response.results.append(fnv1.Result(severity=fnv1.SEVERITY_FATAL, message="no"))
            return response

        fleet = composed(composing(child()))
        before = the_child(fleet)
        answers(fleet, fatal)
        assert the_child(fleet) == before
        assert condition(fleet.get(KIND, ENDPOINT), "Synced")["message"].endswith("fatal result: no")

    def test_it_asks_again_when_an_answer_is_no_longer_good(self) -> None:
        fleet = composed(composing(ttl=10))
        before = len(fleet.calls(KIND))
        fleet.run_for(35)
        assert len(fleet.calls(KIND)) - before == 3

    def test_without_watches_it_asks_later_each_time_while_a_child_is_not_ready(self) -> None:
        def run(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
            asked.append(round(fleet.clock.now))
            return composing(child(), ready=False)(request)

        asked: list[int] = []
        fleet = Fleet(run)
        fleet.composites[KIND].realtime = False
        fleet.apply(namespace(TEAM), model_endpoint())
        fleet.run_for(100)
        times = sorted(set(asked))
        assert [later - sooner for sooner, later in pairwise(times)] == [1, 8, 16, 30, 30]


class TestDeleting:
    def test_a_child_that_is_left_out_is_deleted(self) -> None:
        fleet = composed(composing(child(), child("other")))
        answers(fleet, composing(child()))
        assert list(fleet.children(KIND, ENDPOINT)) == ["child"]

    def test_a_child_of_another_composite_is_left_alone(self) -> None:
        fleet = composed(composing(child()))
        theirs = the_child(fleet)
        theirs["metadata"]["ownerReferences"][0]["uid"] = fleet.api.get(Key("", "Namespace", "", TEAM))[  # type: ignore[index]  # it was made above
            "metadata"
        ]["uid"]
        fleet.api.update(theirs, "kubectl")
        answers(fleet, composing())
        assert fleet.api.get(key_of(theirs)) is not None

    def test_children_go_with_their_composite(self) -> None:
        fleet = composed(composing(child()))
        fleet.delete(KIND, ENDPOINT)
        fleet.simulation.settle()
        assert not fleet.exists(KIND, ENDPOINT)
        assert fleet.api.get(Key("", "ConfigMap", TEAM, "child")) is None

    def test_in_the_foreground_children_go_first(self) -> None:
        fleet = composed(composing(child()))
        fleet.delete(KIND, ENDPOINT, "Foreground")
        fleet.simulation.settle()
        gone = [event.key.kind for event in fleet.history if event.change is Change.DELETED]
        assert gone == ["ConfigMap", KIND]

    def test_what_a_usage_names_is_deleted_when_the_usage_is(self) -> None:
        usage = {
            "apiVersion": f"{PROTECTION}/v1beta1",
            "kind": "Usage",
            "metadata": {"name": "held", "namespace": TEAM},
            "spec": {
                "of": {"apiVersion": "v1", "kind": "Secret", "resourceRef": {"name": "token"}},
                "reason": "somebody needs it",
                "replayDeletion": True,
            },
        }
        fleet = Fleet(composing())
        fleet.apply(namespace(TEAM), secret("token"), usage)
        fleet.simulation.settle()
        with pytest.raises(ApiError, match=r'in-use by 1 usage.*with reason: "somebody needs it"'):
            fleet.api.delete(key_of(secret("token")))
        fleet.api.delete(key_of(usage))
        fleet.run_for(1)
        assert fleet.api.get(key_of(secret("token"))) is not None
        fleet.run_for(2)
        assert fleet.api.get(key_of(secret("token"))) is None


class TestBreaker:
    def test_an_update_costs_two_tokens_and_all_else_one(self) -> None:
        fleet = composed(composing(child()))
        breaker = fleet.breaker(KIND, ENDPOINT)
        own = self._own_updates(fleet)
        assert (breaker.updates, breaker.charged) == (0, 1 + 1 + 2 * own), "two are new, the rest are updates"
        answers(fleet, composing(child(key="new")))
        own = self._own_updates(fleet)
        assert (breaker.updates, breaker.charged) == (1, 1 + 1 + 2 + 2 * own)

    def _own_updates(self, fleet: Fleet) -> int:
        events = [event for event in fleet.history if event.key == fleet.key(KIND, ENDPOINT)]
        return sum(event.old is not None for event in events)

    def test_what_changes_in_the_composite_is_dropped_as_well(self) -> None:
        fleet = composed(composing(child()))
        fleet.breaker(KIND, ENDPOINT).open(fleet.clock.now)
        asked = len(fleet.calls(KIND))
        fleet.edit(KIND, ENDPOINT, url="https://other.example/v1")
        fleet.simulation.settle()
        assert len(fleet.calls(KIND)) == asked

    def test_what_is_being_deleted_costs_nothing(self) -> None:
        held = {**child(), "metadata": {"name": "child", "finalizers": ["test/held"]}}
        fleet = composed(composing(held))
        breaker = fleet.breaker(KIND, ENDPOINT)
        fleet.api.delete(key_of(the_child(fleet)))
        fleet.simulation.settle()
        before = breaker.charged
        released = the_child(fleet)
        released["metadata"]["finalizers"] = []
        fleet.api.update(released, "kubectl")
        assert breaker.charged == before

    def test_it_opens_at_the_first_event_without_a_token_and_lets_one_through_now_and_then(self) -> None:
        fleet = composed(composing(child()))
        breaker = fleet.breaker(KIND, ENDPOINT)
        for number in range(50):
            self._touch(fleet, number)
        assert (breaker.openings, breaker.is_open) == (1, True)
        assert condition(fleet.get(KIND, ENDPOINT), "Responsive")["reason"] == "WatchCircuitOpen"
        asked = len(fleet.calls(KIND))
        self._touch(fleet, 50)
        assert len(fleet.calls(KIND)) == asked
        fleet.clock.now += 31
        self._touch(fleet, 51)
        assert len(fleet.calls(KIND)) == asked + 1
        fleet.clock.now += 300
        self._touch(fleet, 52)
        assert not breaker.is_open

    def _touch(self, fleet: Fleet, number: int) -> None:
        marked = the_child(fleet)
        marked["metadata"]["labels"]["touched"] = str(number)
        fleet.api.update(marked, "kubectl")
        fleet.simulation.settle()


def wrapped(*, policies: list[str] | None = None, **spec: object) -> Object:
    """Return an Object around a ConfigMap of cluster a."""
    manifest = {**child("far"), "metadata": {"name": "far", "namespace": "default"}}
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {"name": "far", "namespace": TEAM},
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "a"},
            **({"managementPolicies": policies} if policies else {}),
            **spec,
        },
    }


class TestProvider:
    @pytest.fixture
    def fleet(self) -> Fleet:
        fleet = Fleet(composing())
        fleet.cluster("a")
        named = inference_cluster("a")["spec"]["cluster"]["existing"]["secretRef"]["name"]
        where = {"namespace": "modelplane-system", "name": named, "key": "kubeconfig"}
        fleet.apply(
            namespace(TEAM),
            {
                "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
                "kind": "ClusterProviderConfig",
                "metadata": {"name": "a"},
                "spec": {"credentials": {"source": "Secret", "secretRef": where}},
            },
        )
        return fleet

    def _object(self, fleet: Fleet) -> Object:
        found = fleet.api.get(Key(*OBJECT, TEAM, "far"))
        assert found is not None
        return found

    def test_an_object_is_made_in_seven_writes_and_ready_then(self, fleet: Fleet) -> None:
        fleet.apply(wrapped())
        fleet.simulation.settle()
        made = Counter(event.change for event in fleet.history if event.key.kind == "Object")
        assert made == {Change.ADDED: 1, Change.MODIFIED: 6}
        status = self._object(fleet)["status"]
        assert {each["type"]: each["status"] for each in status["conditions"]} == {
            "Ready": "True",
            "Synced": "True",
        }
        assert status["atProvider"]["manifest"]["data"] == {"key": "value"}

    def test_what_is_not_there_to_observe_is_an_error(self, fleet: Fleet) -> None:
        fleet.apply(wrapped(policies=["Observe"]))
        fleet.simulation.settle()
        assert condition(self._object(fleet), "Synced")["message"] == (
            "observe failed: external resource does not exist"
        )
        assert fleet.clusters["a"].objects("ConfigMap") == []

    def test_it_is_ready_when_its_query_says_so(self, fleet: Fleet) -> None:
        query = "has(object.data.done) && object.data.done == 'yes'"
        fleet.apply(wrapped(readiness={"policy": "DeriveFromCelQuery", "celQuery": query}, watch=True))
        fleet.simulation.settle()
        assert condition(self._object(fleet), "Ready")["status"] == "False"
        far = fleet.clusters["a"].objects("ConfigMap")[0]
        far["data"]["done"] = "yes"
        fleet.clusters["a"].api.update(far, "somebody")
        fleet.simulation.settle()
        assert condition(self._object(fleet), "Ready")["status"] == "True"

    def test_what_it_looks_at_is_reported_whole_however_deep(self, fleet: Fleet) -> None:
        definition = definition_of("leaderworkersets.leaderworkerset.x-k8s.io")
        fleet.clusters["a"].api.create(definition, "kubectl")
        looked = {field: definition[field] for field in ("apiVersion", "kind")}
        named = {"metadata": {"name": definition["metadata"]["name"]}}
        fleet.apply(wrapped(policies=["Observe"], forProvider={"manifest": looked | named}))
        fleet.simulation.settle()
        seen = self._object(fleet)
        assert seen["status"]["atProvider"]["manifest"]["spec"] == definition["spec"]
        carried = struct(seen)
        assert plain(carried) == seen
        with pytest.raises(DecodeError):
            Struct.FromString(carried.SerializeToString())

    def test_deleting_it_deletes_what_it_stands_for(self, fleet: Fleet) -> None:
        fleet.apply(wrapped())
        fleet.simulation.settle()
        fleet.api.delete(key_of(wrapped()))
        fleet.run_for(5)
        assert fleet.clusters["a"].objects("ConfigMap") == []
        assert fleet.api.get(key_of(wrapped())) is None

    @pytest.mark.parametrize("policies", [["Observe"], ["Observe", "Create", "Update"]])
    def test_without_leave_to_delete_it_leaves_what_is_there(self, fleet: Fleet, policies: list[str]) -> None:
        fleet.apply(wrapped())
        fleet.simulation.settle()
        fleet.apply(wrapped(policies=policies))
        fleet.simulation.settle()
        fleet.api.delete(key_of(wrapped()))
        fleet.run_for(5)
        assert len(fleet.clusters["a"].objects("ConfigMap")) == 1

    @pytest.mark.parametrize(
        ("trouble", "message"),
        [
            pytest.param(
                lambda fleet: setattr(fleet.clusters["a"], "reachable", False),
                "observe failed: cannot get object:",
                id="a cluster that is away",
            ),
            pytest.param(
                lambda fleet: setattr(fleet.clusters["a"], "refuses", lambda _manifest: "denied"),
                "create failed: cannot create object: denied",
                id="a cluster that refuses",
            ),
            pytest.param(
                lambda fleet: fleet.api.delete(Key("", "Secret", "modelplane-system", "a-kubeconfig")),
                "connect failed: cannot build kube client for provider config",
                id="no credentials",
            ),
        ],
    )
    def test_what_is_in_the_way_is_told(
        self, fleet: Fleet, trouble: Callable[[Fleet], None], message: str
    ) -> None:
        trouble(fleet)
        fleet.apply(wrapped())
        fleet.simulation.settle()
        assert condition(self._object(fleet), "Synced")["message"].startswith(message)
        assert self._object(fleet)["metadata"]["name"] == "far"

    def test_a_slow_cluster_takes_its_time(self, fleet: Fleet) -> None:
        fleet.clusters["a"].latency_s = 20
        fleet.apply(wrapped())
        fleet.run_for(19)
        assert fleet.clusters["a"].objects("ConfigMap") == []
        fleet.run_for(2)
        assert len(fleet.clusters["a"].objects("ConfigMap")) == 1

    def test_what_is_taken_from_a_secret_needs_its_namespace(self, fleet: Fleet) -> None:
        source = {"apiVersion": "v1", "kind": "Secret", "name": "token", "fieldPath": "data[token]"}
        fleet.apply(secret("token", token="czNjcmV0"))
        fleet.apply(wrapped(references=[{"patchesFrom": source, "toFieldPath": "data[token]"}]))
        fleet.simulation.settle()
        assert "an empty namespace may not be set" in condition(self._object(fleet), "Synced")["message"]
        named = {**source, "namespace": TEAM}
        fleet.apply(wrapped(references=[{"patchesFrom": named, "toFieldPath": "data[token]"}]))
        fleet.simulation.settle()
        assert fleet.clusters["a"].objects("ConfigMap")[0]["data"] == {"key": "value", "token": "czNjcmV0"}

    def test_a_deleted_namespace_takes_the_way_to_its_clusters_along(self, fleet: Fleet) -> None:
        fleet.api.policy = None
        fleet.apply(wrapped())
        fleet.simulation.settle()
        fleet.api.delete(Key("", "Namespace", "", TEAM))
        fleet.run_for(600)
        assert condition(self._object(fleet), "Synced")["message"].endswith(
            f"unable to create new content in namespace {TEAM} because it is being terminated"
        )
        assert len(fleet.clusters["a"].objects("ConfigMap")) == 1

    def test_in_a_deleted_namespace_nothing_can_be_made(self, fleet: Fleet) -> None:
        fleet.apply(wrapped())
        fleet.simulation.settle()
        fleet.api.delete(Key("", "Namespace", "", TEAM))
        with pytest.raises(ApiError, match=f"unable to create new content in namespace {TEAM}"):
            fleet.apply(secret("late"))
