"""Policy of NVIDIA's network operator: the drivers and devices of InfiniBand on the nodes that have cards.

The chart installs an operator that does nothing without the policy. Pods that share the cards ask for
``rdma/shared_ib``.

Sources: NVIDIA Network Operator 26.4.0, "NicClusterPolicy" and "Platform Support"; Azure, "RDMA over
InfiniBand on AKS".
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import is_ready
from modelplane.compose.serving_stack.component import GPU_TOLERATION, Plan
from modelplane.compose.workload_kinds import NIC_CLUSTER_POLICY

KEY: Final = "nic-cluster-policy"
"""Key of the policy, and its name: the operator reads no other."""

VERSION: Final = "26.4.0"
"""Version of the chart, whose images are named below. Source: reference API, 4.3: chart network-operator."""

REPOSITORY: Final = "nvcr.io/nvidia/mellanox"
IMAGES: Final = {
    "ofedDriver": ("doca-driver", "doca3.4.0-26.04-0.8.6.0-0"),
    "rdmaSharedDevicePlugin": ("k8s-rdma-shared-dev-plugin", f"network-operator-v{VERSION}"),
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


def objects(plan: Plan) -> Iterator[Desired]:
    """Yield the policy, once the chart has brought its definition; ready once the operator says so."""
    release = plan.request.observed.get(str(ComponentName.NETWORK_OPERATOR), {})
    if KEY in plan.request.observed or is_ready(release):
        yield Desired(KEY, _manifest(), is_ready, plan.cluster)


def _manifest() -> dict[str, Any]:
    has_cards = {
        "key": f"feature.node.kubernetes.io/pci-{_VENDOR}.present",
        "operator": "In",
        "values": ["true"],
    }
    return {
        "apiVersion": NIC_CLUSTER_POLICY.api_version,
        "kind": NIC_CLUSTER_POLICY.kind,
        "metadata": {"name": KEY},
        "spec": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [has_cards]}]
                }
            },
            "tolerations": [GPU_TOLERATION],
            "ofedDriver": {
                **_image("ofedDriver"),
                "startupProbe": {"initialDelaySeconds": 10, "periodSeconds": 20},
                "livenessProbe": {"initialDelaySeconds": 30, "periodSeconds": 30},
                "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 30},
            },
            "rdmaSharedDevicePlugin": {
                **_image("rdmaSharedDevicePlugin"),
                "config": json.dumps({"configList": [_SHARED]}),
            },
        },
    }


def _image(part: str) -> dict[str, str]:
    image, version = IMAGES[part]
    return {"image": image, "repository": REPOSITORY, "version": version}
