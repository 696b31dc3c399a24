import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from support.manifests import CLASS, DEPLOYMENT, cluster, joined
from support.output_schemas import parsed

LONG = "west-with-a-name-that-takes-a-lot-of-room-and-is-not-cut"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "md.yaml").write_text(DEPLOYMENT)
    (tmp_path / "fleet.yaml").write_text(joined(CLASS, cluster(LONG)))
    return tmp_path


def plan(files, *options):
    return CliRunner().invoke(
        main, ["plan", str(files / "md.yaml"), "--fleet", str(files / "fleet.yaml"), *options]
    )


def test_a_plan_that_works_out_is_status_0(files):
    result = plan(files)
    assert result.exit_code == 0
    assert [" ".join(line.split()) for line in result.output.splitlines()] == [
        "DEPLOYMENT REPLICA CLUSTER ENGINE POOL PODS DEVICES PER POD",
        f"ml-team/qwen new {LONG} qwen pool 1 1 gpu",
        "",
        "What is left:",
        "CLUSTER POOL COUNTED TOTAL TAKEN FREE",
        f"{LONG} pool nodes 2 1 1",
        "",
        f"Taken to be ready, because their files have no status: {LONG}",
    ]


def test_a_plan_that_does_not_is_status_2_and_says_what_refused(files):
    (files / "md.yaml").write_text(DEPLOYMENT.replace("replicas: 1", "replicas: 3"))
    result = plan(files)
    assert result.exit_code == 2
    assert 'ModelDeployment "ml-team/qwen": 2 of 3 replicas placed; 1 cluster: ' in result.output
    assert "REFUSED" in result.output


@pytest.mark.parametrize(("replicas", "status"), [(1, 0), (3, 2)])
def test_the_json_document_is_as_its_schema_says(files, replicas, status):
    (files / "md.yaml").write_text(DEPLOYMENT.replace("replicas: 1", f"replicas: {replicas}"))
    result = plan(files, "-o", "json")
    document = parsed("plan", result.output)
    assert (result.exit_code, document["kind"], document["placed"]) == (status, "Plan", status == 0)


def test_an_invalid_file_is_status_1(files):
    (files / "fleet.yaml").write_text("a: [")
    assert plan(files).exit_code == 1


def test_nothing_to_place_is_told(files):
    (files / "md.yaml").write_text(CLASS)
    result = plan(files)
    assert (result.exit_code, result.output) == (
        1,
        "Error: PATH holds no ModelDeployment, so there is nothing to place: name a file that does\n",
    )
