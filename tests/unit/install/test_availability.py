import pytest

from modelplane.install.applying import find_unavailability


def deployment(updated=2, available=2, total=None, seen=1, conditions=()):
    counts = {"updatedReplicas": updated, "availableReplicas": available}
    status = {"observedGeneration": seen, "replicas": updated if total is None else total, **counts}
    return {
        "metadata": {"name": "controller", "generation": 1},
        "spec": {"replicas": 2},
        "status": status | {"conditions": [*conditions]},
    }


def pod(name="a", *states, **conditions):
    containers = [{"name": f"c{place}", "ready": False, "state": state} for place, state in enumerate(states)]
    told = [{"type": type_, **condition} for type_, condition in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": told, "containerStatuses": containers}}


UNSCHEDULED = pod("a", PodScheduled={"status": "False", "message": "no nodes available"})
UNPULLED = pod("a", {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})
ENDED = pod("a", {"terminated": {"reason": "Error", "message": "wrong option"}})
COMING = pod("a", {"waiting": {"reason": "ContainerCreating"}})
UNREADY = pod("a", {"running": {}}, Ready={"status": "False"})
REFUSED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}


@pytest.mark.parametrize(
    ("found", "pods", "said"),
    [
        pytest.param(deployment(), [], "", id="all replicas are there"),
        pytest.param(
            deployment(seen=0), [], "0 of 2 replicas are available", id="nobody has looked at it yet"
        ),
        pytest.param(deployment(total=3), [], "2 of 2 replicas are available", id="old ones are still there"),
        pytest.param(deployment(available=1), [], "1 of 2 replicas are available", id="one serves"),
        pytest.param(
            deployment(updated=1, total=2),
            [],
            "1 of 2 replicas are available",
            id="one is of the version before",
        ),
        pytest.param(
            deployment(available=0),
            [UNSCHEDULED],
            '0 of 2 replicas are available: pod "a": no nodes available',
            id="no node takes it",
        ),
        pytest.param(
            deployment(available=0),
            [pod("z"), COMING, UNPULLED],
            '0 of 2 replicas are available: pod "a": container "c0": ImagePullBackOff: not found',
            id="its image is not there",
        ),
        pytest.param(
            deployment(available=0),
            [ENDED],
            '0 of 2 replicas are available: pod "a": container "c0": Error: wrong option',
            id="it ends",
        ),
        pytest.param(
            deployment(available=0),
            [UNREADY],
            '0 of 2 replicas are available: pod "a": container "c0" is running but not ready: see the '
            "container's log",
            id="it runs and does not get ready",
        ),
        pytest.param(
            deployment(available=0), [COMING], "0 of 2 replicas are available", id="it has just been begun"
        ),
        pytest.param(
            deployment(updated=0, available=0, conditions=[REFUSED]),
            [],
            "0 of 2 replicas are available: exceeded quota",
            id="no pod may be made",
        ),
    ],
)
def test_what_keeps_a_deployment_is_said(found, pods, said):
    assert find_unavailability(found, pods) == (said or None)
