"""What is installed for an InferenceGateway, beyond what the golden files show."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.schema.decode import decode_as
from modelplane.compose.gateway import inference_gateway, installed_gateway
from modelplane.compose.gateway.installed_gateway import IMPLEMENTATIONS
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.gateway.gateway_api import route_tree
from modelplane.install import installation_options
from support.rejections import message_of
from support.third_party_crds import problems, schemas


def _gateway(**traefik: Any) -> InferenceGateway:
    spec = {"backend": "Traefik", "traefik": {"version": "41.3.0", **traefik}}
    return decode_as(InferenceGateway, {"metadata": {"name": "default"}, "spec": spec})


@pytest.mark.parametrize("pool", ["172.18.255.200-172.18.255.250", "10.0.0.0/24", "2001:db8::/64"])
def test_the_schemas_of_metallb_know_the_objects_in_traefiks_release(pool: str) -> None:
    values = IMPLEMENTATIONS[Backend.TRAEFIK].values(
        _gateway(loadBalancer="MetalLB", metallb={"addressPool": pool})
    )
    found = values["extraObjects"]
    assert [each["kind"] for each in found] == ["IPAddressPool", "L2Advertisement"]
    assert found[0]["spec"] == {"addresses": [pool]}
    known = schemas("metallb")
    assert [list(problems(each, known[each["apiVersion"], each["kind"]])) for each in found] == [[], []]


@pytest.mark.parametrize(
    ("version", "is_refused"),
    [
        pytest.param("41.3.0", False, id="the first"),
        pytest.param("v41.3.1", False, id="a later patch"),
        pytest.param("41.4.0", False, id="a later minor"),
        pytest.param("42.0.0", False, id="a later major"),
        pytest.param("41.2.9", True, id="an earlier minor"),
        pytest.param("41.0.0", True, id="with Traefik 3.7.5"),
        pytest.param("40.2.0", True, id="with Traefik 3.7.1"),
        pytest.param("9.99.99", True, id="numbers are compared, not texts"),
        pytest.param("latest", True, id="unknown"),
    ],
)
def test_a_traefik_that_mixes_up_backends_is_refused(version: str, is_refused: bool) -> None:
    gateway = decode_as(
        InferenceGateway,
        {
            "metadata": {"name": "default"},
            "spec": {"backend": "Traefik", "traefik": {"version": version}},
        },
    )
    rejected = IMPLEMENTATIONS[Backend.TRAEFIK].check_version(gateway)
    assert bool(rejected) is is_refused
    assert not is_refused or "41.3.0 or later" in message_of(rejected)


def test_the_examples_name_a_traefik_that_is_installed() -> None:
    found = list((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
    gateways = [
        each
        for path in found
        if "backend: Traefik" in (text := path.read_text())
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "InferenceGateway" and each["spec"]["backend"] == "Traefik"
    ]
    row = IMPLEMENTATIONS[Backend.TRAEFIK]
    assert gateways
    assert [why for each in gateways if (why := row.check_version(decode_as(InferenceGateway, each)))] == []


@pytest.mark.parametrize("traefik", [{}, {"metallb": {"addressPool": "10.0.0.0/24"}}])
def test_without_a_load_balancer_there_is_no_pool(traefik: dict[str, Any]) -> None:
    assert IMPLEMENTATIONS[Backend.TRAEFIK].values(_gateway(**traefik))["extraObjects"] == []


def test_the_chart_of_envoy_gateway_is_that_of_serving_stacks() -> None:
    [row] = [each for each in COMPONENTS if each.name is ComponentName.ENVOY_GATEWAY]
    installed = IMPLEMENTATIONS[Backend.ENVOY_GATEWAY]
    assert (installed.chart, installed.namespace) == (row.chart, row.namespace)


def test_the_route_leads_to_the_envoy_of_an_installation() -> None:
    assert inference_gateway._ENVOY_SERVICE == installation_options.GATEWAY


def test_the_routes_of_an_installed_gateway_are_made_for_its_controller() -> None:
    of_routes = {key: route_tree.find_implementation(key, ()).controller for key in IMPLEMENTATIONS}
    assert of_routes == {key: row.controller for key, row in IMPLEMENTATIONS.items()}


def test_the_page_of_components_has_every_chart() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "components.md").read_text()
    charts = [row.chart for row in IMPLEMENTATIONS.values()]
    charts += [installed_gateway.DEFINITIONS_CHART, installed_gateway.METALLB_CHART]
    assert [chart.address for chart in charts if f"`{chart.address}`" not in page] == []
    assert f"`{installed_gateway._DEFINITIONS_VERSION}`" in page
    assert f"`{installed_gateway._METALLB_VERSION}`" in page


def test_the_page_of_the_request_path_has_what_each_implementation_does() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "request-path.md").read_text()
    rows = {
        line.split("|")[1].strip(): [cell.strip().split(",")[0] for cell in line.split("|")[2:5]]
        for line in page.splitlines()
        if line.startswith(("| Traefik", "| Envoy Gateway", "| any other"))
    }
    said = {
        name: [each.rewrites_per_backend, each.sets_headers_per_backend, each.has_timeouts]
        for name, each in (
            ("Traefik", route_tree.TRAEFIK),
            ("Envoy Gateway", route_tree.ENVOY_GATEWAY),
            ("any other", route_tree.OTHER),
        )
    }
    assert {name: [cell == "yes" for cell in cells] for name, cells in rows.items()} == said
