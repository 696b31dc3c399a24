"""Components that only clusters of single clouds need: one row each, and the objects beside their charts.

An InferenceCluster enables them for its cloud, with the values that depend on the cluster (``Inside``).

NVIDIA's network operator does nothing without a policy, which names the drivers and devices of InfiniBand for
the nodes that have cards. Pods that share the cards ask for ``rdma/shared_ib``.

Sources: NVIDIA Network Operator 26.4.0, "NicClusterPolicy" and "Platform Support"; Azure, "RDMA over
InfiniBand on AKS".
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from modelplane.api.clouds.serving_stack import StackStorage
from modelplane.api.fields.cluster.stack_components import ComponentName, ComponentName as Name
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists, is_ready
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack.component import GPU_TOLERATION, Component, Plan
from modelplane.compose.workload_kinds import NIC_CLUSTER_POLICY, STORAGE_CLASS

_SYSTEM = "kube-system"

_AUTOSCALER_VERSION = "9.57.0"
"""Version of the chart cluster-autoscaler."""

_AUTOSCALER_ACCOUNT = "cluster-autoscaler"
"""The ServiceAccount that has the role. Source: ``clouds/eks_identity.py``, ``POD_ROLES``."""

_EFA_VERSION = "1.0.0"
"""Version of the chart aws-dranet."""

_MOUNTED_VERSION = "0.1.6"
"""Version of the chart csi-mounted-fs-path."""

_DATA_FOLDER = "/mnt/data/csi-mounted-fs-path-data/"
"""Folder of the volumes, in the file system that cloud-init mounts."""

STORAGE_CLASS_KEY: Final = "storage-class"
"""Key of the StorageClass, and name of its component."""

_RECLAIM = "Delete"
"""The volume of a ModelCache that is deleted goes away; its files can be staged again."""

_FIXED_OF_STORAGE = ("parameters", "volumeBindingMode")
"""Fields that Kubernetes does not change. The provisioner of a StorageClass of ours never does."""

NIC_POLICY_KEY: Final = "nic-cluster-policy"
"""Key of the policy, and its name: the operator reads no other."""

NETWORK_OPERATOR_VERSION: Final = "26.4.0"
"""Version of the chart network-operator, whose images are named below."""

NIC_REPOSITORY: Final = "nvcr.io/nvidia/mellanox"

NIC_IMAGES: Final = {
    "ofedDriver": ("doca-driver", "doca3.4.0-26.04-0.8.6.0-0"),
    "rdmaSharedDevicePlugin": ("k8s-rdma-shared-dev-plugin", f"network-operator-v{NETWORK_OPERATOR_VERSION}"),
}
"""Image and version of each part that the operator runs."""

_VENDOR: Final = "15b3"
"""NVIDIA's network cards, on the bus and in the label of node feature discovery."""

_PODS_OF_A_NODE: Final = 63

_SHARED: Final = {
    "resourceName": "shared_ib",
    "rdmaHcaMax": _PODS_OF_A_NODE,
    "selectors": {"vendors": [_VENDOR], "linkTypes": ["infiniband"]},
}


def check_storage(plan: Plan) -> Rejected | None:
    """Return why the StorageClass cannot be written; None if it can."""
    storage = plan.stack.spec.storage_class
    if storage is None:
        return Rejected(
            subject="storageClass of the stack",
            detail="is empty: only provisioned clusters have a StorageClass, once it is known",
        )
    observed = plan.request.observed.get(STORAGE_CLASS_KEY)
    wanted = _write_storage_class(storage)
    if observed is None or all(
        observed.get(field, {}) == wanted.get(field, {}) for field in _FIXED_OF_STORAGE
    ):
        return None
    return Rejected(
        subject=f'StorageClass "{storage.name}"',
        detail="has different parameters, which Kubernetes can't change",
        remedy="delete it on the cluster, and Modelplane creates it again. Volumes don't change",
    )


def compose_storage(plan: Plan) -> Iterator[Desired]:
    """Yield the StorageClass."""
    if storage := plan.stack.spec.storage_class:
        yield Desired(STORAGE_CLASS_KEY, _write_storage_class(storage), exists, plan.cluster)


