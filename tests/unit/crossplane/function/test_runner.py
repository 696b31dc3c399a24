"""What one request is answered with."""

import base64
import copy
import json
import time
from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api import labels
from modelplane.compose.kinds import COMPOSERS
from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest
from modelplane.kube import timestamps
from modelplane.telemetry import metric_definitions, metrics
from modelplane.telemetry.metric_definitions import Program, Result
from support.goldens import GOLDENS
from support.tokens import kubeconfig, token
from unit.crossplane.function.conftest import DEFINITION, Ask, children, conditions, fatal

REGISTRY = metrics.build_registry(Program.FUNCTION)
CLASS = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceClass",
    "metadata": {"name": "h100"},
    "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}]},
}
NO_USERS: dict[str, list[Any]] = {"users-ModelReplica": [], "users-ModelCache": [], "users-ServingStack": []}
CLUSTER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "east"},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east-kubeconfig"}}},
        "nodePools": [{"name": "p", "className": "h100", "nodeCount": 2}],
    },
}


@pytest.mark.parametrize("kind", sorted(COMPOSERS))
def test_the_first_request_is_answered_with_what_is_required_and_keeps_what_is_there(
    ask: Ask, kind: str
) -> None:
    owner = next(owner for name in GOLDENS.names() if (owner := GOLDENS.input(name)["owner"])["kind"] == kind)
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    answered = ask(owner, None, {"child": child})
    assert "definition" in answered.requirements.resources
    assert children(answered) == {"child": child}
    assert not fatal(answered)
    assert ask(owner, None, {"child": child}).requirements == answered.requirements


def test_a_kind_of_nobody_is_refused_and_keeps_what_is_there(ask: Ask) -> None:
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    for api_version, kind in (("modelplane.ai/v1alpha1", "Unheard"), ("example.org/v1", "ModelReplica")):
        answered = ask({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}, {}, {"c": child})
        assert fatal(answered) == [f'"{kind}" of "{api_version}" is not a kind that Modelplane composes']
        assert children(answered) == {"c": child}


def test_a_kind_of_nobody_makes_no_series_of_its_own(ask: Ask) -> None:
    labels = {"kind": "other", "result": str(Result.FATAL)}
    before = REGISTRY.get_sample_value(metric_definitions.FUNCTION_REQUESTS.name, labels) or 0
    for number in range(3):
        ask({"apiVersion": "example.org/v1", "kind": f"Kind{number}", "metadata": {"name": "x"}}, {}, {})
    assert REGISTRY.get_sample_value(metric_definitions.FUNCTION_REQUESTS.name, labels) == before + 3
    named = {sample.labels.get("kind", "") for family in REGISTRY.collect() for sample in family.samples}
    assert not any(kind.startswith("Kind") for kind in named)


def test_crossplane_must_own_the_definition(ask: Ask) -> None:
    native = copy.deepcopy(DEFINITION)
    native["metadata"] = {"name": "inferenceclasses.modelplane.ai"}
    [message] = fatal(ask(CLASS, {"definition": [native], "users-InferenceCluster": []}))
    assert message.startswith("Crossplane must not compose: it does not own CustomResourceDefinition infer")


