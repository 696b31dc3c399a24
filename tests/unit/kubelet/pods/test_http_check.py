import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from modelplane.kubelet.pods import probes
from modelplane.kubelet.pods.probes import Answer

ADDRESS = "127.77.200.200"
CODES = {"/ok": 200, "/moved": 302, "/busy": 503}


class Server:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.port = 0
        self.over = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.seen.append(head)
            path = head.split()[1]
            if path == "/silent":
                await self.over.wait()
            elif path == "/odd":
                writer.write(b"not http\r\n")
            else:
                writer.write(f"HTTP/1.1 {CODES[path]} X\r\n\r\n".encode())
        except asyncio.IncompleteReadError:
            pass  # who only connects says nothing
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    started = Server()
    listening = await asyncio.start_server(started.answer, ADDRESS, 0)
    started.port = listening.sockets[0].getsockname()[1]
    yield started
    started.over.set()
    listening.close()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        pytest.param("/ok", Answer(True, "HTTP status 200"), id="200 is good"),
        pytest.param("/moved", Answer(True, "HTTP status 302"), id="a redirection is good"),
        pytest.param("/busy", Answer(False, "HTTP status 503"), id="503 is bad"),
        pytest.param("/odd", Answer(False, "the response is not HTTP"), id="another protocol is bad"),
        pytest.param("/silent", Answer(False, "no response within 0.2 s"), id="silence is bad"),
    ],
)
async def test_an_http_answer(server: Server, path: str, answer: Answer) -> None:
    handler = {"httpGet": {"path": path, "port": server.port}}
    assert await probes.ask(handler, {}, ADDRESS, 0.2) == answer


async def test_a_request_names_its_host_and_carries_its_headers(server: Server) -> None:
    container = {"ports": [{"name": "http", "containerPort": server.port}]}
    headers = [{"name": "X-Token", "value": "a"}]
    await probes.ask(
        {"httpGet": {"path": "/ok", "port": "http", "httpHeaders": headers}}, container, ADDRESS, 1
    )
    (request,) = server.seen
    assert request.startswith("GET /ok HTTP/1.1\r\n")
    assert f"host: {ADDRESS}:{server.port}\r\n" in request
    assert "x-token: a\r\n" in request


async def test_a_tcp_port_answers_by_accepting(server: Server) -> None:
    assert await probes.ask({"tcpSocket": {"port": server.port}}, {}, ADDRESS, 1) == Answer(True)
    refused = await probes.ask({"tcpSocket": {"port": 1}}, {}, ADDRESS, 1)
    assert not refused.ok
    assert "Connect" in refused.problem


async def test_an_unknown_port_name_is_a_failure_with_its_name() -> None:
    answer = await probes.ask({"httpGet": {"port": "web"}}, {}, ADDRESS, 1)
    assert answer == Answer(False, 'the container has no port "web": add it to ports, or use a port number')
