"""Sealing: encryption of the contents of Secrets with a passphrase.

The key is derived with scrypt (RFC 7914) from the passphrase and a salt that is new for each file. Each
content is encrypted with AES-256-GCM and bound to its kind, namespace and name.
"""

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.backup.archive import Reference

_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
# Constants, because a file must not choose how much memory its reader takes: 64 MiB.
_COST: Final = {"n": 2**16, "r": 8, "p": 1}
LEAST_CHARACTERS: Final = 12
"""The shortest passphrase that is accepted."""

_MOST_BYTES: Final = 4096


def read_passphrase(path: Path) -> bytes:
    """Return the passphrase in a file: its first line. Raises ``UserError``."""
    with path.open("rb") as file:
        passphrase = file.readline(_MOST_BYTES).rstrip(b"\r\n")
    if len(passphrase) < LEAST_CHARACTERS:
        raise UserError(
            f"the passphrase in {path} is shorter than {LEAST_CHARACTERS} characters: choose another"
        )
    return passphrase


def make_salt() -> str:
    """Return a salt for one file."""
    return base64.b64encode(os.urandom(_SALT_BYTES)).decode()


class Seal:
    """The key of one file."""

    def __init__(self, passphrase: bytes, salt: str) -> None:
        """Derive the key. Raises ``UserError`` without the package that encrypts, or for a damaged salt."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  it is optional
            from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415  it is optional
        except ImportError:
            message = "cryptography is not installed: run `pip install 'modelplane[mutual-tls]'`"
            raise UserError(message) from None
        try:
            raw = base64.b64decode(salt, validate=True)
        # Also of characters that are not ASCII.
        except ValueError:
            raw = b""
        if len(raw) != _SALT_BYTES:
            raise UserError("the salt of the backup is damaged")
        self._cipher = AESGCM(Scrypt(salt=raw, length=_KEY_BYTES, **_COST).derive(passphrase))

    def seal(self, reference: "Reference", content: dict[str, Any]) -> str:
        """Return an encrypted content."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(content), _bound_to(reference))
        return base64.b64encode(nonce + sealed).decode()

    def unseal(self, reference: "Reference") -> dict[str, Any]:
        """Return the content of a reference.

        Raises ``UserError`` for another passphrase or a damaged content.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  it is optional

        try:
            raw = base64.b64decode(reference.sealed, validate=True)
            content = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound_to(reference))
            return msgspec.json.decode(content, type=dict[str, Any])
        except (InvalidTag, binascii.Error, ValueError, msgspec.MsgspecError) as error:
            message = f"cannot decrypt {reference}: the passphrase is another one, or the file was changed"
            raise UserError(message) from error


def _bound_to(reference: "Reference") -> bytes:
    return "/".join((reference.kind, reference.namespace, reference.name)).encode()
