import pytest
import yaml
from click.testing import CliRunner

from modelplane.cli.main import main
from support.manifests import CLASS, DEPLOYMENT, cluster, joined
from support.output_schemas import parsed


@pytest.fixture
def files(tmp_path):
    (tmp_path / "owner.yaml").write_text(DEPLOYMENT)
    (tmp_path / "fleet.yaml").write_text(joined(CLASS, cluster("west")))
    return tmp_path


def render(files, *options):
    arguments = ["render", str(files / "owner.yaml"), "--required", str(files / "fleet.yaml"), *options]
    return CliRunner().invoke(main, arguments)


def test_the_children_and_the_owner_are_printed_as_yaml(files):
    result = render(files)
    assert result.exit_code == 0
    documents = [document for document in yaml.safe_load_all(result.output) if document]
    assert [document["kind"] for document in documents] == ["ModelReplica", "ModelDeployment"]


def test_the_json_document_is_as_its_schema_says(files):
    document = parsed("render", render(files, "-o", "json").output)
    assert (document["kind"], [child["key"] for child in document["children"]]) == (
        "Rendering",
        ["replica-west-0"],
    )


def test_a_file_that_is_wrong_is_told_as_validate_tells_it(files):
    (files / "owner.yaml").write_text(DEPLOYMENT.replace("replicas: 1", "replicas: x"))
    result = render(files)
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f'{files}/owner.yaml:7:13: error: ModelDeployment "ml-team/qwen": spec.replicas'
    )
    assert result.stdout == ""


def test_what_cannot_be_rendered_is_one_sentence(files):
    (files / "owner.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    result = render(files)
    assert (result.exit_code, result.output) == (
        1,
        (
            'Error: OWNER contains only Pod "x": name a file with one of the kinds AKSCluster, DeviceQuota, '
            "EKSCluster, GKECluster, InferenceAutoscaler, InferenceClass, InferenceCluster, "
            "InferenceGateway, ModelCache, ModelDeployment, ModelEndpoint, ModelKey, ModelReplica, "
            "ModelService, NebiusCluster, ServingStack and VultrCluster\n"
        ),
    )


GATEWAY = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {backend: Envoy}
"""


def test_the_address_of_the_gateway_can_be_given(files):
    (files / "owner.yaml").write_text(GATEWAY)
    result = render(files, "--gateway-address", "192.0.2.1:80", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert parsed("render", result.stdout)["status"]["address"] == "192.0.2.1:80"
