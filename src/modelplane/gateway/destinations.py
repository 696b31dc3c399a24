"""Destinations: addresses that the gateway may send requests to.

Teams write the URLs of endpoints, and the gateway stands where clouds and machines trust it: its own loopback
interface, the metadata services that hand out the credentials of its machine, the pods and Services of its
cluster, and the gateways of the InferenceClusters. Such addresses are refused in a URL, and again by Envoy
once a name has been resolved, because the answer for a name may change.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from modelplane.api.conditions.reasons import ModelEndpointReason as Reason
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected
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
    "192.88.99.0/24": "the relay of 6to4",
    "2001::/23": "an address for protocols, among them Teredo, which contains an IPv4 address",
    "2002::/16": "an address of 6to4, which contains an IPv4 address",
}
_INTERNAL_BLOCKS = {
    "10.0.0.0/8": "a private address",
    "100.64.0.0/10": "a private address",
    "172.16.0.0/12": "a private address",
    "192.168.0.0/16": "a private address",
    "198.18.0.0/15": "a private address",
    "fc00::/7": "a private address",
}
"""Networks with the addresses of pods and Services: no cluster reports all of its ranges."""

_UNICAST_BLOCKS = ("0.0.0.0/0", "2000::/3", "fc00::/7")
_NOT_UNICAST = "not a global address of IPv6, or contains an IPv4 address"
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

_MAPPED = ipaddress.ip_network("::ffff:0:0/96")
_LOW_32 = (1 << 32) - 1
_ISATAP = 0x5EFE
"""Bits before the IPv4 address at the end of an address of ISATAP, after 16 bits of flags (RFC 5214)."""

_ISATAP_FLAGS = 0xFCFF
_REFUSED: dict[Network, str] = {ipaddress.ip_network(cidr): what for cidr, what in _REFUSED_BLOCKS.items()}
_INTERNAL: dict[Network, str] = {ipaddress.ip_network(cidr): what for cidr, what in _INTERNAL_BLOCKS.items()}
_UNICAST: tuple[Network, ...] = tuple(ipaddress.ip_network(cidr) for cidr in _UNICAST_BLOCKS)
_MOST_KNOWN = 1 << 14
"""Maximum of results that are kept: teams write hosts, and can write new ones for ever."""

_OWN_SERVICES = "modelplane-"
_CLUSTER_LABELS = frozenset({"svc", "pod"})
"""Labels in the names of Services and pods, whatever the domain of the cluster."""


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

    refuses_internal: bool = False
    """True to refuse names and addresses that pods and Services of the gateway's cluster may have."""
    clusters: tuple[str, ...] = ()
    """Addresses of the gateways of the InferenceClusters, as their status has them."""
    replicas: frozenset[str] | None = None
    """The uids of the ModelReplicas of the namespace; None if they are not known."""

    @property
    def refused(self) -> tuple[Network, ...]:
        """Return the networks that names must not resolve to, unless ``allowed`` contains the address."""
        usual = () if self.is_local else tuple(_REFUSED)
        return tuple(_with_ipv6_forms((*usual, *self.denied)))

    @property
    def unicast(self) -> tuple[Network, ...]:
        """Return the networks outside of which names must not resolve to, unless ``allowed`` contains it."""
        return () if self.is_local else (*_UNICAST, *_forms_of_ipv4(ipaddress.IPv4Network("0.0.0.0/0")))

    @property
    def only_for_replicas(self) -> tuple[tuple[Network, int], ...]:
        """Return networks that only names of replicas may resolve to, with a port; 0 stands for every port.

        ``allowed`` lists exceptions from the internal networks, and none from the gateways of clusters.
        """
        known = sorted(_clusters(self.clusters), key=str)
        found = [(ipaddress.ip_network(host), port) for host, port in known if not isinstance(host, str)]
        # One range for all of them, because each attempt is compared with every network.
        return (*found, (_MAPPED, 0)) if found else ()

    @property
    def internal(self) -> tuple[Network, ...]:
        """Return the internal networks, which only names of replicas may resolve to."""
        return tuple(_with_ipv6_forms(_INTERNAL)) if self.refuses_internal else ()

    def check(self, host: str, port: int, *, of_replica: bool = False) -> Rejected | None:
        """Return why the gateway must not send requests to a host and port; None if it may.

        ``of_replica``: a ModelReplica wrote the URL, with the address of its cluster's gateway.
        """
        if self._is_gateway(host, port):
            return _reject("this is the gateway's own address, so requests would loop", "use another")
        if not of_replica and self._is_gateway_of_cluster(host, port):
            return _reject(
                "this is the gateway of an InferenceCluster, which serves all teams' models",
                "select the ModelEndpoints that ModelReplicas create, or use another address",
            )
        refuses_internal = self.refuses_internal and not of_replica
        address = _address(host)
        if address is not None:
            return self._check_address(address, refuses_internal=refuses_internal)
        if refuses_internal and _is_internal(host):
            return _reject("this is a name in the gateway's own cluster", "use an address")
        return None

    def _check_address(self, address: Address, *, refuses_internal: bool) -> Rejected | None:
        if _within(address, self.allowed):
            return None
        if _within(address, self.denied):
            return _reject(f"{address} is in {_DENIED}", "use another")
        if self.is_local:
            return None
        internal = _INTERNAL if refuses_internal else {}
        found = (what for network, what in (_REFUSED | internal).items() if address in network)
        what = next(found, "" if _is_unicast(address) else _NOT_UNICAST)
        return _reject(f"{address} is {what}", f"use another, or add it to {_ALLOWED}") if what else None

    def _is_gateway_of_cluster(self, host: str, port: int) -> bool:
        wanted = _address(host) or host
        return any(wanted == known and of in (0, port) for known, of in _clusters(self.clusters))

    def may_be_gateway_of_cluster(self, host: str, port: int) -> bool:
        """Return True for the gateway of a cluster, and for every host while no such gateway is known."""
        return not self.clusters or self._is_gateway_of_cluster(host, port)

    def _is_gateway(self, host: str, port: int) -> bool:
        service, _, rest = host.partition(".")
        if service.startswith(_OWN_SERVICES) and rest.split(".", 2)[0] == SYSTEM_NAMESPACE:
            return True
        named, own_port = _host_and_port(self.gateway)
        same = host == named or (_address(host) or host) == (_address(named) or named)
        return bool(named) and same and port == (own_port or (HTTPS_PORT if self.has_tls else HTTP_PORT))


