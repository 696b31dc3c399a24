import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from support.manifests import CLASS, DEPLOYMENT, cluster, joined
from support.output_schemas import parsed


@pytest.fixture
def fleet(tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text(joined(CLASS, cluster("west"), DEPLOYMENT.replace("replicas: 1", "replicas: 3")))
    return file


def explain(fleet, *arguments):
    return CliRunner().invoke(main, ["explain", "--fleet", str(fleet), *arguments])


@pytest.mark.parametrize(
    "name",
    [
        "qwen",
        "md/qwen",
        "modeldeployment/qwen",
        "modeldeployments/qwen",
        "modeldeployments.modelplane.ai/qwen",
    ],
)
def test_a_deployment_is_named_as_for_kubectl(fleet, name):
    result = explain(fleet, name, "-n", "ml-team")
    assert result.exit_code == 2
    assert result.output.startswith('ModelDeployment "ml-team/qwen": 2 of 3 replicas placed; 1 cluster: ')
    for heading in (
        "Replicas:",
        "Clusters that don't fit:",
        "Changes that place one more replica:",
        "Remaining capacity:",
    ):
        assert f"\n{heading}\n" in result.output


def test_a_deployment_that_has_its_place_is_status_0(fleet):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT))
    result = explain(fleet, "md/qwen")
    assert result.exit_code == 0
    assert result.output.startswith('ModelDeployment "ml-team/qwen": 1 of 1 replicas placed\n')


def test_what_a_pipe_and_a_placement_do_not_need_is_not_imported(fleet):
    unneeded = ("asyncio", "rich", "lightkube", "modelplane.gateway.route_table", "modelplane.api.model_key")
    script = (
        "import sys, json\nfrom modelplane.cli.main import main\n"
        f"main(['explain', 'qwen', '--fleet', {str(fleet)!r}], standalone_mode=False)\n"
        f"print(json.dumps([name for name in {unneeded} if name in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert json.loads(output.stdout.splitlines()[-1]) == []


def test_the_json_document_is_as_its_schema_says(fleet):
    document = parsed("explain", explain(fleet, "md/qwen", "-o", "json").output)
    assert (document["kind"], document["deployment"]["placed"]) == ("Explanation", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("md/gemma",),
            'ModelDeployment "gemma" does not exist: found qwen -n ml-team',
            id="another name",
        ),
        pytest.param(
            ("md/qwen", "-n", "other"),
            'ModelDeployment "qwen" does not exist in namespace "other": found qwen -n ml-team',
            id="another namespace",
        ),
    ],
)
def test_a_deployment_that_is_not_there_is_told_with_those_that_are(fleet, arguments, message):
    result = explain(fleet, *arguments)
    assert (result.exit_code, result.output) == (1, f"Error: {message}\n")


def test_a_name_in_two_namespaces_needs_the_namespace(fleet):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT, DEPLOYMENT.replace("ml-team", "other")))
    result = explain(fleet, "md/qwen")
    assert (result.exit_code, result.output) == (
        1,
        'Error: ModelDeployment "qwen" exists in several namespaces: select one with -n: ml-team, other\n',
    )
    assert explain(fleet, "md/qwen", "-n", "other").exit_code == 0


@pytest.mark.parametrize("name", ["md/", "pod/qwen"])
def test_what_names_no_kind_of_ours_is_wrong_usage(fleet, name):
    result = explain(fleet, name)
    told = f'"{name}" doesn\'t begin with md/NAME, ms/NAME, mr/NAME'
    assert (result.exit_code, told in result.output) == (2, True)


@pytest.mark.parametrize(
    ("name", "kind", "described"),
    [
        ("mc/weights", "ModelCache", "modelcache/weights"),
        ("inferenceclusters/west", "InferenceCluster", "inferencecluster/west"),
    ],
)
def test_a_kind_that_is_not_explained_is_told_with_what_to_use_instead(fleet, name, kind, described):
    result = explain(fleet, name)
    assert (result.exit_code, result.output) == (
        1,
        (
            f"Error: explain supports md/NAME, ms/NAME, mr/NAME, not kind {kind}: to see the conditions of "
            f'"{name}", run `kubectl describe {described}`\n'
        ),
    )


