"""Where an endpoint may lead."""

import pytest

from modelplane.gateway import destinations
from modelplane.gateway.destinations import Destinations, parse_networks
from support.rejections import message_of

LOOPBACK = "127.0.0.1 is the gateway's own loopback interface"
OTHERWISE = ": use another, or add it to spec.allowedDestinations of the InferenceGateway"


def _check(policy: Destinations, host: str, port: int, *, of_replica: bool = False) -> str:
    """Return why a policy refuses a host; empty if it does not."""
    return message_of(policy.check(host, port, of_replica=of_replica)).removeprefix(
        "the gateway is not allowed to send requests to this address: "
    )


@pytest.mark.parametrize(
    ("host", "why"),
    [
        pytest.param("127.0.0.1", LOOPBACK, id="loopback"),
        pytest.param("127.1.2.3", "127.1.2.3 is the gateway's own loopback interface", id="all of loopback"),
        pytest.param("localhost", LOOPBACK, id="its name"),
        pytest.param("a.localhost", LOOPBACK, id="a name below it"),
        pytest.param("::1", LOOPBACK, id="IPv6 loopback"),
        pytest.param("::ffff:127.0.0.1", LOOPBACK, id="loopback in IPv6"),
        pytest.param("::ffff:7f00:1", LOOPBACK, id="loopback in IPv6, hexadecimal"),
        pytest.param("64:ff9b::7f00:1", LOOPBACK, id="loopback behind NAT64"),
        pytest.param("0.0.0.0", LOOPBACK, id="unspecified"),
        pytest.param("::", LOOPBACK, id="unspecified IPv6"),
        pytest.param("169.254.169.254", "a link-local address, where clouds keep", id="metadata"),
        pytest.param("metadata.google.internal", "169.254.169.254 is a link-local address", id="by name"),
        pytest.param("::ffff:a9fe:a9fe", "169.254.169.254 is a link-local address", id="metadata in IPv6"),
        pytest.param("fd00:ec2::254", "the metadata service of AWS", id="AWS over IPv6"),
        pytest.param("168.63.129.16", "the metadata service of Azure", id="Azure"),
        pytest.param("100.100.100.200", "the metadata service of Alibaba Cloud", id="Alibaba Cloud"),
        pytest.param("fd20:ce::254", "the metadata service of Google Cloud", id="Google over IPv6"),
        pytest.param("192.0.0.192", "the metadata service of Oracle Cloud", id="Oracle"),
        pytest.param("fe80::1", "a link-local address", id="link-local IPv6"),
        pytest.param("224.0.0.1", "a multicast address", id="multicast"),
        pytest.param("ff02::1", "a multicast address", id="multicast IPv6"),
        pytest.param("255.255.255.255", "a reserved address", id="broadcast"),
    ],
)
def test_addresses_of_the_gateways_surroundings_are_refused(host: str, why: str) -> None:
    refusal = _check(Destinations(), host, 80)
    assert why in refusal
    assert refusal.endswith(OTHERWISE)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "192.0.2.7", "198.18.0.1", "2001:db8::1", "fd00::1", "api.example.com", "100.64.0.1"]
)
def test_others_are_not(host: str) -> None:
    assert _check(Destinations(), host, 80) == ""


@pytest.mark.parametrize(
    ("policy", "host", "why"),
    [
        pytest.param(Destinations(is_local=True), "127.0.0.1", "", id="a local gateway shares its machine"),
        pytest.param(
            Destinations(allowed=parse_networks(["169.254.20.0/24"])),
            "169.254.20.1",
            "",
            id="the platform team allows",
        ),
        pytest.param(
            Destinations(allowed=parse_networks(["169.254.20.0/24"])),
            "169.254.21.1",
            "169.254.21.1 is a link-local address, where clouds keep the credentials of their machines"
            + OTHERWISE,
            id="only what it names",
        ),
        pytest.param(
            Destinations(denied=parse_networks(["10.0.0.0/8"]), is_local=True),
            "10.96.0.1",
            "10.96.0.1 is in spec.deniedDestinations of the InferenceGateway: use another",
            id="the platform team denies, on a local gateway too",
        ),
        pytest.param(
            Destinations(denied=parse_networks(["10.0.0.0/8"]), allowed=parse_networks(["10.0.0.7"])),
            "10.0.0.7",
            "",
            id="an exception of a denied range",
        ),
        pytest.param(Destinations(), "postgres.other.svc", "", id="Envoy checks a name once it is resolved"),
        *(
            pytest.param(
                Destinations(refuses_internal=True),
                name,
                "this is a name in the gateway's own cluster: use an address",
                id=f"nothing checks {name}",
            )
            for name in ("postgres.other.svc", "postgres.other.svc.cluster.local", "postgres")
        ),
    ],
)
def test_the_platform_team_decides(policy: Destinations, host: str, why: str) -> None:
    assert _check(policy, host, 80) == why


