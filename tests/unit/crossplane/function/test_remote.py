"""Children on other clusters, as Objects of provider-kubernetes."""

from typing import Any

import pytest

from modelplane.compose.composition import Desired, Requirement, Unknown
from modelplane.compose.readiness import exists
from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.remote_objects import Connection


def _child(api_version: str, kind: str, **content: Any) -> Desired:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "n", "namespace": "ml"}}
    return Desired("key", manifest | content, exists, "east")


def _object(manifest: Any = None, **synced: str) -> dict[str, Any]:
    conditions = [{"type": "Synced", **synced}] if synced else []
    return {
        "apiVersion": remote_objects.API_VERSION,
        "kind": "Object",
        "status": {"atProvider": {"manifest": manifest} if manifest else {}, "conditions": conditions},
    }


def test_a_child_is_written_through_the_connection_of_its_cluster() -> None:
    child = _child("v1", "Service", spec={})
    assert remote_objects.write(child, Connection("east-config")) == {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "spec": {
            "forProvider": {"manifest": child.manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east-config"},
        },
    }


def test_a_release_is_composed_as_it_is_with_the_connection_of_its_cluster() -> None:
    child = _child("helm.m.crossplane.io/v1beta1", "Release", spec={"forProvider": {"chart": {"name": "c"}}})
    config = {"kind": "ClusterProviderConfig", "name": "east-config"}
    written = remote_objects.write(child, Connection("east-config"))
    assert written == {**child.manifest, "spec": {**child.manifest["spec"], "providerConfigRef": config}}
    assert not remote_objects.is_remote(written), "the core sees the Release itself, with its status"


def test_what_has_pods_is_gone_only_with_them_and_is_looked_at_until_it_serves_as_it_is_now() -> None:
    spec = remote_objects.write(_child("apps/v1", "Deployment"), Connection("c"))["spec"]
    assert spec["forProvider"]["deletionPropagationPolicy"] == "Foreground"
    assert spec["readiness"] == {
        "policy": "DeriveFromCelQuery",
        "celQuery": "has(object.status.availableReplicas) && object.status.availableReplicas > 0 && "
        "has(object.status.updatedReplicas) && object.status.updatedReplicas >= object.spec.replicas && "
        "object.status.observedGeneration >= object.metadata.generation",
    }
    assert spec["watch"] is True


def test_a_namespace_is_made_and_never_deleted() -> None:
    spec = remote_objects.namespace("ml", Connection("c"), None)["spec"]
    assert spec["managementPolicies"] == ["Observe", "Create", "LateInitialize"]
    assert spec["forProvider"]["manifest"]["metadata"]["labels"] == {
        "modelplane.ai/managed-by": "modelplane",
        "pod-security.kubernetes.io/enforce": "baseline",
    }


def _namespace(*, created: bool, **labels: str) -> dict[str, Any]:
    annotations = {"crossplane.io/external-create-succeeded": "2026-01-01T00:00:00Z"} if created else {}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": labels}}
    return {
        "metadata": {"name": "o", "annotations": annotations},
        "status": {"atProvider": {"manifest": manifest}},
    }


def _labels(namespace: dict[str, Any]) -> Any:
    [seen] = remote_objects.find_seen_namespace(namespace)
    return seen["metadata"]["labels"]


def test_a_namespace_that_an_earlier_version_made_gets_the_label_and_no_other() -> None:
    former = _namespace(created=True, team="ml")
    spec = remote_objects.namespace("ml", Connection("c"), former)["spec"]
    assert "Update" in spec["managementPolicies"]
    assert spec["forProvider"]["manifest"]["metadata"]["labels"] == {"modelplane.ai/managed-by": "modelplane"}
    assert _labels(former) == {"team": "ml", "modelplane.ai/managed-by": "modelplane"}


def test_a_namespace_of_somebody_else_is_seen_as_it_is_and_not_changed() -> None:
    found = _namespace(created=False, team="monitoring")
    assert (
        "Update" not in remote_objects.namespace("ml", Connection("c"), found)["spec"]["managementPolicies"]
    )
    assert _labels(found) == {"team": "monitoring"}


GATEWAY = Requirement("gateway", "gateway.networking.k8s.io/v1", "Gateway", "system", "g", cluster="east")


def test_the_systems_namespace_is_made_without_access_for_the_fleets_identity() -> None:
    spec = remote_objects.system_namespace(Connection("c"))["spec"]
    assert spec["managementPolicies"] == ["Observe", "Create", "LateInitialize"]
    assert spec["forProvider"]["manifest"]["metadata"] == {
        "name": "modelplane-system",
        "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
    }


def test_a_look_changes_nothing() -> None:
    spec = remote_objects.look(GATEWAY, Connection("c"))["spec"]
    assert spec["managementPolicies"] == ["Observe"]
    assert spec["forProvider"]["manifest"] == {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "g", "namespace": "system"},
    }


FOUND = {"kind": "Gateway", "metadata": {"name": "g"}}
_DISCOVERY = (
    "observe failed: cannot get object: failed to get API group resources: unable to retrieve the complete "
    "list of server APIs: "
)
UNSERVED = f"{_DISCOVERY}gateway.networking.k8s.io/v1: no matches for gateway.networking.k8s.io/v1, Resource="
UNKNOWN_GROUP = f"{_DISCOVERY}gateway.networking.k8s.io/v1: the server could not find the requested resource"
BROKEN_GROUP = (
    f"{_DISCOVERY}gateway.networking.k8s.io/v1: the server is currently unable to handle the request"
)
BROKEN_TOO = f"{UNSERVED}, metrics.k8s.io/v1beta1: the server is currently unable to handle the request"
AWAY = (
    f'{_DISCOVERY}gateway.networking.k8s.io/v1: Get "https://192.0.2.1:6443/apis/gateway.networking.k8s.io": '
    "dial tcp 192.0.2.1:6443: connect: connection refused"
)
DENIED = (
    "observe failed: cannot get object: gateways is forbidden: cannot get resource in the namespace because "
    "the server could not find the requested resource of a webhook: denied"
)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(None, Unknown("it has not been observed yet"), id="it was not asked for"),
        pytest.param(_object(), Unknown("it has not been observed yet"), id="nobody has looked yet"),
        pytest.param(_object(FOUND, status="True"), (FOUND,), id="it is there"),
        pytest.param(
            _object(status="False", message="observe failed: external resource does not exist"),
            (),
            id="it is not there",
        ),
        pytest.param(
            _object(status="False", message='no matches for kind "Gateway" in version "v1"'),
            (),
            id="the cluster has no such kind",
        ),
        pytest.param(
            _object(status="False", message=UNSERVED), (), id="the first look at a kind that is not served"
        ),
        pytest.param(_object(status="False", message=UNKNOWN_GROUP), (), id="the same, as older clients say"),
        pytest.param(
            _object(
                status="False",
                message="observe failed: cannot get desired state: cannot dry run SSA: "
                "the server could not find the requested resource",
            ),
            (),
            id="the kind was removed between two requests",
        ),
        *(
            pytest.param(_object(status="False", message=message), Unknown(message), id=name)
            for name, message in (
                ("its group is broken", BROKEN_GROUP),
                ("another group is broken too", BROKEN_TOO),
                ("the cluster is away", AWAY),
                ("the look is refused", DENIED),
            )
        ),
        pytest.param(
            _object(FOUND, status="False", message="cannot connect"),
            Unknown("cannot connect"),
            id="what was seen before is not known to be still there",
        ),
    ],
)
def test_what_a_look_found(item: dict[str, Any] | None, expected: Any) -> None:
    assert remote_objects.list_seen(item) == expected
