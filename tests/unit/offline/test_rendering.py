"""What would be made for an owner, from files alone."""

import base64

import pytest
import yaml

from modelplane.compose.kinds import COMPOSERS
from modelplane.offline.render.rendering import GatewayRoute, RoutedBackend, format_documents, render
from modelplane.user_error import UserError
from support.manifests import API, CLASS, DEPLOYMENT, cluster, joined, loaded

REPLICA = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelReplica
metadata:
  name: qwen-3f2a1
  namespace: ml-team
  annotations: {modelplane.ai/child: replica-west-0}
  labels: {modelplane.ai/deployment: qwen, modelplane.ai/cluster: west, modelplane.ai/replica-index: "0"}
spec:
  clusterName: west
  engines:
    - name: qwen
      members:
        - nodePoolName: pool
          deviceRequests:
            - name: gpu
              deviceClassName: gpu.nvidia.com
              selectors: [{cel: device.driver == "gpu.nvidia.com"}]
          template: {spec: {containers: [{name: engine, image: "vllm/vllm-openai:v0.23.0"}]}}
"""
FLEET = joined(CLASS, cluster("west"))


def objects(text):
    found = loaded(text)
    assert found.problems == ()
    return found.objects


def rendered(owner, observed="", required="", gateway_address=""):
    return render(objects(owner), objects(observed), objects(required), gateway_address)[0]


def test_a_new_deployment_shows_its_replicas():
    found = rendered(DEPLOYMENT, required=FLEET)
    assert [(child.key, child.cluster, child.manifest["kind"]) for child in found.children] == [
        ("replica-west-0", "", "ModelReplica")
    ]
    assert found.assumed_ready == ("west",)
    assert [(each.kind, each.found) for each in found.looked_at] == [
        ("InferenceCluster", 1),
        ("ModelReplica", 0),
        ("DeviceQuota", 0),
    ]


def test_a_new_replica_shows_what_is_made_on_its_cluster():
    found = rendered(REPLICA, required=FLEET)
    assert {child.cluster for child in found.children} == {"west"}
    assert {child.manifest["kind"] for child in found.children} >= {"Deployment", "ResourceClaimTemplate"}
    assert found.ready is False


def test_a_replica_whose_children_serve_is_ready():
    children = []
    for child in rendered(REPLICA, required=FLEET).children:
        status = {"status": {"availableReplicas": 1}} if child.manifest["kind"] == "Deployment" else {}
        children.append({**child.manifest, **status})
    assert render(objects(REPLICA), tuple(children), objects(FLEET))[0].ready is True


def test_a_replica_that_exists_keeps_its_name():
    found = rendered(DEPLOYMENT, observed=REPLICA, required=FLEET)
    assert [child.manifest["metadata"]["name"] for child in found.children] == ["qwen-3f2a1"]
    assert (found.kept, found.deleted) == ((), ())


def test_children_of_the_owner_are_found_among_what_is_required():
    dump = joined(FLEET, REPLICA)
    found = rendered(DEPLOYMENT.replace("replicas: 1", "replicas: 0"), required=dump)
    assert found.deleted == ("replica-west-0",)
    other = rendered(DEPLOYMENT.replace("  name: qwen", "  name: other", 1), required=dump)
    assert [child.manifest["metadata"]["name"] for child in other.children] != ["qwen-3f2a1"]
    assert other.deleted == ()


def test_the_endpoint_of_a_replica_is_no_child_of_its_deployment():
    endpoint = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata:
  name: qwen-3f2a1
  namespace: ml-team
  annotations: {modelplane.ai/child: endpoint}
  labels: {modelplane.ai/deployment: qwen, modelplane.ai/cluster: west, modelplane.ai/replica-index: "0"}
spec: {url: "http://192.0.2.1/v1"}
"""
    found = rendered(DEPLOYMENT, required=joined(FLEET, REPLICA, endpoint))
    assert [child.key for child in found.children] == ["replica-west-0"]
    assert (found.kept, found.deleted) == ((), ())


def test_a_replica_too_many_is_deleted():
    found = rendered(DEPLOYMENT.replace("replicas: 1", "replicas: 0"), observed=REPLICA, required=FLEET)
    assert (found.children, found.kept, found.deleted) == ((), (), ("replica-west-0",))


