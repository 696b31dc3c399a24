import socket
import ssl
import threading

import pytest

from modelplane.local.supervision.processes import Healthy, HealthyOnSocket, Listens, Lived
from support import certificates


@pytest.fixture
def answering(tmp_path):
    """Serve one answer on a Unix socket, whose path is longer than such an address may be."""
    directory = tmp_path / ("long" * 30)
    directory.mkdir()
    path = directory / "localhost:1"

    def serve(answer):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(directory)
            server = socket.socket(socket.AF_UNIX)
            server.bind(path.name)
            server.listen()

        def reply():
            with server, server.accept()[0] as connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        threads.append(thread)
        return path

    threads: list[threading.Thread] = []
    yield serve
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("answer", "ready"),
    [
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", True, id="200 is ready"),
        pytest.param(b"HTTP/1.0 503 Service Unavailable\r\n\r\n", False, id="503 is not"),
        pytest.param(b"", False, id="a connection that is closed is not"),
    ],
)
def test_a_socket_is_ready_when_it_answers_200(answering, answer, ready):
    assert HealthyOnSocket(answering(answer), "/health").is_ready(0.0) is ready


def test_a_socket_that_nobody_made_is_not_ready(tmp_path):
    assert HealthyOnSocket(tmp_path / "localhost:1", "/health").is_ready(0.0) is False


def test_a_port_is_ready_while_someone_listens_on_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert Listens(port).is_ready(0.0) is True
    assert Listens(port).is_ready(0.0) is False


def test_a_port_that_does_not_speak_tls_is_not_healthy(tmp_path):
    authority = tmp_path / "ca.crt"
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert Healthy(server.getsockname()[1], "/readyz", authority).is_ready(0.0) is False


@pytest.mark.parametrize(
    "has_certificate",
    [
        pytest.param(True, id="a client with a certificate is answered"),
        pytest.param(False, id="one without is refused"),
    ],
)
def test_a_server_that_asks_for_a_certificate_gets_the_clients(tmp_path, has_certificate):
    authority = certificates.authority(tmp_path)
    context = certificates.server_context(tmp_path, "localhost")
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    pair = tmp_path / "client.crt", tmp_path / "client.key"
    for path, content in zip(pair, certificates.server_pair(tmp_path, "client"), strict=True):
        path.write_text(content)

    def reply():
        try:
            with server.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        except OSError:
            pass  # the client had no certificate

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=reply)
        thread.start()
        check = Healthy(server.getsockname()[1], "/", authority, pair if has_certificate else None)
        assert check.is_ready(0.0) is has_certificate
        thread.join()


def test_a_process_with_nothing_to_ask_is_ready_once_it_has_lived_for_a_while():
    check = Lived(1.0)
    assert (check.is_ready(0.9), check.is_ready(1.0)) == (False, True)