def test_a_reserved_namespace_keeps_what_is_there_and_says_so(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/reserved-namespace-keeps-what-serves")
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    answered = ask(case["owner"], case["required"], {"child": child})
    assert (children(answered), fatal(answered)) == ({"child": child}, [])
    assert conditions(answered)["Accepted"] == (
        "FALSE",
        "ReservedNamespace",
        'namespace "kube-system" is reserved for system components: use a namespace of your own',
    )
    assert answered.desired.composite.ready == fnv1.READY_FALSE


def test_a_class_in_use_cannot_be_deleted(ask: Ask) -> None:
    answered = ask(CLASS, {"users-InferenceCluster": [CLUSTER]})
    assert children(answered) == {
        "crossplane-in-use": {
            "apiVersion": "protection.crossplane.io/v1beta1",
            "kind": "ClusterUsage",
            "spec": {
                "of": {
                    "apiVersion": "modelplane.ai/v1alpha1",
                    "kind": "InferenceClass",
                    "resourceRef": {"name": "h100"},
                },
                "reason": "InferenceClusters need it: delete or move them first",
            },
        }
    }
    assert children(ask(CLASS, {"users-InferenceCluster": []}, children(answered))) == {}


def test_a_cluster_is_connected_and_looked_at(ask: Ask) -> None:
    answered = ask(CLUSTER, {"class-h100": [CLASS], **NO_USERS})
    made = children(answered)
    assert sorted(made) == [
        "crossplane-gateway",
        "crossplane-inferencePool",
        "crossplane-leaderWorkerSet",
        "crossplane-llmInferenceService",
        "crossplane-provider-config",
    ]
    name = made["crossplane-provider-config"]["metadata"]["name"]
    assert made["crossplane-provider-config"]["spec"]["credentials"] == {
        "source": "Secret",
        "secretRef": {"namespace": "modelplane-system", "name": "east-kubeconfig", "key": "kubeconfig"},
    }
    looked = made["crossplane-gateway"]
    assert looked["spec"]["providerConfigRef"]["name"] == name
    assert looked["metadata"]["namespace"] == "modelplane-system"
    status = answered.desired.composite.resource["status"]
    assert status["providerConfigRef"]["name"] == name
    assert conditions(answered)["ClusterReady"] == ("FALSE", "Unreachable", "it has not been observed yet")
    assert answered.desired.composite.ready == fnv1.READY_FALSE


def test_a_cluster_whose_kubeconfig_would_run_a_program_is_not_connected(ask: Ask) -> None:
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    connected = children(ask(CLUSTER, required))
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "/bin/sh"}}}],
    }
    encoded = base64.b64encode(json.dumps(config).encode()).decode()
    metadata = {"name": "east-kubeconfig", "namespace": "modelplane-system"}
    hostile = {"kind": "Secret", "metadata": metadata, "data": {"kubeconfig": encoded}}
    answered = ask(CLUSTER, required | {"kubeconfig": [hostile]})
    assert children(answered) == {}
    status, reason, message = conditions(answered)["ClusterReady"]
    assert (status, reason) == ("FALSE", "Unreachable")
    assert message.startswith(
        'key "kubeconfig" of Secret "east-kubeconfig" in namespace "modelplane-system" is'
    )
    assert "field 'users[].user.exec'" in message
    kept = children(ask(CLUSTER, required | {"kubeconfig": [hostile]}, connected))
    assert kept.keys() == connected.keys()


def _observed_cluster() -> dict[str, Any]:
    """Return the observing children of a cluster that answers."""
    gateway = {
        "metadata": {"name": "g"},
        "spec": {"listeners": [{"port": 80}]},
        "status": {"addresses": [{"value": "192.0.2.1"}]},
    }
    absent = [{"type": "Synced", "status": "False", "message": "external resource does not exist"}]
    look = {"apiVersion": remote_objects.API_VERSION, "kind": "Object", "metadata": {"name": "o"}, "spec": {}}
    return {
        "crossplane-gateway": {**look, "status": {"atProvider": {"manifest": gateway}}},
        "crossplane-leaderWorkerSet": {**look, "status": {"conditions": absent}},
        "crossplane-inferencePool": {**look, "status": {"conditions": absent}},
        "crossplane-llmInferenceService": {**look, "status": {"conditions": absent}},
    }


@pytest.mark.parametrize(
    ("life", "condition"),
    [
        pytest.param((-1000, 9000), ("ClusterRunning", "the API server answers"), id="a new one"),
        pytest.param(
            (-8000, 2000),
            (
                "CredentialExpiring",
                (
                    "the API server answers, but the credential expires at EXPIRES and is not renewed "
                    'under Crossplane: store a new kubeconfig in Secret "east-kubeconfig" in namespace '
                    '"modelplane-system", with the commands that `modelplane install --inference-cluster` '
                    "prints"
                ),
            ),
            id="one in the last quarter of its life",
        ),
    ],
)
def test_a_token_that_expires_is_shown_and_named_in_time(
    ask: Ask, life: tuple[float, float], condition: tuple[str, str]
) -> None:
    now = time.time()
    issued, expires = (now + part for part in life)
    content = kubeconfig(token=token(iat=issued, exp=expires))
    metadata = {"name": "east-kubeconfig", "namespace": "modelplane-system"}
    secret = {"kind": "Secret", "metadata": metadata}
    secret["data"] = {"kubeconfig": base64.b64encode(content).decode()}
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    answered = ask(CLUSTER, required | {"kubeconfig": [secret]}, _observed_cluster())
    shown = timestamps.format_at(expires)
    status = answered.desired.composite.resource["status"]
    assert dict(status["credential"]) == {"expirationTime": shown}
    reason, message = condition
    assert conditions(answered)["ClusterReady"] == ("TRUE", reason, message.replace("EXPIRES", shown))


