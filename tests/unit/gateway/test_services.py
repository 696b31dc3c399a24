"""Which endpoints a service routes to, where they are, and in which shares."""

import datetime as dt
import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from modelplane.api.fields.cluster.mutual_tls_settings import EndpointMutualTLS
from modelplane.api.labels import DRAINING, NOT_SERVING, SERVED_MODEL
from modelplane.api.meta import API_VERSION, ObjectMeta, OwnerReference
from modelplane.api.model_endpoint import ModelEndpoint, ModelEndpointSpec
from modelplane.api.model_service import (
    EndpointEntry,
    EndpointSelector,
    ModelService,
    ModelServiceSpec,
)
from modelplane.api.rejected import Rejected
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.route_table import Backend, Route
from modelplane.gateway.services import (
    Target,
    build_service_route,
    find_target,
    list_without_target,
    parse_url,
    select,
)
from support.rejections import message_of

QWEN = {"modelplane.ai/deployment": "qwen"}
KIMI = {"modelplane.ai/deployment": "kimi"}


def endpoint(
    name: str,
    labels: Mapping[str, str] = QWEN,
    url: str = "http://10.0.0.1",
    rewrite_path: str | None = None,
    namespace: str = "ml",
    *,
    deleted: bool = False,
    leaving: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> ModelEndpoint:
    gone = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) if deleted else None
    return ModelEndpoint(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels=labels,
            annotations=({DRAINING: "true"} if leaving else {}) | dict(annotations or {}),
            deletion_timestamp=gone,
        ),
        spec=ModelEndpointSpec(url=url, rewrite_path=rewrite_path),
    )


def service(*entries: tuple[Mapping[str, str], int | None]) -> ModelService:
    return ModelService(
        metadata=ObjectMeta(name="qwen", namespace="ml"),
        spec=ModelServiceSpec(
            endpoints=tuple(
                EndpointEntry(weight=weight, selector=EndpointSelector(match_labels=labels))
                for labels, weight in entries
            )
        ),
    )


@pytest.mark.parametrize(
    ("url", "target"),
    [
        pytest.param("http://10.0.0.1", Target("10.0.0.1", 80, False, "10.0.0.1"), id="http is port 80"),
        pytest.param(
            "https://api.together.xyz/v1?a=b#c",
            Target("api.together.xyz", 443, True, "api.together.xyz"),
            id="https is port 443 and the path plays no part",
        ),
        pytest.param(
            "http://127.0.0.1:8081/", Target("127.0.0.1", 8081, False, "127.0.0.1:8081"), id="a port is kept"
        ),
        pytest.param(
            "https://Example.COM.:443",
            Target("example.com", 443, True, "example.com"),
            id="a host is normalised",
        ),
        pytest.param(
            "http://[fd00::1]:8000", Target("fd00::1", 8000, False, "[fd00::1]:8000"), id="IPv6 and port"
        ),
        pytest.param(
            "https://[fd00::1]", Target("fd00::1", 443, True, "[fd00::1]"), id="IPv6 without a port"
        ),
        pytest.param(
            "HTTP://localhost", Target("localhost", 80, False, "localhost"), id="a scheme has no case"
        ),
    ],
)
def test_a_url_says_where_to_connect(url: str, target: Target) -> None:
    assert parse_url(url) == target


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("2130706433", id="decimal"),
        pytest.param("0x7f000001", id="hexadecimal"),
        pytest.param("0x7f.1", id="hexadecimal and short"),
        pytest.param("0177.0.0.1", id="octal"),
        pytest.param("127.1", id="short"),
        pytest.param("127.0.0.1.", id="a dot at the end is not part of it"),
        pytest.param("1.2.3.4.5", id="too long"),
        pytest.param("a.0x", id="the last label is a number"),
    ],
)
def test_another_form_of_an_address_is_no_host_name(host: str) -> None:
    found = parse_url(f"http://{host}/")
    if host.endswith("."):
        assert found == parse_url("http://127.0.0.1/")
    else:
        said = f'"{host}" may be read as an IPv4 address: write one as four decimal numbers'
        assert message_of(found) == said


