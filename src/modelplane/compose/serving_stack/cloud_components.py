"""Components that only clusters of single clouds need: one row each.

An InferenceCluster enables them for its cloud, with the values that depend on the cluster (``inside``).
"""

from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack import cache_storage, nic_policy
from modelplane.compose.serving_stack.component import GPU_TOLERATION, Component, Plan, Values

_SYSTEM = "kube-system"

_AUTOSCALER_VERSION = "9.57.0"
"""Source: reference API, 4.2: chart cluster-autoscaler."""
_AUTOSCALER_ACCOUNT = "cluster-autoscaler"
"""The ServiceAccount that has the role. Source: ``clouds/eks/identity.py``, ``POD_ROLES``."""
_EFA_VERSION = "1.0.0"
"""Source: reference API, 4.2: chart aws-dranet."""
_MOUNTED_VERSION = "0.1.6"
"""Source: reference API, 4.4: chart csi-mounted-fs-path."""
_DATA_FOLDER = "/mnt/data/csi-mounted-fs-path-data/"
"""Source: reference API, 4.4; the folder is in the file system that cloud-init mounts."""


def _autoscaler(_plan: Plan) -> Values:
    # Pools that differ in their zone only grow alike.
    return {
        "cloudProvider": "aws",
        "rbac": {"serviceAccount": {"name": _AUTOSCALER_ACCOUNT}},
        "extraArgs": {"balance-similar-node-groups": True},
    }


def _on_gpu_nodes(_plan: Plan) -> Values:
    return {"tolerations": [GPU_TOLERATION]}


def _network_operator(_plan: Plan) -> Values:
    # Node Feature Discovery is a component of its own.
    return {
        # Its rules label the nodes with cards.
        "nfd": {"enabled": False, "deployNodeFeatureRules": True},
        "operator": {"tolerations": [GPU_TOLERATION]},
    }


def _mounted_file_system(_plan: Plan) -> Values:
    return {"dataDir": _DATA_FOLDER, "tolerations": [GPU_TOLERATION]}


CLOUD_COMPONENTS = (
    Component(
        Name.STORAGE_CLASS,
        "The StorageClass for ModelCaches, on GKE, EKS, AKS and Nebius.",
        objects=cache_storage.objects,
        object_keys=(cache_storage.KEY,),
        check=cache_storage.check,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.CLUSTER_AUTOSCALER,
        "The number of nodes of each pool, on EKS. The other clouds scale pools themselves.",
        Chart("cluster-autoscaler", "https://kubernetes.github.io/autoscaler"),
        lambda _versions: _AUTOSCALER_VERSION,
        _SYSTEM,
        _autoscaler,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.EFA_DRA_DRIVER,
        "The devices of Elastic Fabric Adapters, on EKS if a pool has some.",
        Chart("aws-dranet", "https://aws.github.io/eks-charts"),
        lambda _versions: _EFA_VERSION,
        _SYSTEM,
        _on_gpu_nodes,
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.NETWORK_OPERATOR,
        "The drivers and devices of InfiniBand, on AKS if a pool has it.",
        Chart("network-operator", "https://helm.ngc.nvidia.com/nvidia"),
        lambda _versions: nic_policy.VERSION,
        "network-operator",
        _network_operator,
        objects=nic_policy.objects,
        object_keys=(nic_policy.KEY,),
        after=(Name.NODE_FEATURE_DISCOVERY,),
        in_standard=False,
        optional=True,
    ),
    Component(
        Name.MOUNTED_FILE_SYSTEM,
        "The driver of the StorageClass, on Nebius if nodes mount the file system.",
        Chart("csi-mounted-fs-path", "oci://cr.eu-north1.nebius.cloud/mk8s/helm"),
        lambda _versions: _MOUNTED_VERSION,
        _SYSTEM,
        _mounted_file_system,
        in_standard=False,
        optional=True,
    ),
)
