"""The Hugging Face hub of a reader: a stand-in with the models that pages name.

The small model is whole. Of the others it has the configuration and the headers of the weights, which is all
that `modelplane size` and `modelplane deploy` read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelplane.kubelet.engines.llama_cpp import EMBEDDED_REPO, assemble_model
from support import checkpoint_folders, hub
from support.checkpoint_shapes import CHECKPOINTS

SIZED = ("Qwen/Qwen3-8B",)


@contextmanager
def serve_models(folder: Path) -> Iterator[None]:
    """Run the hub, and name it in the environment of everything that is started meanwhile."""
    with hub.serve() as served, pytest.MonkeyPatch.context() as environment:
        model = assemble_model(folder / "models")
        served.add(EMBEDDED_REPO, {model.name: model})
        for name in SIZED:
            checkpoint = folder / name
            checkpoint_folders.write(checkpoint, CHECKPOINTS[name])
            served.add(name, {file.name: file for file in checkpoint.iterdir()})
        environment.setenv("HF_ENDPOINT", served.url)
        environment.setenv("HF_HOME", str(folder / "cache"))
        environment.setenv("MODELPLANE_CACHE_ALLOW_LOCAL", "1")
        yield
