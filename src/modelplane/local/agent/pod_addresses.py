"""Which address each pod of this machine binds.

An address follows from the pod's uid, so that it is the same after a restart and one that was
just given up is not given at once to another, to whom a proxy might still send its traffic.
"""

import zlib
from collections.abc import Collection

from modelplane.local import addresses

_HOSTS = range(1, 255)
_COUNT = 256 * len(_HOSTS)


def choose(uid: str, taken: Collection[str]) -> str:
    """Return a free address for a pod; ``RuntimeError`` when there is none."""
    start = zlib.crc32(uid.encode())
    for step in range(_COUNT):
        high, low = divmod((start + step) % _COUNT, len(_HOSTS))
        address = addresses.bound(f"198.18.{high}.{_HOSTS[low]}")
        if address not in taken:
            return address
    raise RuntimeError(
        f"cannot give pod {uid!r} an address: all {_COUNT} are taken: delete pods of this node"
    )
