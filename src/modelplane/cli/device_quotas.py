"""The DeviceQuotas of a live fleet."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Object


async def device_quotas(client: "Client") -> "list[Object]":
    """Return them; none of an installation of an earlier version, which has no such kind."""
    from modelplane.controllers import fleet_resources
    from modelplane.kube.errors import NotFound

    try:
        return list((await client.list(fleet_resources.DEVICE_QUOTAS)).items)
    except NotFound:
        return []
