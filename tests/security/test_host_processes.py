"""Attacks by the variables of a pod that runs as a process of this machine."""

import sys
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.compose.added_containers import HYDRATION
from modelplane.compose.cache.staging_program import PROGRAM, REQUIREMENTS
from modelplane.compose.cache.staging_sources import MARKER
from modelplane.kubelet.engines import launcher_allow_lists, launchers
from modelplane.kubelet.engines.allow_list import AllowList, Place
from support.rejections import message_of

ADDRESS = "127.77.1.2"
PLACE = Place(ADDRESS, ("/mnt/models",))
LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
LISTS = {
    "llama.cpp": launcher_allow_lists.LLAMA_CPP,
    "vLLM": launcher_allow_lists.VLLM,
    "SGLang": launcher_allow_lists.SGLANG,
    "hydration": launcher_allow_lists.HYDRATION,
}

HUB_HOME = "/tmp/huggingface"

FAMILIES = {
    "the dynamic linker": "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG_OUTPUT GLIBC_TUNABLES GCONV_PATH",
    "Python": "PYTHONWARNINGS PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT "
    "PYTHONPYCACHEPREFIX PYTHONUSERBASE PYTHONDONTWRITEBYTECODE __PYVENV_LAUNCHER__",
    "programs that libraries start": "BROWSER PATH SHELL EDITOR PAGER CC CXX TRITON_PTXAS_PATH CUDA_HOME",
    "shells": "BASH_ENV ENV BASH_FUNC_ls%% IFS PS4",
    "folders of the user": "HOME TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME HF_HOME HF_HUB_CACHE HF_ASSETS_CACHE "
    "VLLM_CACHE_ROOT VLLM_CONFIG_ROOT TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR HF_MODULES_CACHE",
    "files": "HF_TOKEN_PATH NCCL_CONF_FILE NCCL_TOPO_FILE NCCL_DEBUG_FILE VLLM_LOGGING_CONFIG_PATH "
    "SSLKEYLOGFILE SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE OPENSSL_CONF NETRC",
    "plugins": "VLLM_PLUGINS NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN VLLM_NCCL_SO_PATH "
    "GGML_BACKEND_PATH OPENSSL_ENGINES FI_PROVIDER_PATH TORCH_DEVICE_BACKEND_AUTOLOAD",
    "other hubs and addresses": "HF_ENDPOINT HTTPS_PROXY https_proxy ALL_PROXY VLLM_USE_MODELSCOPE "
    "SGLANG_USE_MODELSCOPE MODELSCOPE_CACHE VLLM_USAGE_STATS_SERVER VLLM_DP_MASTER_IP",
    "less safety": "VLLM_ALLOW_INSECURE_SERIALIZATION VLLM_SERVER_DEV_MODE "
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD",
    "devices of other pods": "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES",
    "Modelplane's own": "MODELPLANE_POD_IP MODELPLANE_MODELS_DIR MODELPLANE_HOME KUBECONFIG",
}


