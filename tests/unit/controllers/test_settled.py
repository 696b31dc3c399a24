import copy
from typing import Any

from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists
from modelplane.controllers.child_writer import Settled
from modelplane.controllers.children import ownership

OWNER: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "qwen-1", "namespace": "ml-team", "uid": "u-1"},
}


def _manifest(cpu: str = "0.5") -> dict[str, Any]:
    spec = {"containers": [{"name": "engine", "cpu": cpu}], "dropped": False}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}
    return ownership.stamp(OWNER, Desired("workload", manifest, exists))


def _stored(manifest: dict[str, Any], cpu: str) -> dict[str, Any]:
    """Return what a server keeps that writes quantities its own way and drops false."""
    stored = copy.deepcopy(manifest)
    stored["metadata"]["uid"] = "c-1"
    stored["spec"]["containers"][0] |= {"cpu": cpu, "defaulted": "x"}
    del stored["spec"]["dropped"]
    return stored


def test_the_servers_own_spelling_is_no_difference_once_it_is_known() -> None:
    settled, manifest = Settled(), _manifest()
    assert not settled.is_current(manifest, _stored(manifest, "500m")), "it is applied once to see"
    settled.remember(manifest, _stored(manifest, "500m"))
    assert settled.is_current(manifest, _stored(manifest, "500m"))


def test_what_somebody_changed_afterwards_is_a_difference() -> None:
    settled, manifest = Settled(), _manifest()
    settled.remember(manifest, _stored(manifest, "500m"))
    assert not settled.is_current(manifest, _stored(manifest, "700m"))


def test_another_manifest_is_a_difference() -> None:
    settled, manifest = Settled(), _manifest()
    settled.remember(manifest, _stored(manifest, "500m"))
    assert not settled.is_current(_manifest("1"), _stored(manifest, "500m"))


def test_a_forgotten_object_is_applied_again() -> None:
    settled, manifest = Settled(), _manifest()
    settled.remember(manifest, _stored(manifest, "500m"))
    settled.forget(_stored(manifest, "500m"))
    assert not settled.is_current(manifest, _stored(manifest, "500m"))