FORM = "use http://HOST:PORT or https://HOST"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("", f'the scheme is "": {FORM}', id="nothing"),
        pytest.param("10.0.0.1:80", f'the scheme is "": {FORM}', id="no scheme"),
        pytest.param("grpc://host", f'the scheme is "grpc": {FORM}', id="another scheme"),
        pytest.param("http://", f"the url has no host: {FORM}", id="no host"),
        pytest.param("http://:80", f"the url has no host: {FORM}", id="only a port"),
        pytest.param("http://host:0", f"no server listens on port 0: {FORM}", id="port 0"),
        pytest.param("http://host:65536", f"Port out of range 0-65535: {FORM}", id="a port too large"),
        pytest.param("http://[fd00::1", f"Invalid IPv6 URL: {FORM}", id="an open bracket"),
        pytest.param("http://a b", f'"a b" is neither a host name nor an IP address: {FORM}', id="a space"),
        pytest.param(
            "http://a..b", f'"a..b" is neither a host name nor an IP address: {FORM}', id="an empty label"
        ),
        pytest.param(
            "https://key@host",
            "the url contains credentials, which everyone who can read the endpoint would see",
            id="credentials",
        ),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, reason: str) -> None:
    assert message_of(parse_url(url)) == reason


def test_a_port_that_is_no_number_is_refused() -> None:
    assert isinstance(parse_url("http://host:http"), Rejected)


EVERYTHING: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("entries", "shares"),
    [
        pytest.param(((QWEN, None),), {"q1": 1, "q2": 1}, id="without weights endpoints share evenly"),
        pytest.param(
            ((QWEN, None), (KIMI, None)),
            {"q1": 1, "q2": 1, "k1": 1},
            id="without weights groups do not count",
        ),
        pytest.param(((QWEN, 90), (KIMI, 10)), {"q1": 9, "q2": 9, "k1": 2}, id="weights are those of groups"),
        pytest.param(((QWEN, 2), (KIMI, None)), {"q1": 1, "q2": 1, "k1": 1}, id="an absent weight is one"),
        pytest.param(((KIMI, 1), (EVERYTHING, 1)), {"k1": 2, "q1": 1, "q2": 1}, id="the first entry has it"),
        pytest.param((({**QWEN, "cluster": "a"}, None),), {}, id="all labels must be there"),
        pytest.param(
            (({"modelplane.ai/deployment": "other"}, 5), (KIMI, 7)),
            {"k1": 1},
            id="an empty group is left out",
        ),
    ],
)
def test_the_share_of_each_endpoint(
    entries: tuple[tuple[Mapping[str, str], int | None], ...], shares: dict[str, int]
) -> None:
    endpoints = [endpoint("q2"), endpoint("k1", KIMI), endpoint("q1")]
    selected = select(service(*entries), endpoints, Destinations())
    assert [(each.endpoint.metadata.name, each.weight) for each in selected] == list(shares.items())


def test_only_usable_endpoints_of_the_same_namespace_are_selected() -> None:
    endpoints = [
        endpoint("foreign", namespace="other"),
        endpoint("deleted", deleted=True),
        endpoint("leaving", leaving=True),
        endpoint("starting", annotations={DRAINING: NOT_SERVING}),
        endpoint("broken", url="ftp://10.0.0.1"),
        endpoint("good"),
    ]
    selected = select(service((EVERYTHING, None)), endpoints, Destinations())
    assert [each.endpoint.metadata.name for each in selected] == ["good"]


