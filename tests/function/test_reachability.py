"""A cluster whose API server does not answer: who says so, how soon, and what it changes."""

from modelplane.compose.workload_kinds import capabilities
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import DEPLOYMENT, inference_cluster
from support.crossplane.objects import Object, condition
from support.crossplane.scenarios import far, serving

REFUSED = "https://a.example:6443: dial tcp 192.0.2.10:6443: connect: connection refused"
SOON_S = 70.0
"""A new replica fails within seconds, and its cluster is composed again within a minute."""


def with_clusters(fleet: Fleet, *names: str, nodes: int = 2) -> Fleet:
    """Return a fleet with clusters that have every capability.

    What was found on a cluster is looked at again every ten minutes; what is missing, every minute.
    """
    for name in names:
        fleet.cluster(name, kinds=tuple(capabilities().values()))
        fleet.apply(inference_cluster(name, nodes=nodes))
    fleet.run_until_ready("InferenceCluster", *names)
    fleet.run_for(2)
    return fleet


def replicas_on(fleet: Fleet, cluster: str) -> list[str]:
    """Return the names of the replicas on a cluster."""
    return [
        name
        for name in fleet.named("ModelReplica")
        if fleet.get("ModelReplica", name)["spec"]["clusterName"] == cluster
    ]


def said(fleet: Fleet, kind: str, name: str, type_: str) -> tuple[str, str]:
    """Return reason and message of a condition."""
    found = condition(fleet.get(kind, name), type_)
    return found["reason"], found.get("message", "")


def test_a_replica_that_cannot_be_written_makes_its_cluster_unreachable(fleet: Fleet) -> None:
    serving(with_clusters(fleet, "a", nodes=4))
    [kept] = fleet.named("ModelReplica")
    fleet.clusters["a"].reachable = False
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=2)
    fleet.run_for(10)
    [new] = set(fleet.named("ModelReplica")) - {kept}
    assert said(fleet, "ModelReplica", new, "ModelAccepted") == (
        "ClusterUnreachable",
        f'cluster "a" is unreachable: {REFUSED}',
    )
    assert said(fleet, "ModelDeployment", DEPLOYMENT, "ReplicasReady")[0] == "ClusterUnreachable"
    assert REFUSED in said(fleet, "ModelDeployment", DEPLOYMENT, "ReplicasReady")[1]
    fleet.run_until(lambda: not fleet.is_true("InferenceCluster", "a"), within=SOON_S)
    reason, message = said(fleet, "InferenceCluster", "a", "ClusterReady")
    since = fleet.get("InferenceCluster", "a")["status"]["unreachableSince"]
    assert (reason, message) == ("Unreachable", f"unreachable since {since}: {REFUSED}")
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=3)
    fleet.run_for(20)
    assert message in said(fleet, "ModelDeployment", DEPLOYMENT, "ReplicasScheduled")[1]
    assert len(fleet.named("ModelReplica")) == 2


def test_an_unreachable_cluster_gets_no_new_replicas_and_keeps_those_it_has(fleet: Fleet) -> None:
    serving(with_clusters(fleet, "a", "b", nodes=8), replicas=2)
    kept = fleet.named("ModelReplica")
    assert (len(replicas_on(fleet, "a")), len(replicas_on(fleet, "b"))) == (1, 1)
    fleet.clusters["a"].reachable = False
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=4)
    fleet.run_for(SOON_S)
    on_a = replicas_on(fleet, "a")
    assert not fleet.is_true("InferenceCluster", "a")
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=8)
    fleet.run_for(SOON_S)
    assert replicas_on(fleet, "a") == on_a
    assert len(replicas_on(fleet, "b")) == 8 - len(on_a)
    assert set(kept) <= set(fleet.named("ModelReplica"))
    assert fleet.deletions() == []


def test_a_cluster_that_is_looked_at_in_vain_says_since_when(fleet: Fleet) -> None:
    fleet.provider.poll_s = 60.0
    with_clusters(fleet, "a")
    fleet.clusters["a"].reachable = False
    fleet.run_for(130)
    reason, message = said(fleet, "InferenceCluster", "a", "ClusterReady")
    since = fleet.get("InferenceCluster", "a")["status"]["unreachableSince"]
    assert (reason, message) == ("Unreachable", f"unreachable since {since}: {REFUSED}")
    assert fleet.get("InferenceCluster", "a")["status"]["gateway"]["address"] == "10.0.0.1"


def test_what_is_said_stays_the_same_until_the_cluster_answers(fleet: Fleet) -> None:
    fleet.provider.poll_s = 60.0
    serving(with_clusters(fleet, "a", nodes=4))
    cluster = fleet.clusters["a"]
    cluster.reachable = False
    fleet.run_for(130)
    before = statuses(fleet)
    # A load balancer without a backend: each attempt comes from another port.
    for port in range(40000, 40010):
        cluster.silence = f"read tcp 10.244.0.7:{port}->192.0.2.10:6443: read: connection reset by peer"
        fleet.run_for(60)
        if port == 40001:
            before = statuses(fleet) | {"since": before["since"]}
        assert port < 40001 or statuses(fleet) == before
    cluster.reachable = True
    fleet.run_until_ready("InferenceCluster", "a", within=130)
    assert "unreachableSince" not in fleet.get("InferenceCluster", "a")["status"]
    assert fleet.is_true("ModelReplica", fleet.named("ModelReplica")[0], "ModelAccepted")


def statuses(fleet: Fleet) -> dict[str, object]:
    """Return what the cluster and its replica say, with the times of it."""
    cluster: Object = fleet.get("InferenceCluster", "a")["status"]
    replica = fleet.get("ModelReplica", fleet.named("ModelReplica")[0])["status"]
    return {
        "cluster": cluster["conditions"],
        "replica": replica["conditions"],
        "since": cluster["unreachableSince"],
    }


def test_what_serves_on_an_unreachable_cluster_stays_announced(fleet: Fleet) -> None:
    fleet.provider.poll_s = 60.0
    serving(with_clusters(fleet, "a"))
    [name] = fleet.named("ModelReplica")
    before = far(fleet, "Deployment")
    fleet.clusters["a"].reachable = False
    fleet.run_for(200)
    assert said(fleet, "ModelReplica", name, "ModelAccepted")[0] == "ClusterUnreachable"
    assert fleet.is_true("ModelReplica", name)
    assert fleet.announced() == [name]
    assert far(fleet, "Deployment") == before
