"""One function for all tests of this folder, and a fleet of its own for each."""

from collections.abc import Iterator

import pytest

from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.scenarios import prepared


@pytest.fixture(scope="session")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunctionProcess]:
    with FunctionProcess(tmp_path_factory.mktemp("function") / "log") as process:
        yield process


@pytest.fixture
def fleet(function: FunctionProcess) -> Fleet:
    return prepared(Fleet(function.run))
