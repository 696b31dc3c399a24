"""Claims of a bearer token: its account and its lifetime, as the token itself states them (JWT, RFC 7519).

Nothing is verified: the claims tell only when to replace a token.
"""

import base64
from dataclasses import dataclass
from typing import Annotated

import msgspec

_LONGEST = 16 * 1024
"""Longest token that is read, in characters; one of an API server has about 1,000."""

_Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, before the year 10000."""


class _Payload(msgspec.Struct):
    sub: str
    iat: _Time | None = None
    exp: _Time | None = None


_decode = msgspec.json.Decoder(_Payload).decode


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The time for which a token is valid, in seconds since 1970."""

    issued: float
    expires: float

    def choose_renewal(self, share: float) -> float:
        """Return the time to renew the token: at half of its life, five percent earlier or later.

        ``share``, from 0 to 1, distributes the tokens of a fleet.
        """
        return self.find_time_after(0.45 + 0.1 * share)

    @property
    def last_quarter(self) -> float:
        """The time from which less than a quarter of the life is left."""
        return self.find_time_after(0.75)

    def find_time_after(self, part: float) -> float:
        """Return the time at which a part of the life is over."""
        return self.issued + part * (self.expires - self.issued)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token that matter for its renewal."""

    subject: str
    lifetime: Lifetime | None
    """None if the token does not expire."""


def decode_claims(token: str) -> Claims | None:
    """Return the claims of a token; None if it has none, or contradictory ones."""
    parts = token.split(".", 3)
    if len(token) > _LONGEST or len(parts) != 3:
        return None
    try:
        payload = _decode(base64.urlsafe_b64decode(f"{parts[1]}==="))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    if payload.exp is None:
        return Claims(payload.sub, None)
    if payload.iat is None or payload.iat >= payload.exp:
        return None
    return Claims(payload.sub, Lifetime(payload.iat, payload.exp))
