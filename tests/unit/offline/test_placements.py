"""Plans and explanations as documents, and as rows for people."""

import pytest

from modelplane.offline.plan import placement_tables, placements
from modelplane.offline.plan.fleet_of_files import assemble, place
from modelplane.offline.plan.pool_reports import Amount, Pool
from modelplane.scheduler.existing.retention import STILL_FITS
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded


def replica_rows(deployment):
    return placement_tables.REPLICAS.tabulate("", placement_tables.list_places([deployment])).rows


def where_rows(replicas):
    return placement_tables.WHERE.tabulate("", placement_tables.list_replica_places(replicas)).rows


def files(replicas, *documents, nodes=1):
    deployment = DEPLOYMENT.replace("replicas: 1", f"replicas: {replicas}")
    return assemble(loaded(joined(CLASS, cluster("west", nodes=nodes), deployment, *documents)).objects)


def planned(replicas):
    fleet = files(replicas)
    return placements.plan(fleet, fleet.deployments)


def running(fleet):
    """Return a fleet in which the first deployment's replicas exist."""
    return place(fleet, fleet.deployments[0]).files


def test_a_plan_says_where_each_replica_goes_and_what_is_left():
    plan = planned(1)
    [deployment] = plan.deployments
    assert (plan.placed, deployment.wanted, deployment.placed, deployment.diagnosis) == (True, 1, 1, "")
    assert list(replica_rows(deployment)) == [("ml-team/qwen", "1 new", "west", "qwen", "pool", "1", "1 gpu")]
    assert plan.pools == (
        Pool(
            cluster="west",
            pool="pool",
            accounting="Nodes",
            nodes=1,
            amounts=(Amount(name="nodes", total=1, usable=1, taken=1, free=0),),
            provisioned=True,
        ),
    )
    assert placement_tables.CAPACITY.tabulate("", placement_tables.list_amounts(plan.pools)).rows == (
        ("west", "pool", "nodes", "1", "1", "0"),
    )


def test_what_does_not_fit_is_refused_by_name_with_the_values_and_the_remedy():
    plan = planned(3)
    [deployment] = plan.deployments
    [refusal] = deployment.refusals
    assert (plan.placed, deployment.placed) == (False, 1)
    assert (refusal.cluster, refusal.pool, refusal.engine, refusal.rule) == (
        "west",
        "pool",
        "qwen",
        "NoFreeNodes",
    )
    assert refusal.detail == "pool pool has 0 of 1 nodes free, 1 needed"
    assert deployment.diagnosis == (
        "1 of 3 replicas placed; 1 cluster: 1 without enough free nodes "
        "(west: pool pool has 0 of 1 nodes free, 1 needed); "
        'to place one more, add 1 node to pool pool of InferenceCluster "west"'
    )
    [remedy] = deployment.remedies
    assert remedy.change == 'add 1 node to pool pool of InferenceCluster "west"'
    [row] = placement_tables.REFUSALS.tabulate("", deployment.refusals).rows
    assert row[:3] == ("west", "pool", "qwen")
    assert [row[0] for row in placement_tables.REMEDIES.tabulate("", deployment.remedies).rows] == [
        remedy.change
    ]


def test_an_explanation_says_why_a_replica_is_where_it_is():
    fleet = files(1)
    explanation = placements.explain(running(fleet), fleet.deployments[0])
    [row] = placement_tables.WHERE.tabulate(
        "", placement_tables.list_replica_places(explanation.deployment.replicas)
    ).rows
    assert (row[0].endswith(" stays"), row[-1]) == (True, STILL_FITS)
    assert placement_tables.describe_placed([explanation.deployment]) == "1 of 1 replicas placed"


def test_an_explanation_leaves_the_fleet_as_it_is():
    fleet = files(1)
    first, again = (placements.explain(fleet, fleet.deployments[0]) for _ in range(2))
    assert first == again
    assert [replica.state for replica in again.deployment.replicas] == ["new"]


def test_a_replica_outside_the_cluster_selector_stays_and_says_that_this_is_not_checked():
    fleet = running(files(1))
    narrowed = DEPLOYMENT.replace("  engines:", "  clusterSelector: {matchLabels: {tier: gold}}\n  engines:")
    fleet = assemble((*fleet.store, *loaded(narrowed).objects))
    [replica] = placements.explain(fleet, fleet.deployments[0]).deployment.replicas
    assert (replica.state, replica.reason) == (
        "stays",
        "kept: still fits (clusterSelector and readiness are checked for new replicas only)",
    )


