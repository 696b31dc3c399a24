"""Nebius: a token for clusters, from an authorized key of a service account.

Source: docs.nebius.com, "Authentication in the Nebius AI Cloud API"; RFC 8693, "OAuth 2.0 Token Exchange".
The key has the form that provider-upjet-nebius and provider-kubernetes read.
"""

import time
from typing import Final

import httpx2
import msgspec

from modelplane.controllers.clusters.cloud_identities import Credential, Token, make_line

TOKEN_SERVER: Final = "https://auth.eu.nebius.com/oauth2/token/exchange"  # noqa: S105 - an address

_AUDIENCE = "token-service.iam.new.nebiuscloud.net"
"""Source: Nebius' SDK for Python, ``ServiceAccount.get_exchange_token_request``."""

_SIGNED_S = 60
_TIMEOUT_S = 10.0


class _Key(msgspec.Struct):
    """The fields of a key that have an effect."""

    account_id: str
    public_key_id: str
    private_key: str


class _Answer(msgspec.Struct):
    """The fields of an answer that are read."""

    access_token: str
    expires_in: float


def exchange(credential: Credential, token_server: str = TOKEN_SERVER) -> Token:
    """Return a token for an authorized key of a service account, in JSON.

    Raises ``ValueError`` with the cause, which does not quote the key.
    """
    try:
        import jwt  # noqa: PLC0415 - an extra
    except ImportError:
        raise ValueError("pyjwt is not installed: install Modelplane with the extra [nebius]") from None
    now = time.time()
    try:
        key = msgspec.json.decode(credential.content, type=_Key)
        claims = {"iss": key.account_id, "sub": key.account_id, "aud": _AUDIENCE}
        signed = jwt.encode(
            {**claims, "iat": int(now), "exp": int(now) + _SIGNED_S},
            key.private_key,
            algorithm="RS256",
            headers={"kid": key.public_key_id},
        )
    except (ValueError, TypeError, jwt.PyJWTError):
        raise ValueError(
            "not an authorized key of a service account, which is JSON with account_id, public_key_id and "
            "private_key"
        ) from None
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token": signed,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }
    try:
        with httpx2.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
            response = client.post(token_server, data=form)
    except httpx2.HTTPError as error:
        raise ValueError(f"Nebius's token server doesn't respond: {make_line(str(error))}") from None
    if not response.is_success:
        said = make_line(response.text)
        raise ValueError(f"Nebius did not return a token: status {response.status_code}: {said}")
    try:
        answer = msgspec.json.decode(response.content, type=_Answer)
    except msgspec.DecodeError:
        raise ValueError("Nebius did not return a token: the response doesn't contain one") from None
    return Token(answer.access_token, now + answer.expires_in)
