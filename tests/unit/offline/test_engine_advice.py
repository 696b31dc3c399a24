"""Warnings about command lines of engines."""

import pytest

from examples.planned import EXAMPLES, documents
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.catalogue.flag_files import load_flag_table
from modelplane.catalogue.flag_table import parse_version
from modelplane.offline.lint.engine_advice import check
from support.manifests import DEPLOYMENT, validated

VLLM = "vllm/vllm-openai:v0.23.0"
SGLANG = "lmsysorg/sglang:v0.5.12.post1-cu129"
LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
SGLANG_SERVER = "python3 -m sglang.launch_server --host=0.0.0.0 --port=8000"
GANG = "--pipeline-parallel-size=2 --nnodes=2 --master-addr=$(MODELPLANE_LEADER_ADDRESS)"


def member(image, words, devices=1, **more):
    container = {"name": "engine", "image": image, **({"args": words.split()} if words else {})}
    selectors = [{"cel": 'device.driver == "gpu.nvidia.com"'}]
    claim = {"nodeSelector": {"devices": [{"name": "gpu", "count": devices, "selectors": selectors}]}}
    return {"template": {"spec": {"containers": [{**container, **more.pop("container", {})}]}}} | (
        (claim if devices else {}) | more
    )


def found(*members, **engine):
    """Return the warnings about each member, as ``field: text``."""
    spec = {"replicas": 1, "engines": [{"name": "e", **engine, "members": list(members)}]}
    deployment = decode_as(ModelDeployment, {"metadata": {"name": "d", "namespace": "n"}, "spec": spec})
    # Below the container: spec.engines[0].members[0].template.spec.containers[0].
    return [f"{'.'.join(map(str, each.path[9:]))}: {each.message}" for each in check(deployment)]


