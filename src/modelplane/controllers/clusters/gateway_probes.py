"""Probes of clusters' gateways: whether requests are answered, and whether addresses accept connections.

The gateway that a serving stack made can report listeners and routes that its proxy does not have. So a
request is sent to a route that the gateway answers by itself, until the cluster serves for the first time.

The data path of a cluster is the addresses that the fleet's gateway sends requests to. A connection is opened
and closed, without a request. One address that accepts is enough; three rounds in a row without any are
needed to say that none does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from modelplane.api.conditions.reasons import InferenceClusterCondition
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object, kind_name
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.memo import per_version
from modelplane.compose.readiness import is_true
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.deciders.cluster_health import Evidence, Witness
from modelplane.kube.informer import Informer

Address: TypeAlias = tuple[str, int]

_ROUNDS_UNTIL_BAD: Final = 3
_CLUSTERS_AT_A_TIME: Final = 256
"""Clusters that are tried at a time: a round over a thousand silent ones must not count as a stall."""
_HTTPS_PORT: Final = 443
_MOST_ADDRESSES: Final = 8
"""Addresses of one cluster that are tried."""

_BAD: Final = Witness(Evidence.BAD, "none of the replicas' addresses accepts connections")

_LOOK_INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 3.0
_REQUESTS_AT_A_TIME: Final = 64
_HTTP_PORT: Final = 80
_LONGEST_STATUS_LINE: Final = 128


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
        self._turn = asyncio.Semaphore(_CLUSTERS_AT_A_TIME)

    def of(self, cluster: str) -> Witness:
        """Return what is known of a cluster's data path."""
        return self._known.get(cluster, Witness())

    async def look(self, addresses: Mapping[str, Collection[Address]]) -> None:
        """Try the addresses of clusters; those of other clusters are not known any more."""
        asked = {name: sorted(found)[:_MOST_ADDRESSES] for name, found in addresses.items() if found}
        answers = await asyncio.gather(*(self._any_accepts(found) for found in asked.values()))
        before, self._known = self._known, {}
        failed: Counter[str] = Counter()
        for name, accepted in zip(asked, answers, strict=True):
            if accepted:
                self._known[name] = Witness(Evidence.GOOD)
                continue
            failed[name] = self._failed[name] + 1
            enough = failed[name] >= _ROUNDS_UNTIL_BAD
            self._known[name] = _BAD if enough else before.get(name, Witness())
        self._failed = failed

    async def _any_accepts(self, addresses: Iterable[Address]) -> bool:
        async with self._turn:
            return any(await asyncio.gather(*map(_accepts_connection, addresses)))


async def _accepts_connection(address: Address) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError, ValueError, OverflowError):  # the last two: no name, no port
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


class GatewayAnswers(Runnable):
    """The control loop that sends the requests."""

    name = "gateway-answers"

    def __init__(
        self,
        clusters: Informer,
        find: Callable[[Requirement], tuple[Object, ...] | Unknown],
        changed: Callable[[OwnerKey], None],
    ) -> None:
        """``find`` reads objects of a cluster; ``changed`` wakes an InferenceCluster."""
        self._clusters = clusters
        self._find = find
        self._changed = changed
        self._said: dict[str, str | None] = {}
        self._turn = asyncio.Semaphore(_REQUESTS_AT_A_TIME)

    def of(self, cluster: str) -> str | None:
        """Return why a cluster's gateway does not answer; None if it does, or if it is not asked."""
        return (
            self._said.get(cluster, "no request was sent through the gateway yet")
            if self._address(cluster)
            else None
        )

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_INTERVAL_S)

    async def look(self) -> None:
        """Ask each gateway of a cluster that does not serve yet, and wake those that say something new."""
        names = [cluster["metadata"]["name"] for cluster in self._clusters if not _serves(cluster)]
        asked = {name: address for name in names if (address := self._address(name))}
        answers = dict(zip(asked, await asyncio.gather(*map(self._ask_in_turn, asked.values())), strict=True))
        before, self._said = self._said, answers
        for name, answer in answers.items():
            if name not in before or before[name] != answer:
                self._changed(OwnerKey(kind_name(InferenceCluster), "", name))

    def _address(self, cluster: str) -> str | None:
        """Return the address of the gateway that the stack of a cluster has made; None if it has none."""
        found = self._find(cluster_gateway.requirement(cluster))
        ours = () if isinstance(found, Unknown) else filter(cluster_gateway.is_ours, found)
        return next(map(cluster_gateway.plain_address, ours), None)

    async def _ask_in_turn(self, address: str) -> str | None:
        async with self._turn:
            return await _explain_no_answer(address)


@per_version
def _serves(cluster: Mapping[str, Any]) -> bool:
    return is_true(cluster, InferenceClusterCondition.BACKEND_READY)


async def _explain_no_answer(address: str) -> str | None:
    """Return why a gateway does not answer the request; None if it does."""
    try:
        # A cluster tells its address, and is not trusted.
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port or _HTTP_PORT
        async with asyncio.timeout(_TIMEOUT_S):
            status = await _status(host, port, address)
    except TimeoutError:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except (OSError, ValueError, OverflowError) as error:
        return f"{error}" or type(error).__name__
    if status == str(cluster_gateway.ANSWER_STATUS):
        return None
    answer = status or "no HTTP response"
    return (
        f"the response to {cluster_gateway.ANSWER_PATH} is {answer}, not {cluster_gateway.ANSWER_STATUS} "
        "as configured in the route"
    )


async def _status(host: str, port: int, authority: str) -> str | None:
    """Return the status of the answer; None if it is not one of HTTP."""
    reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_STATUS_LINE)
    try:
        request = (
            f"GET {cluster_gateway.ANSWER_PATH} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        )
        writer.write(request.encode("ascii"))
        await writer.drain()
        words = (await reader.readline()).decode("ascii", "replace").split()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    is_status = len(words) > 1 and words[0].startswith("HTTP/1.") and words[1].isdigit()
    return words[1] if is_status else None
