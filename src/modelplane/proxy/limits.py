"""Limits of one Envoy: memory and connections, so that load beyond them is refused and Envoy keeps running.

Configuration reference: envoy v1.40, "Overload manager".
"""

import resource
from contextlib import suppress
from typing import Any

from modelplane.gateway.envoy.listeners import MOST_STREAMS
from modelplane.gateway.envoy.type_urls import RESOURCE_MONITORS

_HEAP_SHARE = 0.85
"""Share of the memory limit for the heap; the rest is code, stacks and fragmentation."""

_MOST_CONNECTIONS = 20_000
_RESERVED_DESCRIPTORS = 200
_HEAP = "envoy.resource_monitors.fixed_heap"

# Accounting per stream costs time, and a stream with less than this is not worth a reset.
_LEAST_ACCOUNTED_LOG2 = 16


def raise_descriptors() -> int:
    """Raise this process's limit of open files to what the system allows; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _enough_descriptors() if hard == resource.RLIM_INFINITY else min(hard, _enough_descriptors())
    if soft != resource.RLIM_INFINITY and soft < most:
        # Some systems name a limit that they do not grant.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return most if soft == resource.RLIM_INFINITY else soft


def connections(descriptors: int) -> int:
    """Return how many connections a limit of open files is enough for.

    Each takes a descriptor, and so does the connection to a backend of each request that it carries.
    """
    return max(min(_MOST_CONNECTIONS, (descriptors - _RESERVED_DESCRIPTORS) // (1 + MOST_STREAMS)), 1)


def _enough_descriptors() -> int:
    return _MOST_CONNECTIONS * (1 + MOST_STREAMS) + _RESERVED_DESCRIPTORS


def overload_manager(memory_bytes: int, descriptors: int) -> dict[str, Any]:
    """Return the ``OverloadManager`` of an Envoy with a limit of memory and of open files.

    Short of memory, it first resets the streams of HTTP/2 that hold most, then answers 503 to requests and to
    uploads in progress, then accepts no connection. Answers in progress go on.
    """
    return {
        "refresh_interval": "0.1s",
        "resource_monitors": [
            _monitor(
                "envoy.resource_monitors.global_downstream_max_connections",
                "downstream_connections.v3.DownstreamConnectionsConfig",
                {"max_active_downstream_connections": connections(descriptors)},
            ),
            _monitor(
                _HEAP,
                "fixed_heap.v3.FixedHeapConfig",
                {"max_heap_size_bytes": int(memory_bytes * _HEAP_SHARE)},
            ),
        ],
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _LEAST_ACCOUNTED_LOG2},
        "actions": [
            _action("shrink_heap", {"threshold": {"value": 0.85}}),
            _action(
                "reset_high_memory_stream",
                {"scaled": {"scaling_threshold": 0.85, "saturation_threshold": 0.95}},
            ),
            _action("stop_accepting_requests", {"threshold": {"value": 0.95}}),
            _action("stop_accepting_connections", {"threshold": {"value": 0.98}}),
        ],
        "loadshed_points": [
            {
                "name": "envoy.load_shed_points.http1_server_abort_dispatch",
                "triggers": [{"name": _HEAP, "threshold": {"value": 0.95}}],
            }
        ],
    }


def _monitor(name: str, type_: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"{RESOURCE_MONITORS}{type_}", **fields}}


def _action(name: str, trigger: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": _HEAP, **trigger}]}
