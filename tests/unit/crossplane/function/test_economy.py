"""What children have from the start, so that Crossplane need not write it."""

from typing import Any

from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.applied_fields import FINALIZER, PROVIDERS_FINALIZER, settled

REPLICA: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "r"},
    "spec": {"clusterName": "east"},
}
CHOSEN = {
    "compositionRef": {"name": "modelreplicas.modelplane.ai"},
    "compositionRevisionRef": {"name": "modelreplicas-2"},
}


def test_a_composite_has_its_finalizer_composition_and_revision() -> None:
    assert settled(REPLICA, "", None, "modelreplicas-2") == {
        **REPLICA,
        "metadata": {"name": "r", "finalizers": [FINALIZER]},
        "spec": {"clusterName": "east", "crossplane": CHOSEN},
    }


def test_a_revision_that_is_not_known_is_left_to_crossplane() -> None:
    crossplane = settled(REPLICA, "", None, "")["spec"]["crossplane"]
    assert crossplane == {"compositionRef": CHOSEN["compositionRef"]}


def test_what_was_chosen_meanwhile_stays() -> None:
    there = {"compositionRef": {"name": "mine"}, "compositionRevisionRef": {"name": "mine-7"}}
    notes = {**there, "resourceRefs": [], "compositionUpdatePolicy": "Manual"}
    observed = {**REPLICA, "spec": {"clusterName": "east", "crossplane": notes}}
    assert settled(REPLICA, "", observed, "modelreplicas-2")["spec"]["crossplane"] == there


def test_one_that_is_on_its_way_out_gets_no_finalizer_again() -> None:
    leaving = {**REPLICA, "metadata": {"name": "r", "finalizers": ["foregroundDeletion"]}}
    assert "finalizers" not in settled(REPLICA, "", leaving, "")["metadata"]
    staying = {**REPLICA, "metadata": {"name": "r", "finalizers": [FINALIZER]}}
    assert settled(REPLICA, "", staying, "")["metadata"]["finalizers"] == [FINALIZER]


def test_an_object_has_its_external_name() -> None:
    manifest = {
        "apiVersion": remote_objects.API_VERSION,
        "kind": "Object",
        "metadata": {"namespace": "ml"},
        "spec": {},
    }
    assert settled(manifest, "r-service-1a2b3", None, "")["metadata"] == {
        "namespace": "ml",
        "name": "r-service-1a2b3",
        "annotations": {"crossplane.io/external-name": "r-service-1a2b3"},
    }
    observed = {**manifest, "metadata": {"name": "r-0123456789ab"}}
    assert settled(manifest, "r-service-1a2b3", observed, "")["metadata"]["name"] == "r-0123456789ab"


OBJECT: dict[str, Any] = {
    "apiVersion": remote_objects.API_VERSION,
    "kind": "Object",
    "metadata": {},
    "spec": {},
}


def managed(*finalizers: str, ours: bool) -> dict[str, Any]:
    """Return an Object whose finalizers Crossplane applied, or others added."""
    applied: dict[str, Any] = (
        {"f:finalizers": {f'v:"{each}"': {} for each in finalizers}} if ours else {"f:labels": {}}
    )
    fields = {"f:metadata": applied}
    manager = {"manager": "apiextensions.crossplane.io/composed/1", "operation": "Apply", "fieldsV1": fields}
    return {**OBJECT, "metadata": {"name": "o", "finalizers": [*finalizers], "managedFields": [manager]}}


def test_an_object_of_a_cluster_that_answers_has_the_providers_finalizer() -> None:
    assert settled(OBJECT, "o", None, "", reached=True)["metadata"]["finalizers"] == [PROVIDERS_FINALIZER]
    assert "finalizers" not in settled(OBJECT, "o", None, "", reached=False)["metadata"]


def test_an_object_goes_on_having_it_whatever_becomes_of_the_cluster() -> None:
    there = managed(PROVIDERS_FINALIZER, ours=True)
    assert settled(OBJECT, "o", there, "", reached=False)["metadata"]["finalizers"] == [PROVIDERS_FINALIZER]


def test_the_providers_own_is_left_to_it_and_one_that_is_gone_stays_gone() -> None:
    for there in (managed(PROVIDERS_FINALIZER, ours=False), managed(ours=True)):
        assert "finalizers" not in settled(OBJECT, "o", there, "", reached=True)["metadata"]


def test_what_crossplane_knows_nothing_of_is_left_alone() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    assert settled(service, "x", None, "y") == service
