"""The function's package in a real container runtime, as it is loaded and as Crossplane starts it."""

import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from modelplane import __version__
from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.metadata import Registry, Version
from modelplane.crossplane.package.package_contents import function
from support.container_engines import NAME, needs_real
from support.patience import PATIENCE_S

pytestmark = [pytest.mark.kubernetes, needs_real]

REGISTRY, VERSION = Registry(), Version(__version__)
IMAGE = f"{REGISTRY.address('function')}:{VERSION.tag}"
HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


def engine(*arguments: str) -> str:
    done = subprocess.run([NAME, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of the command that loads the package."""
    package = build(function(), REGISTRY, VERSION, tmp_path_factory.mktemp("package")).path
    return engine("load", "--quiet", "--input", str(package))


@pytest.fixture
def address(loaded: str) -> Iterator[str]:
    """The address of a running function."""
    assert loaded
    command = ("function", "--insecure", "--address", "0.0.0.0:9443")
    container = engine("run", "--detach", "--publish", "127.0.0.1::9443", *HARDENED, IMAGE, *command)
    try:
        yield engine("port", container, "9443/tcp")
    finally:
        engine("rm", "--force", container)


def test_a_package_is_loaded_under_its_address(loaded: str) -> None:
    assert loaded == f"Loaded image: {IMAGE}"


@pytest.mark.usefixtures("loaded")
def test_the_function_runs_as_a_user_without_rights() -> None:
    assert engine("run", "--rm", *HARDENED, IMAGE, "--version") == f"modelplane, version {__version__}"
    assert engine("image", "inspect", "--format", "{{.Config.User}}", IMAGE) == "65532:65532"


def test_the_function_serves(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
