"""A real Envoy for the attacks on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.envoys import Gateway, running_envoy


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """An Envoy that has only been prepared."""
    async with running_envoy(tmp_path) as running:
        yield running