@pytest.mark.parametrize(
    ("image", "words", "lines"),
    [
        pytest.param(
            VLLM,
            "--tensor-parallel-sise=2",
            ["args.0: vLLM 0.23.0 has no flag --tensor-parallel-sise; did you mean --tensor-parallel-size?"],
            id="a misspelt flag is named with the one that was meant",
        ),
        pytest.param(
            VLLM,
            "--max-model-len 32k --swap-space 4",
            ["args.2: vLLM 0.23.0 has no flag --swap-space: 0.11.0 was the last to have it"],
            id="a flag that the version no longer has",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.7.3",
            "--nnodes=1",
            ["args.0: vLLM 0.7.3 has no flag --nnodes: 0.18.1 is the first to have it"],
            id="a flag that the version has not yet",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.30.0",
            "--no-such-flag-at-all",
            [
                (
                    "args.0: vLLM 0.27.1, the closest known version to 0.30.0, probably has no flag "
                    "--no-such-flag-at-all: remove it"
                )
            ],
            id="of a version between two known ones, neither of which has the flag",
        ),
        pytest.param("vllm/vllm-openai:v0.26.0", "--no-enable-log-deltas", [], id="one of the two has it"),
        pytest.param(
            "vllm/vllm-openai:latest",
            "--swap-space=4",
            [
                (
                    "args.0: vLLM 0.33.0, the closest known version to this image, probably has no flag "
                    "--swap-space: 0.11.0 was the last to have it"
                )
            ],
            id="a tag without a version is as the newest known one",
        ),
        pytest.param("example.com/our/vllm:v9", "vllm serve m --our-own", [], id="an image of one's own"),
        pytest.param(
            "example.com/mirror/vllm/vllm-openai@sha256:00",
            "--our-own-flag-of-a-fork",
            [
                (
                    "args.0: vLLM 0.33.0, the closest known version to this image, probably has no flag "
                    "--our-own-flag-of-a-fork: remove it"
                )
            ],
            id="a mirror of the official image",
        ),
        pytest.param(
            VLLM,
            "--max_num_seqs=many",
            ['args.0: --max_num_seqs of vLLM 0.23.0 must be a whole number, not "many"'],
            id="a value of another type, of a flag with underscores",
        ),
        pytest.param(
            VLLM,
            "--kv-cache-dtype fp8_e4m4",
            [
                'args.0: --kv-cache-dtype of vLLM 0.23.0 does not support "fp8_e4m4"; did you mean fp8_e4m3?',
            ],
            id="a value that is not a choice",
        ),
        pytest.param(
            VLLM,
            "--enforce-eager=true",
            ["args.0: --enforce-eager of vLLM 0.23.0 takes no value: remove the value"],
            id="a value of a switch",
        ),
        pytest.param(
            VLLM,
            "--dtype --enforce-eager",
            ["args.0: --dtype of vLLM 0.23.0 requires a value: add it"],
            id="a flag without its value",
        ),
        pytest.param(
            VLLM,
            "--seed=1 --dtype=auto --seed 2",
            ["args.2: --seed is set twice, and the last value applies: remove one"],
            id="a flag that is given twice",
        ),
        pytest.param(
            VLLM,
            "-O3 --compilation-config.level=3 --tensor-parallel=1 --no-enforce-eager --max-model-len=-1",
            [],
            id="levels, keys of JSON, beginnings, negations and negative numbers are read as vLLM does",
        ),
        pytest.param(
            VLLM,
            "--tensor-parallel-size=2",
            [
                (
                    "args.0: tensor 2 x pipeline 1 x data 1 parallel needs 2 devices, but the pod claims 1: "
                    "the engine cannot start"
                )
            ],
            id="more devices than the claim has",
        ),
        pytest.param(
            VLLM,
            "--nnodes=2",
            [
                (
                    "args.0: --nnodes says 2 nodes, but the engine is one pod, because there are no "
                    "Workers: make them equal"
                )
            ],
            id="nodes without workers",
        ),
        pytest.param(
            VLLM,
            "--port=9000 --host=127.0.0.1",
            [
                "args.0: vLLM listens on 9000, but requests and probes go to 8000: set --port to 8000",
                (
                    'args.1: vLLM listens on "127.0.0.1", so requests can\'t reach the engine: set --host '
                    "to 0.0.0.0"
                ),
            ],
            id="an address to which no request goes",
        ),
        pytest.param(
            SGLANG,
            "python3 -m sglang.launch_server --model-path=/mnt/models",
            [
                (
                    "args: SGLang listens on 30000 by default, but requests and probes go to 8000: "
                    "set --port to 8000"
                ),
                (
                    "args: SGLang listens on loopback only, so requests can't reach the engine: set --host "
                    "to 0.0.0.0"
                ),
            ],
            id="SGLang listens elsewhere by default",
        ),
        pytest.param(
            SGLANG,
            f"{SGLANG_SERVER} --swap-space=4 --tp 1",
            ["args.5: SGLang 0.5.12.post1 has no flag --swap-space: remove it"],
            id="a flag of another engine",
        ),
        pytest.param(LLAMA, "-m /m.gguf --port 8000 --ctx-size 4096 --lora a --lora b", [], id="llama.cpp"),
        pytest.param(
            LLAMA,
            "-m /m.gguf --port 8000 --flash-attn maybe",
            [
                (
                    'args.4: --flash-attn of llama.cpp 11549 does not support "maybe": write one of on, '
                    "off and auto"
                ),
            ],
            id="a choice of llama.cpp",
        ),
        pytest.param("example.com/other", "--port 1 --unknown", [], id="an engine that is not known"),
    ],
)
def test_flags_of_one_pod(image, words, lines):
    assert found(member(image, words)) == lines


def gang(leader=GANG, worker=f"{GANG} --headless --node-rank=$(MODELPLANE_RANK)", nodes=1, devices=8):
    sizes = "--tensor-parallel-size=8"
    return (
        member(VLLM, f"{leader} {sizes}", devices, role="Leader"),
        member(VLLM, f"{worker} {sizes}", devices, role="Worker", worker={"nodes": nodes}),
    )