OWN = "this is the gateway's own address, so requests would loop: use another"


@pytest.mark.parametrize(
    ("gateway", "host", "port", "why"),
    [
        pytest.param("127.0.0.1:8800", "127.0.0.1", 8800, OWN, id="the address"),
        pytest.param("127.0.0.1:8800", "localhost", 8800, OWN, id="its name"),
        pytest.param("127.0.0.1:8800", "::ffff:7f00:1", 8800, OWN, id="its form in IPv6"),
        pytest.param("127.0.0.1:8800", "127.0.0.1", 8801, "", id="another port is another server"),
        pytest.param("192.0.2.1", "192.0.2.1", 80, OWN, id="without a port"),
        pytest.param("[2001:db8::1]:8080", "2001:db8::1", 8080, OWN, id="IPv6 and a port"),
        pytest.param("[2001:db8::1]", "2001:db8::1", 80, OWN, id="IPv6"),
        pytest.param("LB.example", "lb.example", 80, OWN, id="a host name"),
        pytest.param("192.0.2.1", "modelplane-gateway.modelplane-system.svc", 80, OWN, id="its Service"),
        pytest.param("", "modelplane-gateway.modelplane-system", 80, OWN, id="its Service, short"),
        pytest.param("", "modelplane-gateway.other.svc", 80, "", id="another namespace's Service"),
    ],
)
def test_the_gateway_itself_is_refused(gateway: str, host: str, port: int, why: str) -> None:
    assert _check(Destinations(gateway=gateway, is_local=True), host, port) == why


@pytest.mark.parametrize(
    ("gateway", "port", "why"),
    [
        pytest.param("192.0.2.1", 443, OWN, id="without a port"),
        pytest.param("192.0.2.1", 80, "", id="plain HTTP is another server"),
        pytest.param("192.0.2.1:8443", 8443, OWN, id="with a port"),
    ],
)
def test_the_gateway_itself_is_refused_with_tls(gateway: str, port: int, why: str) -> None:
    assert _check(Destinations(gateway=gateway, has_tls=True), "192.0.2.1", port) == why


INSTALLED = Destinations(refuses_internal=True)
CONTAINS = "not a global address of IPv6, or contains an IPv4 address"


@pytest.mark.parametrize(
    ("host", "why"),
    [
        pytest.param("10.96.0.1", "a private address", id="a Service"),
        pytest.param("10.244.1.7", "a private address", id="a pod"),
        pytest.param("172.20.0.10", "a private address", id="the second private range"),
        pytest.param("192.168.1.1", "a private address", id="the third private range"),
        pytest.param("100.64.0.1", "a private address", id="pods with shared addresses"),
        pytest.param("fd00:10:96::1", "a private address", id="a Service over IPv6"),
        pytest.param("::ffff:10.96.0.1", "10.96.0.1 is a private address", id="a Service in IPv6"),
        pytest.param("64:ff9b::a60:1", "10.96.0.1 is a private address", id="a Service behind NAT64"),
        pytest.param("64:ff9b:1::a60:1", CONTAINS, id="a Service behind NAT64 of the network"),
        pytest.param("64:ff9b:1::a9fe:a9fe", CONTAINS, id="metadata behind NAT64 of the network"),
        pytest.param("::169.254.169.254", CONTAINS, id="compatible with IPv4"),
        pytest.param("::ffff:0:127.0.0.1", CONTAINS, id="translated from IPv4"),
        pytest.param("2002:7f00:1::", "an address of 6to4", id="loopback by 6to4"),
        pytest.param("2002:a9fe:a9fe::1", "an address of 6to4", id="metadata by 6to4"),
        pytest.param("2001:0:a9fe:a9fe::1", "among them Teredo", id="Teredo, the server"),
        pytest.param("2001:0:4136:e378:8000:63bf:80ff:fffe", "among them Teredo", id="Teredo, the client"),
        pytest.param("2600::5efe:a9fe:a9fe", CONTAINS, id="ISATAP"),
        pytest.param("2600::200:5efe:7f00:1", CONTAINS, id="ISATAP of a unique address"),
        pytest.param("fec0::1", CONTAINS, id="site-local"),
        pytest.param("100::1", CONTAINS, id="discarded"),
        pytest.param("postgres.other.svc", "a name in the gateway's own cluster", id="a Service by name"),
        pytest.param("postgres.other.svc.example.internal", "own cluster", id="of another cluster domain"),
        pytest.param("10-244-1-7.other.pod.example.internal", "own cluster", id="a pod by name"),
        pytest.param("postgres", "a name in the gateway's own cluster", id="by the search path"),
        pytest.param("x.cluster.local", "a name in the gateway's own cluster", id="the cluster's domain"),
    ],
)
def test_pods_and_services_of_the_gateways_cluster_are_refused(host: str, why: str) -> None:
    assert why in _check(INSTALLED, host, 80)
    assert _check(INSTALLED, host, 443), "on every port"


