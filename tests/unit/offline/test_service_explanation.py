"""Why a service is ready or not, and which endpoints get its requests."""

import pytest

from modelplane.api.model_service import ModelService
from modelplane.offline.explain.service_explanation import WithoutEndpoint, explain_service
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import API, DEPLOYMENT, joined, loaded

GATEWAY = f"""\
apiVersion: {API}
kind: InferenceGateway
metadata: {{name: default}}
spec: {{backend: Envoy}}
status: {{address: "192.0.2.1:80", backend: Envoy}}
"""
BY_GATEWAY_API = GATEWAY.replace("Envoy", "GatewayAPI")
REPLICA = f"""\
apiVersion: {API}
kind: ModelReplica
metadata:
  uid: "1"
  name: qwen-1
  namespace: ml-team
  labels: {{app: qwen, modelplane.ai/deployment: qwen}}
spec:
  clusterName: west
  engines:
    - name: qwen
      members:
        - nodePoolName: pool
          template: {{spec: {{containers: [{{name: engine, image: "vllm/vllm-openai:v0.23.0"}}]}}}}
"""


def service(*entries, status=""):
    endpoints = "".join(f"    - {entry}\n" for entry in entries or ("selector: {matchLabels: {app: qwen}}",))
    head = f"apiVersion: {API}\nkind: ModelService\nmetadata: {{name: qwen, namespace: ml-team}}\n"
    return f"{head}spec:\n  endpoints:\n{endpoints}{status}"


def endpoint(name, app="qwen", url="http://192.0.2.7:80/v1", extra=""):
    return (
        f"apiVersion: {API}\nkind: ModelEndpoint\nmetadata:\n  uid: '{name}'\n  name: {name}\n"
        f"  namespace: ml-team\n  labels: {{app: {app}}}\n{extra}spec: {{url: '{url}'}}\n"
    )


def condition(type_, message, reason="X"):
    since = "2026-11-22T00:00:00Z"
    return (
        f"status:\n  conditions: [{{type: {type_}, status: 'False', reason: {reason}, message: {message}, "
        f"lastTransitionTime: '{since}'}}]\n"
    )


def explained(*documents):
    found = loaded(joined(*documents))
    assert found.problems == ()
    files = assemble(found.objects)
    [wanted] = files.store.list_kind(ModelService)
    return explain_service(files, wanted)


def rows(explanation):
    return [(each.name, each.entry, each.percent, each.reason) for each in explanation.endpoints]


def test_a_service_without_a_status_is_explained_as_the_controllers_would_see_it():
    found = explained(GATEWAY, service(), endpoint("a"))
    assert (found.ready, found.reason, found.address) == (True, "", "http://192.0.2.1:80/ml-team/qwen")
    assert [each.type for each in found.conditions] == ["EndpointsResolved", "RoutingReady", "Ready"]
    waiting = explained(service(), endpoint("a"))
    assert (waiting.ready, waiting.reason) == (
        False,
        'WaitingForGateway: InferenceGateway "default" has no address yet',
    )


def test_what_the_status_says_is_believed():
    found = explained(GATEWAY, service(status=condition("Ready", "it waits", "Creating")), endpoint("a"))
    assert (found.ready, found.reason, len(found.conditions)) == (False, "Creating: it waits", 1)


def test_requests_are_shared_as_the_entries_say():
    entries = (
        "{weight: 3, selector: {matchLabels: {app: qwen}}}",
        "{selector: {matchLabels: {app: outside}}}",
    )
    found = explained(GATEWAY, service(*entries), endpoint("a"), endpoint("b", "outside"), endpoint("c", "x"))
    assert rows(found) == [
        ("a", 0, 75.0, "matches app=qwen"),
        ("b", 1, 25.0, "matches app=outside"),
        ("c", None, 0.0, "no entry selects the endpoint: labels app=qwen are missing"),
    ]


TIERS = (
    "{selector: {matchLabels: {app: qwen}}}",
    "{priority: 4, selector: {matchLabels: {app: outside}}}",
)


@pytest.mark.parametrize(
    ("gateway", "reason"),
    [
        pytest.param(GATEWAY, "matches app=outside; of priority 4", id="Envoy"),
        pytest.param(
            BY_GATEWAY_API,
            "the gateway routes only to the first tier that contains an endpoint: use backend Envoy",
            id="Gateway API",
        ),
    ],
)
def test_a_tier_gets_no_requests_while_one_before_it_serves(gateway, reason):
    found = explained(gateway, service(*TIERS), endpoint("a"), endpoint("b", "outside"))
    assert rows(found) == [("a", 0, 100.0, "matches app=qwen"), ("b", 1, 0.0, reason)]
    [alone] = rows(explained(gateway, service(*TIERS), endpoint("b", "outside")))
    assert alone == ("b", 1, 100.0, "matches app=outside; of priority 4")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            endpoint("b", extra="  annotations: {modelplane.ai/draining: 'true'}\n"),
            "the replica is about to be deleted, so the endpoint receives no new requests",
            id="its replica goes",
        ),
        pytest.param(
            endpoint("b", extra="  deletionTimestamp: '2026-11-22T00:00:00Z'\n"),
            "being deleted",
            id="it goes itself",
        ),
        pytest.param(
            endpoint("b", url="http://192.0.2.8:0/"),
            "the url is not usable: no server listens on port 0: use http://HOST:PORT or https://HOST",
            id="a url that nothing is sent to",
        ),
    ],
)
def test_a_selected_endpoint_that_gets_no_requests_says_why(given, reason):
    found = explained(GATEWAY, service(), endpoint("a"), given)
    assert rows(found) == [("a", 0, 100.0, "matches app=qwen"), ("b", 0, 0.0, reason)]


