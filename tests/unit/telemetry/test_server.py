"""Health and metrics over HTTP, asked by real clients."""

import contextlib
import gzip
import socket
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from modelplane.telemetry import metrics, server
from modelplane.telemetry.metric_definitions import Program, Sample
from modelplane.telemetry.server import Check, Server, Unanswered
from modelplane.user_error import UserError
from support.telemetry import fetch, well

REGISTRY = metrics.build_registry(Program.GATEWAY)


def serving(
    alive: Check = well, ready: Check = well, registry: CollectorRegistry = REGISTRY, **limits: float
) -> Server:
    return server.serve("127.0.0.1:0", alive=alive, ready=ready, registry=registry, **limits)


@pytest.fixture
def answering() -> Iterator[Server]:
    """A server whose patience ends soon."""
    with serving(longest_s=0.1) as running:
        yield running


def _connected(to: Server) -> socket.socket:
    host, _, port = to.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def _rest(client: socket.socket) -> bytes:
    """Return what a server sends until it closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            received += part
    return received


def _unanswered() -> str:
    raise Unanswered("the event loop has not answered for 5 s")


def _broken() -> str:
    raise KeyError("secret")


def test_what_is_well_says_so() -> None:
    with serving() as running:
        assert [fetch(running.address, path)[::2] for path in ("/healthz", "/readyz")] == [(200, b"ok\n")] * 2


def test_what_is_not_says_why() -> None:
    with serving(ready=lambda: "waits for the kinds to be installed") as running:
        assert fetch(running.address, "/readyz")[::2] == (503, b"waits for the kinds to be installed\n")
        assert fetch(running.address, "/healthz")[0] == 200, "it is alive all the same"


def test_a_check_that_is_not_answered_fails_with_that_sentence() -> None:
    with serving(alive=_unanswered) as running:
        assert fetch(running.address, "/healthz")[::2] == (503, b"the event loop has not answered for 5 s\n")


def test_a_check_with_a_bug_fails_and_the_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    with serving(alive=_broken) as running:
        assert fetch(running.address, "/healthz")[::2] == (500, b"a bug, which the log has\n")
    assert "KeyError: 'secret'" in caplog.text


def test_metrics_that_cannot_be_read_are_an_error_not_an_empty_page() -> None:
    def observe() -> Iterable[Sample]:
        raise Unanswered("the event loop has ended")

    with serving(registry=metrics.build_registry(Program.CONTROLLER, observe)) as running:
        assert fetch(running.address)[::2] == (503, b"the event loop has ended\n")


def test_metrics_are_in_the_text_format() -> None:
    with serving() as running:
        status, headers, body = fetch(running.address)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "modelplane_build_info" in {
        family.name for family in text_string_to_metric_families(body.decode())
    }


def test_metrics_are_compressed_for_those_who_take_it() -> None:
    with serving() as running:
        _, headers, body = fetch(running.address, **{"Accept-Encoding": "deflate, gzip;q=0.5"})
    assert headers["Content-Encoding"] == "gzip"
    assert b"modelplane_build_info" in gzip.decompress(body)


def test_there_is_nothing_else() -> None:
    with serving() as running:
        assert fetch(running.address, "/")[::2] == (
            404,
            b"there is nothing but /healthz, /readyz, /metrics\n",
        )


@pytest.mark.parametrize("request_", [b"POST /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"x\r\n\r\n"])
def test_only_get_is_answered(answering: Server, request_: bytes) -> None:
    with _connected(answering) as client:
        client.sendall(request_)
        assert b"ok" not in _rest(client)


def test_a_query_changes_nothing() -> None:
    with serving() as running:
        assert fetch(running.address, "/healthz?verbose")[0] == 200


def test_a_client_that_says_nothing_is_cut_off(answering: Server) -> None:
    with _connected(answering) as client:
        assert _rest(client) == b""


def test_a_client_that_says_little_at_a_time_is_cut_off(answering: Server) -> None:
    with _connected(answering) as client:
        client.settimeout(0.02)
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        received = None
        while received is None:
            try:
                client.sendall(b"x")
                received = client.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
    assert received == b""


def test_those_who_come_while_all_places_are_taken_are_turned_away_and_later_served() -> None:
    with serving() as running, contextlib.ExitStack() as idle:
        waiting = [idle.enter_context(_connected(running)) for _ in range(8)]
        with _connected(running) as client:
            assert _rest(client) == b""
        for each in waiting:
            each.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert _rest(each).endswith(b"\r\n\r\nok\n")
        assert fetch(running.address, "/healthz")[0] == 200


def test_a_closed_server_answers_no_more() -> None:
    running = serving()
    running.close()
    with pytest.raises(ConnectionRefusedError):
        _connected(running)


def test_an_address_in_use_is_said_with_what_to_do() -> None:
    with serving() as running, pytest.raises(UserError) as refusal:
        server.serve(running.address, alive=well, ready=well, registry=REGISTRY)
    assert str(refusal.value) == (
        f'cannot serve health and metrics at "{running.address}": Address already in use: '
        "choose another address, or stop what uses this one"
    )


@pytest.mark.parametrize(
    "address", ["", "8080", ":8080", "localhost:", "localhost:http", "localhost:65536", "localhost:²"]
)
def test_an_address_that_is_none_is_said_with_examples(address: str) -> None:
    with pytest.raises(UserError) as refusal:
        server.serve(address, alive=well, ready=well, registry=REGISTRY)
    assert str(refusal.value) == (
        f'"{address}" is not an address for health and metrics: '
        "use HOST:PORT, such as 127.0.0.1:8080, or 0.0.0.0:8080 for every network"
    )


def test_a_host_that_cannot_be_one_is_said() -> None:
    with pytest.raises(UserError, match=r'cannot serve health and metrics at "no\.\.where:8080": '):
        server.serve("no..where:8080", alive=well, ready=well, registry=REGISTRY)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_in_brackets() -> None:
    with server.serve("[::1]:0", alive=well, ready=well, registry=REGISTRY) as running:
        assert running.address.startswith("[::1]:")
        assert fetch(running.address, "/healthz")[0] == 200
