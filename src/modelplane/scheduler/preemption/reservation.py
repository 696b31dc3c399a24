"""Reservation: the place of a replica that comes first and does not exist yet."""

import msgspec

from modelplane.scheduler.types import Deployment, PlacedEngine, Replica


class Reservation(msgspec.Struct, frozen=True):
    """A place on a cluster for a replica of a deployment.

    Replicas `instead_of` which it is to be placed still hold capacity; it takes only what it needs beyond.
    """

    deployment: Deployment
    cluster: str
    engines: tuple[PlacedEngine, ...]
    instead_of: tuple[Replica, ...] = ()

    @property
    def beyond(self) -> tuple[PlacedEngine, ...]:
        """Engines of the replicas on the same cluster that leave for it."""
        leaving = (replica for replica in self.instead_of if replica.cluster == self.cluster)
        return tuple(engine for replica in leaving for engine in replica.engines)