def test_entries_of_one_priority_share_by_weight_and_come_before_those_of_the_next() -> None:
    selectors = [EndpointSelector(match_labels=each) for each in (KIMI, QWEN, {"a": "b"})]
    entries = (
        EndpointEntry(priority=1, weight=7, selector=selectors[0]),
        EndpointEntry(selector=selectors[1]),
        EndpointEntry(priority=1, selector=selectors[2]),
    )
    wanted = ModelService(
        metadata=ObjectMeta(name="qwen", namespace="ml"), spec=ModelServiceSpec(endpoints=entries)
    )
    endpoints = [
        endpoint("a", KIMI),
        endpoint("b", {"a": "b"}),
        *(endpoint(name, QWEN) for name in "cd"),
    ]
    selected = select(wanted, endpoints, Destinations())
    assert [(each.endpoint.metadata.name, each.priority, each.weight) for each in selected] == [
        ("c", 0, 1),
        ("d", 0, 1),
        ("a", 1, 7),
        ("b", 1, 1),
    ]
    assert [each.priority for each in route(wanted, endpoints).backends] == [0, 0, 1, 1]


def route(wanted: ModelService, endpoints: list[ModelEndpoint]) -> Route:
    selected = select(wanted, endpoints, Destinations())
    return build_service_route(wanted, selected, list_without_target(wanted, endpoints, Destinations()))


REPLICA = Backend("ml/r", (("10.0.0.1", 80),), 1, "/ml/r/", host="10.0.0.1")
PROVIDER = Backend("ml/r", (("api.example", 443),), 1, "/", tls=True, host="api.example")


@pytest.mark.parametrize(
    ("url", "rewrite_path", "backend"),
    [
        pytest.param("http://10.0.0.1", "/ml/r/", REPLICA, id="a replica has a prefix of its own"),
        pytest.param("http://10.0.0.1", "/ml/r", REPLICA, id="the last slash of a prefix is added"),
        pytest.param(
            "http://10.0.0.1", None, replace(REPLICA, prefix=""), id="no rewrite leaves the path alone"
        ),
        pytest.param(
            "https://api.example/ignored", "/", PROVIDER, id="a provider wants TLS and its own Host"
        ),
        pytest.param(
            "https://api.example",
            "/v1/",
            replace(PROVIDER, prefix="/v1/", overlap="v1"),
            id="a version at the end is not to be repeated",
        ),
        pytest.param(
            "https://api.example",
            "/openai/v1beta",
            replace(PROVIDER, prefix="/openai/v1beta/", overlap="v1beta"),
            id="a version may be any",
        ),
        pytest.param(
            "https://api.example",
            "/v1/openai",
            replace(PROVIDER, prefix="/v1/openai/"),
            id="a version that is not the last segment does not overlap",
        ),
    ],
)
def test_what_a_backend_is_sent(url: str, rewrite_path: str | None, backend: Backend) -> None:
    found = route(service((QWEN, None)), [endpoint("r", url=url, rewrite_path=rewrite_path)])
    assert found == Route("ml/qwen", "/ml/qwen/", (backend,))


NOTHING = (
    'cannot serve ModelService "ml/qwen": no ready ModelEndpoint in namespace "ml" has the selected '
    "labels: run kubectl get modeldeployments,modelendpoints -n ml"
)
BROKEN = (
    'cannot serve ModelService "ml/qwen": the url of ModelEndpoint "a", "b", "c" and 1 more is not usable: '
    "run kubectl get modelendpoints -n ml"
)


@pytest.mark.parametrize(
    ("endpoints", "unavailable"),
    [
        pytest.param([], NOTHING, id="there is none"),
        pytest.param([endpoint("q1", namespace="other")], NOTHING, id="those of others do not count"),
        pytest.param([endpoint("q1", deleted=True)], NOTHING, id="those being deleted do not count"),
        pytest.param([endpoint(name, url="bad") for name in "cabd"], BROKEN, id="all of them are broken"),
    ],
)
def test_a_service_that_cannot_be_served_says_why(endpoints: list[ModelEndpoint], unavailable: str) -> None:
    assert route(service((QWEN, None)), endpoints) == Route("ml/qwen", "/ml/qwen/", (), unavailable)


def test_the_order_of_the_input_does_not_matter() -> None:
    wanted = service((EVERYTHING, None))
    endpoints = [endpoint(name) for name in "defg"]
    expected = route(wanted, endpoints)
    for some in itertools.permutations(endpoints):
        assert route(wanted, list(some)) == expected


