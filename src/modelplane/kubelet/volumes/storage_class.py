"""Storage on this machine: a StorageClass whose volumes are folders (Kubernetes, "Storage Classes").

The volumes are created by ``provisioner``. Nothing enforces their size: the capacity of a volume is the
request of its claim.
"""

from modelplane.kube.resources import Object

STORAGE_CLASS = "modelplane-local"
"""Its volumes may be mounted by many pods at once, all on one node, so ModelCaches can use it."""

PROVISIONER = "modelplane.ai/local-folder"


def manifests() -> list[Object]:
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
