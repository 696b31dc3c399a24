"""The flags of llama.cpp's ``llama-server``, as one table.

A manifest written for the ``ghcr.io/ggml-org/llama.cpp:server`` images must mean the same here, so
the names, the environment variables and their precedence (an argument overrides the environment) are
llama-server's own (llama.cpp, ``tools/server/README.md``). Any other flag is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelplane.user_error import UserError

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting: how it is written, and how its text is read."""

    setting: str
    names: tuple[str, ...]
    variable: str = ""
    read: Callable[[str], Value] | None = str
    """Reads the value; None for a switch, which takes none."""
    switched_on: bool = True
    """The value that a switch sets."""


def _gpu_layers(text: str) -> int:
    return {"auto": -1, "all": 999}.get(text) or int(text)


def _switch(setting: str, *names: str, variable: str = "", on: bool = True) -> Flag:
    return Flag(setting, names, variable, None, on)


FLAGS: tuple[Flag, ...] = (
    Flag("model", ("-m", "--model"), "LLAMA_ARG_MODEL"),
    Flag("hf_repo", ("-hf", "-hfr", "--hf-repo"), "LLAMA_ARG_HF_REPO"),
    Flag("hf_file", ("-hff", "--hf-file"), "LLAMA_ARG_HF_FILE"),
    Flag("host", ("--host",), "LLAMA_ARG_HOST"),
    Flag("port", ("--port",), "LLAMA_ARG_PORT", int),
    Flag("api_prefix", ("--api-prefix",), "LLAMA_ARG_API_PREFIX"),
    Flag("timeout", ("-to", "--timeout"), "LLAMA_ARG_TIMEOUT", int),
    Flag("threads_http", ("--threads-http",), "LLAMA_ARG_THREADS_HTTP", int),
    Flag("alias", ("-a", "--alias"), "LLAMA_ARG_ALIAS"),
    Flag("api_key", ("--api-key",), "LLAMA_API_KEY"),
    Flag("api_key_file", ("--api-key-file",), "LLAMA_ARG_API_KEY_FILE"),
    Flag("ctx_size", ("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE", int),
    Flag("parallel", ("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL", int),
    Flag("predict", ("-n", "--predict", "--n-predict"), "LLAMA_ARG_N_PREDICT", int),
    Flag("batch_size", ("-b", "--batch-size"), "LLAMA_ARG_BATCH", int),
    Flag("ubatch_size", ("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH", int),
    Flag("threads", ("-t", "--threads"), "LLAMA_ARG_THREADS", int),
    Flag("threads_batch", ("-tb", "--threads-batch"), "", int),
    Flag("gpu_layers", ("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS", _gpu_layers),
    Flag("flash_attention", ("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN"),
    Flag("cache_type_k", ("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K"),
    Flag("cache_type_v", ("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V"),
    Flag("chat_template", ("--chat-template",), "LLAMA_ARG_CHAT_TEMPLATE"),
    Flag("chat_template_file", ("--chat-template-file",), "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    Flag("reverse_prompt", ("-r", "--reverse-prompt")),
    Flag("pooling", ("--pooling",), "LLAMA_ARG_POOLING"),
    Flag("temperature", ("--temp", "--temperature"), "", float),
    Flag("top_k", ("--top-k",), "LLAMA_ARG_TOP_K", int),
    Flag("top_p", ("--top-p",), "", float),
    Flag("min_p", ("--min-p",), "", float),
    Flag("seed", ("-s", "--seed"), "", int),
    Flag("repeat_penalty", ("--repeat-penalty",), "", float),
    Flag("presence_penalty", ("--presence-penalty",), "", float),
    Flag("frequency_penalty", ("--frequency-penalty",), "", float),
    Flag("verbosity", ("-lv", "--verbosity", "--log-verbosity"), "LLAMA_ARG_LOG_VERBOSITY", int),
    _switch("verbose", "-v", "--verbose", "--log-verbose"),
    _switch("jinja", "--jinja", variable="LLAMA_ARG_JINJA"),
    _switch("jinja", "--no-jinja", on=False),
    _switch("metrics", "--metrics", variable="LLAMA_ARG_ENDPOINT_METRICS"),
    _switch("props", "--props", variable="LLAMA_ARG_ENDPOINT_PROPS"),
    _switch("slots", "--slots", variable="LLAMA_ARG_ENDPOINT_SLOTS"),
    _switch("slots", "--no-slots", variable="LLAMA_ARG_NO_ENDPOINT_SLOTS", on=False),
    _switch("embeddings", "--embedding", "--embeddings", variable="LLAMA_ARG_EMBEDDINGS"),
    _switch("continuous_batching", "-cb", "--cont-batching", variable="LLAMA_ARG_CONT_BATCHING"),
    _switch("continuous_batching", "-nocb", "--no-cont-batching", on=False),
    _switch("warmup", "--warmup"),
    _switch("warmup", "--no-warmup", on=False),
    # Accepted without effect: there is no web page that they could switch off.
    _switch("web_page", "--ui", "--webui", variable="LLAMA_ARG_WEBUI"),
    _switch("web_page", "--no-ui", "--no-webui", on=False),
)

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
_TRUTHS = {"on": True, "enabled": True, "true": True, "1": True}
_TRUTHS |= {"off": False, "disabled": False, "false": False, "0": False}


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
    """Return the given settings by name; raise ``UserError`` for an argument that cannot be read."""
    settings: dict[str, Value] = {}
    for flag in FLAGS:
        if text := environment.get(flag.variable, "") if flag.variable else "":
            settings[flag.setting] = _from_environment(flag, text)
    rest = iter(arguments)
    for argument in rest:
        # llama-server takes --some_flag for --some-flag.
        name = argument.replace("_", "-") if argument.startswith("--") else argument
        flag = _known(name, argument)
        if flag.read is None:
            settings[flag.setting] = flag.switched_on
            continue
        text = next(rest, "")
        if not text:
            raise UserError(f'flag "{argument}" requires a value: put the value in the next argument')
        settings[flag.setting] = _read(flag, flag.read, text, argument)
    return settings


def _known(name: str, argument: str) -> Flag:
    try:
        return _BY_NAME[name]
    except KeyError:
        head, sign, _ = name.partition("=")
        remedy = (
            f'llama-server does not accept "=": write "{head}" and its value as two arguments'
            if sign and head in _BY_NAME
            else "remove it, or run the image with a container runtime on a cluster that has one"
        )
        raise UserError(f'this llama.cpp launcher does not support flag "{argument}": {remedy}') from None


def _from_environment(flag: Flag, text: str) -> Value:
    if flag.read is not None:
        return _read(flag, flag.read, text, flag.variable)
    if text.lower() not in _TRUTHS:
        raise UserError(f'cannot read "{text}" of {flag.variable}: use "on" or "off"')
    return _TRUTHS[text.lower()] is flag.switched_on


def _read(flag: Flag, read: Callable[[str], Value], text: str, written: str) -> Value:
    try:
        return read(text)
    except ValueError:
        kind = "an integer" if read is not float else "a number"
        raise UserError(f'cannot read "{text}" of "{written}": {flag.setting} is {kind}') from None
