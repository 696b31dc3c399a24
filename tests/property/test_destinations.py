"""Addresses of endpoints, compared with the registries that Python's ``ipaddress`` contains."""

import ipaddress

from hypothesis import example, given, strategies as st

from modelplane.gateway.destinations import Address, Destinations

POLICY = Destinations(refuses_internal=True)
_DOCUMENTATION = [
    ipaddress.ip_network(each)
    for each in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")
]
"""No server has such an address, and manuals use them."""

_V4 = st.ip_addresses(v=4) | st.sampled_from(
    [
        ipaddress.ip_address(each)
        for each in ("127.0.0.1", "169.254.169.254", "10.96.0.1", "0.0.0.0", "8.8.8.8")
    ]
)
_EMBEDDING = (
    "::",
    "::ffff:0:0",
    "::ffff:0:0:0",
    "64:ff9b::",
    "64:ff9b:1::",
    "2600::5efe:0:0",
    "2600::200:5efe:0:0",
    "fd00::5efe:0:0",
)
_SHIFTED = {"2002::": 80, "2001::": 64}


def _embedded() -> st.SearchStrategy[Address]:
    at_the_end = st.tuples(st.sampled_from(_EMBEDDING), _V4).map(lambda each: _with(each[0], int(each[1])))
    within = st.tuples(st.sampled_from(sorted(_SHIFTED)), _V4).map(
        lambda each: _with(each[0], int(each[1]) << _SHIFTED[each[0]])
    )
    return at_the_end | within


def _with(prefix: str, bits: int) -> Address:
    return ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | bits)


def _is_public(address: Address) -> bool:
    is_documented = any(address in network for network in _DOCUMENTATION)
    return (address.is_global and not address.is_multicast) or is_documented


@given(_V4 | st.ip_addresses(v=6) | _embedded())
@example(ipaddress.ip_address("64:ff9b::7f00:1"))
def test_every_address_that_is_accepted_is_public_and_contains_no_other(address: Address) -> None:
    if POLICY.check(str(address), 80):
        return
    if isinstance(address, ipaddress.IPv6Address):
        assert address.sixtofour is None
        assert address.teredo is None
        # What a translator sends on to IPv4 is judged as the IPv4 address.
        low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.ipv4_mapped or address in ipaddress.ip_network("64:ff9b::/96"):
            address = low
        else:
            assert address.exploded[20:29] not in ("0000:5efe", "0200:5efe")
    assert _is_public(address)


@given(_V4)
def test_a_public_address_of_ipv4_is_accepted(address: Address) -> None:
    is_refused = bool(POLICY.check(str(address), 80))
    relay = ipaddress.ip_network("192.88.99.0/24")
    metadata = ipaddress.ip_network("168.63.129.16/32")
    protocols = ipaddress.ip_network("192.0.0.0/24")
    if _is_public(address) and not any(address in each for each in (relay, metadata, protocols)):
        assert not is_refused


@given(_V4 | st.ip_addresses(v=6) | _embedded())
def test_envoy_refuses_what_the_urls_check_refuses(address: Address) -> None:
    """Addresses of ISATAP are refused in URLs only: Envoy compares prefixes."""
    refused = any(address in each for each in (*POLICY.refused, *POLICY.internal))
    is_unicast = any(address in each for each in POLICY.unicast)
    by_url = POLICY.check(str(address), 80)
    if not by_url:
        assert is_unicast
        assert not refused
    elif address.exploded[20:29] not in ("0000:5efe", "0200:5efe", "0100:5efe", "0300:5efe"):
        assert refused or not is_unicast
