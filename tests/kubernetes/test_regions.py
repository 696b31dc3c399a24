"""Region rules in a real Envoy: no attempt of a request leaves the regions of its deployment."""

from pathlib import Path
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.composition import Composition
from support.envoys import Gateway
from support.gateway_module import Model, Module, gateway_with, running_model
from support.regions import composed, deployment, endpoint, service

pytestmark = pytest.mark.kubernetes

TIERS = service({labels.DEPLOYMENT: "qwen"}, {"provider": "near"}, {"provider": "far"})


async def test_a_failing_tier_goes_to_the_next_one_inside_the_regions_and_never_outside(
    tmp_path: Path, module_library: Path
) -> None:
    async with (
        running_model() as own,
        running_model() as near,
        running_model() as far,
        gateway_with(tmp_path, Module(module_library)) as gateway,
    ):
        url = "http://127.0.0.1:{}".format
        found = [
            endpoint("own", "eu-west", url(own.port), of="qwen"),
            endpoint("near", "eu-west", url(near.port), provider="near"),
            endpoint("far", "us-east", url(far.port), provider="far"),
        ]
        await _apply(gateway, [deployment("qwen", "eu-west")], found)
        own.status = 503
        assert await _ask(gateway) == (200, "")
        near.status = 429
        assert [(await _ask(gateway))[0] for _ in range(5)] == [429] * 5
        assert (_asked(own), _asked(near), _asked(far)) == (6, 6, 0)

        # Without a replica, the rule is still that of the deployment.
        await _apply(gateway, [deployment("qwen", "eu-west")], [found[2]])
        status, why = await _ask(gateway)
        assert (status, _asked(far)) == (503, 0)
        assert 'ModelEndpoint "far" (in region "us-east") receives no requests' in why

        # The same endpoints without the rule: the provider answers.
        await _apply(gateway, [deployment("qwen")], found)
        assert [(await _ask(gateway))[0] for _ in range(5)] == [200] * 5
        assert _asked(far) == 5


async def _apply(
    gateway: Gateway, deployments: list[dict[str, Any]], endpoints: list[dict[str, Any]]
) -> None:
    composition = composed(TIERS, deployments, endpoints)
    assert isinstance(composition, Composition)
    await gateway.apply(*composition.routes)


async def _ask(gateway: Gateway) -> tuple[int, str]:
    """Return the status of an answer, and the message of a refusal."""
    url = gateway.url("/ml/qwen/v1/chat/completions")
    async with gateway.client.post(url, json={"prompt": "x"}) as response:
        said = await response.json()
        return response.status, said["error"]["message"] if response.status == 503 else ""


def _asked(model: Model) -> int:
    return len(model.asked)
