"""The allow-list of each launcher (see ``allow_list``).

Left out are flags and variables that load code (``--trust-remote-code``, ``--middleware``, ``VLLM_PLUGINS``,
``NCCL_NET_PLUGIN``), name files of the machine (``--config``, ``--ssl-keyfile``, ``VLLM_CONFIG_ROOT``), or
open other addresses (``--otlp-traces-endpoint``, ``HF_ENDPOINT``).
"""

import posixpath
import re
from collections.abc import Mapping, Sequence

from modelplane.api.rejected import Rejected
from modelplane.kubelet.engines import llama_cpp_flags
from modelplane.kubelet.engines.allow_list import (
    AllowList,
    Check,
    Flags,
    Place,
    allow_address,
    allow_fields,
    allow_model,
    allow_name,
    allow_one_of,
    allow_path,
    allow_template,
    allow_text,
    allow_word,
    refuse_value,
)
from modelplane.user_error import UserError

_HASH = re.compile("[0-9a-f]+")
_MARKER = re.compile(r"\.[\w-]+", re.ASCII)
_REQUIREMENTS = re.compile(r"\s*huggingface_hub==[\w.=:\\\s-]+", re.ASCII)
_NO_VOLUME = "-"
_HUB_HOME = "/tmp/huggingface"  # noqa: S108 - in the pod's own /tmp


def _check_all(names: str, check: Check) -> dict[str, Check]:
    return dict.fromkeys(names.split(), check)


def _switches(*names: str) -> frozenset[str]:
    return frozenset(name for line in names for name in line.split())


_HUB = {
    **_check_all("HF_TOKEN HUGGING_FACE_HUB_TOKEN", allow_text),
    **_check_all(
        "HF_HUB_DISABLE_TELEMETRY HF_HUB_DISABLE_XET HF_HUB_DOWNLOAD_TIMEOUT HF_HUB_ETAG_TIMEOUT "
        "HF_HUB_ENABLE_HF_TRANSFER HF_HUB_OFFLINE HF_XET_HIGH_PERFORMANCE TRANSFORMERS_OFFLINE",
        allow_word,
    ),
}
"""Variables of the library for the Hugging Face hub; the hub itself is that of the user of this machine."""

_POD = _check_all(
    "HOST_IP NODE_NAME POD_IP POD_NAME POD_NAMESPACE POD_UID MODELPLANE_SERVED_MODEL_NAME", allow_text
)
"""Usual names for the fields of a pod, and the name that its engine is asked to serve under."""

_TORCH = {
    **_check_all(
        "CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING OMP_NUM_THREADS PYTORCH_ALLOC_CONF "
        "PYTORCH_CUDA_ALLOC_CONF TOKENIZERS_PARALLELISM FI_PROVIDER GLOO_SOCKET_IFNAME "
        "NCCL_CUMEM_ENABLE NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_IB_DISABLE NCCL_IB_HCA "
        "NCCL_NVLS_ENABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME "
        "MODELPLANE_LEADER_ADDRESS MODELPLANE_RANK",
        allow_word,
    ),
}

_FORMATS = ("auto", "safetensors", "dummy", "gguf", "bitsandbytes", "mistral", "fastsafetensors")
"""Formats of weights that are neither pickled Python nor read from a storage service."""


def _llama_cpp(arguments: Sequence[str], variables: Mapping[str, str], place: Place) -> Rejected | None:
    try:
        settings = llama_cpp_flags.parse(arguments, variables)
    except UserError:
        return None  # the engine itself refuses it, and its log has the reason
    files = {"api_key_file": "--api-key-file", "chat_template_file": "--chat-template-file"}
    checks = {"host": ("--host", allow_address), **{key: (flag, allow_path) for key, flag in files.items()}}
    for setting, (flag, check) in checks.items():
        if setting in settings and (allowed_form := check(str(settings[setting]), place)):
            return refuse_value("argument", flag, allowed_form)
    return None


