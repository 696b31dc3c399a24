"""What holds for every test."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
import yaml

from modelplane.host.errors import LocalError
from modelplane.local import binary, gateway_module
from modelplane.local.home import Home
from support import network_namespace
from support.fleets import ControlPlane, control_plane_of

# Else gRPC starts threads in every process that is forked off, and a process with threads
# may not enter a user namespace.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# The control planes that the tests start live for seconds, most of them busy: to collect their garbage early,
# which saves memory, would take half as much processor time again.
os.environ.setdefault("GOGC", "200")

# Else each of the thousand processes that the tests start would compile Modelplane again, and each worker the
# assertions of all modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what is to run in the background with SIGINT ignored, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of files are read, and libyaml's parser takes a fifth of the time.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # type: ignore[misc]  # for every reader of files here

# How long an example takes is the machine's matter; ``benchmarks`` measures speed.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


# The slowest modules, in that order. They begin first, so that no worker is left with one of them at the end.
LONGEST = [
    "package/test_site",
    "property/test_replica_lifecycle",
    "function/test_breaker",
    "function/test_scale",
    "function/test_noticing",
    "function/test_interruptions",
    "contract/test_contract",
    "architecture/test_places",
    "property/test_rollout",
    "property/test_spot",
    "property/test_standby",
    "property/test_operations_together",
    "property/test_function_fuzz",
    "property/test_clouds",
    "property/test_autoscaling",
    "property/test_canary",
    "function/test_clouds",
    "function/test_lifecycles",
    "takeover/test_local",
    "kubernetes/test_pages",
    "kubernetes/test_tour",
    "test_first_answer",
    "test_benchmarks",
    "kubernetes/test_gateway",
    "kubernetes/test_leader",
    "test_clusters",
    "kubernetes/test_wheel",
    "test_full_disk",
    "test_move",
    "kubernetes/test_logs",
    "kubernetes/test_crossplane_identity",
    "test_crossplane_package",
    "test_chaos",
    "test_external_providers",
    "test_model_cache",
    "test_serving_stack",
    "test_controllers",
    "test_register",
    "kubernetes/test_canary",
    "test_node_agent",
    "kubernetes/test_mcp",
    "kubernetes/test_helm",
    "kubernetes/test_install",
    "test_permissions",
    "test_gateway_module_sources",
    "kubernetes/test_clouds",
    "test_container_engine",
    "test_rendered_children",
    "test_function_children",
    "oracle/test_oracle",
    "kubernetes/test_backup",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first."""

    def rank(item: pytest.Item) -> int:
        path = str(item.path.with_suffix(""))
        return next((rank for rank, name in enumerate(LONGEST) if path.endswith(f"/{name}")), len(LONGEST))

    items.sort(key=rank)


def pytest_configure(config: pytest.Config) -> None:
    """Give each of several workers a network of its own, once everything is there that is downloaded."""
    if config.getoption("markexpr", "") != "kubernetes":
        return
    if os.environ.get("PYTEST_XDIST_WORKER"):
        network_namespace.enter()
    elif getattr(config.option, "numprocesses", 0):
        binary.find_or_build(lambda _progress: None)
        with suppress(LocalError):  # its tests are skipped, or fail with the cause
            gateway_module.find_or_build(lambda _progress: None)
        if cargo := shutil.which("cargo"):
            subprocess.run([cargo, "fetch", "--quiet"], cwd=gateway_module.SOURCES, check=False)
        if go := shutil.which("go"):
            for module in ("oracle", "oracle/kstatus", "ratelimit", "registry"):
                subprocess.run([go, "mod", "download"], cwd=Path(__file__).parent / module, check=True)


@pytest.fixture(scope="session")
def kubernetes_binary() -> Path:
    """The multi-call binary, built if it has to be."""
    return binary.find_or_build(lambda _progress: None)


@pytest.fixture(scope="session")
def module_library() -> Path:
    """The gateway module, built if it has to be."""
    return gateway_module.find_or_build(lambda _progress: None)


@pytest.fixture(scope="module")
def own_control_plane(
    kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane for the tests of one module alone."""
    with control_plane_of(Home(tmp_path_factory.mktemp("own-control-plane")), kubernetes_binary) as running:
        yield running
