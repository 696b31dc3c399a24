"""Quotas, priorities and preemption under Crossplane: the function decides as the controllers do."""

from support.crossplane.fleet import Fleet
from support.crossplane.manifests import TEAM, device_quota, model_deployment, namespace
from support.crossplane.objects import Object, condition
from support.crossplane.scenarios import with_clusters

OTHER = "batch"
SERVING = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "serving"},
    "value": 1000,
}


def placed(fleet: Fleet, name: str) -> int:
    """Return the number of replicas that get requests."""
    found: list[Object] = list(fleet.children("ModelDeployment", name).values())
    return sum(not each["spec"].get("draining") for each in found)


def scheduled(fleet: Fleet, name: str) -> str:
    """Return the message about the replicas of a deployment."""
    message: str = condition(fleet.get("ModelDeployment", name), "ReplicasScheduled")["message"]
    return message


def test_replicas_above_the_quota_are_refused_until_it_is_raised(fleet: Fleet) -> None:
    with_clusters(fleet, "a", nodes=4)
    fleet.apply(device_quota(2), model_deployment(replicas=3))
    name = f"{TEAM}/qwen"
    fleet.run_until(lambda: placed(fleet, name) == 2, within=120)
    fleet.run_for(300)
    assert placed(fleet, name) == 2
    assert f"namespace {TEAM} uses 2 of 2 gpu devices of class l4 and can borrow 0" in scheduled(fleet, name)
    [use] = fleet.get("DeviceQuota", "team")["status"]["classes"]
    assert (use["used"], use["borrowed"], use["capacity"]) == (2, 0, 4)
    fleet.apply(device_quota(0))
    fleet.run_for(300)
    assert placed(fleet, name) == 2, "a quota that is lowered removes nothing"
    fleet.apply(device_quota(3))
    fleet.run_until_ready("ModelDeployment", name, within=300)


def test_a_deployment_of_higher_priority_gets_devices_by_drain_and_keeps_the_last_replica(
    fleet: Fleet,
) -> None:
    with_clusters(fleet, "a", nodes=3)
    rights: Object = {"priorityClassNames": ["serving"], "preemption": {"withinCohort": "LowerPriority"}}
    batch = f"{OTHER}/jobs"
    chat = f"{TEAM}/chat"
    fleet.apply(
        namespace(OTHER),
        SERVING,
        device_quota(3, cohort="gpus", **rights),
        device_quota(3, "others", (OTHER,), cohort="gpus"),
        model_deployment(replicas=3, name=batch),
    )
    fleet.run_until_ready("ModelDeployment", batch, within=120)
    fleet.apply(model_deployment(replicas=3, name=chat, priorityClassName="serving"))
    said: set[str] = set()

    def has_two() -> bool:
        said.add(scheduled(fleet, batch))
        return placed(fleet, chat) == 2

    fleet.run_until(has_two, within=900)
    fleet.run_for(600)
    assert (placed(fleet, batch), placed(fleet, chat)) == (1, 2)
    assert fleet.is_true("DeviceQuota", "team", "SettingsSupported")
    why = f'ModelDeployment "{chat}" of priority 1000 (PriorityClass "serving") takes the replica\'s devices'
    assert any(why in each for each in said)