_NIXL = {"VLLM_NIXL_SIDE_CHANNEL_HOST": allow_address, "VLLM_NIXL_SIDE_CHANNEL_PORT": allow_word}
"""Variables of the engines of a replica in mode PrefillDecode."""

LLAMA_CPP = AllowList(
    _llama_cpp,
    {
        **_HUB,
        **_POD,
        **_NIXL,
        **{flag.variable: allow_text for flag in llama_cpp_flags.FLAGS if flag.variable},
    },
)

_VLLM_FLAGS = Flags(
    switches=_switches(
        "--async-scheduling --disable-log-requests --disable-log-stats --disable-uvicorn-access-log",
        "--enable-auto-tool-choice --enable-chunked-prefill --enable-expert-parallel --enable-log-requests",
        "--enable-lora --enable-prefix-caching --enable-prompt-tokens-details --enable-sleep-mode",
        "--enforce-eager --no-async-scheduling --no-enable-chunked-prefill --no-enable-prefix-caching",
        "--no-enforce-eager --return-tokens-as-token-ids -O0 -O1 -O2 -O3",
    ),
    values={
        **_check_all("--model --tokenizer --generation-config", allow_model),
        **_check_all("--host", allow_address),
        **_check_all("--download-dir", allow_path),
        **_check_all("--chat-template", allow_template),
        **_check_all("--api-key --default-chat-template-kwargs --limit-mm-per-prompt", allow_text),
        **_check_all("--revision --tokenizer-revision", allow_name),
        **_check_all("--load-format", allow_one_of(*_FORMATS)),
        **_check_all("--distributed-executor-backend", allow_one_of("mp", "uni")),
        **_check_all(
            "--port --task --runner --convert --dtype --quantization -q --seed --tokenizer-mode "
            "--max-model-len --max-num-seqs --max-num-batched-tokens --max-logprobs --max-log-len "
            "--gpu-memory-utilization --kv-cache-dtype --kv-cache-memory-bytes --block-size "
            "--num-gpu-blocks-override --swap-space --cpu-offload-gb --max-lora-rank --max-loras "
            "--max-cpu-loras --tensor-parallel-size -tp --pipeline-parallel-size -pp "
            "--data-parallel-size -dp --response-role --chat-template-content-format "
            "--tool-call-parser --reasoning-parser --uvicorn-log-level --mamba-cache-dtype "
            "--mamba-ssm-cache-dtype --stream-interval --scheduling-policy --optimization-level "
            "--shutdown-timeout",
            allow_word,
        ),
        **_check_all(
            "--model-loader-extra-config", allow_fields(concurrency=allow_word, distributed=allow_word)
        ),
        **_check_all(
            "--kv-transfer-config",
            allow_fields(
                kv_connector=allow_one_of("NixlConnector"),
                kv_role=allow_one_of("kv_both", "kv_consumer", "kv_producer"),
                kv_buffer_device=allow_one_of("cpu", "cuda"),
                kv_load_failure_policy=allow_word,
            ),
        ),
        **_check_all(
            "--speculative-config",
            allow_fields(
                method=allow_word,
                model=allow_model,
                num_speculative_tokens=allow_word,
                prompt_lookup_max=allow_word,
                prompt_lookup_min=allow_word,
                draft_tensor_parallel_size=allow_word,
            ),
        ),
    },
    lists=_check_all("--served-model-name", allow_name),
    positional=allow_model,
)

VLLM = AllowList(
    _VLLM_FLAGS,
    {
        **_HUB,
        **_POD,
        **_TORCH,
        **_NIXL,
        "VLLM_HOST_IP": allow_address,
        **_check_all("VLLM_API_KEY", allow_text),
        **_check_all(
            "DO_NOT_TRACK VLLM_ALLOW_LONG_MAX_MODEL_LEN VLLM_ATTENTION_BACKEND VLLM_DO_NOT_TRACK "
            "VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER VLLM_CPU_KVCACHE_SPACE VLLM_CPU_OMP_THREADS_BIND "
            "VLLM_ENABLE_V1_MULTIPROCESSING VLLM_ENGINE_ITERATION_TIMEOUT_S VLLM_LOGGING_LEVEL "
            "VLLM_ENGINE_READY_TIMEOUT_S VLLM_NO_USAGE_STATS VLLM_SKIP_WARMUP "
            "VLLM_WORKER_MULTIPROC_METHOD",
            allow_word,
        ),
    },
    prefixes={"VLLM_USE_": allow_word},
    # Another hub, whose code is run.
    exclusions=frozenset({"VLLM_USE_MODELSCOPE"}),
)

