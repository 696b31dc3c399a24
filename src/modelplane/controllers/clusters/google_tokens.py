"""Google: a token for clusters, from the key of a service account.

Source: google-auth, ``google.oauth2.service_account``; RFC 7523, "JWT Profile for OAuth 2.0".
"""

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec

from modelplane.controllers.clusters.cloud_identities import Credential, Token, make_line

TOKEN_SERVER: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address

_SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    # The API server knows the account by its address.
    "https://www.googleapis.com/auth/userinfo.email",
)
_TIMEOUT_S = 10.0


class _Key(msgspec.Struct, tag_field="type", tag="service_account"):
    """The fields of a key that have an effect. All others name files, programs or addresses."""

    client_email: str
    private_key: str
    private_key_id: str = ""


def exchange(credential: Credential, token_server: str = TOKEN_SERVER) -> Token:
    """Return a token for the key of a service account, in JSON.

    Raises ``ValueError`` with the cause, which does not quote the key.
    """
    try:
        from google.auth import exceptions  # noqa: PLC0415 - an extra
        from google.oauth2 import service_account  # noqa: PLC0415 - an extra
    except ImportError:
        raise ValueError("google-auth is not installed: install Modelplane with the extra [google]") from None
    try:
        read = service_account.Credentials.from_service_account_info
        key = {
            **msgspec.to_builtins(msgspec.json.decode(credential.content, type=_Key)),
            "token_uri": token_server,
        }
        credentials = read(key, scopes=_SCOPES)  # type: ignore[no-untyped-call] # the library has no types
    except (ValueError, exceptions.GoogleAuthError):
        raise ValueError('not a service account key, which is JSON of type "service_account"') from None
    try:
        credentials.refresh(_send)
    except httpx2.HTTPError as error:
        raise ValueError(f"Google's token server doesn't respond: {make_line(str(error))}") from None
    except exceptions.GoogleAuthError as error:
        said = make_line(str(error.args[0] if error.args else error))
        raise ValueError(f"Google did not return a token: {said}") from None
    return Token(credentials.token, float(calendar.timegm(credentials.expiry.utctimetuple())))


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, as google-auth reads it."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _send(
    url: str, method: str = "GET", body: bytes | None = None, headers: Any = None, **_options: Any
) -> _Answer:
    """Send a request of google-auth, by the client that Modelplane has."""
    with httpx2.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
        response = client.request(method, url, content=body, headers=headers)
    return _Answer(response.status_code, response.headers, response.content)
