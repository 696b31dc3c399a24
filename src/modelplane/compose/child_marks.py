"""Marks of children on inference clusters: the labels and annotations that name Modelplane, owner and key.

The controllers and the Crossplane function write the same ones. The admission policies of a cluster admit
only what has the label of a fleet.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.compose.cluster.cluster_namespace import OURS
from modelplane.compose.composition import Desired


def mark(owner: Mapping[str, Any], child: Desired) -> dict[str, Any]:
    """Return a child's manifest with its marks; only a child on a cluster names its owner by them."""
    manifest: Object = child.manifest
    metadata, owned = manifest["metadata"], owner["metadata"]
    own_labels, own_annotations = dict(OURS), {labels.CHILD: child.key}
    if child.cluster:
        own_labels[labels.OWNER_UID] = owned["uid"]
        own_annotations |= {
            labels.OWNER_KIND: owner["kind"],
            labels.OWNER_NAMESPACE: owned.get("namespace", ""),
            labels.OWNER_NAME: owned["name"],
        }
    return {
        **manifest,
        "metadata": {
            **metadata,
            "labels": {**metadata.get("labels", {}), **own_labels},
            "annotations": {**metadata.get("annotations", {}), **own_annotations},
        },
    }