def test_what_was_printed_is_what_observed_takes():
    first, owner = render(objects(DEPLOYMENT), (), objects(FLEET))
    printed = "".join(format_documents(first, owner))
    children = [item for item in yaml.safe_load_all(printed) if item and item["kind"] == "ModelReplica"]
    again, _ = render(objects(DEPLOYMENT), tuple(children), objects(FLEET))
    assert [child.key for child in again.children] == [child.key for child in first.children]
    assert [child.manifest["metadata"]["name"] for child in again.children] == [
        child["metadata"]["name"] for child in children
    ]


def test_the_documents_are_the_children_and_the_owner_with_its_status():
    documents = list(format_documents(*render(objects(DEPLOYMENT), (), objects(FLEET))))
    assert documents[0] == (
        '# ModelDeployment "ml-team/qwen": 1 child\n# assumed ready (no status in the manifest): west\n# '
        "looked at: InferenceCluster (1 found), ModelReplica (0 found), DeviceQuota (0 found)\n"
    )
    assert documents[1].startswith("---\n# replica-west-0, on the control plane\napiVersion:")
    owner = yaml.safe_load(documents[2])
    assert [condition["type"] for condition in owner["status"]["conditions"]][-1] == "Ready"


GATEWAY = f"""\
apiVersion: {API}
kind: InferenceGateway
metadata: {{name: default}}
spec: {{backend: Envoy}}
"""
SERVICE = f"""\
apiVersion: {API}
kind: ModelService
metadata: {{name: qwen, namespace: ml-team}}
spec: {{endpoints: [{{selector: {{matchLabels: {{app: qwen}}}}}}]}}
"""
ENDPOINT = f"""\
apiVersion: {API}
kind: ModelEndpoint
metadata: {{name: outside, namespace: ml-team, labels: {{app: qwen}}}}
spec: {{url: "https://api.example.com/v1"}}
"""
SERVED_BY_ANOTHER = GATEWAY.replace("Envoy", "GatewayAPI")


def test_the_gateway_is_where_it_is_said_to_be():
    assert rendered(GATEWAY).status.get("address") is None
    assert rendered(GATEWAY, gateway_address="192.0.2.1:80").status["address"] == "192.0.2.1:80"
    assert rendered(SERVED_BY_ANOTHER, gateway_address="192.0.2.1:80").status["backend"] == "GatewayAPI"


@pytest.mark.parametrize(
    ("gateway", "found"),
    [
        pytest.param("", 0, id="no file has the gateway"),
        pytest.param(GATEWAY, 1, id="the gateway has no status"),
        pytest.param(
            f"{GATEWAY}status: {{address: 198.51.100.7, backend: Envoy}}\n", 1, id="the gateway has another"
        ),
    ],
)
def test_a_service_is_at_the_address_that_is_given(gateway, found):
    required = joined(*filter(None, (ENDPOINT, gateway)))
    service = rendered(SERVICE, required=required, gateway_address="192.0.2.1:80")
    assert (service.ready, service.status["address"]) == (True, "http://192.0.2.1:80/ml-team/qwen")
    assert [each.found for each in service.looked_at if each.kind == "InferenceGateway"] == [found]


@pytest.mark.parametrize(
    ("owner", "kinds"),
    [(SERVICE, ["HTTPRoute"]), (ENDPOINT, ["Service", "EndpointSlice", "BackendTLSPolicy"])],
    ids=["service", "endpoint"],
)
def test_what_a_gateway_api_is_told_is_shown(owner, kinds):
    required = joined(ENDPOINT, SERVED_BY_ANOTHER) if owner is SERVICE else SERVED_BY_ANOTHER
    found = rendered(owner, required=required, gateway_address="192.0.2.1:80")
    assert [child.manifest["kind"] for child in found.children] == kinds
    assert found.routes == ()


OWN_ENDPOINT = f"""\
apiVersion: {API}
kind: ModelEndpoint
metadata: {{name: qwen-1, namespace: ml-team, labels: {{app: qwen}}}}
spec: {{url: "http://192.0.2.7:8081", rewritePath: /ml-team/qwen-1/}}
"""
VERSIONED = ENDPOINT.replace('/v1"', '", rewritePath: /openai/v1')


