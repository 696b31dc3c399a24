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
    for heading in ("Replicas:", "Refused by:", "To place one more, one of:", "What is left:"):
        assert f"\n{heading}\n" in result.output


def test_a_deployment_that_has_its_place_is_status_0(fleet):
    fleet.write_text(joined(CLASS, cluster("west"), DEPLOYMENT))
    result = explain(fleet, "md/qwen")
    assert result.exit_code == 0
    assert result.output.startswith('ModelDeployment "ml-team/qwen": 1 of 1 replicas placed\n')


def test_the_json_document_is_as_its_schema_says(fleet):
    document = parsed("explain", explain(fleet, "md/qwen", "-o", "json").output)
    assert (document["kind"], document["deployment"]["placed"]) == ("Explanation", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("md/gemma",),
            'the fleet has no ModelDeployment "gemma"; there are: qwen -n ml-team',
            id="another name",
        ),
        pytest.param(
            ("md/qwen", "-n", "other"),
            'the fleet has no ModelDeployment "qwen" in namespace "other"; there are: qwen -n ml-team',
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
        'Error: there is a ModelDeployment "qwen" in several namespaces: say which by -n: ml-team, other\n',
    )
    assert explain(fleet, "md/qwen", "-n", "other").exit_code == 0


@pytest.mark.parametrize("name", ["mr/qwen", "md/"])
def test_another_kind_is_wrong_usage(fleet, name):
    result = explain(fleet, name)
    assert (result.exit_code, "names no ModelDeployment: write md/NAME" in result.output) == (2, True)
