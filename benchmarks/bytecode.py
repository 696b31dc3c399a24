"""Bytecode, which an installation has: without it, each process of a benchmark compiles its modules."""

import compileall
import os

import modelplane


def compile_modules() -> None:
    """Compile Modelplane, once for all processes."""
    for folder in modelplane.__path__:
        compileall.compile_dir(folder, quiet=1)


def environ() -> dict[str, str]:
    """Return the environment in which bytecode is kept, whatever the caller's variables say."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