UNREADY = """\
status:
  gpuPools: []
  conditions:
    - {type: Ready, status: "False", reason: R, message: broken, lastTransitionTime: "2026-01-01T00:00:00Z"}
"""


def test_a_replica_whose_pool_an_unready_cluster_does_not_publish_stays_and_says_so():
    fleet = running(files(1))
    fleet = assemble((*fleet.store, *loaded(cluster("west", extra=UNREADY)).objects))
    [replica] = placements.explain(fleet, fleet.deployments[0]).deployment.replicas
    assert (replica.state, replica.reason) == (
        "stays",
        'already placed; pool pool of InferenceCluster "west" is unknown until the cluster is ready',
    )


def test_an_edit_of_its_engines_does_not_reach_a_replica_whose_pool_is_unknown():
    fleet = running(files(1))
    _, _, engines = DEPLOYMENT.partition("    - name: qwen")
    another = f"    - name: other{engines}"
    edited = loaded(f"{DEPLOYMENT}{another}").objects
    fleet = assemble((*fleet.store, *loaded(cluster("west", extra=UNREADY)).objects, *edited))
    done = place(fleet, fleet.deployments[0])
    [replica] = [each for each in done.files.store if each["kind"] == "ModelReplica"]
    assert [each["name"] for each in replica["spec"]["engines"]] == ["qwen"]


def test_replicas_that_are_removed_say_where_they_were_and_why():
    fleet = running(files(2, nodes=2))
    smaller = loaded(DEPLOYMENT.replace("replicas: 1", "replicas: 0")).objects
    fleet = assemble((*fleet.store, *smaller))
    removed = placements.explain(fleet, fleet.deployments[0]).deployment.replicas
    assert sorted((each.state, each.cluster, each.index, each.reason) for each in removed) == [
        ("goes", "west", 0, "scaled down"),
        ("goes", "west", 1, "scaled down"),
    ]
    assert {row[1:] for row in where_rows(removed)} == {("west", "-", "-", "-", "-", "scaled down")}


def test_new_replicas_that_are_alike_are_one_row():
    fleet = files(3, cluster("east", nodes=1), nodes=2)
    [deployment] = placements.plan(fleet, fleet.deployments).deployments
    assert [row[1:3] for row in replica_rows(deployment)] == [
        ("1 new", "east"),
        ("2 new", "west"),
    ]
    assert placement_tables.describe_placed([deployment]) == "3 of 3 replicas placed"


def test_the_pods_of_a_gang_are_told_by_their_role():
    leader = "        - role: Leader\n          nodeSelector:"
    worker = DEPLOYMENT.partition("      members:\n")[2].replace(
        "- nodeSelector", "- role: Worker\n          worker: {nodes: 3}\n          nodeSelector"
    )
    gang = DEPLOYMENT.replace("        - nodeSelector:", leader) + worker
    fleet = assemble(loaded(joined(CLASS, cluster("west", nodes=4), gang)).objects)
    [deployment] = placements.plan(fleet, fleet.deployments).deployments
    assert [row[-2:] for row in replica_rows(deployment)] == [
        ("1 Leader", "1 gpu"),
        ("3 Worker", "1 gpu"),
    ]


def test_a_cache_that_no_file_has_is_told():
    deployment = DEPLOYMENT.replace("  engines:", "  modelCacheRef: {name: weights}\n  engines:")
    fleet = assemble(loaded(joined(CLASS, cluster("west"), deployment)).objects)
    [told] = placements.plan(fleet, fleet.deployments).deployments
    assert told.diagnosis.endswith(
        '; no file contains ModelCache "weights": also pass the file that contains it, or '
        "correct modelCacheRef"
    )


def test_a_cache_that_a_server_does_not_have_is_to_be_created():
    deployment = DEPLOYMENT.replace("  engines:", "  modelCacheRef: {name: weights}\n  engines:")
    fleet = assemble(loaded(joined(CLASS, cluster("west"), deployment)).objects, live=True)
    told = placements.explain(fleet, fleet.deployments[0]).deployment
    assert told.diagnosis.endswith('; there is no ModelCache "weights": create it, or correct modelCacheRef')


def test_a_cluster_that_a_server_has_without_a_status_is_not_taken_to_be_ready():
    fleet = assemble(loaded(joined(CLASS, cluster("west"), DEPLOYMENT)).objects, live=True)
    explanation = placements.explain(fleet, fleet.deployments[0])
    assert (explanation.placed, explanation.assumed_ready) == (False, ())
    assert [each.detail for each in explanation.deployment.refusals] == ["not ready yet"]


UID = "6f3c9a52-0d5f-4d0a-9a53-2c1f0a9b7e11"


