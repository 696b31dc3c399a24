"""Attacks by the arguments of a pod that runs as a process of this machine."""

import pytest

from modelplane.compose.cache.staging_program import REQUIREMENTS
from modelplane.compose.cache.staging_sources import MARKER
from modelplane.kubelet.engines import launcher_allow_lists, llama_cpp_flags
from modelplane.kubelet.engines.allow_list import Place
from modelplane.user_error import UserError
from support.rejections import message_of

ADDRESS = "127.77.1.2"
PLACE = Place(ADDRESS, ("/mnt/models",))
KUBECONFIG = "/home/me/.local/share/modelplane/kubeconfig"

VLLM_FAMILIES = {
    "code": "--middleware=x.y --trust-remote-code --tool-parser-plugin=/mnt/models/x.py "
    "--logits-processors=x.y --worker-cls=x.y --worker-extension-cls=x.y "
    "--scheduler-cls=x.y --distributed-executor-backend=x.y "
    "--reasoning-parser-plugin=/mnt/models/x.py --io-processor-plugin=x --structured-outputs-config={} "
    '--compilation-config={"backend":"x.y"} -O.backend=x.y -cc.backend=x.y --hf-overrides={} '
    "--load-format=pt --load-format=sharded_state --load-format=tensorizer --enable-lora=1 "
    "--lora-modules=x=/mnt/models/x --profiler-config={} --quantization=/x.y",
    "files": f"--log-config-file=/x --ssl-keyfile={KUBECONFIG} --ssl-certfile=/x --ssl-ca-certs=/x "
    f"--model={KUBECONFIG} --tokenizer=/home/me --generation-config=/home/me --download-dir=/home/me "
    f"--chat-template={KUBECONFIG} --hf-config-path=/home/me --allowed-local-media-path=/ --uds=/x.sock "
    f"--config=/mnt/models/x.yaml {KUBECONFIG} /mnt/models/../../home/me ../x ./x ~/x "
    "--model=/mnt/models-of-another --model=/mnt/models/../x --model=",
    "addresses": "--host=127.77.9.9 --host=192.168.1.1 --host=127.0.0.1 --otlp-traces-endpoint=http://x "
    "--model=s3://bucket/x --model=https://x/y --data-parallel-address=10.0.0.1 --master-addr=10.0.0.1 "
    "--allowed-origins=* --load-format=runai_streamer --node-rank=1 --hf-token=x",
    "other spellings": "--middlew=x.y --midd=x.y --trust_remote_code --trust-remote -- - --host.x=1 "
    "--kv-transfer-config.kv_connector_module_path=x.y --speculative-config.model=/home/me --Model=m "
    "--model.x=/home/me -tp4 -q/x -O=x @/home/me --no-such --help --chat_template=/etc/passwd",
}


@pytest.mark.parametrize(
    "argument", [pytest.param(each, id=each) for every in VLLM_FAMILIES.values() for each in every.split()]
)
def test_vllm_gets_no_argument_that_reaches_beyond_the_pod(argument: str) -> None:
    for arguments in ([argument], ["m", "--enforce-eager", argument], ["--max-model-len", "10", argument]):
        assert launcher_allow_lists.VLLM.check(arguments, {}, arguments, PLACE) is not None
    assert (
        "=" not in message_of(launcher_allow_lists.VLLM.check([argument], {}, (), PLACE)) or "@" in argument
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--model", KUBECONFIG], id="a file as the next argument"),
        pytest.param(["--served-model-name", "--middleware=x.y"], id="a flag in the place of a value"),
        pytest.param(["--served-model-name", "a", "/etc/passwd"], id="a path in a list of names"),
        pytest.param(["--api-key", "k", "/etc"], id="a second value"),
        pytest.param(["--enforce-eager", "/etc"], id="a value of a switch, which is the model"),
        pytest.param(["--max-model-len", "/etc"], id="a path for a number"),
        pytest.param(["--port", "-x"], id="an option for a number"),
        pytest.param(
            ["--kv-transfer-config", '{"kv_connector": "X", "kv_connector_module_path": "x.y"}'],
            id="code in JSON",
        ),
        pytest.param(
            ["--kv-transfer-config", '{"kv_connector": "SharedStorageConnector"}'], id="a connector"
        ),
        pytest.param(["--speculative-config", '{"model": "/home/me"}'], id="a file in JSON"),
        pytest.param(["--speculative-config", '{"method": {"a": 1}}'], id="JSON in JSON"),
        pytest.param(["--speculative-config", "/etc/passwd"], id="a file for JSON"),
        pytest.param(["--model-loader-extra-config", '{"endpoint": "http://x"}'], id="an address in JSON"),
        pytest.param(["--chat-template", "/etc/passwd"], id="a file as a template"),
        pytest.param(["--config", "x.yaml"], id="a file of arguments"),
    ],
)
def test_vllm_gets_no_value_that_reaches_beyond_the_pod(arguments: list[str]) -> None:
    assert launcher_allow_lists.VLLM.check(arguments, {}, arguments, PLACE) is not None


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "--model=Qwen/Qwen3-1.7B --served-model-name=qwen a/b --max-model-len=32768", id="a model"
        ),
        pytest.param(
            "/mnt/models --tensor-parallel-size 2 -tp 2 -O3 --gpu-memory-utilization=0.9", id="a path"
        ),
        pytest.param("m --seed -1 --port 8000 --host 0.0.0.0 --max_num_seqs=16", id="numbers"),
        pytest.param(
            f"m --host {ADDRESS} --chat-template=/mnt/models/x.jinja --load-format auto", id="a volume"
        ),
        pytest.param(
            'm --kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}', id="JSON"
        ),
        pytest.param(
            'm --speculative-config={"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}',
            id="JSON with numbers",
        ),
        pytest.param(
            "m --chat-template={{messages}} --api-key=/a/b", id="a template, and a key with slashes"
        ),
    ],
)
def test_vllm_gets_what_it_is_set_up_with(line: str) -> None:
    assert launcher_allow_lists.VLLM.check(line.split(), {}, (), PLACE) is None


