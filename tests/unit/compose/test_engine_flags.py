import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.variables import EnvVar
from modelplane.compose.replica.engine_command_lines import find_flag, find_model, find_served_name


def _container(
    command: tuple[str, ...] = (), args: tuple[str, ...] = (), env: tuple[EnvVar, ...] = ()
) -> Container:
    return Container(name="engine", image="vllm/vllm-openai:v0.23.0", command=command, args=args, env=env)


@pytest.mark.parametrize(
    ("container", "port"),
    [
        pytest.param(_container(), None, id="a flag that is not there"),
        pytest.param(_container(args=("--port=9100",)), "9100", id="one word"),
        pytest.param(_container(args=("--port", "9100")), "9100", id="two words"),
        pytest.param(_container(args=("--port",)), "", id="a flag without its value"),
        pytest.param(_container(args=("--port-file=9100", "--report=1")), None, id="another flag"),
        pytest.param(
            _container(args=("--port=1", "--port", "2")), "2", id="the last one, as the engine reads it"
        ),
        pytest.param(_container(command=("vllm", "serve", "m", "--port=9100")), "9100", id="in the command"),
        pytest.param(
            _container(command=("/bin/sh", "-c", "exec vllm serve m --port 9100 --block-size=32")),
            "9100",
            id="in what a shell is given",
        ),
        pytest.param(
            _container(command=("bash", "-euc"), args=("sleep 1; vllm serve m --port=9100&",)),
            "9100",
            id="in a script among the arguments, up to where its command ends",
        ),
        pytest.param(
            _container(command=("sh", "-c", "vllm serve m \\\n  --port \\\n  9100")),
            "9100",
            id="over several lines",
        ),
        pytest.param(
            _container(command=("sh", "-c", "vllm serve 'a b' --port '9100'")), "9100", id="in quotes"
        ),
        pytest.param(
            _container(command=("sh", "-c", "echo don't; vllm --port 9100")),
            "9100",
            id="a quote without its partner",
        ),
        pytest.param(_container(command=("sh", "--port=7")), "7", id="a shell without a script"),
        pytest.param(
            _container(args=("serve", "--chat=sh -c --port=7")), None, id="a value that looks like a script"
        ),
        pytest.param(
            _container(args=("--port=$(PORT)",), env=(EnvVar(name="PORT", value="9100"),)),
            "9100",
            id="a variable that Kubernetes replaces",
        ),
        pytest.param(_container(args=("--port=$(PORT)",)), "$(PORT)", id="a variable that nobody has set"),
    ],
)
def test_the_value_of_a_flag_is_found_wherever_it_is_written(container: Container, port: str | None) -> None:
    assert find_flag(container, "--port") == port


def test_a_flag_may_have_several_names_and_be_spelt_with_underscores() -> None:
    assert find_flag(_container(args=("--page_size=32",)), "--block-size", "--page-size") == "32"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        pytest.param(("--max-model-len=4096",), None, id="none"),
        pytest.param(("--model=org/m",), "org/m", id="of vLLM"),
        pytest.param(("--model-path", "/mnt/models/m"), "/mnt/models/m", id="of SGLang"),
        pytest.param(("-m", "/mnt/models/m.gguf"), "/mnt/models/m.gguf", id="of llama.cpp"),
        pytest.param(("-m", "vllm.entrypoints.openai.api_server"), None, id="a module of Python"),
        pytest.param(("-m", "sglang.launch_server", "--model=m"), "m", id="a module, and a model"),
    ],
)
def test_the_model_that_flags_name(args: tuple[str, ...], named: str | None) -> None:
    assert find_model(_container(args=args)) == named


@pytest.mark.parametrize(
    ("container", "name"),
    [
        pytest.param(_container(args=("--model=Qwen/Qwen3-8B",)), "Qwen/Qwen3-8B", id="the model itself"),
        pytest.param(
            _container(args=("--model", "/weights", "--served-model-name", "qwen", "qwen-8b")),
            "qwen",
            id="the first of its names",
        ),
        pytest.param(_container(command=("vllm", "serve", "m", "--port=1")), "m", id="an argument of vLLM"),
        pytest.param(_container(command=("sh", "-c", "exec vllm serve m")), "m", id="in a script"),
        pytest.param(_container(command=("vllm", "serve", "--port", "1")), None, id="no model"),
        pytest.param(_container(args=("--alias", "gemma")), "gemma", id="llama.cpp"),
        pytest.param(_container(args=("--model=$(MODEL)",)), None, id="a variable from elsewhere"),
        pytest.param(_container(args=("--served-model-name=a b",)), None, id="white space"),
        pytest.param(_container(args=("--served-model-name=" + "x" * 257,)), None, id="too long"),
        pytest.param(_container(), None, id="unknown"),
    ],
)
def test_the_name_by_which_an_engine_knows_its_model(container: Container, name: str | None) -> None:
    assert find_served_name(container) == name
