from pathlib import Path
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kubelet.volumes import provisioning
from modelplane.kubelet.volumes.provisioning import (
    CreateVolume,
    DeleteVolume,
    ReleaseVolume,
    ResizeClaim,
    ResizeVolume,
    Step,
)
from support.rejections import message_of

ROOT = Path("/home/me/agent/volumes")
ASKED = {"volume.kubernetes.io/storage-provisioner": "modelplane.ai/local-folder"}


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    about = {"name": "cache", "namespace": "ml-team", "uid": "u-1", "annotations": ASKED}
    wanted = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "modelplane-local",
    }
    return {"metadata": about | (metadata or {}), "spec": wanted | spec}


def made(
    metadata: dict[str, Any] | None = None, phase: str = "Bound", policy: str = "Delete", size: str = "5Gi"
) -> dict[str, Any]:
    volume = provisioning.build_volume(claim(), "laptop", ROOT)
    volume["metadata"] |= metadata or {}
    volume["spec"] |= {"persistentVolumeReclaimPolicy": policy, "capacity": {"storage": size}}
    return volume | {"status": {"phase": phase}}


def bound(capacity: str, phase: str = "Bound") -> dict[str, Any]:
    return claim(volumeName="pvc-u-1") | {"status": {"phase": phase, "capacity": {"storage": capacity}}}


OTHER_CLASS = Rejected(
    subject='StorageClass "mine"',
    detail=(
        'uses provisioner "modelplane.ai/local-folder", which supports only StorageClass "modelplane-local"'
    ),
    remedy="create the claim with that storageClassName",
)
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
CREATE = CreateVolume(provisioning.build_volume(claim(), "laptop", ROOT))


@pytest.mark.parametrize(
    ("found", "volume", "step"),
    [
        pytest.param(claim(), None, CREATE, id="one that Kubernetes asks for"),
        pytest.param(claim(), made(phase="Available"), None, id="one whose volume is not bound yet"),
        pytest.param(claim({"annotations": {}}), None, None, id="one that it has not asked for yet"),
        pytest.param(
            claim({"annotations": {"volume.kubernetes.io/storage-provisioner": "example.com/nfs"}}),
            None,
            None,
            id="another provisioner's",
        ),
        pytest.param(claim(storageClassName="mine"), None, OTHER_CLASS, id="another class"),
        pytest.param(
            claim(volumeMode="Block"),
            None,
            Rejected(detail="a folder is not a block device", remedy="omit volumeMode"),
            id="one that a folder cannot be",
        ),
        pytest.param(claim(DELETED), None, None, id="one that is deleted"),
        pytest.param(claim(volumeName="pv"), None, None, id="one whose volume is unknown"),
        pytest.param(bound("5Gi"), made(), None, id="one that has what it asks for"),
        pytest.param(
            bound("1Gi"),
            made(size="1Gi"),
            ResizeVolume("pvc-u-1", {"storage": "5Gi"}),
            id="one that asks for more",
        ),
        pytest.param(bound("1Gi"), made(), ResizeClaim({"storage": "5Gi"}), id="one whose volume has grown"),
        pytest.param(bound("1Gi", "Lost"), made(), None, id="one that is not bound"),
        pytest.param(bound("1Gi"), made({"annotations": {}}), None, id="one with a foreign volume"),
    ],
)
def test_the_next_step_for_a_claim(
    found: dict[str, Any], volume: dict[str, Any] | None, step: Step | None
) -> None:
    assert provisioning.choose_step(found, volume, "laptop", ROOT) == step


@pytest.mark.parametrize(
    ("volume", "step"),
    [
        pytest.param(made(), None, id="a bound one"),
        pytest.param(made(DELETED), None, id="a bound one that is deleted"),
        pytest.param(made(phase="Available"), None, id="one whose claim is being bound"),
        pytest.param(made(phase="Released"), DeleteVolume(), id="one whose claim is gone"),
        pytest.param(made(phase="Released", policy="Retain"), None, id="one to retain"),
        pytest.param(
            made(DELETED, phase="Released"), ReleaseVolume(ROOT / "pvc-u-1"), id="one that is deleted"
        ),
        pytest.param(
            made(DELETED, phase="Released", policy="Retain"),
            ReleaseVolume(None),
            id="one that is deleted, whose data is retained",
        ),
        pytest.param(
            made(DELETED | {"finalizers": ["another"]}, phase="Released"), None, id="one that is released"
        ),
        pytest.param(made({"annotations": {}}, phase="Released"), None, id="a foreign one"),
    ],
)
def test_the_next_step_to_reclaim_a_volume(volume: dict[str, Any], step: Step | None) -> None:
    assert provisioning.choose_reclaim_step(volume, ROOT) == step


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"volumeMode": "Filesystem"}, "", id="a folder"),
        pytest.param(
            {"volumeMode": "Block"}, "a folder is not a block device: omit volumeMode", id="a device"
        ),
        pytest.param(
            {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}},
            "a folder can't be created from a snapshot or another claim: omit dataSource and dataSourceRef",
            id="a copy",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"a": "b"}}},
            "a volume that is created for a claim has no labels to select: omit the selector",
            id="a choice",
        ),
    ],
)
def test_what_a_folder_cannot_be_is_refused(spec: dict[str, Any], why: str) -> None:
    assert message_of(provisioning.check_claim(claim(**spec))) == why


def test_a_volume_is_named_for_its_claim_and_bound_to_its_node() -> None:
    volume = provisioning.build_volume(claim(), "laptop", ROOT)
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["laptop"]}]}
    ]
    assert volume == {
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
    assert provisioning.find_folder(volume, ROOT) == ROOT / "pvc-u-1"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "pvc-u-1"}}, id="nobody says who made it"),
        pytest.param({"spec": {"local": {"path": "/home/me"}}}, id="another path"),
        pytest.param({"spec": {"hostPath": {"path": str(ROOT / "pvc-u-1")}}}, id="another kind"),
    ],
)
def test_a_folder_that_is_not_certainly_ours_is_left_alone(change: dict[str, Any]) -> None:
    volume = provisioning.build_volume(claim(), "laptop", ROOT)
    assert provisioning.find_folder(volume | change, ROOT) is None
