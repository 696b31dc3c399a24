import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from modelplane.host.certificates import check_pair, read_expiry
from support.certificates import authority, server_pair
from support.rejections import message_of

NO_PAIR = "it does not have a certificate and a private key without a password in PEM"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[bytes, bytes]:
    authority(tmp_path)
    chain, key = server_pair(tmp_path, "models.example")
    return chain.encode(), key.encode()


def test_a_certificate_with_its_key_is_of_use_and_leaves_no_file_open(pair: tuple[bytes, bytes]) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    assert check_pair(*pair) is None
    assert len(list(descriptors.iterdir())) == before


def test_the_key_of_another_certificate_is_refused(pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    _, other = server_pair(tmp_path, "models.example")
    assert message_of(check_pair(pair[0], other.encode())) == "its private key is not that of its certificate"


def test_what_is_missing_or_damaged_is_refused(pair: tuple[bytes, bytes]) -> None:
    chain, key = pair
    for damaged in ((b"", key), (chain, b""), (chain[:-40], key), (chain, b"\0"), (chain + key, b"")):
        assert message_of(check_pair(*damaged)).startswith(NO_PAIR)


def test_a_key_with_a_password_is_refused_without_asking_for_it(pair: tuple[bytes, bytes]) -> None:
    chain, key = pair
    loaded = serialization.load_pem_private_key(key, None)
    encrypted = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    assert message_of(check_pair(chain, encrypted)).startswith(NO_PAIR)


@pytest.mark.parametrize(
    "year", [2027, 2049, 2051], ids=["two digits", "the last of two digits", "four digits"]
)
def test_the_time_at_which_a_certificate_expires_is_read(tmp_path: Path, year: int) -> None:
    authority(tmp_path)
    chain, _ = server_pair(tmp_path, "models.example", datetime(year, 3, 1, tzinfo=UTC) - datetime.now(UTC))
    issuer = (tmp_path / "authority.pem").read_text()
    expected = x509.load_pem_x509_certificate(chain.encode()).not_valid_after_utc
    assert read_expiry(chain + issuer) == read_expiry(f"subject=models\n{chain}") == expected


@pytest.mark.parametrize(
    "chain", ["", "text", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----"]
)
def test_of_what_cannot_be_read_no_time_is_known(chain: str) -> None:
    assert read_expiry(chain) is None


def test_of_a_damaged_certificate_no_time_is_known_or_a_time(pair: tuple[bytes, bytes]) -> None:
    whole = ssl.PEM_cert_to_DER_cert(pair[0].decode())
    for length in range(len(whole)):
        assert isinstance(read_expiry(ssl.DER_cert_to_PEM_cert(whole[:length])), datetime | None)
