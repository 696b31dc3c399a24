"""Which route a request takes, and when it is tried again."""

from dataclasses import replace

import pytest

from modelplane.gateway.envoy.envoy_routes import list_clusters, route_configuration
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.module_files.models import ModelFile
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Listener, Route

A = Backend("ml/a", (("10.0.0.1", 80),), 3, "/ml/a/", host="10.0.0.1")
B = Backend("ml/b", (("10.0.0.2", 80), ("10.0.0.3", 80)), 1, "/v1/", "v1", host="10.0.0.2")
OUTSIDE = Backend("ml/outside", (("api.example", 443),), 1, "/", tls=True, host="api.example")


def test_the_longest_prefix_comes_first_and_what_is_left_is_not_found() -> None:
    routes = tuple(Route(prefix, prefix, unavailable="none") for prefix in ("/", "/a/", "/a/b/", "/b/"))
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    refusals, routes_ = host["routes"][:2], host["routes"][2:]
    assert [route["direct_response"]["status"] for route in refusals] == [400, 508]
    assert [(route["match"], route["direct_response"]["status"]) for route in routes_] == [
        ({"path_separated_prefix": "/a/b"}, 503),
        ({"path_separated_prefix": "/a"}, 503),
        ({"path_separated_prefix": "/b"}, 503),
        ({"prefix": "/"}, 503),
        ({"prefix": "/"}, 404),
    ]


@pytest.mark.parametrize(
    ("backends", "elsewhere", "other_cluster"),
    [
        pytest.param((A,), False, False, id="a single instance"),
        pytest.param((B,), True, False, id="another instance"),
        pytest.param((A, OUTSIDE), True, True, id="another backend"),
    ],
)
def test_an_answer_of_503_is_tried_again_where_there_is_somewhere_else(
    backends: tuple[Backend, ...], elsewhere: bool, other_cluster: bool
) -> None:
    routes = (Route("ml/qwen", "/ml/qwen/", backends, "none"),)
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    [route] = [each["route"] for each in host["routes"] if "route" in each]
    policy = route["retry_policy"]
    assert ("retriable-status-codes" in policy["retry_on"].split(","), policy["retriable_status_codes"]) == (
        elsewhere,
        [503] if elsewhere else [],
    )
    assert policy["refresh_cluster_on_retry"] is other_cluster
    assert route["timeout"] == "0s"


@pytest.mark.parametrize(
    ("backends", "is_sought"),
    [
        pytest.param((A,), False, id="not of the only address"),
        pytest.param((replace(A, hosts=(("engine.ml", 80),)),), True, id="of a name, which may have several"),
        pytest.param((B,), True, id="of several addresses"),
        pytest.param((A, OUTSIDE), True, id="of several backends"),
    ],
)
def test_another_host_is_sought_where_there_may_be_one(
    backends: tuple[Backend, ...], is_sought: bool
) -> None:
    routes = (Route("ml/qwen", "/ml/qwen/", backends, "none"),)
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    [policy] = [each["route"]["retry_policy"] for each in host["routes"] if "route" in each]
    assert ("retry_host_predicate" in policy) is is_sought


def test_a_route_with_tiers_asks_another_backend_at_each_attempt() -> None:
    backends = (A, replace(B, priority=2), replace(OUTSIDE, priority=2, weight=5))
    routes = (Route("ml/qwen", "/ml/qwen/", backends, "none"),)
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    [route] = [each["route"] for each in host["routes"] if "route" in each]
    groups = route["inline_cluster_specifier_plugin"]["extension"]["typed_config"]["priority_groups"]
    assert [{each["cluster_name"]: each["weight"] for each in group["clusters"]} for group in groups] == [
        {"front-door/ml/a": 3},
        {"front-door/ml/b": 1, "front-door/ml/outside": 5},
        {"front-door/ml/outside": 1, "front-door/ml/b": 5},
    ]
    policy = route["retry_policy"]
    assert (policy["num_retries"], policy["retriable_status_codes"]) == (2, [429, 503])
    assert policy["refresh_cluster_on_retry"] is True
    assert policy["retry_on"].split(",") == [
        "connect-failure",
        "refused-stream",
        "reset-before-request",
        "retriable-status-codes",
    ]


REPLICAS = tuple(replace(each, tokens=()) for each in (A, B))
PROVIDER = replace(OUTSIDE, tls=True)
ENGINE = replace(OUTSIDE, tls=False)