def test_what_envoy_is_told_is_shown():
    required = joined(GATEWAY, OWN_ENDPOINT, VERSIONED)
    found, owner = render(objects(SERVICE), (), objects(required), "192.0.2.1:80")
    assert found.children == ()
    assert found.routes == (
        GatewayRoute(
            prefix="/ml-team/qwen/",
            backends=(
                RoutedBackend(
                    endpoint="ml-team/outside",
                    host="api.example.com",
                    port=443,
                    weight=1,
                    prefix="/openai/v1/",
                    overlap="v1",
                    tls=True,
                    host_header="api.example.com",
                ),
                RoutedBackend(
                    endpoint="ml-team/qwen-1",
                    host="192.0.2.7",
                    port=8081,
                    weight=1,
                    prefix="/ml-team/qwen-1/",
                    overlap="",
                    tls=False,
                    host_header="192.0.2.7:8081",
                ),
            ),
            unavailable="",
        ),
    )
    assert next(format_documents(found, owner)) == (
        '# ModelService "ml-team/qwen": 0 children\n'
        '# looked at: InferenceGateway "default" (1 found), ModelEndpoint (2 found), '
        'ModelDeployment (0 found), Secret "modelplane-gateway-keys" (0 found), ModelReplica (0 found)\n'
        "# told to the gateway (Envoy): /ml-team/qwen/ to 2 endpoints\n"
        "#   ml-team/outside: weight 1, https://api.example.com:443/openai/v1/, v1 not repeated, "
        "Host api.example.com\n"
        "#   ml-team/qwen-1: weight 1, http://192.0.2.7:8081/ml-team/qwen-1/, Host 192.0.2.7:8081\n"
    )


@pytest.mark.parametrize(
    ("required", "told"),
    [
        pytest.param(
            ENDPOINT,
            "# told to the gateway (Envoy): /ml-team/qwen/ to 1 endpoint\n"
            "#   ml-team/outside: weight 1, https://api.example.com:443, path unchanged, "
            "Host api.example.com\n",
            id="an endpoint that wants the path as it is",
        ),
        pytest.param(
            "",
            "# told to the gateway (Envoy): /ml-team/qwen/ answers 503: cannot serve ModelService "
            '"ml-team/qwen": no ready ModelEndpoint in namespace "ml-team" has the selected labels: '
            "run kubectl get modeldeployments,modelendpoints -n ml-team\n",
            id="no endpoint",
        ),
    ],
)
def test_a_route_is_shown_as_text_before_there_is_a_gateway(required, told):
    heading = next(format_documents(*render(objects(SERVICE), (), objects(required) if required else ())))
    assert "".join(heading.splitlines(keepends=True)[2:]) == told


def test_a_route_shows_no_secret():
    key = base64.b64encode(b"api.example.com").decode()
    secret = (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: ml-team}}\ndata: {{key: {key}}}\n"
    )
    found, owner = render(objects(SERVICE), (), objects(joined(ENDPOINT, secret)))
    assert [each.host for each in found.routes[0].backends] == ["(hidden)"]
    assert "api.example.com" not in "".join(format_documents(found, owner))


CACHE = f"""\
apiVersion: {API}
kind: ModelCache
metadata: {{name: weights, namespace: ml-team}}
spec:
  source: HuggingFace
  huggingFace: {{repo: Qwen/Qwen3-8B, sizeGiB: 20, authSecret: {{name: hub, key: token}}}}
"""
TOKEN = """\
apiVersion: v1
kind: Secret
metadata: {name: hub, namespace: ml-team}
stringData: {token: swordfish}
"""
WITH_STORAGE = FLEET.replace("existing: {", "existing: {cache: {storageClassName: nfs}, ")


