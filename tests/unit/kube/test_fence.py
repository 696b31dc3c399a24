import httpx2
import pytest

from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from support.api_server import POD, Wire, listening


def _fenced(address: tuple[str, int], fence: Fence) -> Client:
    http = httpx2.AsyncClient(base_url=f"http://{address[0]}:{address[1]}", trust_env=False)
    return Client(http, "tester", fence=fence)


async def test_behind_a_closed_fence_nothing_is_sent_but_reads() -> None:
    wire = Wire()
    why = ""
    async with listening(wire) as address, _fenced(address, lambda: why) as client:
        await client.apply(POD)
        sent = wire.received
        assert b"PATCH" in sent
        why = "somebody else leads"
        writes = (
            client.apply(POD),
            client.create(POD),
            client.patch(resources.PODS, "p", {}, "n"),
            client.delete(resources.PODS, "p", "n"),
        )
        for write in writes:
            with pytest.raises(errors.Fenced, match="somebody else leads"):
                await write
        assert wire.received == sent
        assert await client.get(resources.PODS, "p", "n") == POD


async def test_a_fence_that_closes_half_way_leaves_a_request_that_no_server_acts_on() -> None:
    wire = Wire()
    reasons = iter(["", "too late"])
    async with listening(wire) as address, _fenced(address, lambda: next(reasons)) as client:
        with pytest.raises(errors.Fenced, match="too late"):
            await client.create(POD)
    assert wire.received.endswith(b"\r\n\r\n"), "the headers, and nothing of the body"
