from typing import Any, cast

import pytest

from modelplane.kube.client import Client
from modelplane.kubelet import local_devices
from modelplane.kubelet.local_devices import discover


class Api:
    """A cluster with one allocated claim."""

    def __init__(self, driver: str, device: str) -> None:
        results = [{"driver": driver, "device": device}]
        self._claim = {
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "uid"}]}
        }

    async def get(self, *_: object) -> Any:
        return self._claim


@pytest.mark.parametrize(
    ("named", "count"),
    [
        pytest.param([{"name": "gpu"}], 1, id="the container names the claim"),
        pytest.param([{"name": "other"}], 0, id="the claim is another container's"),
        pytest.param([], 0, id="the container names no claim"),
    ],
)
async def test_a_container_has_the_devices_of_the_claims_that_it_names(
    named: list[dict[str, str]], count: int
) -> None:
    machine = discover()
    pod = {
        "metadata": {"namespace": "ml-team", "uid": "uid"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-x"}],
            "containers": [{"name": "engine", "resources": {"claims": named}}],
        },
    }
    api = cast("Client", Api(machine[0].driver, machine[0].name))
    assert await local_devices.find_devices(api, pod, machine) == machine[:count]
