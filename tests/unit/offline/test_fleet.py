"""A fleet out of files, and deployments placed on it one after the other."""

import pytest

from modelplane.compose import device_quota
from modelplane.compose.cluster import inference_cluster
from modelplane.compose.deployment import model_deployment, scheduler_quotas
from modelplane.compose.kinds import COMPOSERS, Composer
from modelplane.offline.plan.fleet_of_files import assemble, place, take_snapshot
from modelplane.user_error import UserError
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded


def fleet(*documents):
    found = loaded(joined(*documents))
    assert found.problems == ()
    return assemble(found.objects)


def deployment(name, replicas, namespace="ml-team"):
    return (
        DEPLOYMENT.replace("  name: qwen\n", f"  name: {name}\n", 1)
        .replace("ml-team", namespace)
        .replace("replicas: 1", f"replicas: {replicas}")
    )


def placed(files, index=0):
    """Return the assignments of a deployment, and the files in which its replicas are placed."""
    result = place(files, files.deployments[index])
    return [(each.cluster, each.index, each.retained) for each in result.placement.assignments], result.files


def replicas(files):
    return [(each.name, each.cluster) for each in take_snapshot(files).replicas]


STATUS = """\
status:
  gpuPools:
    - name: pool
      nodes: 1
      devices:
        - {name: gpu, driver: gpu.nvidia.com, deviceClassName: gpu.nvidia.com, count: 1}
  gateway: {address: 192.0.2.1}
  capabilities: {dra: true, leaderWorkerSet: true, inferencePool: true}
  conditions:
    - {type: Ready, status: "%s", reason: R, message: broken, lastTransitionTime: "2026-01-01T00:00:00Z"}
"""


def test_a_cluster_without_a_status_is_ready_and_offers_what_its_classes_declare():
    files = fleet(CLASS, cluster("west", nodes=3))
    [west] = take_snapshot(files).clusters
    assert (files.assumed, west.ready, [(pool.name, pool.nodes) for pool in west.pools]) == (
        ("west",),
        True,
        [("pool", 3)],
    )
    assert [(device.name, device.capacity) for device in west.pools[0].devices] == [
        ("gpu", {"memory": "23034Mi"})
    ]


def test_a_cluster_whose_class_is_not_there_is_not_ready_and_says_why():
    [west] = take_snapshot(fleet(cluster("west"))).clusters
    assert (west.ready, "InferenceClass l4 does not exist" in west.not_ready) == (False, True)


@pytest.mark.parametrize(("ready", "placements"), [("True", [("west", 0, False)]), ("False", [])])
def test_a_status_that_a_file_has_is_believed(ready, placements):
    files = fleet(CLASS, cluster("west", nodes=5, extra=STATUS % ready), deployment("qwen", 2))
    assert files.assumed == ()
    assert placed(files)[0] == placements


def test_a_deployment_gets_the_capacity_that_the_previous_one_left():
    files = fleet(CLASS, cluster("west"), deployment("first", 1), deployment("second", 2))
    first, after_first = placed(files, 0)
    second, after_second = placed(after_first, 1)
    assert first == second == [("west", 0, False)]
    assert len(replicas(after_second)) == 2


def test_placing_leaves_the_files_as_they_are():
    files = fleet(CLASS, cluster("west"), deployment("qwen", 2))
    before = tuple(files.store)
    assert placed(files)[0] == placed(files)[0] == [("west", 0, False), ("west", 1, False)]
    assert tuple(files.store) == before


def test_deployments_come_in_the_order_of_the_files_after_those_that_a_server_knows():
    known = deployment("known", 1).replace(
        "metadata:\n", "metadata:\n  uid: '1'\n  creationTimestamp: 2026-01-01T00:00:00Z\n", 1
    )
    files = fleet(deployment("z", 1), deployment("a", 1), known)
    assert [item["metadata"]["name"] for item in files.deployments] == ["known", "z", "a"]


def test_placing_again_changes_nothing():
    files = fleet(CLASS, cluster("west"), cluster("east"), deployment("qwen", 3))
    first, after = placed(files)
    again, unchanged = placed(after)
    assert again == [(cluster_name, index, True) for cluster_name, index, _ in first]
    assert replicas(unchanged) == replicas(after)


def test_replicas_of_the_fleet_stay_where_they_are_and_hold_their_room():
    files = fleet(CLASS, cluster("west"), deployment("qwen", 2))
    _, after = placed(files)
    assert placed(assemble((*after.store,)))[0] == [("west", 0, True), ("west", 1, True)]


def test_a_replica_that_is_scaled_down_gives_its_room_back():
    files = fleet(CLASS, cluster("west"), deployment("qwen", 2))
    _, after = placed(files)
    smaller = loaded(joined(deployment("qwen", 1), deployment("other", 1))).objects
    qwen, after = placed(assemble((*after.store, *smaller)), 0)
    assert (qwen, placed(after, 1)[0]) == ([("west", 0, True)], [("west", 0, False)])


def test_deployments_of_one_name_in_two_namespaces_do_not_adopt_each_others_replicas():
    files = fleet(CLASS, cluster("west"), deployment("qwen", 1, "a-team"), deployment("qwen", 1, "b-team"))
    first, after_first = placed(files, 0)
    second, after_second = placed(after_first, 1)
    assert first == second == [("west", 0, False)]
    assert len(replicas(after_second)) == 2


def test_a_selector_that_does_not_compile_is_told_with_the_deployment():
    files = fleet(CLASS, cluster("west"), deployment("qwen", 1))
    broken = files.deployments[0]
    engine = broken["spec"]["engines"][0]
    engine["members"][0]["nodeSelector"]["devices"][0]["selectors"][0]["cel"] = "device."
    with pytest.raises(UserError, match="cannot compile selector"):
        place(files, broken)


def test_a_deployment_that_a_server_keeps_in_a_reserved_namespace_is_not_placed():
    stored = DEPLOYMENT.replace("namespace: ml-team", "namespace: kube-system\n  uid: u")
    files = assemble(loaded(joined(CLASS, cluster("west"), stored)).objects)
    with pytest.raises(UserError) as raised:
        place(files, files.deployments[0])
    assert str(raised.value) == (
        'ModelDeployment "qwen": namespace "kube-system" is reserved for system components: '
        "use a namespace of your own"
    )


NO_FURTHER = Composer.__dataclass_fields__["further"].default


@pytest.mark.parametrize(
    ("kind", "requirements", "further"),
    [
        ("DeviceQuota", device_quota.requirements, NO_FURTHER),
        ("InferenceCluster", inference_cluster.requirements, NO_FURTHER),
        ("ModelDeployment", model_deployment.requirements, scheduler_quotas.further),
    ],
)
def test_the_files_answer_what_the_composer_of_a_kind_requires(kind, requirements, further):
    composer = COMPOSERS[kind]
    assert composer.requirements is requirements
    assert composer.further is further
