"""Data path of clusters: whether the addresses that the gateway sends requests to accept connections.

A connection is opened and closed, without a request. One address that accepts is enough; three rounds in a
row without any are needed to say that none does.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from modelplane.api.meta import Object
from modelplane.deciders.cluster_health import Evidence, Witness

Address: TypeAlias = tuple[str, int]

_ROUNDS: Final = 3
_TIMEOUT_S: Final = 3.0
_AT_A_TIME: Final = 256
"""Clusters that are tried at a time: a round over a thousand silent ones must not count as a stall."""
_HTTP_PORT: Final = 80
_HTTPS_PORT: Final = 443
_MOST: Final = 8
"""Addresses of one cluster that are tried."""

_BAD: Final = Witness(Evidence.BAD, "no address of its replicas accepts connections")


def gateway_addresses(cluster: Object) -> tuple[Address, ...]:
    """Return the address of an InferenceCluster's gateway, as its status has it.

    Empty if it has none, or one that is malformed: a cluster tells it, and is not trusted.
    """
    gateway = cluster.get("status", {}).get("gateway") or {}
    usual = _HTTPS_PORT if gateway.get("serverName") else _HTTP_PORT
    try:
        parts = urlsplit(f"//{gateway.get('address', '')}")
        port = parts.port or usual
    except ValueError:
        return ()
    return ((parts.hostname, port),) if parts.hostname else ()


class DataPath:
    """The witness of each cluster whose addresses are known."""

    def __init__(self) -> None:
        self._failed: Counter[str] = Counter()
        self._known: dict[str, Witness] = {}
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    def of(self, cluster: str) -> Witness:
        """Return what is known of a cluster's data path."""
        return self._known.get(cluster, Witness())

    async def look(self, addresses: Mapping[str, Collection[Address]]) -> None:
        """Try the addresses of clusters; those of other clusters are not known any more."""
        asked = {name: sorted(found)[:_MOST] for name, found in addresses.items() if found}
        answers = await asyncio.gather(*(self._accepts(found) for found in asked.values()))
        failed = Counter(
            {
                name: 0 if accepted else self._failed[name] + 1
                for name, accepted in zip(asked, answers, strict=True)
            }
        )
        known = self._known
        self._known = {name: _witness(failed[name], known.get(name, Witness())) for name in asked}
        self._failed = failed

    async def _accepts(self, addresses: Iterable[Address]) -> bool:
        async with self._turn:
            return any(await asyncio.gather(*map(_accepts, addresses)))


def _witness(failed: int, before: Witness) -> Witness:
    """Return the witness after so many failed rounds; until there are enough, it is as before."""
    if failed:
        return _BAD if failed >= _ROUNDS else before
    return Witness(Evidence.GOOD)


async def _accepts(address: Address) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError, ValueError, OverflowError):  # the last two: no name, no port
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
