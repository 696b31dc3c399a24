"""The objects of a live fleet, of several kinds."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from modelplane.cli.live import Live, read

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Object, Resource


def read_fleet(live: Live, needed: "Iterable[Resource]") -> "list[Object]":
    """Return them; none of a kind that an installation of an earlier version does not have."""
    from modelplane.controllers.fleet_resources import LATER_KINDS
    from modelplane.kube.errors import NotFound

    async def list_all(client: "Client") -> "list[Object]":
        objects: list[Object] = []
        for resource in needed:
            try:
                objects += (await client.list(resource)).items
            except NotFound:
                if resource not in LATER_KINDS:
                    raise
        return objects

    return read(live, "the fleet", list_all)
