"""Identities of a local fleet: one certificate authority, one certificate per identity.

Kubernetes reads a client's user name from the common name and its groups from
the organizations of its certificate (Kubernetes, "Authenticating", X.509). The
identities are the table below. A certificate that is missing, expires within thirty
days or no longer matches the table is created anew; the rest is kept.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelplane.host import certificate_authority
from modelplane.host.file_system import write_private
from modelplane.local.kubernetes.control_plane import AUTHORITY, Pki

_LIFETIME = timedelta(days=1825)
_RENEW_BEFORE = timedelta(days=30)

_SERVICE = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)
"""The names of the API server inside a cluster, and the first address of the service range."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The subject of one certificate."""

    name: str
    """The name of the files: ``NAME.crt`` and ``NAME.key``."""
    common_name: str
    organisations: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The names and addresses under which it serves; none for a client."""


def list_identities(node: str) -> tuple[Identity, ...]:
    """Return the identities that need a certificate on a fleet whose one node has this name."""
    loopback = ("127.0.0.1", "::1", "localhost")
    return (
        Identity("kube-apiserver", "kube-apiserver", (), (*loopback, *_SERVICE)),
        Identity("agent-serving", f"system:node:{node}", ("system:nodes",), (*loopback, node)),
        Identity("admin", "modelplane:admin", ("system:masters",)),
        Identity("controller", "modelplane:controller", ("modelplane:controllers",)),
        Identity("agent", f"system:node:{node}", ("system:nodes",)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("kubelet-client", "kube-apiserver-kubelet-client"),
    )


def ensure(pki: Pki, identities: Sequence[Identity], now: datetime) -> None:
    """Create every certificate and key that is missing or no longer usable."""
    if not pki.service_accounts.exists():
        write_private(pki.service_accounts, _pem(ec.generate_private_key(ec.SECP256R1())))
    authority, authority_key = _authority(pki, now)
    for identity in identities:
        if not _usable(pki, identity, authority, now):
            _issue(pki, identity, authority, authority_key, now)


def _authority(pki: Pki, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    authority = _load(pki, AUTHORITY)
    if authority is not None and authority[0].not_valid_after_utc - now > _RENEW_BEFORE:
        return authority
    key = ec.generate_private_key(ec.SECP256R1())
    # The seconds distinguish two authorities of one home for clients that cache by subject.
    name = _subject(f"modelplane local {int(now.timestamp())}", ())
    certificate = certificate_authority.issue_authority(name, key, now)
    _save(pki, AUTHORITY, certificate, key)
    return certificate, key


def _issue(
    pki: Pki,
    identity: Identity,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + _LIFETIME, authority.not_valid_after_utc)
    subject = _subject(identity.common_name, identity.organisations)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if identity.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        certificate_authority.start_certificate(subject, authority.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if identity.hosts:
        builder = builder.add_extension(_alternative_names(identity.hosts), critical=False)
    _save(pki, identity.name, builder.sign(authority_key, hashes.SHA256()), key)


def _usable(pki: Pki, identity: Identity, authority: x509.Certificate, now: datetime) -> bool:
    loaded = _load(pki, identity.name)
    if loaded is None:
        return False
    certificate, key = loaded
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
        return False
    names = [extension.value for extension in certificate.extensions if extension.oid == _NAMES_OID]
    return (
        certificate.not_valid_after_utc - now > _RENEW_BEFORE
        and certificate.public_key() == key.public_key()
        and certificate.subject == _subject(identity.common_name, identity.organisations)
        and names == ([_alternative_names(identity.hosts)] if identity.hosts else [])
    )


_NAMES_OID = x509.SubjectAlternativeName.oid


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(host) for host in hosts])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _subject(common_name: str, organisations: Sequence[str]) -> x509.Name:
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation) for organisation in organisations
    ]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # RFC 5915: the one form of such a key that kube-apiserver reads for service accounts.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _save(pki: Pki, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    # The key first: a crash between the two leaves a mismatched pair, which is created again.
    write_private(pki.find_key(name), _pem(key))
    write_private(pki.find_certificate(name), certificate.public_bytes(serialization.Encoding.PEM))


def _load(pki: Pki, name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    try:
        certificate = x509.load_pem_x509_certificate(pki.find_certificate(name).read_bytes())
        key = serialization.load_pem_private_key(pki.find_key(name).read_bytes(), password=None)
    except (OSError, ValueError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        return None
    return certificate, key


def get_now() -> datetime:
    """Return the present time as ``ensure`` wants it."""
    return datetime.now(UTC)
