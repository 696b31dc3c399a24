"""Standbys under Crossplane: the function reads other deployments when it is called."""

from support.crossplane.fleet import Fleet
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, inference_autoscaler, model_deployment
from support.crossplane.objects import condition
from support.crossplane.scenarios import prepared, with_clusters

STANDBY = "ml-team/second"
_SOON_S = 180.0
"""The time of the standby, and that after which the function is called again at the latest."""


def _on(cluster: str) -> dict[str, object]:
    return {"matchLabels": {"modelplane.ai/name": cluster}}


def _fleet(**standby_for: object) -> Fleet:
    """Return a fleet whose preferred deployment fits, and a standby on another cluster."""
    fleet = with_clusters(prepared(by_its_own_clock()), "a", "b", nodes=1)
    for name in ("a", "b"):
        cluster = fleet.get("InferenceCluster", name)
        labels = {**cluster["metadata"].get("labels", {}), "modelplane.ai/name": name}
        fleet.apply({**cluster, "metadata": {**cluster["metadata"], "labels": labels}})
    settings = {
        "name": DEPLOYMENT.partition("/")[2],
        "afterSeconds": 30,
        "returnAfterSeconds": 60,
        **standby_for,
    }
    fleet.apply(model_deployment(clusterSelector=_on("a")))
    fleet.apply(model_deployment(name=STANDBY, standbyFor=settings, clusterSelector=_on("b")))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(300)
    return fleet


def _said(fleet: Fleet, type_: str = "StandbyActive") -> str:
    return str((condition(fleet.get("ModelDeployment", STANDBY), type_) or {}).get("reason", ""))


def _replicas(fleet: Fleet) -> list[str]:
    return [name for name in fleet.named("ModelReplica") if name.startswith(STANDBY)]


def test_a_standby_runs_while_the_preferred_one_lacks_capacity() -> None:
    fleet = _fleet()
    assert _replicas(fleet) == []
    assert _said(fleet) == "NotNeeded"
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=2)
    fleet.run_until(lambda: _said(fleet) == "Pending", _SOON_S)
    assert fleet.run_until(lambda: bool(_replicas(fleet)), _SOON_S) >= 25
    fleet.run_until(lambda: all(fleet.is_true("ModelReplica", name) for name in _replicas(fleet)), 120)
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=1)
    assert fleet.run_until(lambda: not _replicas(fleet), 60 + _SOON_S) >= 55
    assert len(fleet.named("ModelReplica")) == 1
    assert _said(fleet) == "NotNeeded"


def test_saturation_is_refused() -> None:
    fleet = _fleet(when=["Unplaced", "Saturated"])
    fleet.apply(inference_autoscaler())
    fleet.run_for(300)
    assert _said(fleet, "SettingsSupported") == "NoMetrics"


def test_one_that_is_a_standby_no_more_says_so() -> None:
    fleet = _fleet()
    fleet.apply(model_deployment(name=STANDBY, clusterSelector=_on("b")))
    fleet.run_until(lambda: bool(_replicas(fleet)), _SOON_S)
    fleet.run_until(lambda: _said(fleet) == "NotRequested", _SOON_S)
