"""The endpoints to which the region rules of deployments let a service send requests."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from modelplane.api import labels
from modelplane.api.inference_gateway import Backend
from modelplane.compose.composition import Blocked, Composition, Unknown
from support.regions import composed, deployment, endpoint, routed, service

QWEN = {labels.DEPLOYMENT: "qwen"}
PAID = {"provider": "paid"}
OWN = endpoint("own", "eu-west", of="qwen")
BOTH = service(QWEN, PAID)


@pytest.mark.parametrize(
    ("region", "leads_to"),
    [
        pytest.param("eu-west", ["own", "paid"], id="a provider inside is the next tier"),
        pytest.param("us-east", ["own"], id="one in another region is left out"),
        pytest.param("", ["own"], id="one without a region is outside every region"),
        pytest.param("eu-west-1", ["own"], id="a name that only begins with an allowed one is another"),
        pytest.param("EU-West", ["own"], id="a name in other letters is another"),
    ],
)
def test_a_provider_gets_requests_only_inside_the_regions(region: str, leads_to: list[str]) -> None:
    paid = endpoint("paid", region, provider="paid")
    result = composed(BOTH, [deployment("qwen", "eu-west", "eu-north")], [OWN, paid])
    assert sorted(routed(result)) == leads_to


def test_the_condition_names_the_endpoint_left_out_and_the_rule() -> None:
    paid = endpoint("paid", "us-east", provider="paid")
    result = composed(BOTH, [deployment("qwen", "eu-west", "eu-north")], [OWN, paid])
    *_, message = said = _resolved(result)
    assert said == ("True", "Resolved", message)
    assert message == (
        "routes to 1 endpoint: 1 of priority 0, none of priority 1; requests go to priority 0 first; "
        'ModelEndpoint "paid" (in region "us-east") receives no requests, because ModelDeployment "qwen" '
        'allows only "eu-north", "eu-west"'
    )


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(deployment("qwen", "eu-west"), id="a rule beside the engines"),
        pytest.param(deployment("qwen", "eu-west", own={"team": "a"}), id="a rule of a template"),
        pytest.param(
            {**deployment("qwen", "eu-west"), "spec": {"regions": ["eu-west"], "replicas": "x"}},
            id="a deployment whose other fields cannot be read",
        ),
    ],
)
def test_without_any_replica_the_rule_still_keeps_the_provider_out(rule: dict[str, Any]) -> None:
    result = composed(BOTH, [rule], [endpoint("paid", "us-east", provider="paid")])
    assert isinstance(result, Composition)
    [route] = result.routes
    why = (
        'ModelEndpoint "paid" (in region "us-east") receives no requests, because '
        'ModelDeployment "qwen" allows '
        'only "eu-west"'
    )
    assert (route.backends, route.unavailable) == ((), f'cannot serve ModelService "ml/qwen": {why}')
    assert _resolved(result) == ("False", "OutsideRegions", why)
    assert not result.ready


@pytest.mark.parametrize(
    ("wanted", "is_bound"),
    [
        pytest.param(QWEN, True, id="by the deployment's name"),
        pytest.param({"team": "a"}, True, id="by a label of its template"),
        pytest.param({}, True, id="every endpoint of the namespace"),
        pytest.param({"team": "a", labels.CLUSTER: "any"}, True, id="by a cluster that may get a replica"),
        pytest.param({**QWEN, labels.REPLICA_INDEX: "7"}, True, id="by the index of a replica"),
        pytest.param({"team": "b"}, False, id="a label that its endpoints do not have"),
        pytest.param({labels.DEPLOYMENT: "other"}, False, id="another deployment"),
    ],
)
def test_a_rule_binds_the_services_that_could_select_its_endpoints(
    wanted: dict[str, str], is_bound: bool
) -> None:
    rule = deployment("qwen", "eu-west", own={"team": "a"})
    result = composed(service(wanted, PAID), [rule], [endpoint("paid", "us-east", provider="paid")])
    assert (routed(result) == {}) is is_bound


def test_a_replica_with_labels_of_a_former_template_still_brings_its_rule() -> None:
    old = endpoint("old", "eu-west", of="qwen", team="a")
    rule = deployment("qwen", "eu-west", own={"team": "b"})
    outside = endpoint("other", "us-east", team="a")
    assert routed(composed(service({"team": "a"}), [rule], [old, outside])) == {"old": (0, 1)}


def test_a_replica_outside_its_own_rule_gets_no_requests() -> None:
    moved = endpoint("moved", "us-east", of="qwen")
    assert routed(composed(service(QWEN), [deployment("qwen", "eu-west")], [OWN, moved])) == {"own": (0, 1)}


def test_several_rules_allow_what_all_of_them_allow() -> None:
    rules = [deployment("a", "eu-west", "us-east"), deployment("b", "eu-west"), deployment("c")]
    found = [endpoint("a1", "us-east", of="a"), endpoint("b1", "eu-west", of="b"), endpoint("c1", of="c")]
    assert routed(composed(service({}), rules, found)) == {"b1": (0, 1)}
    apart = composed(service({}), [deployment("a", "us-east"), deployment("b", "eu-west")], found)
    assert routed(apart) == {}
    assert 'because ModelDeployment "a", "b" allow no region in common' in _resolved(apart)[2]


def test_deployments_without_a_rule_leave_every_endpoint() -> None:
    paid = endpoint("paid", provider="paid")
    assert sorted(routed(composed(BOTH, [deployment("qwen")], [OWN, paid]))) == ["own", "paid"]


def test_those_left_share_the_requests_of_their_tier() -> None:
    """The endpoints left out count for no weight."""
    owner = service(QWEN)
    found = [endpoint(f"e{at}", "eu-west" if at else "us-east", of="qwen") for at in range(3)]
    assert routed(composed(owner, [deployment("qwen", "eu-west")], found)) == {"e1": (0, 1), "e2": (0, 1)}


@pytest.mark.parametrize(
    "deployments",
    [
        pytest.param(Unknown("no answer"), id="deployments that cannot be listed"),
        pytest.param([{**deployment("qwen"), "spec": {"regions": "eu"}}], id="a rule that cannot be read"),
        pytest.param(
            [{**deployment("other"), "spec": {"template": {"metadata": {"labels": []}}}}],
            id="a template that cannot be read",
        ),
    ],
)
def test_a_rule_that_cannot_be_read_changes_nothing(deployments: Any) -> None:
    assert isinstance(composed(BOTH, deployments, [OWN]), Blocked)


def test_gateways_of_others_keep_the_rule_too() -> None:
    found = [endpoint("paid", "us-east", provider="paid"), endpoint("near", "eu-west", provider="paid")]
    result = composed(BOTH, [deployment("qwen", "eu-west")], found, proxy=Backend.GATEWAY_API)
    assert isinstance(result, Composition)
    text = repr(result.children)
    assert ("near" in text, "paid.example" in text) == (True, False)


REGIONS = st.sampled_from(("", "eu", "us", "ap"))
TEAMS = st.sampled_from(("", "a", "b"))


@st.composite
def namespaces(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, str]]]:
    """Draw deployments, endpoints of them and of providers, and the tiers of a service."""
    deployments, endpoints = [], []
    for name in draw(st.lists(st.sampled_from("xyz"), max_size=3, unique=True)):
        team = draw(TEAMS)
        rule = draw(st.sets(REGIONS.filter(bool), max_size=2))
        own = {"team": team} if team else {}
        deployments.append(deployment(name, *rule, own=own))
        regions = draw(st.lists(REGIONS, max_size=2))
        endpoints += [endpoint(f"{name}{at}", each, of=name, **own) for at, each in enumerate(regions)]
    for at in range(draw(st.integers(0, 3))):
        team = draw(TEAMS)
        endpoints.append(endpoint(f"paid{at}", draw(REGIONS), **({"team": team} if team else {})))
    selectors = st.sampled_from(
        ({}, {"team": "a"}, {"team": "b"}, *({labels.DEPLOYMENT: name} for name in "xyz"))
    )
    return deployments, endpoints, draw(st.lists(selectors, min_size=1, max_size=3))


@settings(max_examples=300, deadline=None)
@given(namespaces())
def test_no_request_leaves_the_regions_of_any_deployment_that_a_service_selects(
    drawn: tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, str]]],
) -> None:
    deployments, endpoints, tiers = drawn
    without = [
        {**each, "spec": {"replicas": 1, "template": {"metadata": each["spec"]["template"]["metadata"]}}}
        for each in deployments
    ]
    leads_to = routed(composed(service(*tiers), deployments, endpoints))
    everywhere = routed(composed(service(*tiers), without, endpoints))
    rules = [
        set(regions)
        for each in deployments
        if (regions := each["spec"]["template"]["spec"].get("regions"))
        and any(
            wanted.items()
            <= {
                **each["spec"]["template"]["metadata"]["labels"],
                labels.DEPLOYMENT: each["metadata"]["name"],
            }.items()
            for wanted in tiers
        )
    ]
    inside = {
        each["metadata"]["name"]
        for each in endpoints
        if all(each["spec"].get("region") in rule for rule in rules)
    }
    assert set(leads_to) == set(everywhere) & inside


def _resolved(result: Composition | Blocked) -> tuple[str, str, str]:
    assert isinstance(result, Composition)
    [said] = [each for each in result.conditions if each.type == "EndpointsResolved"]
    return (str(said.holds), said.reason, said.message)