def _write_storage_class(storage: StackStorage) -> Object:
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


def compose_nic_policy(plan: Plan) -> Iterator[Desired]:
    """Yield the policy, once the chart has brought its definition; ready once the operator says so."""
    release = plan.request.observed.get(str(ComponentName.NETWORK_OPERATOR), {})
    if NIC_POLICY_KEY not in plan.request.observed and not is_ready(release):
        return
    has_cards = {
        "key": f"feature.node.kubernetes.io/pci-{_VENDOR}.present",
        "operator": "In",
        "values": ["true"],
    }
    manifest: Object = {
        "apiVersion": NIC_CLUSTER_POLICY.api_version,
        "kind": NIC_CLUSTER_POLICY.kind,
        "metadata": {"name": NIC_POLICY_KEY},
        "spec": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [has_cards]}]
                }
            },
            "tolerations": [GPU_TOLERATION],
            "ofedDriver": {
                **_write_nic_image("ofedDriver"),
                "startupProbe": {"initialDelaySeconds": 10, "periodSeconds": 20},
                "livenessProbe": {"initialDelaySeconds": 30, "periodSeconds": 30},
                "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 30},
            },
            "rdmaSharedDevicePlugin": {
                **_write_nic_image("rdmaSharedDevicePlugin"),
                "config": json.dumps({"configList": [_SHARED]}),
            },
        },
    }
    yield Desired(NIC_POLICY_KEY, manifest, is_ready, plan.cluster)


def _write_nic_image(part: str) -> dict[str, str]:
    image, version = NIC_IMAGES[part]
    return {"image": image, "repository": NIC_REPOSITORY, "version": version}


CLOUD_COMPONENTS = (
    Component(
        Name.STORAGE_CLASS,
        "The StorageClass for ModelCaches. Enabled on GKE, EKS, AKS and Nebius.",
        objects=compose_storage,
        object_keys=(STORAGE_CLASS_KEY,),
        check=check_storage,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.CLUSTER_AUTOSCALER,
        "Scales each pool. Enabled on EKS. The other clouds scale pools themselves.",
        Chart("cluster-autoscaler", "https://kubernetes.github.io/autoscaler"),
        lambda _versions: _AUTOSCALER_VERSION,
        _SYSTEM,
        lambda _plan: {
            "cloudProvider": "aws",
            "rbac": {"serviceAccount": {"name": _AUTOSCALER_ACCOUNT}},
            # Pools that differ in their zone only grow alike.
            "extraArgs": {"balance-similar-node-groups": True},
        },
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.EFA_DRA_DRIVER,
        "Devices for Elastic Fabric Adapters. Enabled on EKS if a pool uses them.",
        Chart("aws-dranet", "https://aws.github.io/eks-charts"),
        lambda _versions: _EFA_VERSION,
        _SYSTEM,
        lambda _plan: {"tolerations": [GPU_TOLERATION]},
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.NETWORK_OPERATOR,
        "Drivers and devices for InfiniBand. Enabled on AKS if a pool uses InfiniBand.",
        Chart("network-operator", "https://helm.ngc.nvidia.com/nvidia"),
        lambda _versions: NETWORK_OPERATOR_VERSION,
        "network-operator",
        lambda _plan: {
            # Node Feature Discovery is a component of its own. Its rules label the nodes with cards.
            "nfd": {"enabled": False, "deployNodeFeatureRules": True},
            "operator": {"tolerations": [GPU_TOLERATION]},
        },
        objects=compose_nic_policy,
        object_keys=(NIC_POLICY_KEY,),
        after=(Name.NODE_FEATURE_DISCOVERY,),
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.MOUNTED_FILE_SYSTEM,
        "The StorageClass's driver. Enabled on Nebius if nodes mount the file system.",
        Chart("csi-mounted-fs-path", "oci://cr.eu-north1.nebius.cloud/mk8s/helm"),
        lambda _versions: _MOUNTED_VERSION,
        _SYSTEM,
        lambda _plan: {"dataDir": _DATA_FOLDER, "tolerations": [GPU_TOLERATION]},
        in_standard=False,
        optional=True,
    ),
)
