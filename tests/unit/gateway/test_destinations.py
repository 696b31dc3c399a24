"""Where an endpoint may lead."""

import pytest

from modelplane.gateway.destinations import Destinations, networks

LOOPBACK = "127.0.0.1 is the gateway's own loopback interface"
OTHERWISE = ": use another, or add it to spec.allowedDestinations of the InferenceGateway"


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
    refusal = Destinations().refusal(host, 80)
    assert why in refusal
    assert refusal.endswith(OTHERWISE)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "192.0.2.7", "198.18.0.1", "2001:db8::1", "fd00::1", "api.example.com", "100.64.0.1"]
)
def test_others_are_not(host: str) -> None:
    assert Destinations().refusal(host, 80) == ""


@pytest.mark.parametrize(
    ("policy", "host", "why"),
    [
        pytest.param(Destinations(is_local=True), "127.0.0.1", "", id="a local gateway shares its machine"),
        pytest.param(
            Destinations(allowed=networks(["169.254.20.0/24"])),
            "169.254.20.1",
            "",
            id="the platform team allows",
        ),
        pytest.param(
            Destinations(allowed=networks(["169.254.20.0/24"])),
            "169.254.21.1",
            "169.254.21.1 is a link-local address, where clouds keep the credentials of their machines"
            + OTHERWISE,
            id="only what it names",
        ),
        pytest.param(
            Destinations(denied=networks(["10.0.0.0/8"]), is_local=True),
            "10.96.0.1",
            "10.96.0.1 is in spec.deniedDestinations of the InferenceGateway: use another",
            id="the platform team denies, on a local gateway too",
        ),
        pytest.param(
            Destinations(denied=networks(["10.0.0.0/8"]), allowed=networks(["10.0.0.7"])),
            "10.0.0.7",
            "",
            id="an exception of a denied range",
        ),
        pytest.param(Destinations(), "postgres.other.svc", "", id="Envoy checks a name once it is resolved"),
        *(
            pytest.param(
                Destinations(refuses_internal_names=True),
                name,
                "it is a name of the gateway's own cluster: use an address",
                id=f"nothing checks {name}",
            )
            for name in ("postgres.other.svc", "postgres.other.svc.cluster.local", "postgres")
        ),
    ],
)
def test_the_platform_team_decides(policy: Destinations, host: str, why: str) -> None:
    assert policy.refusal(host, 80) == why


OWN = "it is the gateway's own address, to which requests would return: use another"


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
    assert Destinations(gateway=gateway, is_local=True).refusal(host, port) == why


@pytest.mark.parametrize(
    ("gateway", "port", "why"),
    [
        pytest.param("192.0.2.1", 443, OWN, id="without a port"),
        pytest.param("192.0.2.1", 80, "", id="plain HTTP is another server"),
        pytest.param("192.0.2.1:8443", 8443, OWN, id="with a port"),
    ],
)
def test_the_gateway_itself_is_refused_with_tls(gateway: str, port: int, why: str) -> None:
    assert Destinations(gateway=gateway, has_tls=True).refusal("192.0.2.1", port) == why
