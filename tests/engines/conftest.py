"""Engines as ``make engines`` installs them, and what the tests of all of them share."""

import subprocess
from pathlib import Path

import pytest

from engines import install


@pytest.fixture(scope="session")
def vllm() -> Path:
    """The folder of vLLM's programs."""
    assert (install.FOLDER / ".installed").is_file(), "install the engines with: make engines"
    return install.FOLDER.resolve() / "bin"


@pytest.fixture(scope="session")
def sglang() -> Path:
    """The folder of SGLang's programs."""
    assert (install.SGLANG_FOLDER / ".installed").is_file(), "install the engines with: make engines"
    return install.SGLANG_FOLDER.resolve() / "bin"


@pytest.fixture(scope="session")
def tiny_model(vllm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers, whose answers are nonsense."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    subprocess.run([vllm / "python", install.HERE / "tiny_model.py", folder], check=True, capture_output=True)
    return folder
