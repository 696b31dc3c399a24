"""Addresses of pods: the one to bind, and its name in the API.

A pod without its own network namespace gets an address of the loopback range, but the API refuses loopback
addresses in an EndpointSlice. So each pod binds 127.77.a.b and is reported as 198.18.a.b, of the range that
RFC 2544 reserves for tests between hosts. Clients on this machine map it back.
"""

import ipaddress

_NODE_BLOCKS = 16
"""Number of nodes on one machine that the pod addresses are divided among."""

_BOUND = "127.77."
_REPORTED = "198.18."

POD_CIDR = f"{_REPORTED}0.0/16"
"""The addresses of all pods of one machine, as the API shows them."""


def find_cidr(place: int) -> str:
    """Return the pod CIDR of one of this machine's nodes, as the API shows it."""
    return f"{_REPORTED}{256 // _NODE_BLOCKS * place}.0/20"


def find_bound(reported_address: str) -> str:
    """Return the address to dial for a reported address; return a foreign one unchanged."""
    if reported_address.startswith(_REPORTED):
        return _BOUND + reported_address.removeprefix(_REPORTED)
    return reported_address


def find_reported(bound_address: str) -> str:
    """Return the address that the API shows for the one that a pod binds."""
    if not bound_address.startswith(_BOUND):
        raise ValueError(f"{bound_address!r} is not a pod's address: it does not start with {_BOUND!r}")
    return _REPORTED + bound_address.removeprefix(_BOUND)


def is_loopback(host: str) -> bool:
    """Return True if only programs of this machine can connect to a host that a server listens on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
