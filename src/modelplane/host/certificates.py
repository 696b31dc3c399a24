"""Certificates: the check that one belongs to a private key, and the time at which it expires."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from modelplane.api.rejected import Rejected

# Tags (X.690, section 8): a context-specific element, and a time with two digits of the year.
_VERSION, _UTC_TIME = 0xA0, 0x17


def check_pair(chain: bytes, key: bytes) -> Rejected | None:
    """Return why a chain of certificates and a private key, both in PEM, are of no use; None if they are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        with _in_memory(chain) as chain_path, _in_memory(key) as key_path:
            # Without a password, OpenSSL would ask for that of an encrypted key on the terminal.
            context.load_cert_chain(chain_path, key_path, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return Rejected(detail="its private key is not that of its certificate")
        why = f" ({error.reason.lower().replace('_', ' ')})" if error.reason else ""
        return Rejected(
            detail=f"it does not have a certificate and a private key without a password in PEM{why}"
        )
    return None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file that is on no disk, because OpenSSL reads keys from files only."""
    descriptor = os.memfd_create("certificate")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def read_expiry(chain: str) -> datetime | None:
    """Return the time at which the first certificate of a chain expires; None if it cannot be read.

    The certificate is that of RFC 5280, section 4.1, in PEM.
    """
    before, footer, _ = chain.partition(ssl.PEM_FOOTER)
    try:
        first = ssl.PEM_cert_to_DER_cert(ssl.PEM_HEADER + before.partition(ssl.PEM_HEADER)[2] + footer)
        ((_, certificate),) = _elements(first)
        (_, signed), *_ = _elements(certificate)
        _serial, _algorithm, _issuer, validity, *_ = (
            content for tag, content in _elements(signed) if tag != _VERSION
        )
        _, (tag, time) = _elements(validity)
        form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(time.decode(), form).replace(tzinfo=UTC)
    except (ValueError, IndexError):
        return None


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element of a sequence in DER."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:  # the length of the length
            end = at + (length & 0x7F)
            length, at = int.from_bytes(der[at:end], "big"), end
        yield tag, der[at : at + length]
        at += length
