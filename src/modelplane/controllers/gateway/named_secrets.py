"""Secrets that objects of the gateway name: certificates of its listener, and credentials of its backends.

The InferenceGateway names the certificates. One rule: a Secret that is missing or damaged changes nothing.
Its former certificate stays, also over a restart, and without any the gateway serves no request, least of all
without TLS.

Routes name the credentials. Only named Secrets are read, each in the namespace of its endpoint. One that
cannot be read changes nothing: what it gave before stays in force.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from modelplane.api.inference_gateway import Backend, GatewayTLS, InferenceGateway
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.model_endpoint import secret_requirement
from modelplane.gateway.credentials import build_header, list_references
from modelplane.gateway.envoy.certificate_files import name_certificate_file, parse_certificate
from modelplane.gateway.envoy.module_filters import CREDENTIALS
from modelplane.gateway.module_files.route_files import CredentialFile, SecretHeader
from modelplane.gateway.route_table import Certificate, Route, Tls
from modelplane.host import certificates
from modelplane.kube.informer import Key, build_key
from modelplane.kube.resources import Object
from modelplane.proxy.interface import GatewayAddress

Find = Callable[[Requirement], tuple[Object, ...] | Unknown]
"""Returns the objects of a requirement, or why they are unknown."""

_TYPE = "kubernetes.io/tls"
_CHAIN, _KEY = "tls.crt", "tls.key"
_LONGEST_WAIT_S = 3600.0


class ProviderCredentials:
    """Reads the credentials that routes name."""

    def __init__(self, find: Find, former: Callable[[str], str]) -> None:
        """``former`` returns a file of the gateway, also one that an earlier process wrote."""
        self._find = find
        self._former = former
        self._file: CredentialFile | None = None
        self._leaving: frozenset[str] = frozenset()
        self._named: frozenset[Key] = frozenset()
        self.loading = False
        """True if a Secret that was named in the last ``read`` is being read for the first time."""

    def concerns(self, item: Object) -> bool:
        """Return True if an object is a Secret that was named in the last ``read``."""
        return item["kind"] == "Secret" and build_key(item) in self._named

    def requires(self, requirement: Requirement) -> bool:
        """Return True if a requirement is one of the Secrets that were named in the last ``read``."""
        return requirement.kind == "Secret" and Key(requirement.namespace, requirement.name) in self._named

    def read(self, routes: Iterable[Route]) -> CredentialFile:
        """Return the credentials that are in force."""
        references = {reference.name: reference for reference in list_references(routes)}
        self._named = frozenset(
            Key(reference.namespace, reference.secret) for reference in references.values()
        )
        self.loading = False
        if self._file is None:
            self._file = CredentialFile.parse(self._former(CREDENTIALS))
        found: dict[str, SecretHeader] = {}
        for name, reference in references.items():
            secrets = self._find(secret_requirement(reference.namespace, reference.secret))
            if not isinstance(secrets, Unknown):
                header = build_header(reference, next(iter(secrets), None))
                if isinstance(header, SecretHeader):
                    found[name] = header
                continue
            self.loading = self.loading or secrets.loading
            if name in self._file.credentials:
                found[name] = self._file.credentials[name]
        # Backends that routes have left are in use until Envoy has read the others.
        left = self._file.credentials.keys() - references.keys() - self._leaving
        self._leaving = frozenset(left)
        self._file = CredentialFile(found | {name: self._file.credentials[name] for name in left})
        return self._file


class Certificates:
    """The TLS that the InferenceGateway asks for, as far as its Secrets allow."""

    def __init__(
        self,
        gateway: Callable[[], Object | None],
        secret: Callable[[str], Object | None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``gateway`` is the InferenceGateway, ``secret`` a Secret of the system's namespace by its name."""
        self._gateway = gateway
        self._secret = secret
        self._now = now
        self._known: dict[str, Certificate] = {}
        """The last valid certificate of each Secret that is asked for."""
        self._checked: dict[str, tuple[Certificate, Rejected | None]] = {}
        """The certificate of each Secret that was checked last, and its problem."""
        self._names: frozenset[str] = frozenset()
        self._is_read = False
        self._problem = ""
        self.tls: Tls | None = None
        """TLS of the listener; None for plain HTTP."""

    def uses(self, secret: Object) -> bool:
        """Return True if a Secret of the system's namespace is one of those that are asked for."""
        return secret["metadata"]["name"] in self._names

    async def update(self, kept: Callable[[str], str], served: Callable[[], Iterable[str]] = tuple) -> None:
        """Read what is asked for; ``kept`` returns the content of a file of the proxy, empty if it has none.

        Without an InferenceGateway, or with one that cannot be read, nothing changes: also ``served``, the
        files of certificates that an earlier process wrote.
        """
        item = self._gateway()
        if item is None:
            if not self._is_read:
                paths = await asyncio.to_thread(lambda: sorted(served()))
                found = [parse_certificate(await asyncio.to_thread(kept, path)) for path in paths]
                if found:
                    self.tls = Tls(tuple(certificate for certificate in found if certificate is not None))
            return
        try:
            spec = decode_as(InferenceGateway, item).spec
        except InvalidObject:
            return
        self._is_read = True
        if spec.tls is None or spec.backend is not Backend.ENVOY:
            self._names, self._known, self._checked = frozenset(), {}, {}
            self._problem, self.tls = "", None
        else:
            await self._read(spec.tls, kept)

    async def _read(self, wanted: GatewayTLS, kept: Callable[[str], str]) -> None:
        names = tuple(reference.name for reference in wanted.certificate_refs)
        self._names = frozenset(names)
        known: dict[str, Certificate] = {}
        problems = []
        for name in names:
            former = self._known.get(name)
            if former is None:
                former = parse_certificate(await asyncio.to_thread(kept, name_certificate_file(name)))
            found = await self._valid(name)
            served = former if isinstance(found, Rejected) else found
            if isinstance(found, Rejected):
                meanwhile = "; the previous certificate is still used" if former else ""
                problems.append(f"{_title(name)}: {found.message}{meanwhile}")
            if served:
                known[name] = served
                expires = certificates.read_expiry(served.chain)
                if expires is not None and expires <= self._now():
                    # Clients refuse it, and nothing else does.
                    expired = f"the certificate expired at {expires:%Y-%m-%dT%H:%M:%SZ}"
                    problems.append(f"{_title(served.name)}: {expired}: renew it")
        self._known = known
        self.tls = Tls(tuple(known.values()), wanted.minimum_version)
        self._problem = "; ".join(problems)

    async def _valid(self, name: str) -> Certificate | Rejected:
        """Return the certificate in a Secret, or why it is of no use; each is checked once."""
        found = _read_certificate(name, self._secret(name))
        if isinstance(found, Rejected):
            return found
        checked, rejected = self._checked.get(name, (None, None))
        if found != checked:
            rejected = await asyncio.to_thread(_check, found)
            self._checked[name] = found, rejected
        return rejected or found

    @property
    def expiries(self) -> dict[str, datetime]:
        """The time at which each certificate that is served expires, by the name of its Secret."""
        served = self.tls.certificates if self.tls else ()
        times = ((certificate.name, certificates.read_expiry(certificate.chain)) for certificate in served)
        return {name: expires for name, expires in times if expires}

    @property
    def look_again_s(self) -> float | None:
        """Seconds until the next certificate expires, an hour at most; None if there is none to look at."""
        left = [(expires - self._now()).total_seconds() for expires in self.expiries.values()]
        return min([_LONGEST_WAIT_S, *(number for number in left if number > 0)]) if left else None

    def announced(self, address: GatewayAddress) -> GatewayAddress:
        """Return the address of the gateway with the problem of its TLS; none while it serves no request."""
        if self.tls is not None and not self.tls.certificates:
            problem = f"the gateway has no certificate, so it refuses every connection: {self._problem}"
            return replace(address, address="", problem=problem, tls_problem=problem)
        return replace(address, tls_problem=self._problem)


def _title(name: str) -> str:
    return f'Secret "{name}" in namespace "{SYSTEM_NAMESPACE}"'


def _read_certificate(name: str, secret: Object | None) -> Certificate | Rejected:
    """Return the certificate in a Secret, not checked yet."""
    if secret is None:
        return Rejected(
            detail="does not exist",
            remedy="create it, or check cert-manager's Certificate for this Secret",
        )
    if secret.get("type") != _TYPE:
        return Rejected(
            detail=f"its type is {secret.get('type', 'Opaque')}", remedy=f"use a Secret of type {_TYPE}"
        )
    data = secret.get("data") or {}
    try:
        chain, key = (base64.b64decode(data.get(part, ""), validate=True).decode() for part in (_CHAIN, _KEY))
    except (binascii.Error, UnicodeDecodeError):
        chain = key = ""
    return Certificate(name, chain, key)


def _check(found: Certificate) -> Rejected | None:
    rejected = certificates.check_pair(found.chain.encode(), found.key.encode())
    return rejected and Rejected(detail=rejected.detail, remedy=f"write both into {_CHAIN} and {_KEY}")
