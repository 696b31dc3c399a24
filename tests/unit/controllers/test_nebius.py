"""The authorized key of a Nebius service account, exchanged for a token by a server on this machine."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.clusters import nebius_tokens
from modelplane.controllers.clusters.cloud_identities import Credential
from support.token_server import TokenServer

SIGNING = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class NebiusServer(TokenServer):
    """Nebius' token server (RFC 8693): it verifies the signature, and answers as it is told to."""

    answer: Any = field(
        default_factory=lambda: {"access_token": "ne1first", "expires_in": 43200, "token_type": "Bearer"}
    )
    signed: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)

    def take(self, body: str) -> None:
        form = {name: value for name, [value] in parse_qs(body).items()}
        token = form.pop("subject_token")
        assert form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        }
        audience = "token-service.iam.new.nebiuscloud.net"
        claims = jwt.decode(token, SIGNING.public_key(), algorithms=["RS256"], audience=audience)
        self.signed.append((jwt.get_unverified_header(token), claims))


@pytest.fixture
def server() -> Iterator[NebiusServer]:
    told = NebiusServer()
    with told.serving("/oauth2/token/exchange"):
        yield told


def _pem(private: Any) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return str(private.private_bytes(*form).decode())


def of(content: bytes) -> Credential:
    return Credential(IdentityType.NEBIUS, content, "Secret")


def key(**changed: Any) -> Credential:
    content = {
        "account_id": "serviceaccount-e00example",
        "public_key_id": "publickey-e00example",
        "private_key": _pem(SIGNING),
        "token-endpoint": "https://attacker.example.org/token",
    }
    return of(json.dumps({**content, **changed}).encode())


def test_a_key_is_exchanged_for_a_token_and_its_own_address_has_no_effect(server: NebiusServer) -> None:
    token = nebius_tokens.exchange(key(), server.address)
    assert token.text == "ne1first"
    assert 43_000 < token.expires - time.time() < 43_300
    [(header, claims)] = server.signed
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "publickey-e00example"}
    assert claims["iss"] == claims["sub"] == "serviceaccount-e00example"
    assert 0 < claims["exp"] - claims["iat"] <= 300, "Nebius takes no JWT for longer"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(of(b"\xff"), id="not JSON"),
        pytest.param(of(b"[]"), id="not an object"),
        pytest.param(key(private_key="secret"), id="no key"),
        pytest.param(key(private_key=7), id="of another type"),
        pytest.param(key(private_key=_pem(ec.generate_private_key(ec.SECP256R1()))), id="another algorithm"),
        pytest.param(key(account_id=None), id="no account"),
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(server: NebiusServer, content: Credential) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        nebius_tokens.exchange(content, server.address)
    assert str(raised.value) == (
        "not an authorized key of a service account, which is JSON with account_id, public_key_id and "
        "private_key"
    )
    assert server.signed == []


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        pytest.param(
            400,
            {"error": "invalid_grant"},
            'Nebius did not return a token: status 400: {"error": "invalid_grant"}',
            id="revoked",
        ),
        pytest.param(
            200,
            {"expires_in": 3600},
            "Nebius did not return a token: the response doesn't contain one",
            id="no token",
        ),
        pytest.param(
            404,
            b"<html>\n" + b"x" * 10_000,
            "Nebius did not return a token: status 404: <html> xxx",
            id="a page",
        ),
        pytest.param(
            307, b"", "Nebius did not return a token: status 307: ", id="a redirect is not followed"
        ),
    ],
)
def test_what_the_server_says_is_the_cause(
    server: NebiusServer, status: int, answer: Any, message: str
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        nebius_tokens.exchange(key(), server.address)
    assert str(raised.value).startswith(message)
    assert len(str(raised.value)) < 300


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ValueError, match=r"^Nebius's token server doesn't respond: "):
        nebius_tokens.exchange(key(), "http://127.0.0.1:1/token")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(
        ValueError, match=r"^pyjwt is not installed: install Modelplane with the extra \[nebius\]$"
    ):
        nebius_tokens.exchange(key())
