"""Certificates of gateways: an authority, the certificate of the fleet's gateway, and one for each cluster.

They are Secrets of the system's namespace. The platform can bring the authority, as a Secret of
cert-manager's form and of this name: it is then only read. A new authority is trusted before it signs, so
both are accepted meanwhile.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from modelplane.api import labels
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.names import child_name
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Unknown
from modelplane.gateway.mutual_tls import CLIENT_NAME, Identity, Pair, Validity, build_bundle, must_issue
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

AUTHORITY: Final = "modelplane-gateway-authority"
"""Name of the Secret of the authority."""

CLIENT: Final = "modelplane-gateway-identity"
"""Name of the Secret of the fleet's gateway: its certificate, and the authorities of the clusters'."""

_OURS: Final = {labels.MANAGED_BY: "modelplane"}
_CHAIN, _KEY, _AUTHORITIES = "tls.crt", "tls.key", "ca.crt"


class Issuing(Protocol):
    """The functions of ``modelplane.controllers.gateway.certificate_issuing``, which needs a package."""

    def authority(self, now: datetime) -> Pair:
        """Return a new certificate authority."""

    def issued(self, by: Pair, name: str, *, serves: bool, now: datetime) -> Pair:
        """Return a new certificate of an authority for a DNS name."""

    def check_authority(self, pair: Pair, now: datetime) -> Rejected | None:
        """Return why a pair is not an authority; None if it is one."""

    def validity(self, pair: Pair, name: str = "") -> Validity | None:
        """Return the time for which a pair is valid; None if it is damaged, or not for the name."""

    def issued_by(self, chain: str, authority: str) -> bool:
        """Return True if an authority issued a certificate, or if one of them cannot be read."""

    def parts(self, bundle: str) -> tuple[str, ...]:
        """Return each certificate of a bundle."""


def import_issuing() -> Issuing | None:
    """Return the functions that issue certificates; None without their package."""
    try:
        from modelplane.controllers.gateway import certificate_issuing  # noqa: PLC0415  the package may be missing
    except ImportError:
        return None
    return certificate_issuing


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster whose gateway has a certificate."""

    cluster: str
    uid: str
    name: str
    """The name in the certificate."""
    secret: tuple[Object, ...] | Unknown
    """The Secret of the gateway, as the cluster has it."""
    checks: bool
    """True if the gateway checks the certificate of the fleet's gateway."""


@dataclass(frozen=True, slots=True)
class Issued:
    """The certificates in force."""

    identity: Identity | None = None
    servers: Mapping[str, Pair] = field(default_factory=dict)
    """The certificate of each cluster's gateway, by the cluster's name."""
    authorities: str = ""
    problem: str = ""
    """The reason why none can be issued or renewed; empty if they can."""


