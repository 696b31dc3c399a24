import pytest

from modelplane.kubelet.engines import llama_cpp_flags
from modelplane.kubelet.engines.llama_cpp_flags import FLAGS, Value, parse
from modelplane.user_error import UserError


@pytest.mark.parametrize(
    ("arguments", "environment", "settings"),
    [
        pytest.param(["-m", "a.gguf", "--port", "8000"], {}, {"model": "a.gguf", "port": 8000}, id="values"),
        pytest.param(["--ctx_size", "64"], {}, {"ctx_size": 64}, id="underscores for dashes"),
        pytest.param(["--no-jinja", "--metrics"], {}, {"jinja": False, "metrics": True}, id="switches"),
        pytest.param(["--temp", "0.5", "-s", "-1"], {}, {"temperature": 0.5, "seed": -1}, id="numbers"),
        pytest.param(["-ngl", "all"], {}, {"gpu_layers": 999}, id="every layer on the GPU"),
        pytest.param(
            [],
            {"LLAMA_ARG_PORT": "9000", "LLAMA_ARG_ENDPOINT_PROPS": "on"},
            {"port": 9000, "props": True},
            id="the environment",
        ),
        pytest.param(
            ["--port", "8000"],
            {"LLAMA_ARG_PORT": "9000"},
            {"port": 8000},
            id="an argument beats the environment",
        ),
        pytest.param(
            [], {"LLAMA_ARG_NO_ENDPOINT_SLOTS": "1"}, {"slots": False}, id="a variable that switches off"
        ),
        pytest.param(
            [], {"LLAMA_ARG_METRICS_PORT": "1", "LLAMA_ARG_MODEL": ""}, {}, id="empty and foreign variables"
        ),
    ],
)
def test_settings(arguments: list[str], environment: dict[str, str], settings: dict[str, Value]) -> None:
    assert parse(arguments, environment) == settings


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param(
            ["--moe"],
            {},
            'this llama.cpp launcher does not support flag "--moe": remove it, or run the image with a '
            "container runtime on a cluster that has one",
            id="an unknown flag",
        ),
        pytest.param(
            ["--port=1"],
            {},
            'this llama.cpp launcher does not support flag "--port=1": llama-server does not accept "=": '
            'write "--port" and its value as two arguments',
            id="a value behind an equals sign",
        ),
        pytest.param(
            ["-c"],
            {},
            'flag "-c" requires a value: put the value in the next argument',
            id="a flag without its value",
        ),
        pytest.param(["-c", "big"], {}, 'cannot read "big" of "-c": ctx_size is an integer', id="no integer"),
        pytest.param(
            ["--temp", "hot"], {}, 'cannot read "hot" of "--temp": temperature is a number', id="no number"
        ),
        pytest.param(
            [],
            {"LLAMA_ARG_JINJA": "maybe"},
            'cannot read "maybe" of LLAMA_ARG_JINJA: use "on" or "off"',
            id="no truth",
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    arguments: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        parse(arguments, environment)
    assert str(caught.value) == message


def test_no_name_is_given_twice() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert len(llama_cpp_flags._BY_NAME) == len(names)
