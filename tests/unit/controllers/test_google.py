"""The key of a Google service account, exchanged for a token by a server on this machine."""

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.clusters import google_tokens
from modelplane.controllers.clusters.cloud_identities import Credential
from support.token_server import TokenServer

SIGNING = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class GoogleServer(TokenServer):
    """Google's token server (RFC 7523): it verifies the signature, and answers as it is told to."""

    answer: Any = field(default_factory=lambda: {"access_token": "ya29.first", "expires_in": 3600})
    claims: list[dict[str, Any]] = field(default_factory=list)

    def take(self, body: str) -> None:
        [assertion] = parse_qs(body)["assertion"]
        signed, _, signature = assertion.rpartition(".")
        SIGNING.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.claims.append(json.loads(_decoded(signed.rpartition(".")[2])))


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.fixture
def server() -> Iterator[GoogleServer]:
    told = GoogleServer()
    with told.serving("/token"):
        yield told


def of(content: bytes) -> Credential:
    return Credential(IdentityType.GOOGLE, content, "Secret")


def key(**changed: Any) -> Credential:
    private = SIGNING.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    content = {
        "type": "service_account",
        "project_id": "my-gcp-project",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": "starter-sa@my-gcp-project.iam.gserviceaccount.com",
        "token_uri": "https://attacker.example.org/token",
    }
    return of(json.dumps({**content, **changed}).encode())


def test_a_key_is_exchanged_for_a_token_and_its_own_address_has_no_effect(server: GoogleServer) -> None:
    token = google_tokens.exchange(key(), server.address)
    assert token.text == "ya29.first"
    assert 3500 < token.expires - time.time() < 3700
    [claims] = server.claims
    assert claims["iss"] == "starter-sa@my-gcp-project.iam.gserviceaccount.com"
    assert claims["scope"].split() == [
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/userinfo.email",
    ]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(of(b"\xff"), id="not JSON"),
        pytest.param(of(b"[]"), id="not an object"),
        pytest.param(
            key(type="external_account", credential_source={"executable": {"command": "/bin/sh"}}),
            id="runs a program",
        ),
        pytest.param(key(private_key="secret"), id="no key"),
        pytest.param(key(private_key=7), id="of another type"),
        pytest.param(key(client_email=None), id="no account"),
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(server: GoogleServer, content: Credential) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        google_tokens.exchange(content, server.address)
    assert str(raised.value) == ('not a service account key, which is JSON of type "service_account"')
    assert server.claims == []


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        pytest.param(
            400,
            {"error": "invalid_grant", "error_description": "Invalid JWT Signature."},
            "Google did not return a token: invalid_grant: Invalid JWT Signature.",
            id="revoked",
        ),
        pytest.param(200, {"expires_in": 3600}, "Google did not return a token: ", id="no token"),
        pytest.param(404, b"<html>" + b"x" * 10_000, "Google did not return a token: ", id="a page"),
    ],
)
def test_what_the_server_says_is_the_cause(
    server: GoogleServer, status: int, answer: Any, message: str
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        google_tokens.exchange(key(), server.address)
    assert str(raised.value).startswith(message)
    assert len(str(raised.value)) < 300


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ValueError, match=r"^Google's token server doesn't respond: "):
        google_tokens.exchange(key(), "http://127.0.0.1:1/token")
