"""The gateway of Envoy under Crossplane: its pods are composed, and another backend cuts no service off."""

import os
from pathlib import Path

import pytest

from modelplane.compose.gateway import envoy_pods
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.gateway_pods import ADDRESS, DEPLOYMENT, SERVICE as GATEWAY_SERVICE, GatewayPods
from support.crossplane.manifests import GATEWAY, SERVICE, model_endpoint, model_service
from support.crossplane.objects import condition
from support.crossplane.scenarios import prepared

ENVOY = {"backend": "Envoy"}
OTHER = "203.0.113.1"
"""Address of the Gateway of the fleet."""


@pytest.fixture
def pods(fleet: Fleet) -> GatewayPods:
    return GatewayPods(fleet)


def gateway(fleet: Fleet) -> tuple[str, str]:
    status = fleet.get("InferenceGateway", GATEWAY).get("status", {})
    return status.get("address", ""), status.get("backend", "")


def said(fleet: Fleet, type_: str) -> tuple[str, str]:
    found = condition(fleet.get("InferenceGateway", GATEWAY), type_)
    return found.get("reason", ""), found.get("message", "")


def by_envoy(fleet: Fleet, pods: GatewayPods, **spec: object) -> Fleet:
    fleet.edit("InferenceGateway", GATEWAY, **{**ENVOY, **spec})
    pods.publish()
    fleet.run_until(lambda: gateway(fleet) == (ADDRESS, "Envoy"), within=130)
    return fleet


def service(fleet: Fleet) -> str:
    return str(fleet.get("ModelService", SERVICE)["status"].get("address", ""))


def routed(fleet: Fleet) -> Fleet:
    """Return a fleet whose one service is routed by the Gateway API."""
    fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
    endpoint = model_endpoint()
    endpoint["metadata"].setdefault("labels", {})["modelplane.ai/deployment"] = "qwen"
    fleet.apply(endpoint, model_service())
    fleet.run_until_ready("ModelService", SERVICE, within=60)
    return fleet


def test_a_gateway_of_envoy_becomes_ready(fleet: Fleet, pods: GatewayPods) -> None:
    by_envoy(fleet, pods)
    fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
    kinds = {child["kind"] for child in fleet.children("InferenceGateway", GATEWAY).values()}
    pods_and_keys = {
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Secret",
        "Service",
        "ServiceAccount",
    }
    assert kinds == pods_and_keys


def test_a_platform_team_chooses_image_number_and_type_of_service(tmp_path: Path) -> None:
    chosen = {"IMAGE": "registry.example/modelplane:1", "REPLICAS": "3", "SERVICE_TYPE": "ClusterIP"}
    environment = os.environ | {f"MODELPLANE_GATEWAY_{name}": value for name, value in chosen.items()}
    with FunctionProcess(tmp_path / "log", environment=environment) as process:
        fleet = prepared(Fleet(process.run))
        fleet.edit("InferenceGateway", GATEWAY, **ENVOY)
        fleet.run_until(lambda: fleet.api.get(DEPLOYMENT) is not None)
        deployment, service_ = (fleet.api.get(key) or {} for key in (DEPLOYMENT, GATEWAY_SERVICE))
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["image"], deployment["spec"]["replicas"]) == (chosen["IMAGE"], 3)
    assert service_["spec"]["type"] == "ClusterIP"


def test_nothing_is_claimed_before_the_configuration_is_reported(fleet: Fleet, pods: GatewayPods) -> None:
    fleet.edit("InferenceGateway", GATEWAY, **ENVOY, authentication="APIKey")
    fleet.run_for(130)
    assert gateway(fleet)[1] != "Envoy"
    assert said(fleet, "Authenticated")[0] == "Configuring"
    pods.publish(asks_for_keys=True)
    fleet.run_until(lambda: gateway(fleet)[1] == "Envoy", within=130)
    assert said(fleet, "Authenticated")[0] == "InForce"


def test_a_gateway_that_cannot_serve_says_why(fleet: Fleet, pods: GatewayPods) -> None:
    fleet.edit("InferenceGateway", GATEWAY, **ENVOY, tls={"certificateRefs": [{"name": "front"}]})
    pods.publish(problem="no certificate", tls_problem="no certificate", without_module="no module")
    fleet.run_until(lambda: said(fleet, "ControllerReady")[1] == "no certificate", within=130)
    assert said(fleet, "Secured") == ("InvalidCertificate", "no certificate")


def test_envoy_takes_over_once_its_pods_are_available(fleet: Fleet, pods: GatewayPods) -> None:
    routed(fleet)
    pods.stop()
    fleet.edit("InferenceGateway", GATEWAY, **ENVOY)
    pods.publish()
    fleet.run_for(130)
    assert (gateway(fleet)[0], service(fleet).split("/")[2]) == (OTHER, OTHER)
    assert any(item["kind"] == "HTTPRoute" for item in fleet.api.all())
    pods.start()
    fleet.run_until(lambda: ADDRESS in service(fleet), within=130)
    fleet.run_until_ready("ModelService", SERVICE, within=60)
    assert not any(item["kind"] == "HTTPRoute" for item in fleet.api.all())


def test_envoys_pods_stay_until_every_service_is_routed_elsewhere(fleet: Fleet, pods: GatewayPods) -> None:
    routed(by_envoy(fleet, pods))
    fleet.edit("InferenceGateway", GATEWAY, backend="GatewayAPI")
    seen = []

    def is_gone() -> bool:
        left = fleet.api.get(DEPLOYMENT)
        seen.append((left is not None, OTHER in service(fleet) and fleet.is_true("ModelService", SERVICE)))
        return left is None

    fleet.run_until(is_gone, within=400)
    assert (True, True) in seen
    assert (False, False) not in seen
    fleet.run_for(70)
    assert not any(key.startswith(envoy_pods.PREFIX) for key in fleet.children("InferenceGateway", GATEWAY))


def test_a_backend_without_keys_does_not_take_over_what_keys_protect(fleet: Fleet, pods: GatewayPods) -> None:
    by_envoy(fleet, pods, authentication="APIKey")
    fleet.edit("InferenceGateway", GATEWAY, backend="GatewayAPI")
    fleet.run_for(200)
    assert gateway(fleet) == (ADDRESS, "Envoy")
    assert said(fleet, "ControllerReady")[0] == "Unsupported"
    assert fleet.api.get(DEPLOYMENT) is not None