_SGLANG_FLAGS = Flags(
    switches=_switches(
        "--disable-cuda-graph --disable-overlap-schedule --disable-radix-cache --enable-dp-attention",
        "--enable-metrics --enable-mixed-chunk --enable-torch-compile --is-embedding",
        "--skip-server-warmup",
    ),
    values={
        **_check_all("--model-path --model --tokenizer-path", allow_model),
        **_check_all("--host", allow_address),
        **_check_all("--api-key", allow_text),
        **_check_all("--chat-template", allow_template),
        **_check_all("--served-model-name --revision", allow_name),
        **_check_all("--load-format", allow_one_of("auto", "safetensors", "dummy", "gguf", "bitsandbytes")),
        **_check_all(
            "--port --tp --tp-size --tensor-parallel-size --dp --dp-size --data-parallel-size "
            "--pp-size --pipeline-parallel-size --ep --ep-size --expert-parallel-size "
            "--context-length --mem-fraction-static --dtype --quantization --kv-cache-dtype "
            "--max-running-requests --max-total-tokens --max-prefill-tokens --schedule-policy "
            "--schedule-conservativeness --log-level --log-level-http --tool-call-parser "
            "--reasoning-parser --attention-backend --sampling-backend --random-seed "
            "--tokenizer-mode --watchdog-timeout --cuda-graph-max-bs --stream-interval "
            "--torch-compile-max-bs --chunked-prefill-size",
            allow_word,
        ),
    },
)

SGLANG = AllowList(_SGLANG_FLAGS, {**_HUB, **_POD, **_TORCH})

ENDPOINT_PICKER = AllowList(
    Flags(
        {
            **_check_all("--pool-name --pool-namespace --pool-group --grpc-port", allow_word),
            "--config-file": allow_path,
        }
    ),
    {},
)

ROUTING_SIDECAR = AllowList(
    Flags(
        {
            "--secure-proxy": allow_one_of("false"),
            "--kv-connector": allow_one_of("nixlv2"),
            **_check_all("--model-server-port --vllm-port", allow_word),
        }
    ),
    {},
)


def _hydration(arguments: Sequence[str], _variables: Mapping[str, str], place: Place) -> Rejected | None:
    match arguments:
        case [volume, mark, hub, code] if (
            _MARKER.fullmatch(mark) and _REQUIREMENTS.fullmatch(hub) and code.isdecimal()
        ):
            return _check_mounted(volume, place)
        case [volume, mark, code] if _MARKER.fullmatch(mark) and code.isdecimal():
            return None if volume == _NO_VOLUME else _check_mounted(volume, place)
        case _:
            return Rejected(detail="its arguments must be those that a ModelCache gives it")


def _check_mounted(volume: str, place: Place) -> Rejected | None:
    inside = posixpath.normpath(volume) in place.mounts
    return None if inside else refuse_value("argument", volume, "the mount path of a volume of the pod")


HYDRATION = AllowList(
    _hydration,
    {
        **_HUB,
        **_check_all("REPO REVISION", allow_name),
        "FILES": allow_word,
        "ARTIFACT": lambda value, _place: (
            None if _HASH.fullmatch(value) else "the hash that a ModelCache gives it"
        ),
        "HF_HOME": allow_one_of(_HUB_HOME),
        # The program reads nothing of the machine but a folder for the pod's volume, whatever these say.
        **_check_all(
            "SOURCE TOKEN DOCKER_CONFIG NGC_API_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY "
            "AWS_SESSION_TOKEN",
            allow_text,
        ),
        "LIMIT": allow_word,
    },
)
