"""Addresses of the pods of this machine.

An address follows from the pod's uid, so that it is the same after a restart and one that was
just given up is not given at once to another, to whom a proxy might still send its traffic. Nodes
that share a machine have ranges of their own.
"""

import zlib
from collections.abc import Collection
from ipaddress import IPv4Network

from modelplane.host import addresses


def choose(uid: str, taken: Collection[str], within: IPv4Network) -> str:
    """Return a free address for a pod; ``RuntimeError`` when there is none."""
    start, count = zlib.crc32(uid.encode()), within.num_addresses
    for step in range(count):
        reported = within[(start + step) % count]
        address = addresses.bound(str(reported))
        # Those that end in 0 or 255 look like networks to some programs.
        if reported.packed[-1] not in {0, 255} and address not in taken:
            return address
    raise RuntimeError(
        f"cannot give pod {uid!r} an address: all of {within} are taken: delete pods of this node"
    )
