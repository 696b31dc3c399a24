"""Checkpoints in folders: which files are read, and what a hostile folder cannot do."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from modelplane.checkpoints.checkpoint import Checkpoint, read
from modelplane.checkpoints.folder import Folder
from modelplane.sizing.loaded_weights import Tensor
from modelplane.user_error import UserError
from support.checkpoint_shapes import safetensors

A, B = Tensor("model.layers.0.a", "BF16", (4, 4)), Tensor("model.layers.1.b", "BF16", (4,))
CONFIG = b'{"num_hidden_layers": 2}'


def indexed(folder: Path, places: dict[str, Any]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_bytes(CONFIG)
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as refused:
        read(Folder(folder))
    return str(refused.value)


def test_a_single_file_needs_no_index(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(safetensors([A, B]))
    assert read(Folder(folder)) == Checkpoint(str(folder), CONFIG, (A, B))


def test_only_what_the_index_names_is_read(folder: Path) -> None:
    indexed(folder, {A.name: "one.safetensors", B.name: "two.safetensors"})
    (folder / "one.safetensors").write_bytes(safetensors([A, B._replace(shape=(9,))]))
    (folder / "two.safetensors").write_bytes(safetensors([B]))
    (folder / "consolidated.safetensors").write_bytes(b"a copy")
    assert read(Folder(folder)).tensors == (A, B)


def test_a_snapshot_of_the_hubs_cache_has_links_to_its_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name, content in (("config.json", CONFIG), ("model.safetensors", safetensors([A]))):
        (blobs / name).write_bytes(content)
        (snapshot / name).symlink_to(f"../../blobs/{name}")
    assert read(Folder(snapshot)).tensors == (A,)


def test_the_file_is_not_read_beyond_its_header(folder: Path) -> None:
    with (folder / "model.safetensors").open("wb") as file:
        file.write(safetensors([A]))
        file.truncate(2**40)
    assert read(Folder(folder)).tensors == (A,)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("model.gguf", b"GGUF", "a GGUF file cannot be sized", id="GGUF"),
        pytest.param("pytorch_model.bin", b"", "PyTorch files cannot be sized", id="PyTorch"),
        pytest.param("model.safetensors", b"", "not a safetensors file", id="empty"),
        pytest.param(
            "model.safetensors", struct.pack("<Q", 2**63), "not a safetensors file", id="a huge header"
        ),
        pytest.param("model.safetensors", struct.pack("<Q", 99) + b"{}", "not a safetensors file", id="cut"),
        pytest.param(
            "model.safetensors", struct.pack("<Q", 2) + b"[]", "cannot read the header", id="a list"
        ),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(
    folder: Path, name: str, content: bytes, problem: str
) -> None:
    (folder / name).write_bytes(content)
    assert problem in refusal(folder)


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("../model.safetensors", id="above the folder"),
        pytest.param("/etc/model.safetensors", id="an absolute path"),
        pytest.param("sub/model.safetensors", id="a folder within"),
        pytest.param("config.json", id="another kind of file"),
        pytest.param(7, id="a number"),
    ],
)
def test_an_index_names_files_of_its_folder_only(folder: Path, file: object) -> None:
    indexed(folder, {A.name: file})
    assert "cannot read model.safetensors.index.json" in refusal(folder)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "config.json").symlink_to("../config.json")
    assert refusal(inner) == f'"config.json" of {inner} leads out of the folder: copy the file into it'


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "model.safetensors")
    assert "is not a regular file" in refusal(folder)


def test_a_huge_configuration_is_not_read(folder: Path) -> None:
    os.truncate(folder / "config.json", 10_000_001)
    (folder / "model.safetensors").write_bytes(safetensors([A]))
    assert "more than 10,000,000 bytes" in refusal(folder)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "has no config.json" in refusal(tmp_path)
    (tmp_path / "config.json").write_bytes(CONFIG)
    assert "no safetensors file" in refusal(tmp_path)
    indexed(tmp_path, {A.name: "one.safetensors", B.name: "one.safetensors"})
    assert "lacks 1 of the 1 files" in refusal(tmp_path)
    (tmp_path / "one.safetensors").write_bytes(safetensors([A]))
    assert "1 tensors that model.safetensors.index.json" in refusal(tmp_path)
    assert "is not a folder" in refusal(tmp_path / "config.json")
