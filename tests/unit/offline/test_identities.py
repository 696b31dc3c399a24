"""Uids and owners where files leave them out."""

from modelplane.offline.files.identities import add_uids
from support.manifests import API


def item(kind, name, **metadata):
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "ml-team", **metadata}}


def test_what_a_server_printed_stays_as_it_is():
    owner = {"kind": "ModelDeployment", "name": "qwen", "uid": "1", "controller": True}
    objects = (
        item("ModelDeployment", "qwen", uid="1", resourceVersion="7"),
        item("ModelReplica", "a", uid="2", resourceVersion="8", ownerReferences=[owner]),
    )
    assert add_uids(objects) == objects


def test_a_version_names_the_content():
    versions = {
        add_uids((item("ModelDeployment", "qwen", labels={"a": value}),))[0]["metadata"]["resourceVersion"]
        for value in ("x", "y", "x")
    }
    assert len(versions) == 2


def test_a_replica_without_an_owner_belongs_to_the_deployment_that_its_label_names():
    deployment, replica = add_uids(
        (
            item("ModelDeployment", "qwen"),
            item("ModelReplica", "a", labels={"modelplane.ai/deployment": "qwen"}),
        )
    )
    [owner] = replica["metadata"]["ownerReferences"]
    assert owner["uid"] == deployment["metadata"]["uid"] == "file:ModelDeployment/ml-team/qwen"
    assert replica["metadata"]["uid"] == "file:ModelReplica/ml-team/a"


def test_an_endpoint_of_a_replica_without_an_owner_belongs_to_the_replica_of_its_name():
    replica, endpoint = add_uids(
        (
            item("ModelReplica", "a", labels={"modelplane.ai/deployment": "qwen"}),
            item("ModelEndpoint", "a", labels={"modelplane.ai/deployment": "qwen"}),
        )
    )
    assert endpoint["metadata"]["ownerReferences"] == [
        {
            "apiVersion": API,
            "kind": "ModelReplica",
            "name": "a",
            "uid": replica["metadata"]["uid"],
            "controller": True,
        }
    ]


def test_an_endpoint_without_a_deployment_has_no_owner():
    [endpoint] = add_uids((item("ModelEndpoint", "external", labels={"model": "qwen"}),))
    assert "ownerReferences" not in endpoint["metadata"]


def test_a_replica_without_a_uid_has_the_one_that_its_endpoint_knows():
    owner = {"kind": "ModelReplica", "name": "a", "uid": "1", "controller": True}
    _, replica = add_uids(
        (item("ModelEndpoint", "a", uid="2", ownerReferences=[owner]), item("ModelReplica", "a"))
    )
    assert replica["metadata"]["uid"] == "1"


def test_a_deployment_without_a_uid_has_the_one_that_its_replicas_know():
    owner = {"kind": "ModelDeployment", "name": "qwen", "uid": "1", "controller": True}
    _, deployment = add_uids(
        (item("ModelReplica", "a", uid="2", ownerReferences=[owner]), item("ModelDeployment", "qwen"))
    )
    assert deployment["metadata"]["uid"] == "1"


def test_a_deployment_of_the_same_name_in_another_namespace_is_another_one():
    replica, deployment = add_uids(
        (
            item("ModelReplica", "a", labels={"modelplane.ai/deployment": "qwen"}),
            item("ModelDeployment", "qwen", namespace="other"),
        )
    )
    assert replica["metadata"]["ownerReferences"][0]["uid"] != deployment["metadata"]["uid"]


def test_an_object_without_a_namespace_is_in_the_default_one_if_its_kind_has_any():
    objects = (
        {"apiVersion": API, "kind": kind, "metadata": {"name": "x"}}
        for kind in ("ModelCache", "InferenceClass")
    )
    cache, class_ = add_uids(objects)
    assert cache["metadata"]["namespace"] == "default"
    assert "namespace" not in class_["metadata"]