@pytest.mark.parametrize(
    ("named", "served"),
    [
        pytest.param("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", id="a name"),
        pytest.param("a b", "", id="white space"),
        pytest.param("a\nb", "", id="a control character"),
        pytest.param("x" * 257, "", id="too long"),
    ],
)
def test_the_name_by_which_an_engine_knows_its_model_is_bounded(named: str, served: str) -> None:
    told = endpoint("q1", annotations={SERVED_MODEL: named})
    assert [each.served for each in route(service((QWEN, None)), [told]).backends] == [served]


@pytest.mark.parametrize(
    ("url", "path", "refused"),
    [
        pytest.param("https://192.0.2.1/", "/ml/qwen-1/", "", id="its own"),
        pytest.param("https://192.0.2.1/", "/other/qwen-1/", "must begin with /ml/", id="of another"),
        pytest.param("https://192.0.2.1/", "/ml-2/qwen-1/", "must begin with /ml/", id="a longer name"),
        pytest.param("https://192.0.2.1/", None, "must begin with /ml/", id="the client's path"),
        pytest.param("https://192.0.2.1/", "/ml/../other/qwen-1/", "plain segments", id="dots"),
        pytest.param("https://192.0.2.1/", "/ml/%2e%2E/other/", "plain segments", id="escaped dots"),
        pytest.param("https://192.0.2.1/", "/ml/..%2fother/", "plain segments", id="an escaped slash"),
        pytest.param("https://192.0.2.1/", "/ml/..\\other/", "plain segments", id="a backslash"),
        pytest.param("https://192.0.2.1/", "/ml/..;a/other/", "plain segments", id="a parameter"),
        pytest.param("https://192.0.2.1/", "/ml//../other/", "plain segments", id="an empty segment"),
        pytest.param("http://192.0.2.1/", "/ml/qwen-1/", "needs https", id="plain HTTP"),
    ],
)
def test_mutual_tls_leads_to_replicas_of_the_own_namespace_only(
    url: str, path: str | None, refused: str
) -> None:
    mutual = EndpointMutualTLS(server_name="a.clusters.modelplane.internal")
    spec = ModelEndpointSpec(url=url, rewrite_path=path, mutual_tls=mutual)
    found = find_target(
        ModelEndpoint(metadata=ObjectMeta(name="e", namespace="ml"), spec=spec), Destinations()
    )
    message = found.message if isinstance(found, Rejected) else ""
    assert (refused in message, bool(message)) == (True, bool(refused))


@pytest.mark.parametrize(
    ("url", "clusters", "is_of_replica"),
    [
        pytest.param("http://10.1.2.3/", ("10.1.2.3",), True, id="the gateway of a cluster"),
        pytest.param("http://GPU.example.com./", ("gpu.example.com",), True, id="by its name"),
        pytest.param("http://10.1.2.3:9090/", ("10.1.2.3",), True, id="on another port, as for everyone"),
        pytest.param("http://10.1.2.3/", (), True, id="before a gateway of a cluster is known"),
        pytest.param("http://rebound.example/", ("10.1.2.3",), False, id="a name that may resolve anywhere"),
        pytest.param("http://203.0.113.9/", ("10.1.2.3",), False, id="another server"),
    ],
)
def test_only_the_gateway_of_a_cluster_has_the_rights_of_a_replica(
    url: str, clusters: tuple[str, ...], *, is_of_replica: bool
) -> None:
    """Teams write endpoints, also those of their replicas, and Envoy lets replicas lead to every address."""
    replica = OwnerReference(
        api_version=API_VERSION, kind="ModelReplica", name="chat-1", uid="u", controller=True
    )
    edited = ModelEndpoint(
        metadata=ObjectMeta(name="chat-1", namespace="ml", owner_references=(replica,)),
        spec=ModelEndpointSpec(url=url, rewrite_path="/ml/chat-1/"),
    )
    found = find_target(edited, Destinations(clusters=clusters, refuses_internal=True))
    assert isinstance(found, Target)
    assert found.is_of_replica is is_of_replica
