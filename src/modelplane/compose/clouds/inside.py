"""Inside a cluster of a cloud: components of its serving stack, and storage for ModelCaches."""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api.clouds.cloud_rows import Cloud, get_traits
from modelplane.api.clouds.serving_stack import StackStorage, VolumeBinding
from modelplane.api.fields.cluster.stack_components import ComponentName


class Inside(msgspec.Struct, frozen=True):
    """The components that only clusters of a cloud need, and its StorageClass."""

    components: Mapping[ComponentName, Mapping[str, Any]] = {}
    """Their values for this cluster, by name."""
    storage: StackStorage | None = None
    """None if the cloud has none, or while a parameter is unknown."""


def storage(
    cloud: Cloud, parameters: Mapping[str, str], binding: VolumeBinding, **settings: Any
) -> StackStorage:
    """Return the StorageClass of a cloud."""
    row = get_traits(cloud)
    return StackStorage(
        name=row.cache_storage,
        provisioner=row.cache_provisioner,
        parameters=parameters,
        volume_binding_mode=binding,
        **settings,
    )
