"""Storage of a cluster for ModelCaches: the StorageClass that its cloud asks for."""

from collections.abc import Iterator
from typing import Any, Final

from modelplane.api.clouds.serving_stack import StackStorage
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists
from modelplane.compose.serving_stack.component import Plan
from modelplane.compose.workload_kinds import STORAGE_CLASS

KEY: Final = "storage-class"
"""Key of the StorageClass, and name of its component."""

_RECLAIM = "Delete"
"""The volume of a ModelCache that is deleted goes away; its files can be staged again."""

_FIXED = ("parameters", "volumeBindingMode")
"""Fields that Kubernetes does not change. The provisioner of a StorageClass of ours never does."""


def check(plan: Plan) -> Rejected | None:
    """Return why the StorageClass cannot be written; None if it can."""
    storage = plan.stack.spec.storage_class
    if storage is None:
        return Rejected(
            subject="storageClass of the stack",
            detail="is empty: only clusters of clouds have one, once it is known",
        )
    observed = plan.request.observed.get(KEY)
    wanted = _manifest(storage)
    if observed is None or all(observed.get(field, {}) == wanted.get(field, {}) for field in _FIXED):
        return None
    return Rejected(
        subject=f'StorageClass "{storage.name}"',
        detail="has other parameters, which Kubernetes does not change",
        remedy="delete it on the cluster, and it is made anew. Volumes stay as they are",
    )


def objects(plan: Plan) -> Iterator[Desired]:
    """Yield the StorageClass."""
    if storage := plan.stack.spec.storage_class:
        yield Desired(KEY, _manifest(storage), exists, plan.cluster)


def _manifest(storage: StackStorage) -> Object:
    manifest: dict[str, Any] = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": storage.name},
        "provisioner": storage.provisioner,
        "reclaimPolicy": _RECLAIM,
        "volumeBindingMode": str(storage.volume_binding_mode),
        "allowVolumeExpansion": storage.allow_volume_expansion,
    }
    if storage.parameters:
        manifest["parameters"] = dict(storage.parameters)
    if storage.mount_options:
        manifest["mountOptions"] = list(storage.mount_options)
    return manifest
