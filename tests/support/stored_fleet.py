"""A small fleet, as a control plane stores it."""

from typing import Any

from modelplane.api import labels
from modelplane.compose.kinds import COMPOSED

Object = dict[str, Any]


def item(kind: str, name: str, uid: str, namespace: str = "ml", **content: Any) -> Object:
    """Return an object of a fleet."""
    metadata: Object = {"name": name, "uid": uid, "managedFields": [{"manager": "modelplane"}]}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= content.pop("metadata", {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, **content}


def owned_by(owner: Object) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]


def fleet() -> list[Object]:
    """Return the objects of a fleet with one replica."""
    deployment = item(
        "ModelDeployment", "qwen", "old-md", spec={"replicas": 1}, status={"replicas": {"total": 1}}
    )
    fields: Object = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"old-md"}': {}}}}
    replica = item(
        "ModelReplica",
        "qwen-0",
        "old-mr",
        spec={"clusterName": "east"},
        status={"clusters": ["east"]},
        metadata={
            "finalizers": ["modelplane.ai/remote-objects"],
            "ownerReferences": owned_by(deployment),
            "annotations": {labels.CHILD: "replica-east-0"},
            "managedFields": [{"manager": "modelplane", "operation": "Apply", "fieldsV1": fields}],
        },
    )
    endpoint = item(
        "ModelEndpoint",
        "qwen-0",
        "old-me",
        spec={"url": "http://a"},
        metadata={"ownerReferences": owned_by(replica)},
    )
    origin = {"existing": {"secretRef": {"name": "east-kubeconfig"}}}
    cluster = item("InferenceCluster", "east", "old-ic", "", spec={"cluster": origin}, status={"a": 1})
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "qwen-1",
            "namespace": "ml",
            "uid": "old-cr",
            "labels": {labels.MANAGED_BY: "modelplane"},
            "ownerReferences": owned_by(deployment),
        },
        "revision": 1,
        "data": {"a": 1},
    }
    others = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": f"old-{name}"}}
        for name in ("ml", "modelplane-system", "other")
    ]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "east-kubeconfig", "namespace": "modelplane-system", "uid": "old-s"},
        "type": "Opaque",
        "data": {"kubeconfig": "c2VjcmV0"},
    }
    return [*others, endpoint, replica, deployment, cluster, revision, secret]


def definitions() -> list[Object]:
    """Return the definitions of the kinds, without their schemas."""
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.definition},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }
        for kind in COMPOSED
    ]