@pytest.mark.parametrize(
    ("backends", "front", "is_sent", "attempts"),
    [
        pytest.param(REPLICAS, Front(), True, 3, id="of replicas whose clusters are lost"),
        pytest.param((*REPLICAS, ENGINE), Front(), True, 2, id="once, of one that may be an engine itself"),
        pytest.param((*REPLICAS, PROVIDER), Front(), True, 2, id="once, of a provider"),
        pytest.param(REPLICAS, None, False, 3, id="not of an engine behind the gateway of its cluster"),
        pytest.param(
            (*REPLICAS, replace(ENGINE, priority=1)), Front(), False, 3, id="not through tiers with an engine"
        ),
        pytest.param(
            (*REPLICAS, replace(PROVIDER, priority=1)), Front(), True, 3, id="through tiers with a provider"
        ),
        pytest.param((A, replace(ENGINE, priority=1)), Front(), True, 2, id="once, through two tiers"),
    ],
)
def test_what_a_server_has_read_is_sent_again(
    backends: tuple[Backend, ...], front: Front | None, is_sent: bool, attempts: int
) -> None:
    routes = (Route("ml/qwen", "/ml/qwen/", backends, "none"),)
    (host,) = route_configuration(Listener("one", "127.0.0.1", 80, routes, front=front))["virtual_hosts"]
    [policy] = [each["route"]["retry_policy"] for each in host["routes"] if "route" in each]
    assert ("reset" in policy["retry_on"].split(","), policy["num_retries"] + 1) == (is_sent, attempts)


def test_a_route_names_its_only_backend_and_gives_several_their_weights() -> None:
    routes = (Route("ml/one", "/ml/one/", (A,)), Route("ml/two", "/ml/two/", (B, A)))
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    one, two = ({**each["route"]} for each in host["routes"] if "route" in each)
    assert one["cluster"] == "front-door/ml/a"
    assert two["weighted_clusters"]["clusters"] == [
        {"name": "front-door/ml/a", "weight": 3},
        {"name": "front-door/ml/b", "weight": 1},
    ]


KEYED = Front(keys=KeyFile(), models=ModelFile())


@pytest.mark.parametrize(
    ("front", "prefix", "first"),
    [
        pytest.param(KEYED, "/ml/qwen/", ["not-found", "ambiguous-path", "loop"], id="by the model"),
        pytest.param(KEYED, "/v1/qwen/", ["ambiguous-path", "loop", "x"], id="a namespace of this name"),
        pytest.param(Front(keys=KeyFile()), "/ml/qwen/", ["ambiguous-path", "loop", "x"], id="no models"),
        pytest.param(Front(models=ModelFile()), "/ml/qwen/", ["ambiguous-path", "loop", "x"], id="open"),
    ],
)
def test_a_path_that_the_module_replaces_has_the_first_route_if_the_module_is_sure_to_run(
    front: Front, prefix: str, first: list[str]
) -> None:
    listener = Listener("front-door", "127.0.0.1", 80, (Route("x", prefix, (A,)),), front=front)
    (host,) = route_configuration(listener)["virtual_hosts"]
    assert [each["name"] for each in host["routes"][:3]] == first
    assert host["routes"][0]["match"] == {"prefix": "/v1/"} or first[0] == "ambiguous-path"


@pytest.mark.parametrize(
    ("front", "matched"),
    [
        pytest.param(KEYED, "filter_state", id="the module is sure to run"),
        pytest.param(Front(models=ModelFile()), "headers", id="it may not run"),
        pytest.param(None, "headers", id="requests come from a gateway"),
    ],
)
def test_a_loop_is_told_by_the_module_where_it_is_sure_to_run(front: Front | None, matched: str) -> None:
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, front=front))["virtual_hosts"]
    [loop] = [each for each in host["routes"] if each["name"] == "loop"]
    assert (loop["match"].keys(), loop["direct_response"]["status"]) == ({"prefix", matched}, 508)


@pytest.mark.parametrize("priority", [0, 7])
def test_one_priority_is_a_route_without_tiers(priority: int) -> None:
    plain, same = (
        Route("ml/qwen", "/ml/qwen/", (replace(A, priority=each), replace(B, priority=each)), "none")
        for each in (0, priority)
    )
    listeners = [Listener("front-door", "127.0.0.1", 80, (route,)) for route in (plain, same)]
    first, second = map(route_configuration, listeners)
    assert first == second
    assert "weighted_clusters" in str(first)


@pytest.mark.parametrize("priority", [0, 2])
def test_a_route_with_an_order_has_a_group_for_each_backend_after_those_of_its_attempts(
    priority: int,
) -> None:
    backends = (replace(A, weight=1), replace(B, priority=priority))
    entries = tuple(BackendEntry(name=each.name, priority=each.priority) for each in backends)
    settings = ServiceEntry(balancing=BalancingEntry(policy="LeastRequests", backends=entries))
    routes = (Route("ml/qwen", "/ml/qwen/", backends, "none", settings),)
    (host,) = route_configuration(Listener("front-door", "127.0.0.1", 80, routes))["virtual_hosts"]
    [found] = [each for each in host["routes"] if "route" in each]
    configuration = found["route"]["inline_cluster_specifier_plugin"]["extension"]["typed_config"]
    names = [group["name"] for group in configuration["priority_groups"]]
    assert names == ["attempt-1", "attempt-2", "ml/a", "ml/b"]
    assert [group["clusters"] for group in configuration["priority_groups"][2:]] == [
        [{"cluster_name": f"front-door/{name}", "weight": 1}] for name in ("ml/a", "ml/b")
    ]
    assert configuration["override_metadata_namespace"] == "modelplane.order"
    # As many attempts as without an order, which do not reach the groups of single backends.
    assert found["route"]["retry_policy"]["num_retries"] == 1
    assert set(list_clusters(found)) == {"front-door/ml/a", "front-door/ml/b"}