SERVED = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: qwen, namespace: ml-team}
spec:
  endpoints:
    - selector: {matchLabels: {modelplane.ai/deployment: qwen}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata: {name: qwen-1, namespace: ml-team, labels: {modelplane.ai/deployment: qwen}}
spec: {url: "http://192.0.2.7:80/v1"}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata: {name: outside, namespace: ml-team}
spec: {url: "https://api.example.com/v1"}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelReplica
metadata:
  uid: "1"
  name: qwen-1
  namespace: ml-team
  labels: {modelplane.ai/deployment: qwen, modelplane.ai/cluster: west, modelplane.ai/replica-index: "0"}
spec:
  clusterName: west
  engines:
    - name: qwen
      members:
        - nodePoolName: pool
          template: {spec: {containers: [{name: engine, image: "vllm/vllm-openai:v0.23.0"}]}}
"""
GATEWAY = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {backend: Envoy}
status: {address: "192.0.2.1:80", backend: Envoy}
"""


def lines(output):
    return [" ".join(line.split()) for line in output.splitlines()]


@pytest.mark.parametrize("name", ["ms/qwen", "modelservice/qwen"])
def test_a_service_is_explained_by_its_endpoints(fleet, name):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT, GATEWAY, SERVED))
    result = explain(fleet, name)
    assert result.exit_code == 0
    told = lines(result.output)
    assert told[0] == (
        'ModelService "ml-team/qwen": ready at http://192.0.2.1:80/ml-team/qwen, with 1 endpoint'
    )
    assert told[told.index("Endpoints:") + 2 :] == [
        "qwen-1 0 100 % http://192.0.2.7:80/v1 matches modelplane.ai/deployment=qwen",
        "and 1 more: --all shows them",
    ]
    assert "no entry selects the endpoint" in explain(fleet, name, "--all").output


def test_a_service_that_is_not_ready_is_status_2(fleet):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT, SERVED))
    result = explain(fleet, "ms/qwen")
    assert result.exit_code == 2
    assert lines(result.output)[0] == (
        'ModelService "ml-team/qwen": not ready: WaitingForGateway: '
        'InferenceGateway "default" has no address yet'
    )


def test_a_replica_is_explained_by_its_place_and_its_services(fleet):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT, GATEWAY, SERVED))
    result = explain(fleet, "mr/qwen-1", "-n", "ml-team")
    assert result.exit_code == 2
    told = lines(result.output)
    assert told[0] == 'ModelReplica "ml-team/qwen-1": on west, not ready: no status yet'
    assert "qwen-1 stays west" in result.output.replace("  ", " ")
    assert told[-5:] == [
        "Services:",
        "SERVICE SHARE REASON",
        "qwen 100 % matches modelplane.ai/deployment=qwen",
        "",
        "Endpoint: http://192.0.2.7:80/v1",
    ]


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [
        ("ms/qwen", "explain-service", "ServiceExplanation"),
        ("mr/qwen-1", "explain-replica", "ReplicaExplanation"),
    ],
)
def test_each_kind_has_a_document_of_its_own(fleet, name, schema, kind):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT, GATEWAY, SERVED))
    assert parsed(schema, explain(fleet, name, "-o", "json").output)["kind"] == kind


def test_of_many_deployments_the_first_are_named_and_the_others_counted(fleet):
    fleet.write_text(joined(*(DEPLOYMENT.replace("name: qwen", f"name: qwen{n:02}") for n in range(12))))
    assert explain(fleet, "md/gemma").output.endswith("qwen09 -n ml-team and 2 more\n")
