"""A cluster says at once what can newly be done there, or no longer: not at the next poll of the provider."""

import pytest

from modelplane.compose.workload_kinds import capabilities
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import inference_cluster
from support.crossplane.objects import Key, Object

SOON_S = 5.0


def crd(name: str) -> Object:
    """Return a definition as whoever installs the component creates it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2]},
    }


@pytest.mark.parametrize(("capability", "definition"), capabilities().items())
def test_what_is_installed_and_removed_is_seen_at_once(
    fleet: Fleet, capability: str, definition: str
) -> None:
    cluster = fleet.cluster("a", kinds=tuple(set(capabilities().values()) - {definition}))
    fleet.apply(inference_cluster("a"))
    fleet.run_until_ready("InferenceCluster", "a")
    fleet.run_for(300)
    assert not can(fleet, capability)
    cluster.api.create(crd(definition), "helm")
    fleet.run_until(lambda: can(fleet, capability), within=SOON_S)
    fleet.run_for(300)
    cluster.api.delete(Key("apiextensions.k8s.io", "CustomResourceDefinition", "", definition))
    fleet.run_until(lambda: not can(fleet, capability), within=SOON_S)
    assert fleet.is_true("InferenceCluster", "a")


def can(fleet: Fleet, capability: str) -> bool:
    """Return whether the cluster says that it has a capability."""
    return bool(fleet.get("InferenceCluster", "a")["status"]["capabilities"][capability])
