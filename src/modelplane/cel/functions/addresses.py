"""Kubernetes' IP and CIDR libraries: `ip("10.0.0.1")`, `cidr("10.0.0.0/8")`.

Source: k8s.io/apiserver v0.35 `pkg/cel/library/{ip,cidr}.go`, which parse with Go's `net/netip`. Python's
`ipaddress` reads and writes addresses as it does; a zone and an IPv4 address inside an IPv6 one are refused
there.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from modelplane.cel import values
from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import Overload, overload, takes

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_GROUP: Final = re.compile(r"[0-9A-Fa-f:.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address(values.Opaque):
    """An IP address."""

    ip: _Ip
    kind = "net.IP"

    @property
    def size(self) -> int:  # type: ignore[override]  # of one address, not of the class
        """Bytes."""
        return self.ip.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class Network(values.Opaque):
    """An address with a prefix length. The bits after the prefix are kept."""

    ip: _Ip
    bits: int
    kind = "net.CIDR"

    @property
    def size(self) -> int:  # type: ignore[override]  # of one network, not of the class
        """Bytes of the prefix."""
        return -(-self.bits // 8)

    def masked(self) -> "Network":
        """Return the network with all bits after the prefix at zero."""
        return Network(ipaddress.ip_network((self.ip, self.bits), strict=False).network_address, self.bits)

    def holds(self, ip: _Ip) -> bool:
        """Tell whether an address is in it."""
        return ip.version == self.ip.version and Network(ip, self.bits).masked() == self.masked()


def _parsed(text: str) -> _Ip:
    try:
        found = ipaddress.ip_address(text if _GROUP.fullmatch(text) else "")
    except ValueError as error:
        raise EvaluationError(f'"{text}" is not an IP address') from error
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        raise EvaluationError(f'"{text}" is an IPv4 address inside an IPv6 one, which is not allowed')
    return found


def _ip(text: str) -> Address:
    return Address(_parsed(text))


def _cidr(text: str) -> Network:
    address, slash, bits = text.rpartition("/")
    if not slash or not _BITS.fullmatch(bits):
        raise EvaluationError(f'"{text}" is not a network: write an address and a length, such as 10.0.0.0/8')
    ip = _parsed(address)
    if int(bits) > ip.max_prefixlen:
        raise EvaluationError(f'"{text}" is not a network: its length is beyond {ip.max_prefixlen}')
    return Network(ip, int(bits))


def _contains_network(outer: Network, inner: Network) -> bool:
    return outer.bits <= inner.bits and outer.holds(inner.ip)


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.ip.packed
    if address.ip.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _is_link_local_unicast(address: Address) -> bool:
    packed = address.ip.packed
    if address.ip.version == 4:
        return packed[:2] == bytes((169, 254))
    return packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _is_global_unicast(address: Address) -> bool:
    if str(address.ip) == "255.255.255.255":
        return False
    return not (
        address.ip.is_unspecified
        or address.ip.is_loopback
        or address.ip.is_multicast
        or _is_link_local_unicast(address)
    )


_IP: Final = Address.kind
_CIDR: Final = Network.kind
_TYPES: Final[dict[str, type]] = {_IP: Address, _CIDR: Network}


def _of(
    function: str,
    parameters: tuple[str, ...],
    call: object,
    result: str,
    identity: str,
    *,
    member: bool = True,
) -> Overload:
    return overload(function, parameters, call, result, identity, member=member, kinds=_TYPES)  # type: ignore[arg-type]  # each line's function takes what it declares


OVERLOADS: Final[tuple[Overload, ...]] = (
    _of("ip", ("string",), _ip, _IP, "string_to_ip", member=False),
    _of("isIP", ("string",), takes(_parsed), "bool", "is_ip", member=False),
    _of(
        "ip.isCanonical",
        ("string",),
        lambda text: str(_parsed(text)) == text,
        "bool",
        "ip_is_canonical",
        member=False,
    ),
    _of("family", (_IP,), lambda address: address.ip.version, "int", "ip_family"),
    _of("isUnspecified", (_IP,), lambda address: address.ip.is_unspecified, "bool", "ip_is_unspecified"),
    _of("isLoopback", (_IP,), lambda address: address.ip.is_loopback, "bool", "ip_is_loopback"),
    _of("isLinkLocalMulticast", (_IP,), _is_link_local_multicast, "bool", "ip_is_link_local_multicast"),
    _of("isLinkLocalUnicast", (_IP,), _is_link_local_unicast, "bool", "ip_is_link_local_unicast"),
    _of("isGlobalUnicast", (_IP,), _is_global_unicast, "bool", "ip_is_global_unicast"),
    _of("cidr", ("string",), _cidr, _CIDR, "string_to_cidr", member=False),
    _of("isCIDR", ("string",), takes(_cidr), "bool", "is_cidr", member=False),
    _of("ip", (_CIDR,), lambda network: Address(network.ip), _IP, "cidr_ip"),
    _of("masked", (_CIDR,), Network.masked, _CIDR, "cidr_masked"),
    _of("prefixLength", (_CIDR,), lambda network: network.bits, "int", "cidr_prefix_length"),
    _of(
        "containsIP",
        (_CIDR, "string"),
        lambda network, text: network.holds(_parsed(text)),
        "bool",
        "cidr_contains_ip_string",
    ),
    _of(
        "containsIP",
        (_CIDR, _IP),
        lambda network, address: network.holds(address.ip),
        "bool",
        "cidr_contains_ip_ip",
    ),
    _of(
        "containsCIDR",
        (_CIDR, "string"),
        lambda network, text: _contains_network(network, _cidr(text)),
        "bool",
        "cidr_contains_cidr_string",
    ),
    _of("containsCIDR", (_CIDR, _CIDR), _contains_network, "bool", "cidr_contains_cidr"),
    _of("string", (_IP,), lambda address: str(address.ip), "string", "ip_to_string", member=False),
    _of(
        "string",
        (_CIDR,),
        lambda network: f"{network.ip}/{network.bits}",
        "string",
        "cidr_to_string",
        member=False,
    ),
)