@pytest.mark.parametrize("host", ["8.8.8.8", "2600::1", "64:ff9b::808:808", "api.example.com"])
def test_servers_of_the_internet_are_not(host: str) -> None:
    assert _check(INSTALLED, host, 443) == ""


def test_the_platform_team_allows_private_addresses() -> None:
    policy = Destinations(refuses_internal=True, allowed=parse_networks(["10.96.0.7", "64:ff9b:1::/48"]))
    assert _check(policy, "10.96.0.7", 80) == _check(policy, "64:ff9b:1::1", 80) == ""
    assert _check(policy, "10.96.0.8", 80)


CLUSTERS = ("198.51.100.7", "lb.Example.com.", "[2600::7]:8443", "127.0.0.1:8801", "10.0.0.9:8443")
OF_ALL_TEAMS = (
    "this is the gateway of an InferenceCluster, which serves all teams' models: select the ModelEndpoints "
    "that ModelReplicas create, or use another address"
)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        pytest.param("198.51.100.7", 80, id="by address"),
        pytest.param("198.51.100.7", 8080, id="on another port"),
        pytest.param("::ffff:198.51.100.7", 443, id="in IPv6"),
        pytest.param("64:ff9b::c633:6407", 443, id="behind NAT64"),
        pytest.param("lb.example.com", 80, id="by name"),
        pytest.param("2600::7", 80, id="over IPv6"),
        pytest.param("2600:0:0:0:0:0:0:7", 80, id="over IPv6, another form"),
        pytest.param("127.0.0.1", 8801, id="on loopback"),
        pytest.param("localhost", 8801, id="on loopback, by name"),
        pytest.param("0.0.0.0", 8801, id="on loopback, unspecified"),
        pytest.param("10.0.0.9", 80, id="at a private address"),
    ],
)
@pytest.mark.parametrize("is_local", [False, True], ids=["installed", "local"])
def test_the_gateway_of_a_cluster_is_for_replicas_only(host: str, port: int, *, is_local: bool) -> None:
    policy = Destinations(
        clusters=CLUSTERS,
        is_local=is_local,
        refuses_internal=not is_local,
        allowed=parse_networks(["0.0.0.0/0"]),
    )
    assert _check(policy, host, port) == OF_ALL_TEAMS, "whatever else is allowed"
    assert _check(policy, host, port, of_replica=True) == ""


def test_other_programs_of_the_machine_are_not_its_clusters_gateway() -> None:
    policy = Destinations(clusters=CLUSTERS, is_local=True)
    assert _check(policy, "127.0.0.1", 11434) == ""


def test_a_replica_reaches_a_private_gateway_of_its_cluster() -> None:
    assert _check(INSTALLED, "10.1.2.3", 80, of_replica=True) == ""
    assert "link-local" in _check(INSTALLED, "169.254.169.254", 80, of_replica=True), "and nothing else"


def test_hosts_that_are_always_new_do_not_fill_the_memory() -> None:
    number = 20_000
    for at in range(number):
        assert _check(INSTALLED, f"new-{at}.example", 80) == ""
    assert destinations._address.cache_info().currsize < number
