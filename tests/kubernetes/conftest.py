"""A real control plane for the tests that need one, and a whole fleet for those that need that.

Each is started once for all tests of a worker and stopped at the end; a test takes a
namespace of its own and leaves nothing behind that another could trip over. A module
that leaves parts of a fleet behind has a control plane of its own.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.local.home import Home
from modelplane.proxy import module
from support import small_model
from support.envoys import Gateway, running_envoy
from support.fleets import ControlPlane, Fleet, control_plane_of


@pytest.fixture(scope="session")
def control_plane(
    kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The four processes of a control plane, and nothing of Modelplane on it."""
    with control_plane_of(Home(tmp_path_factory.mktemp("control-plane")), kubernetes_binary) as running:
        yield running


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """An administrator's client of the control plane."""
    async with Client.from_kubeconfig(
        str(control_plane.kubeconfig), known=fleet_resources.find_known
    ) as connected:
        yield connected


@pytest.fixture(scope="session")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """What ``modelplane up`` starts, with a small model."""
    small = small_model.use(tmp_path_factory.mktemp("cache"))
    started = Fleet(Home(tmp_path_factory.mktemp("fleet")), kubernetes_binary, variables=small)
    try:
        started.modelplane("up")
        yield started
    finally:
        started.modelplane("down")


@pytest.fixture(params=[pytest.param(True, id="with the module"), pytest.param(False, id="without it")])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gateway]:
    """An Envoy that has only been prepared."""
    library = request.getfixturevalue("module_library") if request.param else None
    async with running_envoy(tmp_path, library=library) as running:
        assert (module.find_missing(tmp_path) is None) is request.param
        yield running
