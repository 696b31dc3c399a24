"""Archive: the file of a backup, a JSON document per line: header, objects, references, end.

The end has the number of lines and a checksum of all that precedes it, so a file that was cut off or damaged
is recognized before anything is restored. The checksum does not protect from those who may write the file.

Contents of Secrets are encrypted with a passphrase. The key is derived with scrypt (RFC 7914) from the
passphrase and a salt that is new for each file. Each content is encrypted with AES-256-GCM and bound to its
kind, namespace and name.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec

from modelplane.user_error import UserError

FORMAT: Final = 1
"""The version of the file that this one writes, and the newest that it reads."""

MOST_BYTES: Final = 8 << 20
"""The longest line. An API server stores at most 1.5 MiB of an object."""

NAME: Final = "modelplane-backup"

_encode = msgspec.json.Encoder().encode

_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
# Constants, because a file must not choose how much memory its reader takes: 64 MiB.
_COST: Final = {"n": 2**16, "r": 8, "p": 1}
LEAST_CHARACTERS: Final = 12
"""The shortest passphrase that is accepted."""
_MOST_BYTES: Final = 4096


class Damaged(UserError):
    """The file is not a whole backup; the message says why."""


_Shown = Annotated[str, msgspec.Meta(max_length=128)]
"""A text that commands print."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    name: str
    format: int
    modelplane: _Shown
    """The version of Modelplane that wrote the file."""
    time: _Shown
    resource_version: str
    """The version of the control plane that the objects were read at."""
    salt: str = ""
    """Salt of the key that contents of Secrets are encrypted with; empty without contents."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object whose content is secret: a Secret or ConfigMap that the fleet needs, or a ModelKey."""

    kind: str
    namespace: str
    name: str
    sealed: str = ""
    """Its encrypted content; empty without it."""

    def __str__(self) -> str:
        return f'{self.kind} "{self.namespace}/{self.name}"'


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line."""

    objects: int
    references: int
    sha256: str


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: exactly one of these."""

    header: Header | None = None
    object: dict[str, Any] | None = None
    reference: Reference | None = None
    end: End | None = None


_decode = msgspec.json.Decoder(Line).decode


class Writer:
    """Writes the lines of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.objects = 0
        self.references = 0

    def begin(self, header: Header) -> None:
        """Write the header."""
        self._write(Line(header=header))

    def add(self, item: dict[str, Any]) -> None:
        """Write an object."""
        self._write(Line(object=item))
        self.objects += 1

    def refer(self, reference: Reference) -> None:
        """Write a reference."""
        self._write(Line(reference=reference))
        self.references += 1

    def finish(self) -> str:
        """Write the end, and return the checksum."""
        digest = self._hash.hexdigest()
        self._write(Line(end=End(objects=self.objects, references=self.references, sha256=digest)))
        return digest

    def _write(self, line: Line) -> None:
        data = _encode(line) + b"\n"
        self._hash.update(data)
        self._file.write(data)


@contextmanager
def write_file(path: Path) -> Iterator[Writer]:
    """Write a new file that only its owner can read; it is there once it is whole.

    Raises ``FileExistsError`` if there is one, and never replaces it.
    """
    if path.is_symlink() or path.exists():
        raise FileExistsError(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            yield Writer(file)
            file.flush()
            os.fsync(file.fileno())
        # Not a rename, which would replace a file that was made meanwhile.
        path.hardlink_to(unfinished)
    finally:
        unfinished.unlink(missing_ok=True)


class Reader:
    """Reads a file: first all of it, in order, then single lines by their place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = ""
        """The checksum, once the end was read."""
        self.seal: Seal | None = None
        """The key of the encrypted contents; None without it."""

    def read_lines(self) -> Iterator[tuple[int, Line]]:
        """Yield every line but the end, with its place. Raises ``Damaged``, at the latest at the end."""
        digest, counts, place = hashlib.sha256(), {"object": 0, "reference": 0}, 0
        self._file.seek(0)
        while True:
            data = self._file.readline(MOST_BYTES + 1)
            line = _line(data, place)
            if line.end is not None:
                if digest.hexdigest() != line.end.sha256:
                    raise Damaged("its content does not match its checksum")
                if (line.end.objects, line.end.references) != (counts["object"], counts["reference"]):
                    raise Damaged("lines are missing")
                if self._file.read(1):
                    raise Damaged("there is data after the end")
                self.digest = line.end.sha256
                return
            if (line.header is None) != bool(place):
                raise Damaged("the header is not its first line")
            counts["object"] += line.object is not None
            counts["reference"] += line.reference is not None
            digest.update(data)
            yield place, line
            place += len(data)

    def read_line(self, place: int) -> Line:
        """Return the line at a place."""
        self._file.seek(place)
        return _line(self._file.readline(MOST_BYTES + 1), place)

    def read_object(self, place: int) -> dict[str, Any] | None:
        """Return the object at a place, decrypted; None if there is none. Raises ``UserError``."""
        line = self.read_line(place)
        if self.seal is not None and line.reference is not None and line.reference.sealed:
            return self.seal.unseal(line.reference)
        return line.object


@contextmanager
def open_file(path: Path) -> Iterator[Reader]:
    """Open a file. Raises ``Damaged`` if it cannot be a backup."""
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Damaged("not a regular file")
        yield Reader(file)


def _line(data: bytes, place: int) -> Line:
    if not data:
        raise Damaged("the file is truncated" if place else "the file is empty")
    if len(data) > MOST_BYTES:
        raise Damaged(f"a line is longer than {MOST_BYTES >> 20} MiB")
    if not data.endswith(b"\n"):
        raise Damaged("the file is truncated")
    try:
        line = _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Damaged(f"the line at byte {place:,} is not a line of a backup: {error}") from error
    if sum(part is not None for part in (line.header, line.object, line.reference, line.end)) != 1:
        raise Damaged(f"the line at byte {place:,} is not a line of a backup")
    if line.header is not None and line.header.name != NAME:
        raise Damaged("not a Modelplane backup")
    return line


def read_passphrase(path: Path) -> bytes:
    """Return the passphrase in a file: its first line. Raises ``UserError``."""
    with path.open("rb") as file:
        passphrase = file.readline(_MOST_BYTES).rstrip(b"\r\n")
    if len(passphrase) < LEAST_CHARACTERS:
        raise UserError(
            f"the passphrase in {path} is shorter than {LEAST_CHARACTERS} characters: choose a longer one"
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
            message = "cryptography is not installed: install Modelplane with the extra [mutual-tls]"
            raise UserError(message) from None
        try:
            raw = base64.b64decode(salt, validate=True)
        # Also of characters that are not ASCII.
        except ValueError:
            raw = b""
        if len(raw) != _SALT_BYTES:
            raise UserError("the backup's salt is damaged")
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
            message = f"cannot decrypt {reference}: the passphrase is wrong, or the file was changed"
            raise UserError(message) from error


def _bound_to(reference: "Reference") -> bytes:
    return "/".join((reference.kind, reference.namespace, reference.name)).encode()
