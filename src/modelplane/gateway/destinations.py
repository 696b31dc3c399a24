"""Destinations: addresses that the gateway may send requests to.

Teams write the URLs of endpoints, and the gateway stands where clouds and machines trust it: its own loopback
interface, and the metadata services that hand out the credentials of its machine. Such addresses are refused
in a URL, and again by Envoy once a name has been resolved, because the answer for a name may change.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.gateway.hosts import HTTP_PORT, HTTPS_PORT

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA_SERVICES = {
    "169.254.0.0/16": "a link-local address, where clouds keep the credentials of their machines",
    "100.100.100.200/32": "the metadata service of Alibaba Cloud",
    "168.63.129.16/32": "the metadata service of Azure",
    "192.0.0.0/24": "an address for protocols, among them the metadata service of Oracle Cloud",
    "fe80::/10": "a link-local address",
    "fd00:ec2::/32": "the metadata service of AWS",
    "fd00:42::42/128": "the metadata service of Scaleway",
    "fd20:ce::254/128": "the metadata service of Google Cloud",
}
_REFUSED_BLOCKS = {
    "0.0.0.0/8": "the unspecified address",
    "127.0.0.0/8": "the gateway's own loopback interface",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "a reserved address",
    "::/128": "the unspecified address",
    "::1/128": "the gateway's own loopback interface",
    "ff00::/8": "a multicast address",
    **_METADATA_SERVICES,
}
MACHINE_SERVICES = {
    version: tuple(cidr for cidr in _METADATA_SERVICES if ipaddress.ip_network(cidr).version == version)
    for version in (4, 6)
}
"""Networks with services of a cloud's machines, by the version of IP."""

_METADATA = "169.254.169.254"
_LOOPBACK = "127.0.0.1"
_NAMES = {
    "localhost": _LOOPBACK,
    "instance-data": _METADATA,
    "instance-data.ec2.internal": _METADATA,
    "metadata": _METADATA,
    "metadata.goog": _METADATA,
    "metadata.google.internal": _METADATA,
}
"""Names with an address that is known without resolving them."""

_IPV4_IN_IPV6 = (int(ipaddress.IPv6Address("::ffff:0:0")), int(ipaddress.IPv6Address("64:ff9b::")))
"""Prefixes of 96 bits in front of an IPv4 address (RFC 4291, section 2.5.5.2; RFC 6052, section 2.1)."""

_LOW_32 = (1 << 32) - 1
_REFUSED: dict[Network, str] = {ipaddress.ip_network(cidr): what for cidr, what in _REFUSED_BLOCKS.items()}
_OWN_SERVICES = "modelplane-"


@dataclass(frozen=True, slots=True)
class Destinations:
    """Policy for the addresses of endpoints."""

    allowed: tuple[Network, ...] = ()
    """Allowed by the platform team, whatever else is refused."""
    denied: tuple[Network, ...] = ()
    """Refused by the platform team."""
    gateway: str = ""
    """Address of the fleet's gateway for clients: a host, with a port unless it is that of the scheme."""
    has_tls: bool = False
    """True if clients of the gateway use https."""
    is_local: bool = False
    """True if the gateway accepts requests of its own machine only, whose services its users reach anyway."""

    refuses_internal_names: bool = False
    """True to refuse names of the gateway's own cluster, because nothing checks their addresses later."""

    @property
    def refused(self) -> tuple[Network, ...]:
        """Return the networks that names must not resolve to, unless ``allowed`` contains the address."""
        usual = () if self.is_local else tuple(_REFUSED)
        return tuple(_with_ipv6_forms((*usual, *self.denied)))

    def refusal(self, host: str, port: int) -> str:
        """Return why the gateway must not send requests to a host and port; empty if it may."""
        if self._is_gateway(host, port):
            return "it is the gateway's own address, to which requests would return: use another"
        address = _address(host)
        if address is None:
            internal = self.refuses_internal_names and _is_internal(host)
            return "it is a name of the gateway's own cluster: use an address" if internal else ""
        if _within(address, self.allowed):
            return ""
        if _within(address, self.denied):
            return f"{address} is in {_DENIED}: use another"
        if self.is_local:
            return ""
        what = next((what for network, what in _REFUSED.items() if address in network), "")
        return f"{address} is {what}: use another, or add it to {_ALLOWED}" if what else ""

    def _is_gateway(self, host: str, port: int) -> bool:
        service, _, rest = host.partition(".")
        if service.startswith(_OWN_SERVICES) and rest.split(".", 2)[0] == SYSTEM_NAMESPACE:
            return True
        own, separator, own_port = self.gateway.rpartition(":") if _has_port(self.gateway) else ("", "", "")
        named = (own if separator else self.gateway).strip("[]")
        same = host == named.lower() or (_address(host) or host) == (_address(named) or named)
        return bool(named) and same and port == int(own_port or (HTTPS_PORT if self.has_tls else HTTP_PORT))


_ALLOWED = "spec.allowedDestinations of the InferenceGateway"
_DENIED = "spec.deniedDestinations of the InferenceGateway"


def networks(cidrs: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of CIDRs and addresses. Raises ValueError if one is neither."""
    return tuple(ipaddress.ip_network(cidr, strict=False) for cidr in cidrs)


def _is_internal(host: str) -> bool:
    """Return True for a name that only the DNS of a cluster, or its search path, resolves."""
    labels = host.split(".")
    return len(labels) == 1 or "svc" in labels or host.endswith(".cluster.local")


def _has_port(authority: str) -> bool:
    return authority.rpartition(":")[2].isdigit() and (authority.count(":") == 1 or "]:" in authority)


@cache
def _address(host: str) -> Address | None:
    """Return the address of a host, as IPv4 if possible; None for a name that must be resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        host = _LOOPBACK
    try:
        address = ipaddress.ip_address(_NAMES.get(host, host))
    except ValueError:
        return None
    if address.version == 6 and int(address) & ~_LOW_32 in _IPV4_IN_IPV6:
        address = ipaddress.IPv4Address(int(address) & _LOW_32)
    # A connection to the unspecified address goes to this machine.
    return ipaddress.ip_address(_LOOPBACK) if int(address) == 0 or str(address) == "::1" else address


def _within(address: Address, among: Iterable[Network]) -> bool:
    return any(address in network for network in among)


def _with_ipv6_forms(among: Iterable[Network]) -> Iterable[Network]:
    for network in among:
        yield network
        if network.version == 4:
            for prefix in _IPV4_IN_IPV6:
                base = ipaddress.IPv6Address(prefix | int(network.network_address))
                yield ipaddress.IPv6Network((base, 96 + network.prefixlen))
