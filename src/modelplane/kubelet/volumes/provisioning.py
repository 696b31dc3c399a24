"""Decisions on this machine's PersistentVolumes: the next step for a claim, and for a volume without one.

No folder exists without its PersistentVolume, which is created first; its folder is made when a
pod first mounts it. The folder is removed first, then the finalizer that holds the PersistentVolume. After
an interruption, every folder therefore still has an object that names it. Kubernetes binds volumes to claims.
Nothing enforces the size of a folder: the capacity of a volume is the request of its claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from modelplane.api.rejected import Rejected
from modelplane.kube.resources import Object

_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

STORAGE_CLASS = "modelplane-local"
"""Its volumes may be mounted by many pods at once, all on one node, so ModelCaches can use it."""

PROVISIONER = "modelplane.ai/local-folder"


@dataclass(frozen=True, slots=True)
class CreateVolume:
    """Create the PersistentVolume of a claim."""

    manifest: Object


@dataclass(frozen=True, slots=True)
class ResizeVolume:
    """Set the capacity of a claim's PersistentVolume."""

    volume: str
    capacity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResizeClaim:
    """Report the capacity of its PersistentVolume in a claim."""

    capacity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Delete a released PersistentVolume."""


@dataclass(frozen=True, slots=True)
class ReleaseVolume:
    """Remove the folder of a deleted PersistentVolume, unless that is None, and then its finalizer."""

    folder: Path | None


Step: TypeAlias = CreateVolume | Rejected | ResizeVolume | ResizeClaim | DeleteVolume | ReleaseVolume
"""The next step for a claim or a volume; ``Rejected`` for a claim that gets no volume."""


def name_volume(claim: Mapping[str, Any]) -> str:
    """Return the name of a claim's PersistentVolume, which makes a second one for the claim impossible."""
    return str(claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}")


def choose_step(claim: Mapping[str, Any], volume: Object | None, node: str, root: Path) -> Step | None:
    """Return the next step for a claim whose PersistentVolume is ``volume``; None if there is none.

    ``root`` is the directory of the folders.
    """
    # Kubernetes has found no existing volume, and asks this provisioner for one.
    metadata = claim["metadata"]
    if (
        metadata.get("annotations", {}).get("volume.kubernetes.io/storage-provisioner") == PROVISIONER
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in metadata
    ):
        if rejected := check_claim(claim):
            return rejected
        return CreateVolume(build_volume(claim, node, root)) if volume is None else None
    if volume is None or find_folder(volume, root) is None or claim.get("status", {}).get("phase") != "Bound":
        return None
    capacity = {"storage": _request(claim)}
    if volume["spec"]["capacity"] != capacity:
        return ResizeVolume(volume["metadata"]["name"], capacity)
    return ResizeClaim(capacity) if claim["status"].get("capacity") != capacity else None


def choose_reclaim_step(volume: Object, root: Path) -> Step | None:
    """Return the next step to reclaim a PersistentVolume; None if it is not this machine's, or in use."""
    path, phase = find_folder(volume, root), volume.get("status", {}).get("phase")
    if path is None or phase == "Bound":
        return None
    metadata, is_kept = volume["metadata"], volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete"
    if "deletionTimestamp" not in metadata:
        return DeleteVolume() if phase == "Released" and not is_kept else None
    if PROVISIONER not in metadata.get("finalizers", ()):
        return None
    return ReleaseVolume(None if is_kept else path)


def check_claim(claim: Mapping[str, Any]) -> Rejected | None:
    """Return why a claim cannot have a folder of this machine; None if it can."""
    spec = claim["spec"]
    if spec.get("storageClassName") != STORAGE_CLASS:
        return Rejected(
            subject=f'StorageClass "{spec.get("storageClassName", "")}"',
            detail=f'uses provisioner "{PROVISIONER}", which supports only StorageClass "{STORAGE_CLASS}"',
            remedy="create the claim with that storageClassName",
        )
    if spec.get("volumeMode") == "Block":
        return Rejected(detail="a folder is not a block device", remedy="omit volumeMode")
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        fault = "a folder can't be created from a snapshot or another claim"
        return Rejected(detail=fault, remedy="omit dataSource and dataSourceRef")
    if spec.get("selector"):
        fault = "a volume that is created for a claim has no labels to select"
        return Rejected(detail=fault, remedy="omit the selector")
    return None


def build_volume(claim: Mapping[str, Any], node: str, root: Path) -> Object:
    """Return the PersistentVolume for a claim."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = name_volume(claim)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {_PROVISIONED_BY: PROVISIONER},
            "finalizers": [PROVISIONER],
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": _request(claim)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(root / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": STORAGE_CLASS,
            "volumeMode": "Filesystem",
        },
    }


def find_folder(volume: Mapping[str, Any], root: Path) -> Path | None:
    """Return the folder of a PersistentVolume; None if the volume is not this machine's."""
    path = root / volume["metadata"]["name"]
    provisioned_by = volume["metadata"].get("annotations", {}).get(_PROVISIONED_BY)
    same = volume["spec"].get("local", {}).get("path") == str(path)
    return path if same and provisioned_by == PROVISIONER else None


def _request(claim: Mapping[str, Any]) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def build_storage_classes() -> list[Object]:
    """Return the StorageClass of a local cluster."""
    storage_class: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        # A cluster has one node, so there is nothing to wait for.
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }
    return [storage_class]
