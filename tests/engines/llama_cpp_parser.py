"""A program for Python with ``xllamacpp``: what the parser of ``llama-server`` says of command lines.

In: a file with a JSON list of lists, the arguments after ``llama-server``. Out: a file with a JSON object of
a list of errors, empty for what is accepted. The parser would download a model of a hub, so a file stands for
it.
"""

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

import xllamacpp

_parse = ctypes.CDLL(xllamacpp.xllamacpp.__file__)[
    "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
]
_parse.restype = ctypes.c_bool
_HUB = {"-hf", "-hfr", "--hf-repo"}
_HEADER_BYTES = 16
"""The parameters follow the header of their Python object."""
_PROGRAMS = range(32)


def accepts(arguments: list[str], program: int) -> bool:
    """Return True if a program of llama.cpp accepts the arguments."""
    words = [b"llama-server", *(word.encode() for word in arguments)]
    parameters = xllamacpp.CommonParams()
    return bool(
        _parse(
            len(words),
            (ctypes.c_char_p * (len(words) + 1))(*words, None),
            ctypes.c_void_p(id(parameters) + _HEADER_BYTES),
            program,
            None,
        )
    )


def refusal(arguments: list[str], program: int) -> str:
    """Return the error of llama.cpp's parser, which it prints; empty if it accepts the arguments."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            accepted = accepts(_with_file(arguments), program)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        said.seek(0)
        return "" if accepted else said.read().decode().strip() or "refused"


def _with_file(arguments: list[str]) -> list[str]:
    return ["--model" if word in _HUB else word for word in arguments]


if __name__ == "__main__":
    server = next(each for each in _PROGRAMS if not refusal(["--model", "m.gguf", "--port", "1"], each))
    lines = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({"refusals": [refusal(each, server) for each in lines]}))
