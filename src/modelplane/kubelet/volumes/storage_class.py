"""Storage on this machine: a StorageClass whose volumes are folders (Kubernetes, "Storage Classes").

``agent.provisioner`` makes the volumes. The kernel is not asked to limit them: what a claim requests is
what its volume says of itself, and no more.
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
