from pathlib import Path
from typing import Any

import pytest

from modelplane.kubelet.volumes import provisioner

ABOVE = Path("/home/me/agent/volumes")
ASKED = {"volume.kubernetes.io/storage-provisioner": "modelplane.ai/local-folder"}


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    about = {"name": "cache", "namespace": "ml-team", "uid": "u-1", "annotations": ASKED}
    wanted = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "modelplane-local",
    }
    return {"metadata": about | (metadata or {}), "spec": wanted | spec}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(claim(), True, id="one that Kubernetes asks for"),
        pytest.param(claim({"annotations": {}}), False, id="one that it has not asked for yet"),
        pytest.param(
            claim({"annotations": {"volume.kubernetes.io/storage-provisioner": "example.com/nfs"}}),
            False,
            id="another provisioner's",
        ),
        pytest.param(claim(storageClassName="mine"), False, id="another class, whose policy is not known"),
        pytest.param(claim(volumeName="pv"), False, id="one that has its volume"),
        pytest.param(claim({"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, id="one that is going"),
    ],
)
def test_which_claims_get_a_volume(found: dict[str, Any], wanted: bool) -> None:
    assert provisioner.wants_volume(found) is wanted


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"volumeMode": "Filesystem"}, "", id="a folder"),
        pytest.param(
            {"volumeMode": "Block"}, "a folder is no block device: leave volumeMode out", id="a device"
        ),
        pytest.param(
            {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}},
            "a folder is not made from a snapshot or another claim: leave dataSource and dataSourceRef out",
            id="a copy",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"a": "b"}}},
            "a volume that is made for a claim has no labels to select it by: leave the selector out",
            id="a choice",
        ),
    ],
)
def test_what_a_folder_cannot_be_is_refused(spec: dict[str, Any], why: str) -> None:
    assert provisioner.refusal(claim(**spec)) == why


def test_a_volume_is_named_for_its_claim_and_bound_to_its_node() -> None:
    made = provisioner.volume(claim(), "laptop", ABOVE)
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["laptop"]}]}
    ]
    assert made == {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-u-1",
            "annotations": {"pv.kubernetes.io/provisioned-by": "modelplane.ai/local-folder"},
            "finalizers": ["modelplane.ai/local-folder"],
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "5Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "ml-team",
                "name": "cache",
                "uid": "u-1",
            },
            "local": {"path": "/home/me/agent/volumes/pvc-u-1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "modelplane-local",
            "volumeMode": "Filesystem",
        },
    }
    assert provisioner.folder(made, ABOVE) == ABOVE / "pvc-u-1"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "pvc-u-1"}}, id="nobody says who made it"),
        pytest.param({"spec": {"local": {"path": "/home/me"}}}, id="another path"),
        pytest.param({"spec": {"hostPath": {"path": str(ABOVE / "pvc-u-1")}}}, id="another kind"),
    ],
)
def test_a_folder_that_is_not_certainly_ours_is_left_alone(change: dict[str, Any]) -> None:
    made = provisioner.volume(claim(), "laptop", ABOVE)
    assert provisioner.folder(made | change, ABOVE) is None
