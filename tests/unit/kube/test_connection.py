import base64
import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from lightkube.config import kubeconfig, models
from lightkube.config.client_adapter import BearerAuth, BearerTokenFileAuth

from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.connection import Direct
from support.api_server import Wire, listening


async def test_a_pod_reads_its_token_again_when_it_is_no_longer_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.taken = "bearer old"
    async with listening(wire) as (host, port):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        # Only TLS is left out of what a pod has.
        monkeypatch.setattr(
            kubeconfig, "Cluster", lambda server, **_: models.Cluster(server.replace("https", "http"))
        )
        (tmp_path / "namespace").write_text("n")
        (tmp_path / "token").write_text("old")
        async with Client.connect_in_cluster(account=tmp_path) as client:
            await client.get(resources.PODS, "p", "n")
            (tmp_path / "token").write_text("new")
            wire.taken = "bearer new"
            await client.get(resources.PODS, "p", "n")
    assert wire.authorizations == ["bearer old", "bearer old", "bearer new"]


@pytest.mark.parametrize(
    ("files", "host", "cause"),
    [
        pytest.param((), "10.0.0.1", "No such file or directory: '.*token'", id="no service account"),
        pytest.param(
            ("token", "namespace", "ca.crt"), "", "there is no KUBERNETES_SERVICE_HOST", id="no pod at all"
        ),
    ],
)
def test_where_there_is_no_service_account_the_error_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], host: str, cause: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"cannot use a pod's service account: .*{cause}"):
        Client.connect_in_cluster(account=tmp_path)


def _kubeconfig(**user: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }


_NO_PEM = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    "kubeconfig",
    [
        pytest.param({}, id="nothing in it"),
        pytest.param(_kubeconfig() | {"current-context": "other"}, id="a context that is not there"),
        pytest.param(_kubeconfig() | {"users": []}, id="a user that is not there"),
        pytest.param(
            _kubeconfig(**{"client-certificate-data": _NO_PEM, "client-key-data": _NO_PEM}),
            id="a certificate that is none",
        ),
        pytest.param(_kubeconfig(**{"client-certificate": "/nowhere"}), id="a file that is not there"),
    ],
)
def test_an_unusable_kubeconfig_is_one_kind_of_error(kubeconfig: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cannot use the kubeconfig: .+"):
        Client.from_kubeconfig(kubeconfig)


class _Server(httpx2.AsyncBaseTransport):
    """Answers in order, and notes the credentials of each request."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.answers = list(answers)
        self.credentials: list[str] = []
        self.is_closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.credentials.append(request.headers.get("Authorization", ""))
        return self.answers.pop(0)

    async def aclose(self) -> None:
        self.is_closed = True


class _Pieces(httpx2.AsyncByteStream):
    """A body that arrives in pieces."""

    def __init__(self, *pieces: bytes, broken: bool = False) -> None:
        self.pieces, self.broken, self.is_closed = pieces, broken, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.broken:
            raise httpx2.ReadError("the server closed the connection")

    async def aclose(self) -> None:
        self.is_closed = True


POD = b'{"kind": "Pod", "metadata": {"name": "p"}}'


def _client(server: _Server, **settings: Any) -> Client:
    return Client(Direct(server, **{"base_url": "https://server", **settings}), "tester")


async def test_a_token_file_is_read_again_if_its_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    body = _Pieces(b"refused")
    server = _Server(
        httpx2.Response(200, content=POD),
        httpx2.Response(401, stream=body),
        httpx2.Response(200, content=POD),
    )
    client = _client(server, auth=BearerTokenFileAuth(str(file)))
    await client.get(resources.PODS, "p", "n")
    file.write_text("new")
    assert await client.get(resources.PODS, "p", "n")
    assert server.credentials == ["Bearer old", "Bearer old", "Bearer new"]
    assert body.is_closed  # read to its end, so that the connection is free


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"auth": BearerAuth("t")}, "Bearer t", id="a token"),
        pytest.param({"auth": ("u", "p")}, "Basic dTpw", id="a name and a password"),
        pytest.param({"base_url": "https://u:p@server"}, "Basic dTpw", id="both in the address"),
    ],
)
async def test_a_request_has_the_credentials_of_its_client(settings: dict[str, Any], sent: str) -> None:
    server = _Server(httpx2.Response(200, content=POD))
    await _client(server, **settings).get(resources.PODS, "p", "n")
    assert server.credentials == [sent]


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    server = _Server(httpx2.Response(307, headers={"Location": "https://elsewhere/"}))
    with pytest.raises(errors.ApiError, match="answers no Kubernetes object"):
        await _client(server, auth=BearerAuth("t")).get(resources.PODS, "p", "n")
    assert server.credentials == ["Bearer t"]


async def test_a_body_is_read_in_pieces_and_its_stream_closed() -> None:
    body = _Pieces(POD[:9], POD[9:])
    assert await _client(_Server(httpx2.Response(200, stream=body))).get(resources.PODS, "p", "n")
    assert body.is_closed


async def test_a_body_that_is_compressed_is_decoded() -> None:
    answer = httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=_Pieces(gzip.compress(POD)))
    assert await _client(_Server(answer)).get(resources.PODS, "p", "n")


async def test_a_body_that_breaks_off_is_no_answer_and_its_stream_closed() -> None:
    body = _Pieces(POD, broken=True)
    with pytest.raises(errors.Unreachable, match="closed the connection"):
        await _client(_Server(httpx2.Response(200, stream=body))).get(resources.PODS, "p", "n")
    assert body.is_closed


async def test_a_client_that_was_closed_sends_nothing() -> None:
    server = _Server(httpx2.Response(200, content=POD))
    client = _client(server)
    await client.close()
    with pytest.raises(errors.Unreachable, match="has been closed"):
        await client.get(resources.PODS, "p", "n")
    assert server.is_closed
    assert not server.credentials


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_lines_are_decoded_where_they_are_compressed(encoding: str) -> None:
    text = b"one\ntwo\n"
    sent = gzip.compress(text) if encoding else text
    headers = {"Content-Encoding": encoding} if encoding else {}
    server = _Server(httpx2.Response(200, headers=headers, stream=_Pieces(sent[:5], sent[5:])))
    assert [line async for line in _client(server).read_lines("/logs", {})] == [b"one", b"two"]
