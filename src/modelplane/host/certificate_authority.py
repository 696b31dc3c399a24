"""The common parts of certificates that Modelplane issues as its own authority."""

from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

LIFETIME: Final = timedelta(days=3650)
"""Lifetime of an authority."""

_EARLIER: Final = timedelta(minutes=5)
"""Begin before the present time, for clocks that are late."""


def issue_authority(name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """Return the certificate of a new authority, which may issue those of no other authority."""
    return (
        start_certificate(name, name, key.public_key(), now, now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(build_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    """Return the builder of a certificate: the caller adds the extensions of its purpose, and signs it."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def build_usage(*, signs: bool) -> x509.KeyUsage:
    """Return the uses of a key: to authenticate, and to sign certificates if it is an authority's."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
