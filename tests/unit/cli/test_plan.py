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


def test_a_plan_without_a_fleet_names_the_options_for_one(files):
    hint = "These files contain no InferenceCluster: add --fleet PATH or --live\n"
    alone = CliRunner().invoke(main, ["plan", str(files / "md.yaml")])
    assert (alone.exit_code, alone.stderr) == (2, hint)
    (files / "fleet.yaml").write_text(joined(CLASS, cluster(LONG, nodes=0)))
    assert (plan(files).exit_code, plan(files).stderr) == (2, "")


def test_a_plan_that_works_out_is_status_0(files):
    result = plan(files)
    assert result.exit_code == 0
    assert [" ".join(line.split()) for line in result.output.splitlines()] == [
        "1 of 1 replicas placed",
        "",
        "Replicas:",
        "DEPLOYMENT REPLICA CLUSTER ENGINE POOL PODS DEVICES/POD",
        f"ml-team/qwen 1 new {LONG} qwen pool 1 1 gpu",
        "",
        "Remaining capacity:",
        "CLUSTER POOL UNIT TOTAL USED FREE",
        f"{LONG} pool nodes 2 1 1",
        "",
        f"Assumed ready (no status in the manifest): {LONG}",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--live",), "omit --live or --fleet"),
        (("--context", "east"), "add --live"),
    ],
)
def test_a_fleet_of_files_and_a_live_one_are_not_mixed(files, options, said):
    result = plan(files, *options)
    assert result.exit_code == 2
    assert said in result.output


def test_a_plan_says_which_pools_a_cloud_has_yet_to_create(files):
    in_a_cloud = cluster("west").replace(
        "{source: Existing, existing: {secretRef: {name: kubeconfig}}}",
        "{source: AKS, aks: {location: westeurope}}",
    )
    (files / "fleet.yaml").write_text(joined(CLASS, in_a_cloud))
    assert "\nNot provisioned yet: west/pool\n" in plan(files).output


def test_a_plan_that_does_not_is_status_2_and_says_what_refused(files):
    (files / "md.yaml").write_text(DEPLOYMENT.replace("replicas: 1", "replicas: 3"))
    result = plan(files)
    assert result.exit_code == 2
    assert 'ModelDeployment "ml-team/qwen": 2 of 3 replicas placed; 1 cluster: ' in result.output
    assert "REASON" in result.output


@pytest.fixture
def large(files):
    (files / "fleet.yaml").write_text(joined(CLASS, *(cluster(f"c{number:02}") for number in range(25))))
    return files


def section(output, title):
    lines = [
        " ".join(line.split()) for line in output.split(f"{title}\n")[1].partition("\n\n")[0].splitlines()
    ]
    return lines[1:]


def test_of_a_large_fleet_the_pools_that_are_used_are_told_and_the_others_counted(large):
    assert section(plan(large).output, "Remaining capacity:") == [
        "c00 pool nodes 2 1 1",
        "and 24 more pools without these replicas: --all shows them",
    ]
    assert section(plan(large, "--all").output, "Remaining capacity:") == [
        "c00 pool nodes 2 1 1",
        *(f"c{number:02} pool nodes 2 0 2" for number in range(1, 25)),
    ]


def test_of_many_refusals_those_are_told_that_came_closest(large):
    text = DEPLOYMENT.replace("  engines:", "  clusterSelector: {matchLabels: {region: east}}\n  engines:")
    fleet = (large / "fleet.yaml").read_text()
    (large / "fleet.yaml").write_text(fleet.replace("{name: c24}", "{name: c24, labels: {region: east}}"))
    (large / "md.yaml").write_text(text.replace("gpu.nvidia.com", "gpu.amd.com"))
    told = plan(large).output.split("REMEDY\n")[1].splitlines()
    assert [line.split()[0] for line in told[:20]] == ["c24", *(f"c{number:02}" for number in range(19))]
    assert told[20:23] == [
        "and 5 more: --all shows them",
        "",
        "Remaining capacity: 25 pools without these replicas: --all shows them",
    ]
    assert plan(large, "--all").output.count("outside the clusterSelector  ") == 24


