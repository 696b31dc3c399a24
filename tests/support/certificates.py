"""A certificate authority of a test, and servers with its certificates."""

import datetime as dt
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def authority(directory: Path) -> Path:
    """Make a certificate authority, of which the key stays beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
    certificate = (
        _certificate(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "authority.key").write_bytes(_pem(key))
    path = directory / "authority.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


def server_context(directory: Path, host: str) -> ssl.SSLContext:
    """Return the TLS settings of a server with a certificate of that authority."""
    certificate, key = server_pair(directory, host)
    chain = directory / f"{host}.pem"
    chain.write_text(key + certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain)
    return context


def server_pair(
    directory: Path, host: str, lifetime: dt.timedelta = dt.timedelta(hours=1)
) -> tuple[str, str]:
    """Return a certificate of that authority and its private key, in PEM."""
    issuer = x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes())
    signer = serialization.load_pem_private_key((directory / "authority.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test server")])
    certificate = (
        _certificate(name, issuer.subject, key.public_key(), lifetime)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), _pem(key).decode()


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    lifetime: dt.timedelta = dt.timedelta(hours=1),
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + lifetime)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
