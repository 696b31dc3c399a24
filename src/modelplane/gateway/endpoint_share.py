"""Share of a service: the number of endpoints that its route may lead to, of those of its namespace.

A route costs the controllers and the gateway work for each of its endpoints. The sum over the services of a
namespace is therefore bounded, so that one team's services take nothing from another's.
"""

from dataclasses import dataclass

MOST_IN_NAMESPACE = 10_000
"""Maximum of endpoints to which the services of a namespace route, summed over its services."""


@dataclass(frozen=True, slots=True)
class EndpointShare:
    """The endpoints that a service may route to."""

    most: int
    """Number of endpoints: those that the route has, and those that nobody in the namespace has."""
    is_beyond: bool = False
    """True if the service keeps endpoints that its namespace's maximum leaves to older services."""