@pytest.mark.parametrize("engine", LISTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_variable_that_reaches_beyond_the_pod_is_refused(engine: str, family: str) -> None:
    allow_list: AllowList = LISTS[engine]
    for variable in FAMILIES[family].split():
        value = HUB_HOME + "/elsewhere"  # where a name is allowed, another value is not
        refused = allow_list.check((), {variable: value}, (), PLACE)
        assert f'"{variable}"' in message_of(refused), variable
        if (engine, variable) != ("hydration", "HF_HOME"):
            assert allow_list.select_variables({variable: value}) == {}


@pytest.mark.parametrize(
    ("engine", "variable", "value"),
    [
        pytest.param("vLLM", "VLLM_HOST_IP", "127.77.9.9", id="the address of another pod"),
        pytest.param("vLLM", "VLLM_NIXL_SIDE_CHANNEL_HOST", "192.168.1.1", id="an address of the network"),
        pytest.param("vLLM", "VLLM_USE_V1", "/bin/sh", id="a path for a number"),
        pytest.param("vLLM", "NCCL_DEBUG", "$(cat /etc/passwd)", id="a shell's words"),
        pytest.param("hydration", "ARTIFACT", "../../../home", id="a folder outside of the volume"),
        pytest.param("hydration", "ARTIFACT", "/home/me", id="a folder of the machine"),
        pytest.param("hydration", "HF_HOME", "/home/me", id="a cache of the machine"),
        pytest.param("hydration", "REPO", "../../etc", id="a path for a repository"),
    ],
)
def test_a_value_that_reaches_beyond_the_pod_is_refused(engine: str, variable: str, value: str) -> None:
    problem = message_of(LISTS[engine].check((), {variable: value}, (), PLACE))
    assert problem.startswith(f'the variable "{variable}" must be ')
    assert value not in problem, "it may be a secret"


@pytest.mark.parametrize(
    ("engine", "variables"),
    [
        pytest.param(
            "vLLM",
            {
                "HF_TOKEN": "hf_/+=",
                "VLLM_HOST_IP": ADDRESS,
                "FI_PROVIDER": "efa",
                "NCCL_DEBUG": "INFO",
                "NCCL_SOCKET_IFNAME": "^docker0,lo",
                "VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER": "1",
                "VLLM_USE_DEEP_GEMM": "1",
                "VLLM_NIXL_SIDE_CHANNEL_HOST": ADDRESS,
                "VLLM_NIXL_SIDE_CHANNEL_PORT": "5600",
            },
            id="those of the examples",
        ),
        pytest.param("llama.cpp", {"LLAMA_ARG_CTX_SIZE": "4096", "LLAMA_API_KEY": "x/y"}, id="llama.cpp's"),
        pytest.param(
            "hydration",
            {
                "REPO": "Qwen/Qwen3-8B",
                "REVISION": "refs/pr/1",
                "ARTIFACT": "0123456789abcdef",
                "HF_HOME": HUB_HOME,
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "HF_TOKEN": "hf_x",
            },
            id="those of a ModelCache",
        ),
    ],
)
def test_what_engines_are_set_up_with_passes(engine: str, variables: dict[str, str]) -> None:
    arguments = ("/mnt/models", MARKER, REQUIREMENTS, "65") if engine == "hydration" else ()
    assert LISTS[engine].check(arguments, variables, (), PLACE) is None
    assert LISTS[engine].select_variables(variables) == variables


def test_a_variable_that_only_the_arguments_refer_to_is_replaced_there_and_not_passed() -> None:
    container = {"image": LLAMA, "args": ["--alias", "$(PYTHONPATH)"]}
    line = launchers.build_command_line(container, {"PYTHONPATH": "/evil"}, ADDRESS, host_commands=False)
    assert not isinstance(line, Rejected)
    assert line[-2:] == ("--alias", "/evil")
    assert launchers.select_variables(container, {"PYTHONPATH": "/evil"}, host_commands=False) == {}


def test_a_refusal_names_the_variable_and_the_remedies() -> None:
    refused = launchers.build_command_line(
        {"image": LLAMA}, {"PYTHONWARNINGS": "x"}, ADDRESS, host_commands=False
    )
    assert isinstance(refused, Rejected)
    assert refused.reason == "UnsupportedPod"
    assert refused.message == (
        "cannot run llama.cpp as a process of this machine: it does not accept the variable "
        '"PYTHONWARNINGS" from a pod: remove it, start a container runtime (docker, podman or nerdctl), or '
        "allow commands on this machine itself with --host-commands"
    )


def test_with_host_commands_every_variable_is_passed() -> None:
    container = {"image": LLAMA}
    line = launchers.build_command_line(container, {"PATH": "/x"}, ADDRESS, host_commands=True)
    assert not isinstance(line, Rejected)
    assert line[0] == sys.executable
    assert launchers.select_variables(container, {"PATH": "/x"}, host_commands=True) == {"PATH": "/x"}


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"image": LLAMA, "args": ["--port", "1"]}, id="llama.cpp"),
        pytest.param(
            {
                "image": HYDRATION.reference,
                "command": ["python", "-c", PROGRAM, "/mnt/artifact", MARKER, REQUIREMENTS, "65"],
                "volumeMounts": [{"name": "artifact", "mountPath": "/mnt/artifact"}],
            },
            id="the download of a cache",
        ),
    ],
)
def test_python_is_isolated(container: dict[str, Any]) -> None:
    line = launchers.build_command_line(container, {}, ADDRESS, host_commands=False)
    assert not isinstance(line, Rejected)
    assert line[:3] == (sys.executable, "-E", "-P")
