"""Answers of the gateways that serving stacks make: whether a request through the address gets one.

A gateway can report listeners and routes that its proxy does not have. So a request is sent to a route that
the gateway answers by itself, until the cluster serves for the first time.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
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
from modelplane.kube.informer import Informer

_CLUSTER = kind_name(InferenceCluster)
_LOOK_S: Final = 1.0
_TIMEOUT_S: Final = 3.0
_AT_A_TIME: Final = 64
_HTTP_PORT: Final = 80
_LONGEST_LINE: Final = 128
_NOT_YET: Final = "no request was sent through it yet"


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
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    def of(self, cluster: str) -> str | None:
        """Return why a cluster's gateway does not answer; None if it does, or if it is not asked."""
        return self._said.get(cluster, _NOT_YET) if self._address(cluster) else None

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Ask each gateway of a cluster that does not serve yet, and wake those that say something new."""
        names = [cluster["metadata"]["name"] for cluster in self._clusters if not _serves(cluster)]
        asked = {name: address for name in names if (address := self._address(name))}
        answers = dict(zip(asked, await asyncio.gather(*map(self._ask, asked.values())), strict=True))
        before, self._said = self._said, answers
        for name, answer in answers.items():
            if name not in before or before[name] != answer:
                self._changed(OwnerKey(_CLUSTER, "", name))

    def _address(self, cluster: str) -> str | None:
        """Return the address of the gateway that the stack of a cluster has made; None if it has none."""
        found = self._find(cluster_gateway.requirement(cluster))
        ours = () if isinstance(found, Unknown) else filter(cluster_gateway.is_ours, found)
        return next(map(cluster_gateway.plain_address, ours), None)

    async def _ask(self, address: str) -> str | None:
        async with self._turn:
            return await _ask(address)


@per_version
def _serves(cluster: Mapping[str, Any]) -> bool:
    return is_true(cluster, InferenceClusterCondition.BACKEND_READY)


async def _ask(address: str) -> str | None:
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
    answer = status or "nothing of HTTP"
    return (
        f"it answers {answer} to {cluster_gateway.ANSWER_PATH}, not {cluster_gateway.ANSWER_STATUS} "
        "as its route does"
    )


async def _status(host: str, port: int, authority: str) -> str | None:
    """Return the status of the answer; None if it is not one of HTTP."""
    reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
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