def stored(manifest: str, uid: str = UID):
    """Return an object as a server has it."""
    [item] = loaded(manifest).objects
    return {**item, "metadata": {**item["metadata"], "uid": uid, "resourceVersion": "7"}}


def test_an_edit_of_a_stored_deployment_is_planned_with_its_replicas_and_its_status():
    running_here = running(files(1, nodes=3))
    there = [
        {**item, "metadata": {**item["metadata"], "uid": UID}, "status": {"conditions": []}}
        if item["kind"] == "ModelDeployment"
        else item
        for item in running_here.store
    ]
    for item in there:
        for owner in item["metadata"].get("ownerReferences", ()):
            owner["uid"] = UID
    edited = loaded(DEPLOYMENT.replace("replicas: 1", "replicas: 2")).objects
    fleet = assemble(there, edited, live=True)
    [deployment] = fleet.deployments
    assert (deployment["metadata"]["uid"], deployment["status"]) == (UID, {"conditions": []})
    [told] = placements.plan(fleet, fleet.deployments).deployments
    assert [row[1] for row in replica_rows(told)] == ["qwen-2696a stays", "1 new"]


def test_a_cluster_that_is_written_over_a_live_fleet_is_taken_to_be_ready_with_what_it_declares():
    there = [*loaded(CLASS).objects, stored(cluster("west"))]
    larger = loaded(joined(cluster("west", nodes=5), cluster("east"), DEPLOYMENT)).objects
    fleet = assemble([*there, stored(cluster("north"), "north")], larger, live=True)
    assert sorted(fleet.assumed) == ["east", "west"]
    pools = placements.plan(fleet, fleet.deployments).pools
    assert sorted((each.cluster, each.nodes) for each in pools) == [("east", 2), ("west", 5)]


IN_A_CLOUD = cluster("west").replace(
    "{source: Existing, existing: {secretRef: {name: kubeconfig}}}",
    "{source: AKS, aks: {location: westeurope}}",
)
CAPABILITIES = "capabilities: {dra: true, leaderWorkerSet: false, inferencePool: false}"
POOLS = "gpuPools: [{name: pool, nodes: 2, accounting: Nodes, devices: []}]"


@pytest.mark.parametrize(
    ("live", "status", "provisioned"),
    [
        pytest.param(False, "", False, id="a file without a status"),
        pytest.param(True, f"status: {{{POOLS}}}\n", False, id="its API server was never read"),
        pytest.param(True, f"status: {{{POOLS}, {CAPABILITIES}}}\n", True, id="it was read"),
    ],
)
def test_a_pool_that_a_cloud_has_yet_to_create_says_so(live, status, provisioned):
    fleet = assemble(loaded(joined(CLASS, IN_A_CLOUD + status, DEPLOYMENT)).objects, live=live)
    assert {each.provisioned for each in placements.explain(fleet, fleet.deployments[0]).pools} == {
        provisioned
    }


def test_a_cluster_whose_class_no_file_has_is_not_taken_to_be_ready():
    fleet = assemble(loaded(joined(cluster("west"), DEPLOYMENT)).objects)
    plan = placements.plan(fleet, fleet.deployments)
    [refusal] = plan.deployments[0].refusals
    assert (refusal.rule, refusal.remedy, plan.assumed_ready) == (
        "NotReady",
        "also pass the files of the InferenceClasses",
        (),
    )


ROUND_CLASS = CLASS.replace("23034Mi", "80Gi").replace(
    "count: 1\n", "count: 1\n      attributes: {architecture: {string: Hopper}}\n"
)
LOST = (
    'pool pool of InferenceCluster "west": device "gpu" declares 80Gi of memory, but NVIDIA H100 80GB HBM3 '
    "publishes 81559Mi, so pods that ask for more remain Pending: declare 81559Mi"
)


def asking(size):
    memory = f"""device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{size}")) >= 0"""
    return DEPLOYMENT.replace('device.driver == "gpu.nvidia.com"', f"'{memory}'")


def test_a_replica_that_only_its_class_matches_is_placed_and_told():
    fleet = assemble(loaded(joined(ROUND_CLASS, cluster("west"), asking("80Gi"))).objects)
    explained = placements.explain(fleet, fleet.deployments[0])
    assert (explained.placed, explained.deployment.diagnosis) == (True, LOST)
    assert explained.deployment.notes == (LOST,)


def test_a_replica_that_the_card_matches_too_is_not():
    fleet = assemble(loaded(joined(ROUND_CLASS, cluster("west"), asking("79Gi"))).objects)
    assert placements.explain(fleet, fleet.deployments[0]).deployment.diagnosis == ""
