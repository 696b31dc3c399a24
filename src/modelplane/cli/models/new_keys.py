"""API keys as commands make them: their form, their hash, and their rotation."""

import datetime as dt
import hashlib
import secrets
from collections.abc import Sequence

from modelplane.api.model_key import MAX_HASHES, KeyHash
from modelplane.api.rejected import Rejected
from modelplane.gateway.module_files.keys import parse_seconds
from modelplane.kube.timestamps import format_at

PREFIX = "mpk_"
"""Beginning of every key, by which scanners recognize a leaked one: mpk_ and 48 hexadecimal digits."""

_BYTES = 24


def make_key() -> str:
    """Return a new key, of 192 random bits."""
    return PREFIX + secrets.token_hex(_BYTES)


def hash_key(key: str, expires: dt.datetime | None) -> KeyHash:
    """Return the entry of a key in its ModelKey."""
    return KeyHash(sha256=hashlib.sha256(key.encode()).hexdigest(), expires=expires)


def is_valid(hash_: KeyHash, now: dt.datetime) -> bool:
    """Return True if a key has not expired."""
    seconds = parse_seconds(hash_.expires)
    return seconds is None or seconds > now.timestamp()


def rotate_hashes(
    hashes: Sequence[KeyHash], key: str, now: dt.datetime, overlap: dt.timedelta, expires: dt.datetime | None
) -> tuple[KeyHash, ...] | Rejected:
    """Return the hashes after a rotation, the new one last; the others expire after the overlap.

    Without ``expires``, the new key has the end of the one before it.
    """
    before = hashes[-1]
    if expires is None and not is_valid(before, now):
        return Rejected(
            subject="the key",
            detail="has expired",
            remedy="say with --expires how long the new one is valid",
        )
    end = now + overlap
    old = [KeyHash(sha256=hash_.sha256, expires=_earlier(hash_, end)) for hash_ in hashes]
    kept = [hash_ for hash_ in old if is_valid(hash_, now)]
    if len(kept) >= MAX_HASHES:
        return Rejected(
            detail=f"{len(kept)} keys that it replaced are still valid",
            remedy="rotate it again later, or end them at once with --overlap 0s",
        )
    return (*kept, hash_key(key, expires or before.expires))


def _earlier(hash_: KeyHash, end: dt.datetime) -> dt.datetime:
    seconds = parse_seconds(hash_.expires)
    return end if seconds is None or seconds > end.timestamp() else dt.datetime.fromtimestamp(seconds, dt.UTC)


def encode_hash(hash_: KeyHash) -> dict[str, str]:
    """Return a hash as manifests have it, with whole seconds in UTC."""
    seconds = parse_seconds(hash_.expires)
    return {"sha256": hash_.sha256} | ({} if seconds is None else {"expires": format_at(seconds)})