_ALLOWED = "spec.allowedDestinations of the InferenceGateway"
_DENIED = "spec.deniedDestinations of the InferenceGateway"


def _reject(detail: str, remedy: str) -> Rejected:
    detail = f"the gateway is not allowed to send requests to this address: {detail}"
    return Rejected(Reason.DESTINATION_REFUSED, detail=detail, remedy=remedy)


def parse_networks(cidrs: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of CIDRs and addresses. Raises ValueError if one is neither."""
    return tuple(ipaddress.ip_network(cidr, strict=False) for cidr in cidrs)


def _is_internal(host: str) -> bool:
    """Return True for a name that only the DNS of a cluster, or its search path, resolves."""
    labels = host.split(".")
    is_of_cluster = not _CLUSTER_LABELS.isdisjoint(labels) or host.endswith(".cluster.local")
    return len(labels) == 1 or is_of_cluster


@lru_cache(maxsize=_MOST_KNOWN)
def _host_and_port(authority: str) -> tuple[str, int]:
    """Return the host of an authority in lower case, without brackets, and its port; 0 without one."""
    host, separator, port = authority.rpartition(":")
    if not (separator and port.isdigit() and (":" not in host or host.endswith("]"))):
        host, port = authority, ""
    return host.strip("[]").rstrip(".").lower(), int(port or 0)


def is_on_this_machine(authority: str) -> bool:
    """Return True for a host, with or without a port, that is a loopback address."""
    address = _address(_host_and_port(authority)[0])
    return address is not None and address.is_loopback


@lru_cache(maxsize=_MOST_KNOWN)
def _clusters(authorities: tuple[str, ...]) -> frozenset[tuple[Address | str, int]]:
    """Return the gateways of clusters: address or name, and port; 0 for all ports.

    On loopback, other ports are other programs of the machine.
    """
    networks: set[tuple[Address | str, int]] = set()
    for host, port in filter(lambda authority: authority[0], map(_host_and_port, authorities)):
        address = _address(host)
        is_shared = address is not None and address.is_loopback
        networks.add((address or host, (port or HTTP_PORT) if is_shared else 0))
    return frozenset(networks)


def _is_unicast(address: Address) -> bool:
    """Return True for an address of one server that contains no address of IPv4."""
    if not _within(address, _UNICAST):
        return False
    interface = int(address) >> 32 & _LOW_32 if address.version == 6 else 0
    return (interface & 0xFFFF) != _ISATAP or bool(interface >> 16 & _ISATAP_FLAGS)


@lru_cache(maxsize=_MOST_KNOWN)
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
        if isinstance(network, ipaddress.IPv4Network):
            yield from _forms_of_ipv4(network)


def _forms_of_ipv4(network: ipaddress.IPv4Network) -> Iterable[Network]:
    for prefix in _IPV4_IN_IPV6:
        base = ipaddress.IPv6Address(prefix | int(network.network_address))
        yield ipaddress.IPv6Network((base, 96 + network.prefixlen))