SGLANG_ATTACKS = (
    "--trust-remote-code --model-path=/home/me --model-path=s3://x --tokenizer-path=/home/me --log-file=/x "
    "--config=/x.yaml --chat-template=/etc/passwd --host=127.77.9.9 --load-format=pt --custom-sigquit=x "
    "--enable-custom-logit-processor --json-model-override-args={} --download-dir=/home/me "
    "--model-p=/home/me --file-storage-path=/x --dist-init-addr=10.0.0.1:1 --nccl-init-addr=10.0.0.1:1 "
    "--lora-paths=/x "
    "--ssl-keyfile=/x --mem-fraction-static=/x --model-impl=x m --hicache-storage-backend=x "
    "--speculative-draft-model-path=/home/me --preferred-sampling-params={} --crash-dump-folder=/x "
    "--decrypted-config-file=/x --export-metrics-to-file-dir=/x --completion-template=/x --trust_remote_code"
)


@pytest.mark.parametrize("argument", SGLANG_ATTACKS.split())
def test_sglang_gets_no_argument_that_reaches_beyond_the_pod(argument: str) -> None:
    assert launcher_allow_lists.SGLANG.check([argument], {}, (), PLACE) is not None


def test_sglang_gets_what_it_is_set_up_with() -> None:
    line = (
        "--model-path Qwen/Qwen3-8B --served-model-name laguna --tp-size 8 --tp 2 --ep-size 8 --port 8000 "
        "--mem-fraction-static 0.85 --context-length 131072 --host 0.0.0.0"
    )
    assert launcher_allow_lists.SGLANG.check(line.split(), {}, (), PLACE) is None


@pytest.mark.parametrize(
    ("arguments", "variables", "problem"),
    [
        pytest.param(
            ["--chat-template-file", KUBECONFIG],
            {},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
            id="a template, which the engine shows",
        ),
        pytest.param(
            ["--api-key-file", "/mnt/models/../../home/me/key"],
            {},
            'the argument "--api-key-file" must be a path in a volume of the pod',
            id="keys",
        ),
        pytest.param(
            ["--chat_template_file", KUBECONFIG],
            {},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
            id="with underscores",
        ),
        pytest.param(
            [],
            {"LLAMA_ARG_CHAT_TEMPLATE_FILE": KUBECONFIG},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
            id="by a variable",
        ),
        pytest.param(
            ["--host", "127.77.9.9"],
            {},
            f'the argument "--host" must be 0.0.0.0 or the pod\'s address, {ADDRESS}',
            id="the address of another pod",
        ),
        pytest.param(
            [],
            {"LLAMA_ARG_HOST": "192.168.1.1"},
            f'the argument "--host" must be 0.0.0.0 or the pod\'s address, {ADDRESS}',
            id="an address of the network, by a variable",
        ),
    ],
)
def test_llama_cpp_reads_no_file_and_no_address_but_the_pods(
    arguments: list[str], variables: dict[str, str], problem: str
) -> None:
    assert message_of(launcher_allow_lists.LLAMA_CPP.check(arguments, variables, arguments, PLACE)) == problem


LLAMA_ATTACKS = (
    "--path --slot-save-path --log-file --ssl-key-file --ssl-cert-file --lora --mmproj --rpc --grammar-file "
    "--models-dir --tools --webui-mcp-proxy --media-path --model-url --docker-repo --hf-token"
)


@pytest.mark.parametrize("flag", LLAMA_ATTACKS.split())
def test_llama_cpp_knows_no_other_flag_for_files_and_addresses(flag: str) -> None:
    with pytest.raises(UserError):
        llama_cpp_flags.parse([flag, "/home/me"], {})


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["/home/me", MARKER, REQUIREMENTS, "65"], id="a folder of the machine"),
        pytest.param(["/mnt/models/..", MARKER, REQUIREMENTS, "65"], id="above its volume"),
        pytest.param(["/mnt/models", "../../x", REQUIREMENTS, "65"], id="another marker"),
        pytest.param(["/mnt/models", MARKER, "git+https://x/y", "65"], id="another library"),
        pytest.param(["/mnt/models", MARKER, REQUIREMENTS, "x"], id="another exit code"),
        pytest.param(["/mnt/models", MARKER, REQUIREMENTS, "65", "x"], id="more arguments"),
        pytest.param([], id="none"),
    ],
)
def test_the_download_of_a_cache_changes_its_volume_alone(arguments: list[str]) -> None:
    assert launcher_allow_lists.HYDRATION.check(arguments, {}, (), PLACE) is not None
