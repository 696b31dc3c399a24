"""Memory of GPUs, for the worked examples, and the hardware that has it."""

import functools
import json

import pytest

from modelplane.api.inference_class import InferenceClass, InferenceClassSpec
from modelplane.api.meta import ObjectMeta
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import convert
from modelplane.sizing.architecture import parse_architecture
from modelplane.sizing.hardware import Node, Served, describe_node, plan_service
from modelplane.sizing.loaded_weights import PRECISIONS, sum_weights
from modelplane.sizing.memory import (
    GIB,
    Load,
    Model,
    choose_batch,
    compute_memory,
    compute_sequence_bytes,
    compute_state_bytes,
)
from modelplane.sizing.splits import Split, find_best_split, find_rejections
from modelplane.user_error import UserError
from support.checkpoint_shapes import CHECKPOINTS

L4 = Node("l4", "NVIDIA L4", 8, 23034 * 2**20, (8, 9))
H200 = Node("h200", "NVIDIA H200", 8, 143771 * 2**20, (9, 0))


@functools.cache
def model(name: str, to: str = "") -> Model:
    precision = PRECISIONS[to] if to else None
    config = parse_architecture(json.dumps(CHECKPOINTS[name].config).encode())
    found = sum_weights(config, CHECKPOINTS[name].tensors(), precision)
    return Model(config, found, precision.quantization if precision else config.quantization)


def test_an_l4_serves_qwen3_8b_with_16384_tokens_and_not_with_all() -> None:
    one = L4._replace(devices=1)
    assert isinstance(plan_service(model("Qwen/Qwen3-8B"), one, Load(16384)), Served)
    refused = plan_service(model("Qwen/Qwen3-8B"), one, Load(40960), most_nodes=1)
    assert refused == Rejected(
        subject="TP 1", detail="requires 25.2 GiB per device, and the device has 22.5 GiB"
    )


def test_eight_h200_have_room_for_about_710000_tokens_of_deepseek_v3() -> None:
    found = plan_service(model("deepseek-ai/DeepSeek-V3"), H200, Load(163840))
    assert isinstance(found, Served)
    assert (found.split, found.nodes, found.concurrency) == (Split(8), 1, 4)
    assert found.concurrency * 163840 == pytest.approx(710_000, rel=0.1)


def test_weights_of_a_tensor_split_are_a_part_and_what_every_gpu_holds() -> None:
    found = compute_memory(
        model("deepseek-ai/DeepSeek-V3"), Split(8), Load(163840), choose_batch(H200.memory)
    )
    assert found.weights / GIB == pytest.approx(78.4, rel=0.02)


def test_whole_experts_make_a_split_legal_that_would_cut_a_block_of_fp8() -> None:
    name = "Qwen/Qwen3-30B-A3B"
    fp8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    found = parse_architecture(json.dumps(CHECKPOINTS[name].config | fp8).encode())
    assert find_rejections(found, found.quantization, Split(4)) == (
        "expert width 768 / 4 = 192 is not a multiple of the FP8 block 128",
    )
    assert find_best_split(found, found.quantization, 4, 1) == Split(4, expert=True)
    assert find_best_split(found, found.quantization, 2, 1) == Split(2)


def test_a_dense_model_has_no_experts_to_divide() -> None:
    found = model("Qwen/Qwen3-8B").architecture
    assert find_rejections(found, None, Split(2, expert=True)) == ("the model has no experts",)


def test_gemma_pads_its_layers_to_groups_of_five() -> None:
    found = model("google/gemma-3-4b-it").architecture
    # Five full layers of 8192 blocks; 29 with a window, charged as 30, of 192 and one blocks.
    expected = (5 * 8192 + 30 * 193) * 16 * 4096
    assert compute_sequence_bytes(found, found.layers, 131072, step_tokens=2048) == expected


def test_states_of_qwen3_next_take_38_mib_of_a_sequence() -> None:
    found = model("Qwen/Qwen3-Next-80B-A3B-Instruct").architecture
    assert 36 * compute_state_bytes(found) / 2**20 == pytest.approx(37.7, abs=0.05)


@pytest.mark.parametrize(
    ("to", "gigabytes"), [("fp8", 9.43), ("int4", 6.10), ("mxfp4", 6.18), ("nvfp4", 6.40)]
)
def test_quantization_changes_matrices_of_layers_only(to: str, gigabytes: float) -> None:
    assert model("Qwen/Qwen3-8B", to).weights.size / 10**9 == pytest.approx(gigabytes, rel=0.01)


def test_a_quantized_checkpoint_is_not_quantized_again() -> None:
    with pytest.raises(UserError, match="already quantized"):
        model("Qwen/Qwen3-8B-AWQ", "fp8")


def test_a_gpu_without_the_format_is_refused() -> None:
    t4 = Node("t4", "Tesla T4", 8, 16 * GIB, (7, 5))
    refused = plan_service(model("Qwen/Qwen3-0.6B"), t4, Load(1024))
    assert refused == Rejected(
        subject="BF16", detail="requires compute capability 8.0, and the device has 7.5"
    )
    assert isinstance(plan_service(model("Qwen/Qwen3-8B-AWQ"), t4, Load(1024)), Served)


def test_partitions_of_a_gpu_do_not_work_together() -> None:
    mig = H200._replace(memory=10 * GIB, is_partition=True)
    assert plan_service(model("Qwen/Qwen3-8B"), mig, Load(1024)) == Rejected(
        subject="TP 1", detail="requires 19.2 GiB per device, and the device has 10.0 GiB"
    )


@pytest.mark.parametrize(
    ("pricing", "price"),
    [
        pytest.param(None, None, id="no price"),
        pytest.param(
            {"currency": "USD", "devices": [{"name": "gpu", "perHour": "2.5"}]}, 20 * 10**9, id="a price"
        ),
    ],
)
def test_the_cost_is_that_of_the_devices_of_a_replica(pricing: object, price: int | None) -> None:
    gpu = {
        "name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8,
        "attributes": {"cudaComputeCapability": {"version": "9.0.0"}},
        "capacity": {"memory": {"value": "143771Mi"}},
    }  # fmt: skip
    nic = {"name": "nic", "driver": "nic.nvidia.com", "claim": "Synthetic"}
    spec = {"devices": [nic, gpu]} | ({"pricing": pricing} if pricing else {})
    found = describe_node(
        InferenceClass(metadata=ObjectMeta(name="h200"), spec=convert(spec, InferenceClassSpec))
    )
    assert found is not None
    assert (found.devices, found.memory, found.capability) == (8, 143771 * 2**20, (9, 0))
    result = plan_service(model("deepseek-ai/DeepSeek-V3"), found, Load(163840))
    assert isinstance(result, Served)
    assert result.price == price