@pytest.mark.parametrize(
    ("members", "lines"),
    [
        pytest.param(gang(), [], id="a gang whose flags agree with it"),
        pytest.param(
            gang(nodes=2),
            [
                "args.1: --nnodes says 2 nodes, but the engine is a gang of 3 pods: make them equal",
                (
                    "args.3: tensor 8 x pipeline 2 x data 1 parallel uses 16 of the 24 devices that the 3 "
                    "pods of the engine claim: raise a size, or claim fewer devices"
                ),
                "args.1: --nnodes says 2 nodes, but the engine is a gang of 3 pods: make them equal",
            ],
            id="more workers than the flags say",
        ),
        pytest.param(
            gang(worker=f"{GANG} --headless --node-rank=0"),
            ["args.4: --node-rank is 0 in every Worker: write $(MODELPLANE_RANK), which differs in each pod"],
            id="a worker with the rank of the leader",
        ),
        pytest.param(
            gang(leader=f"{GANG} --node-rank=1"),
            ["args.3: --node-rank must be 0 in the pod that serves, not 1"],
            id="a leader with the rank of a worker",
        ),
        pytest.param(
            (member(VLLM, "--config=/etc/vllm.yaml", 8),), [], id="sizes may be in a file of the engine's"
        ),
        pytest.param((member(VLLM, "--tensor-parallel-size=$(SIZE)", 8),), [], id="a size in a variable"),
        pytest.param(
            (member(SGLANG, f"{SGLANG_SERVER} --tp=8 --dp=8 --enable-dp-attention", 8),),
            [],
            id="SGLang divides the same devices once more",
        ),
        pytest.param((member(VLLM, "--tensor-parallel-size=8", 0),), [], id="no claim to compare with"),
    ],
)
def test_flags_and_shape(members, lines):
    assert found(*members) == lines


def test_each_command_of_a_script_is_read():
    script = (
        'if [ "$MODELPLANE_RANK" = 0 ]; then\n'
        "  vllm serve m --node-rank $(MODELPLANE_RANK) \\\n"
        "    --max-model-len 32k --wrong-flag; exec foo --bar\n"
        "else\n  vllm serve m --headlezs\n  other --unknown\nfi"
    )
    shell = {"command": ["/bin/sh", "-c", script]}
    assert found(member("example.com/mirror/vllm/vllm-openai:v0.23.0-cu130", "", container=shell)) == [
        "command.2: vLLM 0.23.0 has no flag --wrong-flag: remove it",
        "command.2: vLLM 0.23.0 has no flag --headlezs; did you mean --headless?",
    ]


def test_the_port_of_a_decode_engine_is_its_own():
    assert found(member(VLLM, "--port=9000"), phase="Decode") == []


def test_a_warning_has_the_line_of_its_argument():
    args = '                  args: ["--seed=1",\n                    "--seeed=2"]\n'
    text = str(validated(DEPLOYMENT + args).problems)
    assert "vLLM 0.23.0 has no flag --seeed; did you mean --seed?" in text
    assert "containers[0].args[1]" in text


def test_no_example_has_a_warning():
    of = {}
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for each in documents(path):
            if each["kind"] == "ModelDeployment":
                namespaced = {**each, "metadata": {"namespace": "n", **each["metadata"]}}
                deployment = decode_as(ModelDeployment, namespaced)
                of[path, each["metadata"]["name"]] = [advice.message for advice in check(deployment)]
    assert len(of) > 50
    assert {key: messages for key, messages in of.items() if messages} == {}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_tables_are_in_order(engine):
    table = load_flag_table(engine)
    assert list(table.versions) == sorted(table.versions, key=parse_version)
    assert {each.since for each in table.flags} | {each.last for each in table.flags} <= {
        None,
        *table.versions,
    }
    names = [(name, each.since) for each in table.flags for name in each.names]
    assert len(names) == len(set(names))
