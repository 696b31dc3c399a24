"""Rollouts under Crossplane: surge replicas, revisions, the deadline."""

from support.crossplane.fleet import Fleet
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, image, model_deployment
from support.crossplane.objects import Kind, condition
from support.crossplane.scenarios import prepared, with_clusters

_REVISION = Kind("apps", "ControllerRevision")


def _fleet(**rollout: object) -> Fleet:
    """Return a fleet with two replicas that serve, and capacity for two more."""
    fleet = with_clusters(prepared(by_its_own_clock()), "a", "b")
    fleet.apply(model_deployment(replicas=2, rollout=rollout))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(60)
    return fleet


def _edit(fleet: Fleet, image_: str) -> None:
    engines = image(fleet.get("ModelDeployment", DEPLOYMENT), image_)
    fleet.edit("ModelDeployment", DEPLOYMENT, engines=engines)


def _said(fleet: Fleet) -> str:
    found = condition(fleet.get("ModelDeployment", DEPLOYMENT), "Progressing") or {}
    return str(found.get("reason", ""))


def _serving(fleet: Fleet) -> int:
    return sum(fleet.is_true("ModelReplica", name) for name in fleet.named("ModelReplica"))


def test_a_surge_replica_stands_in_and_leaves() -> None:
    fleet = _fleet(maxUnavailable=0, maxSurge=1)
    before = fleet.named("ModelReplica")
    _edit(fleet, "vllm/vllm-openai:v0.24.0")
    seen = []

    def done() -> bool:
        seen.append((_serving(fleet), len(fleet.named("ModelReplica"))))
        return _said(fleet) == "RolloutComplete" and fleet.named("ModelReplica") == before

    fleet.run_for(1)
    fleet.run_until(lambda: _said(fleet) != "RolloutComplete", 60)
    fleet.run_until(done, 600)
    assert min(serving for serving, _ in seen) >= 2
    assert max(there for _, there in seen) == 3
    assert sorted(each["revision"] for each in fleet.api.of(_REVISION)) == [1, 2]


def test_a_rollout_that_stops_says_so_although_nothing_changes() -> None:
    fleet = _fleet(progressDeadlineSeconds=120)
    for cluster in fleet.clusters.values():
        cluster.starts_s = 10_000
    _edit(fleet, "vllm/vllm-openai:v0.24.0")
    fleet.run_until(lambda: _said(fleet) == "ProgressDeadlineExceeded", 400)
    assert _serving(fleet) == 1