@pytest.mark.parametrize(("replicas", "status"), [(1, 0), (3, 2)])
def test_the_json_document_is_as_its_schema_says(files, replicas, status):
    (files / "md.yaml").write_text(DEPLOYMENT.replace("replicas: 1", f"replicas: {replicas}"))
    result = plan(files, "-o", "json")
    document = parsed("plan", result.output)
    assert (result.exit_code, document["kind"], document["placed"]) == (status, "Plan", status == 0)


def test_an_invalid_file_is_status_1(files):
    (files / "fleet.yaml").write_text("a: [")
    assert plan(files).exit_code == 1


def test_a_deployment_that_is_there_twice_is_status_1(files):
    (files / "md.yaml").write_text(joined(DEPLOYMENT, DEPLOYMENT))
    result = plan(files)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "metadata.name: the same object is already at " in result.stderr


def test_what_is_in_path_takes_the_place_of_what_is_in_the_fleet(files):
    (files / "fleet.yaml").write_text(
        joined(CLASS, cluster("west"), DEPLOYMENT.replace("replicas: 1", "replicas: 2"))
    )
    assert plan(files).output.startswith("1 of 1 replicas placed\n")


def test_nothing_to_place_is_told(files):
    (files / "md.yaml").write_text(CLASS)
    result = plan(files)
    assert (result.exit_code, result.output) == (
        1,
        "Error: PATH contains no ModelDeployment: name a file that contains one\n",
    )


PRICED = "  pricing: {currency: USD, devices: [{name: gpu, perHour: '2.5'}]}\n"


@pytest.fixture
def priced(files):
    """Two clusters, of which the second states a lower price than the class, and a third without prices."""
    pricing = "pricing: {currency: USD, devices: [{name: gpu, perHour: '1'}]}"
    cheaper = cluster("west").replace("className: l4", f"className: l4, {pricing}")
    unpriced = joined(CLASS.replace("name: l4", "name: old"), cluster("old", nodes=1, class_name="old"))
    (files / "fleet.yaml").write_text(joined(CLASS + PRICED, cluster("east", nodes=1), cheaper, unpriced))
    return files


def deployed(files, replicas, placement):
    text = DEPLOYMENT.replace("replicas: 1", f"replicas: {replicas}\n  placement: {placement}")
    (files / "md.yaml").write_text(text)


def test_a_plan_says_what_replicas_cost(priced):
    deployed(priced, 4, "{policy: Cheapest}")
    output = plan(priced).output
    assert section(output, "Replicas:") == [
        "ml-team/qwen 1 new east qwen pool 1 1 gpu",
        "ml-team/qwen 1 new old qwen pool 1 1 gpu",
        "ml-team/qwen 2 new west qwen pool 1 1 gpu",
    ]
    cost = 'ModelDeployment "ml-team/qwen": 4.50 USD per hour; 1 without a known price'
    assert f"\nCost:\n{cost}\n" in output
    replicas = parsed("plan", plan(priced, "-o", "json").output)["deployments"][0]["replicas"]
    assert [each["costPerHour"] for each in replicas] == ["2.50", "", "1.00", "1.00"]


def test_a_plan_says_which_limit_of_cost_keeps_replicas_away(priced):
    deployed(priced, 3, "{policy: Cheapest, maxCostPerHour: '3', currency: USD}")
    result = plan(priced)
    assert result.exit_code == 2
    assert "1 above maxCostPerHour (east: 2.50 USD per hour, but only 1.00 remain)" in result.output
    assert "raise maxCostPerHour to 4.50" in result.output


def test_an_explanation_says_what_one_more_replica_would_cost_where(priced):
    deployed(priced, 1, "{policy: Cheapest}")
    files = [str(priced / name) for name in ("fleet.yaml", "md.yaml")]
    arguments = [part for file in files for part in ("--fleet", file)]
    result = CliRunner().invoke(main, ["explain", "md/qwen", *arguments])
    assert section(result.output, "One more replica would fit on:") == [
        "west pool 1.00 0",
        "east pool 2.50 0",
        "old pool - 0",
    ]
