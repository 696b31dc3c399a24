import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from support.manifests import CLASS, DEPLOYMENT, cluster, joined
from support.output_schemas import parsed

TWO = DEPLOYMENT.replace("replicas: 1", "replicas: 2")
OTHER = DEPLOYMENT.replace("name: qwen\n  namespace", "name: other\n  namespace")


@pytest.fixture
def sides(tmp_path):
    def write(before, after, fleet=joined(CLASS, cluster("west"))):  # noqa: B008 - text
        for name, text in (("before", before), ("after", after), ("fleet", fleet)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "it.yaml").write_text(text)
        return tmp_path

    return write


def compared(folder, *options):
    arguments = [str(folder / "after"), "--compare", str(folder / "before"), "--fleet", str(folder / "fleet")]
    return CliRunner().invoke(main, ["plan", *arguments, *options])


def lines(result):
    return [" ".join(line.split()) for line in result.output.splitlines()]


def test_the_same_manifests_differ_in_nothing(sides):
    result = compared(sides(DEPLOYMENT, DEPLOYMENT))
    assert (result.exit_code, result.output) == (0, "No deployment changes\n")


def test_another_number_of_replicas_is_a_change_of_places(sides):
    result = compared(sides(DEPLOYMENT, TWO))
    assert (result.exit_code, lines(result)) == (
        0,
        [
            "1 deployment: 1 changed",
            "",
            "Deployments:",
            "DEPLOYMENT CHANGE REPLICAS PLACED COST/HOUR",
            "ml-team/qwen changed 1 -> 2 1 -> 2 -",
            "",
            "Replicas:",
            "DEPLOYMENT CLUSTER POOLS BEFORE AFTER",
            "ml-team/qwen west pool 1 2",
        ],
    )


def test_a_change_without_a_place_has_its_reason_and_status_2(sides):
    result = compared(sides(DEPLOYMENT, joined(TWO, OTHER)))
    assert result.exit_code == 2
    assert "2 deployments: 1 added, 1 changed" in result.output
    assert 'ModelDeployment "ml-team/other": 0 of 1 replicas placed' in result.output


def test_what_is_added_and_removed_is_named(sides):
    document = parsed("plan-compare", compared(sides(OTHER, DEPLOYMENT), "-o", "json").output)
    assert {each["name"]["name"]: each["change"] for each in document["changes"]} == {
        "other": "removed",
        "qwen": "added",
    }
    [added] = [each for each in document["changes"] if each["change"] == "added"]
    assert (added["before"], added["places"]) == (
        None,
        [{"cluster": "west", "pools": ["pool"], "before": 0, "after": 1}],
    )


def test_a_fleet_that_changes_is_part_of_both_sides(sides):
    fleets = [joined(DEPLOYMENT, CLASS, cluster(name)) for name in ("west", "east")]
    result = compared(sides(*fleets, fleet=CLASS))
    assert lines(result)[-2:] == ["ml-team/qwen east pool 0 1", "ml-team/qwen west pool 1 0"]


def test_the_first_deployment_is_an_addition(sides):
    result = compared(sides(CLASS, DEPLOYMENT))
    assert (result.exit_code, lines(result)[0]) == (0, "1 deployment: 1 added")
