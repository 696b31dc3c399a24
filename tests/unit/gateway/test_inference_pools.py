"""Which pods an InferencePool has, and who chooses among them."""

from typing import Any

import pytest

from modelplane.gateway.gateway_api.http_routes import build_workload_routes
from modelplane.gateway.route_table import Backend, EndpointPicker, Route
from modelplane.host.addresses import find_bound

POOL_REFERENCE = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "r-pool"}


def http_route(*references: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "r", "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "parentRefs": [{"name": "inference-gateway", "namespace": "modelplane-system"}],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/ml/r/"}}],
                    "backendRefs": list(references or (POOL_REFERENCE,)),
                }
            ],
        },
    }


def pool(**picker: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "r-pool", "namespace": "ml"},
        "spec": {
            "selector": {"matchLabels": {"serving": "r"}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "r-epp", "port": {"number": 9002}} | picker,
        },
    }


def pod(address: str, ready: str = "True", namespace: str = "ml", **metadata: Any) -> dict[str, Any]:
    own = {"name": address, "namespace": namespace, "labels": {"serving": "r"}} | metadata
    status = {"podIP": address, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": own, "status": status}


PICKER_SERVICE = {
    "metadata": {"name": "r-epp", "namespace": "ml"},
    "spec": {"ports": [{"name": "grpc", "port": 9002}]},
}
PICKER_SLICE = {
    "metadata": {"name": "r-epp-x", "namespace": "ml", "labels": {"kubernetes.io/service-name": "r-epp"}},
    "addressType": "IPv4",
    "ports": [{"name": "grpc", "port": 9002}],
    "endpoints": [{"addresses": ["198.18.0.9"], "conditions": {"ready": True}}],
}


def routes(pool: dict[str, Any], *pods: dict[str, Any], slices: Any = (PICKER_SLICE,)) -> tuple[Route, ...]:
    return build_workload_routes(
        [http_route()], [PICKER_SERVICE], slices, find_bound, pools=[pool], pods=pods
    )


def hosts(*pods: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    (route,) = routes(pool(), *pods)
    return route.backends[0].hosts if route.backends else ()


READY = pod("198.18.0.1")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("198.18.0.2", ready="False"), id="one that is not ready"),
        pytest.param(pod("198.18.0.2", labels={"serving": "other"}), id="one of another replica"),
        pytest.param(pod("198.18.0.2", labels=None), id="one without labels"),
        pytest.param(pod("198.18.0.2", namespace="rivals"), id="one of another namespace with its labels"),
        pytest.param(pod("198.18.0.2", deletionTimestamp="2026-01-01T00:00:00Z"), id="one that is ending"),
        pytest.param(pod(""), id="one without an address"),
    ],
)
def test_a_pool_has_only_its_own_ready_pods(other: dict[str, Any]) -> None:
    assert hosts(READY, other) == (("127.77.0.1", 8000),)


@pytest.mark.parametrize(
    ("mode", "fails_open"),
    [
        pytest.param({"failureMode": "FailOpen"}, True, id="open"),
        pytest.param({"failureMode": "FailClose"}, False, id="closed"),
        pytest.param({}, False, id="closed by default"),
    ],
)
def test_the_picker_is_the_one_of_the_pool(mode: dict[str, str], fails_open: bool) -> None:
    picker = EndpointPicker("ml/r-pool/picker", (("127.77.0.9", 9002),), fails_open)
    backend = Backend("ml/r/0/r-pool", (("127.77.0.1", 8000),), picker=picker)
    assert routes(pool(**mode), READY) == (Route("ml/r", "/ml/r/", (backend,)),)


def test_a_picker_without_a_ready_pod_stays_the_picker() -> None:
    # Without it, requests of a pool that fails closed would go to any pod.
    (route,) = routes(pool(), READY, slices=())
    assert route.backends[0].picker == EndpointPicker("ml/r-pool/picker", (), fails_open=False)


@pytest.mark.parametrize(
    "unusable",
    [
        pytest.param(pool(kind="Deployment"), id="a picker that is no Service"),
        pytest.param(pool(group="example.com"), id="a picker of another group"),
        pytest.param({**pool(), "metadata": {"name": "other", "namespace": "ml"}}, id="another pool"),
        pytest.param(
            {**pool(), "metadata": {"name": "r-pool", "namespace": "b"}}, id="another namespace's pool"
        ),
    ],
)
def test_a_pool_that_cannot_be_served_gets_no_requests(unusable: dict[str, Any]) -> None:
    (route,) = routes(unusable, READY)
    assert route.backends == ()
    assert 'no ready pod behind its InferencePool ("r-pool")' in route.unavailable


def test_a_pool_beside_another_backend_is_not_served() -> None:
    both = http_route(POOL_REFERENCE, {"name": "s", "port": 80})
    assert (
        build_workload_routes(
            [both], [PICKER_SERVICE], [PICKER_SLICE], find_bound, pools=[pool()], pods=[READY]
        )
        == ()
    )
