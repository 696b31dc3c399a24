"""Addresses of the pods of this machine.

An address follows from the pod's uid, so it is the same after a restart, and a released one is not reused at
once while proxies may still send traffic to it. Nodes that share a machine have separate ranges.
"""

import zlib
from collections.abc import Collection
from ipaddress import IPv4Network

from modelplane.host import addresses


def choose(uid: str, taken: Collection[str], within: IPv4Network) -> str:
    """Return a free address for a pod; raise ``RuntimeError`` if there is none."""
    start, count = zlib.crc32(uid.encode()), within.num_addresses
    for step in range(count):
        reported = within[(start + step) % count]
        address = addresses.bound(str(reported))
        # Some programs take an address that ends in 0 or 255 for a network's.
        if reported.packed[-1] not in {0, 255} and address not in taken:
            return address
    raise RuntimeError(
        f"cannot give pod {uid!r} an address: all of {within} are taken: delete pods of this node"
    )
