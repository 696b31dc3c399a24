"""Targets of attacks: a real Envoy, and the controllers of a real control plane."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modelplane.local import gateway_module
from support.attacked import Attacked, attacked
from support.envoys import Gateway, running_envoy
from support.fleets import ControlPlane


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """An Envoy that has only been prepared, with the module where it can be built."""
    async with running_envoy(
        tmp_path, library=gateway_module.find_or_build(lambda _progress: None)
    ) as running:
        yield running


@pytest.fixture
async def fleet(own_control_plane: ControlPlane) -> AsyncIterator[Attacked]:
    """A control plane that is prepared as a fleet of one cluster, its own."""
    async with attacked(own_control_plane) as prepared:
        yield prepared
