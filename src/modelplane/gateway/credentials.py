"""Credentials of endpoints: Secrets whose owners permit that the gateway sends them to a host.

A person who writes ModelEndpoints need not be allowed to read Secrets. So a Secret says by its type that it
is for the gateway, and by its hosts where it may go. See ``docs/decisions/0033-provider-credentials.md``.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from modelplane.api.conditions.reasons import ModelEndpointReason as Reason
from modelplane.api.meta import Object
from modelplane.api.model_endpoint import CredentialHeader, ModelEndpoint
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_map
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.module_files.route_files import SecretHeader
from modelplane.gateway.route_table import CredentialReference, Route

SECRET_TYPE = "modelplane.ai/provider-credential"  # noqa: S105  the type of a Secret, not a secret
"""Type of the Secrets that may be sent to providers."""

HOSTS = "hosts"
"""Key of the hosts that may get a Secret's credentials, divided by commas or spaces."""

MOST_HOSTS = 64
"""Maximum of hosts of a Secret."""

MAX_VALUE = 4096
"""Maximum of characters of a credential."""

_MAX_HOSTS_BYTES = MOST_HOSTS * 260
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")


def must_have_module(endpoint: ModelEndpoint) -> bool:
    """Return True if only the gateway module can send requests to an endpoint as its spec says."""
    return endpoint.spec.model is not None or endpoint.spec.credential is not None


def check_clear_text(
    endpoint: ModelEndpoint, host: str, *, tls: bool, destinations: Destinations
) -> Rejected | None:
    """Return why the credential of an endpoint must not be sent to its url; None if it may be."""
    if endpoint.spec.credential is None or tls or (destinations.is_local and _is_loopback(host)):
        return None
    return Rejected(
        Reason.INVALID_URL, "its spec.credential", "is never sent in clear text", "use https://HOST"
    )


def find_reference(endpoint: ModelEndpoint, authority: str) -> CredentialReference | None:
    """Return the credential that an endpoint names, for the host of its URL; None if it names none."""
    if (credential := endpoint.spec.credential) is None:
        return None
    secret = credential.secret_ref
    namespace = endpoint.metadata.namespace
    return CredentialReference(namespace, secret.name, secret.key, credential.header.lower(), authority)


def build_header(wanted: CredentialReference, secret: Object | None) -> SecretHeader | Rejected:
    """Return the header that a Secret gives, or why it gives none; no reason quotes a value."""
    named = f'Secret "{wanted.secret}"'
    if secret is None:
        return Rejected(
            detail=f'{named} does not exist in namespace "{wanted.namespace}"', remedy="create it"
        )
    if secret.get("type") != SECRET_TYPE:
        return Rejected(
            subject=named,
            detail=f"is not of type {SECRET_TYPE}, which allows the gateway to send it to providers",
            remedy="create it again with this type",
        )
    data = get_map(secret, "data")
    hosts = _hosts(named, data.get(HOSTS))
    if isinstance(hosts, Rejected):
        return hosts
    if wanted.host not in hosts:
        return Rejected(
            subject=f'key "{HOSTS}" of {named}',
            detail=f"does not list {wanted.host}, so the gateway is not allowed to send the credential there",
            remedy="add the host, or use another Secret",
        )
    value = _text(data.get(wanted.key), MAX_VALUE)
    if not _VALUE.fullmatch(value):
        return Rejected(
            subject=f'key "{wanted.key}" of {named}',
            detail="is not a credential",
            remedy=f"it must have 1 to {MAX_VALUE} printable ASCII characters, without a line break at the "
            "end",
        )
    bearer = wanted.header == CredentialHeader.AUTHORIZATION.lower()
    return SecretHeader(wanted.header, f"Bearer {value}" if bearer else value)


def list_references(routes: Iterable[Route]) -> Iterator[CredentialReference]:
    """Yield the credentials of the backends of routes."""
    return (backend.credential for route in routes for backend in route.backends if backend.credential)


def select_usable(
    routes: Iterable[Route], known: Mapping[str, SecretHeader], *, has_module: bool
) -> tuple[Route, ...]:
    """Return routes without the backends that cannot be sent requests.

    These are backends without their credential, and all that need the module where Envoy has none.
    """
    return tuple(_usable(route, known, has_module) for route in routes)


def _usable(route: Route, known: Mapping[str, SecretHeader], has_module: bool) -> Route:
    left = tuple(
        backend
        for backend in route.backends
        if not backend.needs_module
        or (has_module and (backend.credential is None or backend.credential.name in known))
    )
    if len(left) == len(route.backends):
        return route
    if left:
        return replace(route, backends=left)
    why = (
        f'cannot serve ModelService "{route.name}": the gateway cannot set credential or model of its '
        f"ModelEndpoints: run kubectl get modelendpoints -n {route.name.partition('/')[0]} -o yaml"
    )
    # A replica that starts changes nothing, so no request waits for one.
    settings = msgspec.structs.replace(route.settings, hold=None)
    return replace(route, backends=(), unavailable=why, settings=settings)


def _hosts(secret: str, encoded: str | None) -> frozenset[str] | Rejected:
    if encoded is None:
        return Rejected(
            subject=f'key "{HOSTS}" of {secret}',
            detail="is missing",
            remedy="list the hosts that can receive the credential, such as api.example.com",
        )
    hosts = frozenset(_text(encoded, _MAX_HOSTS_BYTES).lower().replace(",", " ").split())
    if not 1 <= len(hosts) <= MOST_HOSTS:
        return Rejected(
            subject=f'key "{HOSTS}" of {secret}',
            detail=f"must list 1 to {MOST_HOSTS} hosts, separated by commas or spaces",
        )
    return hosts


def _text(encoded: str | None, most: int) -> str:
    """Return the text of a member of a Secret; empty if it is absent, too long or not ASCII."""
    if not encoded or len(encoded) > most * 4 / 3 + 4:
        return ""
    try:
        content = base64.b64decode(encoded, validate=True)
        return content.decode("ascii") if len(content) <= most else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