def test_a_cluster_whose_gateway_was_seen_is_ready(ask: Ask) -> None:
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    answered = ask(CLUSTER, required, _observed_cluster())
    status = answered.desired.composite.resource["status"]
    assert status["gateway"]["address"] == "192.0.2.1"
    absent = dict.fromkeys(("leaderWorkerSet", "inferencePool", "llmInferenceService"), False)
    assert dict(status["capabilities"]) == {"dra": True, **absent}
    assert answered.desired.composite.ready == fnv1.READY_TRUE


def test_a_replica_is_written_through_objects_in_one_pass(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    answered = ask(case["owner"], {"cluster": case["required"]["cluster"]})
    made = children(answered)
    endpoint = made.pop("endpoint")
    assert {key: child["kind"] for key, child in made.items()} == dict.fromkeys(made, "Object")
    assert endpoint["metadata"]["annotations"][labels.DRAINING] == labels.NOT_SERVING
    assert [key for key in made if key.startswith("crossplane-")] == ["crossplane-namespace-east"]
    flags = {key: child.ready == fnv1.READY_TRUE for key, child in answered.desired.resources.items()}
    assert [key for key, ready in flags.items() if not ready] == ["model-serving-qwen"]


def test_nothing_more_is_written_into_a_namespace_of_another(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    taken = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team", "labels": {"a": "b"}}}
    there = {"crossplane-namespace-east": children(ask(case["owner"], required))["crossplane-namespace-east"]}
    there["crossplane-namespace-east"]["metadata"] = {"name": "o"}
    there["crossplane-namespace-east"]["status"] = {"atProvider": {"manifest": taken}}
    answered = ask(case["owner"], required, there)
    assert sorted(children(answered)) == ["crossplane-namespace-east", "endpoint"]
    assert conditions(answered)["ModelAccepted"][:2] == ("FALSE", "NamespaceNotLabeled")


def _shown(made: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Return children as the provider reports them once they are written."""
    return {
        key: {
            **child,
            "metadata": {"name": key, "namespace": "ml-team"},
            "status": {"atProvider": {"manifest": {**child["spec"]["forProvider"]["manifest"], **status}}},
        }
        for key, child in made.items()
        if child["kind"] == "Object"
    }


def test_a_replica_that_serves_is_announced(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    shown = _shown(children(ask(case["owner"], required)), status={"availableReplicas": 1})
    answered = ask(case["owner"], required, shown)
    endpoint = children(answered)["endpoint"]
    assert endpoint["kind"] == "ModelEndpoint"
    assert labels.DRAINING not in endpoint["metadata"].get("annotations", {})
    assert endpoint["spec"]["crossplane"] == {"compositionRef": {"name": "modelendpoints.modelplane.ai"}}
    assert answered.desired.composite.ready == fnv1.READY_TRUE
    assert conditions(answered)["ModelReady"][:2] == ("TRUE", "Serving")


def test_what_nobody_has_seen_yet_stays_when_the_cluster_is_gone(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    made = children(ask(case["owner"], {"cluster": case["required"]["cluster"]}))
    unobserved = {
        key: {**child, "metadata": {"name": key, "namespace": "ml-team"}} for key, child in made.items()
    }
    answered = ask(case["owner"], {"cluster": []}, unobserved)
    assert set(children(answered)) == set(made)
    assert conditions(answered)["ModelAccepted"][1] == "WaitingForCluster"


def test_what_the_provider_could_not_do_is_in_the_condition(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    observed = children(ask(case["owner"], required))
    for key, child in observed.items():
        child["metadata"] = {"name": key}
    refusal = {"type": "Synced", "status": "False", "message": "quota exceeded"}
    observed["model-serving-qwen"]["status"] = {"conditions": [refusal]}
    answered = ask(case["owner"], required, observed)
    assert conditions(answered)["ModelAccepted"][2].endswith(
        '; cannot write "model-serving-qwen": quota exceeded'
    )


def test_doubt_changes_nothing_and_is_said(ask: Ask) -> None:
    case = GOLDENS.input("model_deployment/serving-replica-makes-it-ready")
    owner = case["owner"]
    known = {
        "type": "ReplicasReady",
        "status": "True",
        "reason": "AllReplicasReady",
        "message": "all",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    owner["status"] = {"replicas": {"total": 1, "ready": 1}, "conditions": [known]}
    broken = copy.deepcopy(case["required"]["replicas"][0])
    broken["metadata"] |= {"name": "other"}
    broken["spec"] = {"clusterName": 3}
    required = {"clusters": case["required"]["clusters"], "replicas": [broken], "quotas": []}
    answered = ask(owner, required, case["observed"])
    assert fatal(answered) == [
        'cannot read ModelReplica "ml-team/other": spec.clusterName: expected `str`, got `int`'
    ]
    assert set(children(answered)) == set(case["observed"])
    assert dict(answered.desired.composite.resource["status"]["replicas"]) == {"total": 1, "ready": 1}
    assert conditions(answered)["ReplicasReady"] == ("TRUE", "AllReplicasReady", "all")
    assert set(answered.requirements.resources) == {
        *("definition", "revision", "clusters", "replicas", "quotas")
    }


def test_two_deployments_that_are_asked_about_at_once_do_not_get_the_same_room(ask: Ask) -> None:
    case = GOLDENS.input("model_deployment/first-placement")
    required = {"clusters": case["required"]["clusters"], "replicas": [], "quotas": []}
    rooms = sum(pool["nodes"] for each in required["clusters"] for pool in each["status"]["gpuPools"])
    given = []
    for number in range(rooms + 1):
        owner = copy.deepcopy(case["owner"])
        owner["metadata"] |= {"name": f"d{number}", "uid": f"uid-{number}"}
        owner["spec"]["replicas"] = 1
        given.append(len(children(ask(owner, required))))
    assert given == [1] * rooms + [0]


def test_the_gateway_in_use_is_the_one_that_routes_are_attached_to(ask: Ask) -> None:
    gateway = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceGateway",
        "metadata": {"name": "default"},
        "spec": {"backend": "Traefik", "traefik": {"version": "41.3.0"}},
    }
    named = {"name": "modelplane", "namespace": "modelplane-system"}
    open_at: dict[str, Any] = {"kind": "Gateway", "metadata": named}
    defined = {"definition-gateway-api": [{"metadata": {"name": "httproutes.gateway.networking.k8s.io"}}]}
    assert conditions(ask(gateway, {**defined, "front-door": [open_at]}))["ControllerReady"][0] == "FALSE"
    open_at["status"] = {"addresses": [{"value": "2001:db8::1"}]}
    answered = ask(gateway, {**defined, "front-door": [open_at]})
    assert dict(answered.desired.composite.resource["status"]) == {
        "address": "[2001:db8::1]",
        "backend": "GatewayAPI",
    }
    assert conditions(answered)["ControllerReady"][2] == (
        'Gateway "modelplane" in namespace "modelplane-system" accepts requests at [2001:db8::1]; '
        'spec.backend Traefik is ignored: Gateway "modelplane" in namespace "modelplane-system" exists and '
        'doesn\'t belong to Modelplane: to install Traefik, delete Gateway "modelplane" in namespace '
        '"modelplane-system"'
    )


def test_the_gateway_is_not_asked_for_before_its_kind_is_installed(ask: Ask) -> None:
    gateway = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceGateway",
        "metadata": {"name": "default"},
        "spec": {"backend": "Traefik", "traefik": {"version": "41.3.0"}},
    }
    absent = ask(gateway, {"definition-gateway-api": []})
    assert "front-door" not in absent.requirements.resources
    assert "gateway-definitions" in absent.desired.resources
    defined = {"metadata": {"name": "httproutes.gateway.networking.k8s.io"}}
    assert "front-door" in ask(gateway, {"definition-gateway-api": [defined]}).requirements.resources


def test_events_tell_what_is_news(ask: Ask) -> None:
    def told(*conditions: dict[str, str]) -> list[tuple[str, str]]:
        known = [
            {"type": "Accepted", "lastTransitionTime": "2026-01-01T00:00:00Z", **each} for each in conditions
        ]
        answered = ask({**CLASS, "status": {"conditions": known}}, {"users-InferenceCluster": []})
        return [(each.reason, each.message) for each in answered.results]

    assert told({"status": "False", "reason": "Invalid"}) == [("Available", "available to node pools")]
    assert told({"status": "True", "reason": "Available"}) == []
    assert told() == [], "the first conditions are no change"


def test_an_endpoint_goes_once_no_route_leads_to_it(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/draining-withdraws-the-endpoint")
    endpoint = case["observed"]["endpoint"]
    observed = {"endpoint": {**endpoint, "status": {"routing": {"backendName": "endpoint-x"}}}}
    route = {
        "metadata": {"name": "chat", "namespace": "ml-team"},
        "spec": {"rules": [{"backendRefs": [{"name": "endpoint-x"}]}]},
    }
    required = {"cluster": case["required"]["cluster"], "routes": [route]}
    answered = ask(case["owner"], required, observed)
    marked = children(answered)["endpoint"]
    assert marked["metadata"]["annotations"] == {"modelplane.ai/draining": "true"}
    assert marked["spec"]["url"] == endpoint["spec"]["url"]
    assert conditions(answered)["RoutingReady"] == (
        "TRUE",
        "Draining",
        "HTTPRoute chat still routes to the replica",
    )
    route["spec"] = {"rules": []}
    answered = ask(case["owner"], required, observed)
    assert "endpoint" not in children(answered)
    assert conditions(answered)["RoutingReady"][:2] == ("FALSE", "Draining")


def test_a_timeout_is_no_reason_to_let_a_child_go(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    look = {"apiVersion": remote_objects.API_VERSION, "kind": "Object", "metadata": {"name": "o"}, "spec": {}}

    def left(message: str) -> bool:
        said = [{"type": "Synced", "status": "False", "message": message}]
        observed = {"model-serving-former": {**look, "status": {"conditions": said}}}
        return "model-serving-former" in children(ask(case["owner"], required, observed))

    assert left("observe failed: i/o timeout")
    assert not left("create failed: quota exceeded")


def test_caches_do_not_keep_a_cluster_because_they_follow_it(ask: Ask) -> None:
    cache = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "c", "namespace": "ml"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 1}},
        "status": {"clusters": [{"name": "east"}]},
    }
    required: dict[str, list[Any]] = {
        "class-h100": [CLASS],
        "users-ModelReplica": [],
        "users-ModelCache": [cache],
        "users-ServingStack": [],
    }
    assert "crossplane-in-use" not in children(ask(CLUSTER, required))


def test_the_way_to_a_cluster_stays_when_it_is_not_said(ask: Ask) -> None:
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    made = children(ask(CLUSTER, required))
    unsaid = copy.deepcopy(CLUSTER)
    unsaid["spec"]["cluster"] = {"source": "Existing"}
    assert set(children(ask(unsaid, required, made))) == set(made)


def _endless() -> dict[str, Any]:
    item: dict[str, Any] = {}
    for _ in range(150):
        item = {"a": item}
    return item


def test_a_look_that_cannot_be_read_is_unknown_and_kept(ask: Ask) -> None:
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    made = children(ask(CLUSTER, required))
    shown = _shown({key: made[key] for key in made if key != "crossplane-provider-config"})
    shown["crossplane-gateway"]["status"]["atProvider"]["manifest"]["spec"] = _endless()
    answered = ask(CLUSTER, required, shown)
    assert fatal(answered) == []
    assert set(children(answered)) == set(made)
    assert conditions(answered)["ClusterReady"] == (
        "FALSE",
        "Unreachable",
        'cannot read child "crossplane-gateway": it is nested more than 100 levels deep',
    )


def test_a_definition_as_deep_as_any_tells_that_it_is_there(ask: Ask) -> None:
    required: dict[str, list[Any]] = {"class-h100": [CLASS], **NO_USERS}
    made = children(ask(CLUSTER, required))
    shown = _shown({key: made[key] for key in made if key != "crossplane-provider-config"}, spec=_endless())
    del shown["crossplane-gateway"]["status"]["atProvider"]["manifest"]["spec"]
    answered = ask(CLUSTER, required, shown)
    assert dict(answered.desired.composite.resource["status"]["capabilities"]) == {
        "dra": True,
        "leaderWorkerSet": True,
        "inferencePool": True,
        "llmInferenceService": True,
    }


def test_a_child_whose_status_cannot_be_read_stays_and_is_named(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    shown = _shown(children(ask(case["owner"], required)), status={"availableReplicas": 1})
    before = children(ask(case["owner"], required, shown))
    shown["endpoint"] = {**before["endpoint"], "status": {"a": _endless()}}
    shown["service-model-serving-former"] = {**shown["model-serving-qwen"], "status": {"a": _endless()}}
    answered = ask(case["owner"], required, shown)
    assert fatal(answered) == []
    kept = children(answered)
    assert set(kept) == {*before, "service-model-serving-former"}
    assert kept["service-model-serving-former"]["spec"] == shown["model-serving-qwen"]["spec"]
    said = [message for _, _, message in conditions(answered).values()]
    assert 'cannot read child "endpoint": it is nested more than 100 levels deep' in said[0]


def test_a_child_of_which_nothing_can_be_read_changes_nothing(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    required = {"cluster": case["required"]["cluster"]}
    shown = _shown(children(ask(case["owner"], required)))
    shown["model-serving-qwen"]["spec"] = _endless()
    assert fatal(ask(case["owner"], required, shown)) == [
        'cannot read child "model-serving-qwen": it is nested more than 100 levels deep'
    ]


def test_an_object_that_is_required_and_cannot_be_read_is_unknown_to_who_composes(ask: Ask) -> None:
    case = GOLDENS.input("model_replica/standalone")
    shown = _shown(children(ask(case["owner"], {"cluster": case["required"]["cluster"]})))
    answered = ask(case["owner"], {"cluster": [{**CLUSTER, "status": _endless()}]}, shown)
    assert fatal(answered) == ['cannot read InferenceCluster "east": it is nested more than 100 levels deep']
    assert set(children(answered)) == set(shown)
    deployment = GOLDENS.input("model_deployment/first-placement")
    deployment["owner"]["spec"]["modelCacheRef"] = {"name": "weights"}
    cache = {"apiVersion": CLUSTER["apiVersion"], "kind": "ModelCache", "metadata": {"name": "weights"}}
    required = {
        "clusters": deployment["required"]["clusters"],
        "replicas": [],
        "quotas": [],
        "cache": [{**cache, "status": _endless()}],
    }
    answered = ask(deployment["owner"], required)
    assert fatal(answered) == []
    assert conditions(answered)["ModelCacheResolved"] == (
        "FALSE",
        "ModelCacheUnresolved",
        'cannot read ModelCache "weights": it is nested more than 100 levels deep',
    )


def test_users_that_cannot_be_read_may_need_what_they_name(ask: Ask) -> None:
    made = children(ask(CLASS, {"users-InferenceCluster": [CLUSTER]}))
    answered = ask(CLASS, {"users-InferenceCluster": [{**CLUSTER, "spec": _endless()}]}, made)
    assert fatal(answered) == []
    assert children(answered) == made


def test_an_owner_that_cannot_be_read_is_said(ask: Ask) -> None:
    assert fatal(ask({**CLUSTER, "status": _endless()}, {})) == [
        'cannot read InferenceCluster "east": it is nested more than 100 levels deep'
    ]


def test_what_an_earlier_step_composes_too_deep_is_not_dropped() -> None:
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.update(CLASS)
    request.desired.resources["theirs"].resource.update(_endless())
    assert fatal(Runner().run(RunFunctionRequest.FromString(request.SerializeToString()))) == [
        "what an earlier step of the pipeline composes is nested too deeply to be passed on"
    ]


def test_a_new_revision_of_one_deployment_holds_up_no_other(ask: Ask) -> None:
    case = GOLDENS.input("model_deployment/first-placement")
    required = {"replicas": [], "quotas": [], **case["required"]}
    required["clusters"][0]["status"]["gpuPools"][0]["nodes"] = 2
    edited = copy.deepcopy(case["owner"])
    edited["metadata"] |= {"namespace": "other-team", "uid": "uid-other"}
    edited["spec"]["rollout"] = {"maxSurge": 1}
    made = children(ask(edited, required))
    assert {child["kind"] for child in made.values()} == {"ControllerRevision", "ModelReplica"}
    answered = ask(case["owner"], required)
    assert not fatal(answered)
    assert any(child["kind"] == "ModelReplica" for child in children(answered).values())