def test_a_cache_shows_what_is_made_on_each_cluster_that_it_covers():
    found = rendered(CACHE, required=joined(WITH_STORAGE, TOKEN))
    assert [(child.key, child.cluster, child.manifest["kind"]) for child in found.children] == [
        ("pvc-west", "west", "PersistentVolumeClaim"),
        ("auth-west", "west", "Secret"),
        ("hydrate-west", "west", "Job"),
    ]
    assert found.status["clusters"] == [
        {"name": "west", "phase": "Pending", "message": "the volume is being created"}
    ]
    assert [(each.kind, each.cluster) for each in found.looked_at if each.cluster] == [
        ("Pod", "west"),
        ("PersistentVolumeClaim", "west"),
        ("Job", "west"),
        ("Namespace", "west"),
    ]
    assert "swordfish" not in str(found)


def test_a_cache_whose_cluster_has_no_storage_shows_none():
    found = rendered(CACHE, required=joined(FLEET, TOKEN))
    assert (found.children, found.status["clusters"]) == ((), [])


def test_what_a_cache_has_made_is_taken_as_it_is_observed():
    made = rendered(CACHE, required=joined(WITH_STORAGE, TOKEN)).children
    [volume, *_] = (child.manifest for child in made)
    bound = {**volume, "status": {"phase": "Bound"}}
    found, _ = render(objects(CACHE), (bound,), objects(joined(WITH_STORAGE, TOKEN)))
    assert found.status["clusters"][0]["message"] == "downloading Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("owner", "observed", "message"),
    [
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
            "",
            'OWNER contains only Pod "x": name a file with one of the kinds AKSCluster, DeviceQuota, '
            "EKSCluster, GKECluster, InferenceAutoscaler, InferenceClass, InferenceCluster, "
            "InferenceGateway, ModelCache, ModelDeployment, ModelEndpoint, ModelKey, ModelReplica, "
            "ModelService, NebiusCluster, ServingStack and VultrCluster",
            id="none that is composed",
        ),
        pytest.param(
            FLEET,
            "",
            'OWNER contains 2 objects that Modelplane composes, InferenceClass "l4" and InferenceCluster '
            '"west": put one in its own file, and pass the others with --required',
            id="two that are composed",
        ),
        pytest.param(
            DEPLOYMENT,
            REPLICA.replace("{modelplane.ai/child: replica-west-0}", "{}"),
            'observed object ModelReplica "qwen-3f2a1" has no annotation modelplane.ai/child: add the '
            "annotation with the child's key, or pass the object with --required",
            id="a child without its key",
        ),
        pytest.param(
            DEPLOYMENT,
            joined(REPLICA, REPLICA.replace("3f2a1", "3f2a2")),
            'ModelReplica "qwen-3f2a2" and another observed object have the same key replica-west-0: '
            "remove one of them",
            id="two children of one key",
        ),
    ],
)
def test_what_cannot_be_rendered_is_told(owner, observed, message):
    with pytest.raises(UserError) as error:
        rendered(owner, observed=observed, required=FLEET)
    assert str(error.value) == message


def test_an_owner_that_is_being_deleted_is_not_composed():
    owner = DEPLOYMENT.replace(
        "  name: qwen\n", "  name: qwen\n  deletionTimestamp: 2026-01-01T00:00:00Z\n", 1
    )
    with pytest.raises(UserError, match=r'^ModelDeployment "qwen" is being deleted, so the controllers'):
        rendered(owner, required=FLEET)


def test_crossplanes_key_is_read_too():
    observed = REPLICA.replace("modelplane.ai/child", "crossplane.io/composition-resource-name")
    found = rendered(DEPLOYMENT, observed=observed, required=FLEET)
    assert [child.manifest["metadata"]["name"] for child in found.children] == ["qwen-3f2a1"]


def test_no_secret_is_printed():
    secret = """\
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: ml-team}
stringData: {token: swordfish}
"""
    leaky = DEPLOYMENT.replace("v0.23.0", "v0.23.0\n                  args: [--token, swordfish]")
    found, owner = render(objects(leaky), (), objects(joined(FLEET, secret)))
    assert "swordfish" not in str(found) + "".join(format_documents(found, owner))


@pytest.mark.parametrize("kind", sorted({*COMPOSERS} & {"InferenceClass", "InferenceCluster"}))
def test_a_kind_of_the_fleet_is_rendered(kind):
    [owner] = [item for item in objects(FLEET) if item["kind"] == kind]
    found, _ = render((owner,), (), objects(FLEET))
    assert found.owner.kind == kind
