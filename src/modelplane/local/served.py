"""The services that answered when a fleet was last seen, and waiting until they answer again.

After a stop, engines load again as slowly as the first time, while the objects still have their last
status. So requests are sent to the gateway, as by a client.
"""

import asyncio
import http.client
import ssl
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from modelplane.api.meta import get_full_name
from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

Key = tuple[str, str]
"""The namespace and name of a ModelService."""

Services = dict[Key, str]
"""The address of each."""

_POLL_S = 0.1
_ANSWER_S = 5.0


async def list_services(client: Client) -> Services:
    """Return the ModelServices whose status is Ready."""
    deadline = asyncio.get_running_loop().time() + 10.0
    while True:
        try:
            items = (await client.list(fleet_resources.MODEL_SERVICES)).items
        except errors.NotFound:  # a fleet that never ran has no such kind
            return {}
        except errors.KubernetesError:
            # An API server is ready a moment before it has opened the storage of custom kinds.
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(_POLL_S)
        else:
            return {get_full_name(item): item["status"]["address"] for item in items if _ready(item)}


async def wait_until_answering(client: Client, before: Services, timeout_s: float) -> tuple[Key, ...]:
    """Wait until services answer again; return those that do not in time."""
    waiting = tuple(sorted(before))
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                with suppress(errors.KubernetesError):  # an API server that ended comes back
                    waiting = await _silent(client, before, waiting)
                if not waiting:
                    return ()
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return waiting


async def _silent(client: Client, before: Services, waiting: Iterable[Key]) -> tuple[Key, ...]:
    listed = await client.list(fleet_resources.MODEL_SERVICES)
    ready = {get_full_name(item): _ready(item) for item in listed.items}
    # Do not wait for a deleted service.
    left = [key for key in waiting if key in ready]
    answers = await asyncio.gather(*(asyncio.to_thread(_answers, before[key]) for key in left))
    return tuple(key for key, answered in zip(left, answers, strict=True) if not (answered and ready[key]))


def _answers(address: str) -> bool:
    """Return True if something behind the gateway answers; a provider outside may not know ``/health``."""
    parts = urlsplit(address)
    connection = _connection(parts)
    try:
        connection.request("GET", f"{parts.path}/health")
        return connection.getresponse().status != http.client.SERVICE_UNAVAILABLE
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(address: SplitResult) -> http.client.HTTPConnection:
    host, port = address.hostname or "", address.port
    if address.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    context = ssl.create_default_context()
    # Nothing is sent that another could use, and the certificate is for the host that clients use.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)


def _ready(service: Object) -> bool:
    return is_true(service, "Ready") and bool(service["status"].get("address"))
