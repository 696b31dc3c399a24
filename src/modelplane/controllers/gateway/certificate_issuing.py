"""Issuing of certificates for mutual TLS between gateways, with the package ``cryptography``.

An authority issues certificates for one of two purposes: to serve, or to be a client. So the key of a cluster
is of no use to pose as the fleet's gateway.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelplane.api.rejected import Rejected
from modelplane.gateway.mutual_tls import Pair, Validity
from modelplane.host import certificate_authority, certificates

LIFETIME: Final = timedelta(days=90)


def authority(now: datetime) -> Pair:
    """Return a new certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The number distinguishes two authorities in one bundle.
    name = _name(f"modelplane gateways {x509.random_serial_number():x}"[:64])
    return Pair(_pem(certificate_authority.issue_authority(name, key, now)), _key_pem(key))


def issued(by: Pair, name: str, *, serves: bool, now: datetime) -> Pair:
    """Return a new certificate of an authority for a DNS name, no longer valid than the authority.

    Raises ``ValueError`` if the authority's key cannot sign.
    """
    issuer = x509.load_pem_x509_certificate(by.chain.encode())
    signer = serialization.load_pem_private_key(by.key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        why = "the private key is neither an elliptic-curve key nor an RSA key"
        raise ValueError(why)  # noqa: TRY004 - the content is wrong, not the type of an argument
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + LIFETIME, issuer.not_valid_after_utc)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
    certificate = (
        certificate_authority.start_certificate(_name(name[:64]), issuer.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(certificate_authority.build_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def check_authority(pair: Pair, now: datetime) -> Rejected | None:
    """Return why a pair is not an authority; None if it is one."""
    if rejected := certificates.check_pair(pair.chain.encode(), pair.key.encode()):
        return rejected
    certificate = x509.load_pem_x509_certificate(pair.chain.encode())
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        return Rejected(detail="the certificate is not a CA certificate (basicConstraints CA)")
    if now >= certificate.not_valid_after_utc:
        return Rejected(
            detail=f"the certificate expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
        )
    return None


@lru_cache(maxsize=4096)
def validity(pair: Pair, name: str = "") -> Validity | None:
    """Return the time for which a pair is valid; None if it is damaged, or not for the name."""
    if certificates.check_pair(pair.chain.encode(), pair.key.encode()):
        return None
    certificate = x509.load_pem_x509_certificate(pair.chain.encode())
    if name and name not in _names(certificate):
        return None
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return found.value.get_values_for_type(x509.DNSName)


@lru_cache(maxsize=4096)
def issued_by(chain: str, authority: str) -> bool:
    """Return True if an authority issued a certificate, or if one of them cannot be read."""
    try:
        leaf, issuer = (x509.load_pem_x509_certificate(pem.encode()) for pem in (chain, authority))
    except ValueError:
        return True
    try:
        leaf.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def parts(bundle: str) -> tuple[str, ...]:
    """Return each certificate of a bundle; nothing if it is empty or damaged."""
    try:
        return tuple(_pem(certificate) for certificate in x509.load_pem_x509_certificates(bundle.encode()))
    except ValueError:
        return ()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