class Certificates:
    """The Secrets of the gateways' certificates."""

    def __init__(
        self,
        client: Client,
        secret: Callable[[str], Object | None],
        remember: Callable[[Object], None],
        library: Callable[[], Issuing | None],
    ) -> None:
        """``secret`` returns a Secret of the system's namespace, ``remember`` takes one that was written.

        ``library`` takes megabytes, so it is called only once a gateway needs a certificate.
        """
        self._client = client
        self._secret = secret
        self._remember = remember
        self._library = library
        self.last = Issued()
        """The certificates as of the last look."""

    async def update(self, places: Iterable[Place], now: datetime) -> Issued:
        """Issue what is due, and return what is in force. Raises ``KubernetesError``."""
        places = tuple(places)
        issuing = self._library()
        if issuing is None:
            self.last = self._stored(
                places,
                "cannot issue certificates: package cryptography is not installed: install the controllers "
                "with the extra [mutual-tls]",
            )
        else:
            self.last = await self._update(issuing, places, now)
        return self.last

    async def _update(self, issuing: Issuing, places: tuple[Place, ...], now: datetime) -> Issued:
        authority, problem = await self._authority(issuing, now)
        if authority is None:
            return self._stored(places, problem)
        current = issuing.parts(authority.chain)[0]
        stored = issuing.parts(_text(self._secret(CLIENT), _AUTHORITIES))
        client = _pair(self._secret(CLIENT))

        def due(pair: Pair | None, name: str, *, is_trusted: bool) -> bool:
            valid = issuing.validity(pair, name) if pair else None
            by_current = pair is not None and issuing.issued_by(pair.chain, current)
            return must_issue(valid, by_current=by_current, is_trusted=is_trusted, now=now)

        everywhere = all(_trusts(issuing, location, current) for location in places if location.checks)
        if client is None or due(client, CLIENT_NAME, is_trusted=everywhere):
            client = issuing.issued(authority, CLIENT_NAME, serves=False, now=now)
        servers = {}
        for place in places:
            known = _pair(self._secret(_secret_name(place.cluster)))
            if known is None or due(known, place.name, is_trusted=current in stored):
                known = issuing.issued(authority, place.name, serves=True, now=now)
                await self._write(_secret_name(place.cluster), _content(known), place)
            servers[place.cluster] = known
        used = [client, *servers.values()]
        authorities = build_bundle(current, stored, _still_used(issuing, stored, used, places))
        await self._write(CLIENT, {**_content(client), _AUTHORITIES: authorities})
        return Issued(Identity(client, authorities), servers, authorities)

    async def _authority(self, issuing: Issuing, now: datetime) -> tuple[Pair | None, str]:
        """Return the authority, made or renewed if it is Modelplane's; None and the problem if it is not."""
        secret = self._secret(AUTHORITY)
        if secret is None:
            made = issuing.authority(now)
            # Not applied: one that the platform brings at the same time wins.
            self._remember(await self._client.create(_manifest(AUTHORITY, _content(made))))
            return made, ""
        pair = _pair(secret)
        missing = Rejected(detail=f"it has no {_CHAIN} and {_KEY}")
        rejected = issuing.check_authority(pair, now) if pair else missing
        if pair is None or rejected:
            where = f'Secret "{AUTHORITY}" in namespace "{SYSTEM_NAMESPACE}"'
            remedy = "correct it, or delete it to get a new authority"
            return None, f"cannot issue certificates: {where}: {(rejected or missing).message}: {remedy}"
        valid = issuing.validity(pair)
        is_ours = _OURS.items() <= (secret["metadata"].get("labels") or {}).items()
        if is_ours and valid is not None and valid.is_due(now):
            pair = issuing.authority(now)
            await self._write(AUTHORITY, _content(pair))
        return pair, ""

    def _stored(self, places: Iterable[Place], problem: str) -> Issued:
        """Return the certificates that were issued before."""
        client, authorities = _pair(self._secret(CLIENT)), _text(self._secret(CLIENT), _AUTHORITIES)
        pairs = {place.cluster: _pair(self._secret(_secret_name(place.cluster))) for place in places}
        servers = {cluster: pair for cluster, pair in pairs.items() if pair}
        return Issued(Identity(client, authorities) if client else None, servers, authorities, problem)

    async def _write(self, name: str, content: Mapping[str, str], place: Place | None = None) -> None:
        """Write a Secret, of a cluster or of all, unless it has this content."""
        secret = self._secret(name)
        if any(_text(secret, key) != pem for key, pem in content.items()):
            self._remember(await self._client.apply(_manifest(name, content, place)))


def _secret_name(cluster: str) -> str:
    return child_name(cluster, "gateway-certificate")


def _trusts(issuing: Issuing, place: Place, authority: str) -> bool:
    """Return True if a cluster is known to trust an authority."""
    found = () if isinstance(place.secret, Unknown) else place.secret
    return any(authority in issuing.parts(_text(entry, _AUTHORITIES)) for entry in found)


def _still_used(
    issuing: Issuing, stored: tuple[str, ...], issued: Iterable[Pair], places: Iterable[Place]
) -> tuple[str, ...]:
    """Return the authorities of certificates in use; all of them while a cluster cannot be read."""
    chains = [pair.chain for pair in issued]
    for place in places:
        if isinstance(place.secret, Unknown):
            return stored
        chains += [_text(entry, _CHAIN) for entry in place.secret]
    return tuple(
        authority for authority in stored if any(issuing.issued_by(chain, authority) for chain in chains)
    )


def _content(pair: Pair) -> dict[str, str]:
    return {_CHAIN: pair.chain, _KEY: pair.key}


def _manifest(name: str, content: Mapping[str, str], place: Place | None = None) -> dict[str, object]:
    kind = kind_of(InferenceCluster)
    owner = place and {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": place.cluster,
        "uid": place.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            "labels": dict(_OURS),
            # Deleted with its cluster.
            **({"ownerReferences": [owner]} if owner else {}),
        },
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(pem.encode()).decode() for key, pem in content.items()},
    }


def _text(secret: Object | None, key: str) -> str:
    """Return a member of a Secret; empty if it is missing or damaged."""
    data = (secret or {}).get("data") or {}
    try:
        return base64.b64decode(data.get(key, ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _pair(secret: Object | None) -> Pair | None:
    chain, key = _text(secret, _CHAIN), _text(secret, _KEY)
    return Pair(chain, key) if chain and key else None