def test_the_endpoint_of_a_replica_that_does_not_serve_is_not_counted_as_one():
    mark = "  annotations: {modelplane.ai/draining: not-serving}\n"
    assert rows(explained(GATEWAY, service(), endpoint("a"), endpoint("b", extra=mark))) == [
        ("a", 0, 100.0, "matches app=qwen")
    ]


def test_an_endpoint_outside_the_regions_says_so():
    ruled = DEPLOYMENT.replace("replicas: 1", "replicas: 1\n  regions: [eu-west]")
    entry = "selector: {matchLabels: {modelplane.ai/deployment: qwen}}"
    found = explained(
        GATEWAY, service(entry, "selector: {matchLabels: {app: qwen}}"), ruled, endpoint("paid")
    )
    assert [(each.percent, each.reason) for each in found.endpoints] == [
        (0.0, 'it is in no region, and ModelDeployment "qwen" allows only "eu-west"')
    ]


def test_an_endpoint_that_is_not_ready_says_so():
    given = endpoint("a") + condition("Ready", "its service is being made")
    [row] = rows(explained(GATEWAY, service(), given))
    assert row[-1] == "matches app=qwen; not ready: X: its service is being made"


def test_gateway_api_routes_to_more_endpoints_than_a_rule_takes_and_to_no_unverifiable_one():
    endpoints = [endpoint(f"e{number:02}") for number in range(1, 21)]
    found = rows(explained(BY_GATEWAY_API, service(), endpoint("e00", url="https://192.0.2.8/"), *endpoints))
    assert [(name, percent) for name, _, percent, _ in found] == [
        *((f"e{number:02}", 5.0) for number in range(1, 21)),
        ("e00", 0.0),
    ]
    assert found[-1][-1] == (
        "the url is not usable: with https, the host must be a name, so that the certificate can be verified"
    )


@pytest.mark.parametrize("gateway", [GATEWAY, BY_GATEWAY_API], ids=["Envoy", "Gateway API"])
def test_a_service_of_a_reserved_namespace_routes_nothing(gateway):
    moved = [
        {**each, "metadata": {**each["metadata"], "namespace": "kube-system"}}
        for each in loaded(joined(service(), endpoint("a"))).objects
    ]
    files = assemble((*loaded(gateway).objects, *moved))
    found = explain_service(files, moved[0])
    problem = 'namespace "kube-system" is reserved for system components: use a namespace of your own'
    assert (found.ready, found.reason) == (False, f"ReservedNamespace: {problem}")
    assert rows(found) == [("a", 0, 0.0, f"the service has no route: {problem}")]


def test_replicas_and_deployments_without_an_endpoint_say_why():
    starting = REPLICA + condition("ModelReady", "the image cannot be pulled")
    deployment = DEPLOYMENT.replace("name: qwen\n  namespace", "name: other\n  namespace")
    entries = ("{selector: {matchLabels: {modelplane.ai/deployment: other}}}",)
    assert explained(service(), starting).without_endpoint == (
        WithoutEndpoint(kind="ModelReplica", name="qwen-1", reason="the image cannot be pulled"),
    )
    assert explained(service(), starting, endpoint("qwen-1")).without_endpoint == ()
    assert explained(service(*entries), deployment).without_endpoint == (
        WithoutEndpoint(
            kind="ModelDeployment",
            name="other",
            reason="no replicas: to see why, run `modelplane explain md/other -n ml-team`",
        ),
    )
    assert explained(
        service(*entries), deployment.replace("replicas: 1", "replicas: 0")
    ).without_endpoint == (
        WithoutEndpoint(kind="ModelDeployment", name="other", reason="spec.replicas is 0"),
    )


def test_an_entry_that_selects_nothing_is_told():
    assert explained(service(), endpoint("a", "x")).notes == (
        (
            'endpoints[0]: no ModelEndpoint in namespace "ml-team" has app=qwen, and no ModelReplica or '
            "ModelDeployment there would create one: correct the matchLabels"
        ),
    )
    assert explained(service(), REPLICA).notes == ()
