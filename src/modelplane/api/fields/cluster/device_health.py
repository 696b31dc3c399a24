"""Health of devices, as the status of pods reports it (KEP-4680)."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

MAX_UNHEALTHY = 32
"""Devices of a replica that its status lists."""


class Health(StrEnum):
    """Health of a device in the status of a pod."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class UnhealthyDevice(Model):
    """A device of a pod that its driver reports as unhealthy."""

    pod: Annotated[str, about("Name of the pod on the cluster.", max_length=253)]
    device: Annotated[
        str,
        about(
            "ID of the device in the status of the pod: driver, pool and name, or an ID of the Container "
            "Device Interface.",
            max_length=512,
        ),
    ]
