"""What a gateway that reads Gateway API is given, and that its owners' schemas know every word of it."""

from typing import Any

import pytest

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.gateway_api.endpoint_backends import build_backend
from modelplane.gateway.gateway_api.route_tree import ROUTE, build_routes
from modelplane.gateway.services import Target, parse_url, select
from support.rejections import message_of
from support.third_party_crds import problems, schemas


def endpoint(name: str, url: str, rewrite: str = "") -> ModelEndpoint:
    spec = {"url": url} | ({"rewritePath": rewrite} if rewrite else {})
    metadata = {"name": name, "namespace": "ml-team", "labels": {"model": "qwen"}}
    return decode_as(ModelEndpoint, {"metadata": metadata, "spec": spec})


def service(*weights: int) -> ModelService:
    entries = [{"selector": {"matchLabels": {"model": "qwen"}}, "weight": weight} for weight in weights]
    spec = {"endpoints": entries or [{"selector": {"matchLabels": {"model": "qwen"}}}]}
    return decode_as(ModelService, {"metadata": {"name": "qwen", "namespace": "ml-team"}, "spec": spec})


def backend_of(found: ModelEndpoint) -> dict[str, dict[str, Any]]:
    target = parse_url(found.spec.url)
    assert isinstance(target, Target)
    objects = build_backend(found, target)
    assert not isinstance(objects, Rejected)
    return objects


def rules(*endpoints: ModelEndpoint) -> list[dict[str, Any]]:
    selected = select(service(), endpoints, Destinations())
    found: list[dict[str, Any]] = build_routes(service(), selected, per_backend=True)[ROUTE]["spec"]["rules"]
    return found


def _metadata(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "ml-team"}


REPLICA = endpoint("qwen-1", "http://192.0.2.7:8801/ml-team/qwen-1/v1", "/ml-team/qwen-1/")
PROVIDER = endpoint("together.v1", "https://api.together.xyz/", "/v1/")


def test_a_replica_is_an_address_behind_a_service() -> None:
    port = {"name": "http", "port": 8801, "protocol": "TCP"}
    name = "endpoint-qwen-1-f46e2"
    assert backend_of(REPLICA) == {
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(name),
            "spec": {"ports": [{**port, "targetPort": 8801}]},
        },
        "endpointslice": {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**_metadata(name), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [port],
            "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": True}}],
        },
    }


def test_https_is_tls_on_any_port_with_a_certificate_for_the_host() -> None:
    objects = backend_of(endpoint("provider", "https://api.example.com:8443/"))
    assert objects["endpointslice"]["addressType"] == "FQDN"
    assert objects["service"]["spec"]["ports"][0]["name"] == "https"
    assert objects["backend-tls"]["spec"] == {
        "targetRefs": [{"group": "", "kind": "Service", "name": objects["service"]["metadata"]["name"]}],
        "validation": {"hostname": "api.example.com", "wellKnownCACertificates": "System"},
    }


def test_https_to_an_address_is_refused_rather_than_spoken_in_the_clear() -> None:
    target = parse_url("https://192.0.2.7/")
    assert isinstance(target, Target)
    said = "with https, the host must be a name, so that the certificate can be verified"
    assert message_of(build_backend(REPLICA, target)) == said


def test_an_address_of_ipv6_says_so() -> None:
    assert backend_of(endpoint("six", "http://[2001:db8::7]/"))["endpointslice"]["addressType"] == "IPv6"


def test_the_name_is_one_that_a_service_may_have_whatever_the_endpoint_is_called() -> None:
    names = {
        backend_of(endpoint(name, "http://a/"))["service"]["metadata"]["name"] for name in ("1.a", "1-a")
    }
    assert len(names) == 2
    assert all(name.startswith("endpoint-1-a-") for name in names)


def test_each_endpoint_has_a_path_and_a_host_of_its_own() -> None:
    [below_v1, rule] = rules(REPLICA, PROVIDER)
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/ml-team/qwen/"}}]
    assert [each["filters"][0]["urlRewrite"] for each in rule["backendRefs"]] == [
        {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/ml-team/qwen-1/"}},
        {
            "hostname": "api.together.xyz",
            "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1/"},
        },
    ]
    # With /v1 in the request, the provider's /v1/ is not put before another one.
    assert below_v1["matches"] == [{"path": {"type": "PathPrefix", "value": "/ml-team/qwen/v1/"}}]
    assert [
        each["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] for each in below_v1["backendRefs"]
    ] == [
        "/ml-team/qwen-1/v1/",
        "/v1/",
    ]


def test_without_a_rewrite_the_path_goes_as_it_came() -> None:
    [rule] = rules(endpoint("plain", "http://192.0.2.7/"))
    assert rule["backendRefs"] == [{"name": "endpoint-plain-96e05", "port": 80, "weight": 1}]


def test_the_weights_are_those_of_the_service() -> None:
    heavy = decode_as(
        ModelService,
        {
            "metadata": {"name": "qwen", "namespace": "ml-team"},
            "spec": {
                "endpoints": [
                    {"weight": 95, "selector": {"matchLabels": {"model": "qwen", "tier": "own"}}},
                    {"weight": 5, "selector": {"matchLabels": {"model": "qwen"}}},
                ]
            },
        },
    )
    own = decode_as(
        ModelEndpoint,
        {
            "metadata": {"name": "own", "namespace": "ml-team", "labels": {"model": "qwen", "tier": "own"}},
            "spec": {"url": "http://192.0.2.7/"},
        },
    )
    found = build_routes(heavy, select(heavy, [own, REPLICA], Destinations()), per_backend=True)[ROUTE]
    assert [each["weight"] for each in found["spec"]["rules"][0]["backendRefs"]] == [19, 1]


@pytest.mark.parametrize("found", [REPLICA, PROVIDER], ids=["a replica", "a provider"])
def test_the_owners_schemas_know_every_field(found: ModelEndpoint) -> None:
    known = schemas("gateway-api")
    selected = select(service(), [found], Destinations())
    objects = [*build_routes(service(), selected, per_backend=True).values(), *backend_of(found).values()]
    checked = [each for each in objects if (each["apiVersion"], each["kind"]) in known]
    assert {each["kind"] for each in checked} >= {"HTTPRoute"}
    for each in checked:
        assert list(problems(each, known[each["apiVersion"], each["kind"]])) == []
