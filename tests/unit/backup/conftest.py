"""A small fleet on an API server that stores it."""

import pytest

from modelplane.backup import archive
from support.stored_fleet import definitions, fleet
from support.storing_server import StoringServer


@pytest.fixture(autouse=True)
def _cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in no time: what that costs is a matter of the passphrase only."""
    monkeypatch.setitem(archive._COST, "n", 2)


@pytest.fixture
def source() -> StoringServer:
    """The control plane that is saved."""
    server = StoringServer()
    for each in (*definitions(), *fleet()):
        server.put(each)
    return server


@pytest.fixture
def target() -> StoringServer:
    """An empty control plane."""
    server = StoringServer()
    for each in definitions():
        server.put(each)
    return server
