"""Fallback of a route with tiers: Envoy takes the next group of clusters for each attempt.

Of Envoy's means, only this one both chooses again for each attempt and runs the filters below the router for
it, so that no backend gets the path, the Host or the credential of another one. It draws one random number
for a request, and takes the cluster into whose part of the group's weights the number falls.

A request asks backends of the first tier, then those of the next, each at most once. The shares of a tier are
arranged so that the number, which decides about all attempts, never leads to one backend twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from modelplane.api.schema.untyped import get_map
from modelplane.gateway.envoy.clusters import name_cluster
from modelplane.gateway.envoy.envoy_names import ENVOY
from modelplane.gateway.route_table import Backend, Listener

MOST_PER_TIER = 3
"""Maximum of backends of one tier that a request asks, before it asks the next tier."""

_MOST_PARTS = 4
"""Maximum of backends that take over the requests of one that fails, in equal parts."""

_MOST_SHARES = 128
"""Maximum of shares at an attempt, but for a tier with more backends than this: they cost memory and time."""

Shares = tuple[tuple[Backend, int], ...]
"""Backends with the share of requests that each gets at an attempt; one may occur several times."""


def plan_attempts(backends: Sequence[Backend], *, is_ordered: bool = False) -> list[Shares]:
    """Return the shares of the backends at each attempt, over all tiers.

    There are none if there is only one tier, unless an order of the backends is handed over per request.
    """
    ordered = sorted(backends, key=lambda backend: (backend.priority, backend.name))
    tiers = [list(tier) for _, tier in groupby(ordered, key=lambda backend: backend.priority)]
    return [shares for tier in tiers for shares in _of_tier(tier)] if len(tiers) > 1 or is_ordered else []


def _of_tier(tier: Sequence[Backend]) -> Iterator[Shares]:
    """Yield the shares at each attempt: by weight at first, then each share is divided among the others."""
    others = len(tier) - 1
    parts = max(1, min(others, _MOST_PARTS, _MOST_SHARES // len(tier)))
    yield tuple((backend, backend.weight * parts) for backend in tier)
    for attempt in range(min(others, MOST_PER_TIER - 1)):
        yield tuple(
            (tier[(first + 1 + (part * others // parts + attempt) % others) % len(tier)], backend.weight)
            for first, backend in enumerate(tier)
            for part in range(parts)
        )


ASKED = "modelplane-debug"
"""Header of a request that asks which backend answers, with the value ``true``."""

TOLD = "modelplane-served-by"
"""Header of the answer: the backend and its priority."""

_NAMES = "modelplane.served_by"
_ORDER = "modelplane.order"
_KEY = "inline_cluster_specifier_plugin"
_TYPE = "extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupClusterSpecifier"


def build_specifier(listener: Listener, groups: Sequence[Shares]) -> dict[str, Any]:
    """Return the part of an Envoy route that chooses the cluster of each attempt."""
    configuration = {
        "@type": f"{ENVOY}{_TYPE}",
        "priority_groups": [
            {
                "name": f"attempt-{number}",
                "clusters": [
                    {"cluster_name": name_cluster(listener, backend), "weight": weight}
                    for backend, weight in shares
                ],
            }
            for number, shares in enumerate(groups, start=1)
        ],
    }
    name = "envoy.router.cluster_specifier_plugin.priority_group"
    return {_KEY: {"extension": {"name": name, "typed_config": configuration}}}


def build_ordered(
    specifier: dict[str, Any], listener: Listener, backends: Sequence[Backend]
) -> dict[str, Any]:
    """Return such a part of a route with a group for each backend, whose order the module hands over.

    No attempt reaches these groups by itself: they come after those of the attempts.
    """
    extension = specifier[_KEY]["extension"]
    configuration = extension["typed_config"]
    own = [
        {"name": backend.name, "clusters": [{"cluster_name": name_cluster(listener, backend), "weight": 1}]}
        for backend in sorted(backends, key=lambda backend: backend.name)
    ]
    groups = {"priority_groups": [*configuration["priority_groups"], *own]}
    handed_over = {**configuration, **groups, "override_metadata_namespace": _ORDER}
    return {_KEY: {"extension": {**extension, "typed_config": handed_over}}}


def build_names(listener: Listener, backends: Sequence[Backend]) -> dict[str, Any]:
    """Return the metadata of an Envoy route for the header of its answers."""
    return {
        _NAMES: {
            name_cluster(listener, backend): f"{backend.name}; priority={backend.priority}"
            for backend in backends
        }
    }


def answer() -> dict[str, Any]:
    """Return the part of an Envoy route that names the backend to a client that asks."""
    name = f"xds.route_metadata.filter_metadata['{_NAMES}'][xds.cluster_name]"
    value = f"%CEL(request.headers['{ASKED}'] == 'true' ? {name} : '')%"
    header = {"header": {"key": TOLD, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {"response_headers_to_add": [header]}


def list_clusters(action: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the clusters that such a part of a route names."""
    for group in get_map(action.get(_KEY, {}), "extension", "typed_config").get("priority_groups", ()):
        for cluster in group["clusters"]:
            yield cluster["cluster_name"]
