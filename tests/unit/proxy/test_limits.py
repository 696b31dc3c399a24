"""Which connections the open files of an Envoy are enough for."""

import pytest

from modelplane.proxy import envoy_bootstrap


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        pytest.param(1024, 164, id="a connection and its four requests take five"),
        pytest.param(20_000, 3960, id="more files, more connections"),
        pytest.param(1 << 20, 20_000, id="never more than 20,000"),
        pytest.param(100, 1, id="too few for any still start"),
    ],
)
def test_connections_end_before_the_open_files_do(descriptors: int, connections: int) -> None:
    assert envoy_bootstrap.limit_connections(descriptors) == connections


def test_the_limit_of_the_heap_follows_that_of_the_memory() -> None:
    manager = envoy_bootstrap.build_overload_manager(1 << 30, 20_000)
    heap = {each["name"]: each["typed_config"] for each in manager["resource_monitors"]}[
        "envoy.resource_monitors.fixed_heap"
    ]
    assert heap["max_heap_size_bytes"] == int((1 << 30) * 0.85)
