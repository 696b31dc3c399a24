import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xllamacpp

from modelplane.kubelet.engines import llama_cpp, llama_cpp_flags
from modelplane.kubelet.engines.llama_cpp import BASE_MODEL_STOP, BASE_MODEL_TEMPLATE, LocalModel
from modelplane.user_error import UserError

MODEL = LocalModel(Path("/m.gguf"), "m")
BASE = LocalModel(Path("/m.gguf"), "m", is_base=True)


def configured(model: LocalModel, *arguments: str) -> Any:
    parameters = xllamacpp.CommonParams()
    llama_cpp.configure(parameters, xllamacpp, llama_cpp_flags.parse(arguments, {}), model)
    return parameters


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        pytest.param(
            [],
            {"MODELPLANE_POD_IP": "127.77.1.2"},
            ("127.77.1.2", 8080),
            id="the pod's address and llama-server's port",
        ),
        pytest.param(
            ["--host", "0.0.0.0"],
            {"MODELPLANE_POD_IP": "127.77.1.2"},
            ("127.77.1.2", 8080),
            id="every address is the pod's",
        ),
        pytest.param(
            [], {"LLAMA_ARG_HOST": "127.0.0.9", "LLAMA_ARG_PORT": "1"}, ("127.0.0.9", 1), id="the environment"
        ),
        pytest.param(["--port", "8000"], {}, ("127.0.0.1", 8000), id="outside a pod"),
    ],
)
def test_where_to_listen(
    arguments: list[str], environment: dict[str, str], expected: tuple[str, int]
) -> None:
    assert llama_cpp.choose_address(llama_cpp_flags.parse(arguments, environment), environment) == expected


def test_the_context_is_shared_out_among_the_slots() -> None:
    parameters = configured(MODEL)
    assert (parameters.n_parallel, parameters.n_ctx, parameters.ui) == (2, 8192, False)
    assert configured(MODEL, "-np", "4").n_ctx == 16384
    assert configured(MODEL, "-c", "512").n_ctx == 512


def test_a_model_is_fitted_to_a_gpu_or_for_its_own_context_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (configured(MODEL).fit_params, configured(MODEL, "-c", "0").fit_params) == (False, True)
    gpu = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_IGPU
    monkeypatch.setattr(xllamacpp, "get_device_info", lambda: [{"type": gpu}])
    assert configured(MODEL).fit_params is True


def test_every_setting_reaches_llama_cpp() -> None:
    parameters = configured(
        MODEL,
        *(
            "-a",
            "name",
            "-t",
            "3",
            "-ub",
            "64",
            "--temp",
            "0.5",
            "-fa",
            "off",
            "-ctk",
            "q8_0",
            "--pooling",
            "mean",
        ),
        *("--api-key", "a,b", "--no-jinja", "-to", "5", "-r", "END"),
    )
    assert parameters.model_alias == {"name"}
    assert (parameters.cpuparams.n_threads, parameters.cpuparams_batch.n_threads) == (3, 3)
    assert parameters.n_ubatch == 64
    assert parameters.sampling.temp == 0.5
    assert parameters.flash_attn_type == xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    assert parameters.cache_type_k == xllamacpp.ggml_type.GGML_TYPE_Q8_0
    assert parameters.pooling_type == xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    assert parameters.api_keys == ["a", "b"]
    assert parameters.use_jinja is False
    assert (parameters.timeout_read, parameters.timeout_write) == (5, 5)
    assert parameters.antiprompt == ["END"]


def test_a_base_model_gets_a_template_unless_one_is_given() -> None:
    parameters = configured(BASE)
    assert (parameters.chat_template, parameters.antiprompt) == (BASE_MODEL_TEMPLATE, [BASE_MODEL_STOP])
    assert parameters.sampling.temp == 0.0
    assert configured(BASE, "--temp", "1").sampling.temp == 1.0
    given = configured(BASE, "--chat-template", "chatml")
    assert (given.chat_template, given.antiprompt) == ("chatml", [])
    assert configured(MODEL).chat_template == ""


def test_every_setting_of_the_flags_is_used() -> None:
    elsewhere = {
        *("model", "hf_repo", "hf_file", "host", "port", "alias", "ctx_size", "parallel", "threads"),
        "verbose",
        # Always so: metrics are on, and there is no page.
        *("metrics", "web_page"),
    }
    used = set(llama_cpp._ATTRIBUTES) | set(llama_cpp._CONVERSIONS) | elsewhere
    assert {flag.setting for flag in llama_cpp_flags.FLAGS} == used


def test_a_value_that_is_none_of_the_known_names_them() -> None:
    with pytest.raises(UserError, match='cannot read the value "yes": use one of on, off, auto'):
        configured(MODEL, "-fa", "yes")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            llama_cpp._serve({"host": "127.0.0.1", "port": port}, LocalModel(Path("model.gguf"), "model"), {})


def test_a_stop_waits_for_the_last_request() -> None:
    answers = [
        "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2",
        "llamacpp:requests_processing 0",
        "x",
    ]
    asked: list[str] = []

    def handle_metrics() -> str:
        asked.append(answers[len(asked)])
        return asked[-1]

    llama_cpp._finish_requests(SimpleNamespace(handle_metrics=handle_metrics), poll_s=0.001, flush_s=0.001)
    assert asked == answers[:2]
