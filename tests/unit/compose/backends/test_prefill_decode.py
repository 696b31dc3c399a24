from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.picker_workload import configuration
from modelplane.compose.replica.backends.prefill_decode import choose_engine_port
from support.goldens import GOLDENS
from support.rejections import message_of
from support.replicas import engine, gang, member, replica

CASE = "model_replica/prefill-decode"


def _port(shape: dict[str, Any], phase: str | None) -> int | Rejected:
    return choose_engine_port(replica({**shape, **({"phase": phase} if phase else {})}).spec.engines[0])


@pytest.mark.parametrize(
    ("shape", "phase", "port"),
    [
        pytest.param(engine("e", member(args=["--port=9"])), None, 8000, id="an engine of mode Unified"),
        pytest.param(engine("e", member(args=["--port=9"])), "Prefill", 8000, id="a prefill engine"),
        pytest.param(engine("e"), "Decode", 8001, id="a decode engine without a port"),
        pytest.param(engine("e", member(args=["--port=9100"])), "Decode", 9100, id="the author's port"),
        pytest.param(
            engine("e", member("Leader", args=["--port=9100"]), member("Worker", args=["--port=7"])),
            "Decode",
            9100,
            id="the leader's port, of a gang",
        ),
        pytest.param(gang("e"), "Decode", 8001, id="a gang without a port"),
    ],
)
def test_a_decode_engine_leaves_the_pods_port_to_the_sidecar(
    shape: dict[str, Any], phase: str, port: int
) -> None:
    assert _port(shape, phase) == port


@pytest.mark.parametrize("value", ["$(PORT)", "", "0", "65536", "-1", "٣", "8_001", "8001.0", "9" * 5000])
def test_a_port_that_is_no_port_is_refused_with_a_reason(value: str) -> None:
    said = f'engine "e": --port "{value}" is not a port number: write a number'
    assert message_of(_port(engine("e", member(args=[f"--port={value}"])), "Decode")) == said


def test_the_sidecars_port_is_refused() -> None:
    assert message_of(_port(engine("e", member(args=["--port=8000"])), "Decode")) == (
        'engine "e": port 8000 of a decode pod is used by the routing sidecar: use another port for the '
        "engine, such as --port=8001"
    )


@pytest.mark.parametrize(
    ("former", "successor"),
    [
        pytest.param("disagg-headers-handler", "disagg-profile-handler", id="plugin, until 0.10"),
        pytest.param("--vllm-port", "--model-server-port", id="flag, until 0.11"),
    ],
)
def test_what_the_router_removes_is_not_used(former: str, successor: str) -> None:
    written = str(GOLDENS.output(CASE))
    assert former not in written
    assert successor in written


def test_images_of_the_router_are_of_one_version() -> None:
    children = GOLDENS.output(CASE)["children"]
    images = {each for each in str(children).split("'") if each.startswith("ghcr.io/llm-d/")}
    assert len(images) == 2
    assert len({each.rpartition(":")[2] for each in images}) == 1


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        pytest.param("32", 32, id="the author's"),
        pytest.param("0", 16, id="none"),
        pytest.param("9" * 5000, 16, id="more digits than a number may have"),
    ],
)
def test_the_picker_reads_the_size_of_a_block_or_takes_the_default(value: str, tokens: int) -> None:
    producer, *_ = configuration(replica(engine("e", member(args=[f"--block-size={value}"]))))["plugins"]
    assert producer["parameters"]["blockSizeTokens"] == tokens
