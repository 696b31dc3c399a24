"""Reads the command line of an engine: the flags that its author wrote, wherever they are.

A flag can be in ``args``, in ``command``, or in the script of a shell. The last one counts, as it does for
the engine. Nothing here fails: an unreadable flag counts as absent. The
flags that Modelplane adds are in ``backends/engine_pods.py``, ``prefill_decode.py`` and ``draining.py``.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from modelplane.api.fields.pods.containers import Container

_MODEL_FLAGS = ("--model", "--model-path", "--model-id", "--hf-repo", "-hf", "-hfr")
"""Flags that name the model of vLLM, SGLang, TGI and llama.cpp."""

TENSOR: Final = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")

PIPELINE: Final = ("--pipeline-parallel-size", "-pp", "--pp-size")

DATA: Final = ("--data-parallel-size", "-dp", "--dp-size")

_NAME = re.compile(r"(?!.*\$\()[!-~]{1,256}")
"""A name without white space, in which no variable is left to expand."""

_SHELLS = frozenset({"ash", "bash", "dash", "sh", "zsh"})
_SCRIPT_OPTION = re.compile("-[a-z]*c")
_REFERENCE = re.compile(r"\$\(([^()]+)\)")


def find_flag(container: Container, *names: str) -> str | None:
    """Return the value of a flag by any of its names, such as ``--port``; None if it is not set."""
    found: str | None = None
    follows = False
    for word in _list_words(container):
        if follows:
            found, follows = word, False
            continue
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found, follows = value, not equals
    return found


def has_flag(container: Container, *names: str) -> bool:
    """Return True if a flag without a value is set, such as ``--enable-expert-parallel``."""
    return any(word.replace("_", "-") in names for word in _list_words(container))


def find_model_argument(container: Container) -> str | None:
    """Return what an engine loads, wherever its command line names it; None if it names nothing."""
    return find_model(container) or find_argument(container, "vllm", "serve")


def find_model(container: Container) -> str | None:
    """Return the model that an engine's flags name, a path or a repository; None if they name none.

    ``-m`` names one for llama.cpp, where its value is a path. Elsewhere it is Python's, with a module.
    """
    named = find_flag(container, *_MODEL_FLAGS)
    if named is None and "/" in (short := find_flag(container, "-m") or ""):
        return short
    return named


def find_served_name(container: Container) -> str | None:
    """Return the name by which an engine knows its model; None if its command line does not tell.

    vLLM and SGLang take the first name of ``--served-model-name``, else the model itself, and refuse others.
    """
    named = find_flag(container, "--served-model-name", "--alias") or find_model_argument(container)
    return named if named and _NAME.fullmatch(named) else None


def find_argument(container: Container, *program: str) -> str | None:
    """Return the argument after a program, as in ``vllm serve MODEL``; None if a flag follows, or nothing."""
    words = list(_list_words(container))
    for place in range(len(words) - len(program)):
        if begins_with(words[place:], program):
            value = words[place + len(program)]
            return None if value.startswith("-") else value
    return None


def runs(container: Container, *program: str) -> bool:
    """Return True if words follow each other in a container's command line, such as ``vllm serve``."""
    words = list(_list_words(container))
    return any(begins_with(words[place : place + len(program)], program) for place in range(len(words)))


def begins_with(words: Sequence[str], program: Sequence[str]) -> bool:
    """Return True if words start a program, which may be in any directory."""
    first, *others = words[: len(program)]
    return [posixpath.basename(first), *others] == [*program]


def _list_words(container: Container) -> Iterator[str]:
    return (word for written in list_written_words(container) for word in written.words)


def has_script(container: Container) -> bool:
    """Return True if the command line is a script of a shell, which gets no further arguments."""
    return find_script([*container.command, *container.args]) >= 0


class Written(NamedTuple):
    """A word of a container's command line as its author wrote it, and the words that it becomes."""

    field: str
    """``command`` or ``args``."""
    place: int
    """Place in the field."""
    words: tuple[str, ...]
    """The word itself, or those of a shell's script."""


def list_written_words(container: Container) -> Iterator[Written]:
    """Yield each word of the command line, with its place in the container."""
    known = {variable.name: variable.value for variable in container.env if variable.value is not None}
    written = [("command", *row) for row in enumerate(container.command)]
    written += [("args", *row) for row in enumerate(container.args)]
    # As Kubernetes does, if the value is a plain one.
    words = [_REFERENCE.sub(lambda match: known.get(match[1], match[0]), word) for *_, word in written]
    of_shell = find_script(words)
    for number, ((field, place, _), word) in enumerate(zip(written, words, strict=True)):
        yield Written(field, place, tuple(_split_script(word)) if number == of_shell else (word,))


def find_script(words: Sequence[str]) -> int:
    """Return the index of the word that is a shell's script; -1 if there is no shell."""
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return -1
    options = (number for number, word in enumerate(words[:-1]) if _SCRIPT_OPTION.fullmatch(word))
    return next(options, -2) + 1


def _split_script(script: str) -> list[str]:
    # A line's end ends a command, as a semicolon does.
    words = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    words.whitespace = " \t\r"
    words.whitespace_split = True
    words.commenters = ""
    try:
        return list(words)
    except ValueError:
        return script.split()  # an unmatched quote: split at spaces instead
