"""Configurations that are at hand: of a folder, of the hub's local cache, and none."""

import os
from pathlib import Path

import pytest

from modelplane.checkpoints.folder import AtHand

COMMIT = "a" * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub with one repository, in the layout of its library."""
    root = tmp_path / "hub"
    repo = root / "models--Qwen--Tiny"
    snapshot = repo / "snapshots" / COMMIT
    for folder in (snapshot, repo / "refs", repo / "blobs"):
        folder.mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    (repo / "blobs" / "0").write_text("cached")
    (snapshot / "config.json").symlink_to(Path("..", "..", "blobs", "0"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    return root


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints" / "Qwen" / "Tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("of the folder")
    (tmp_path / "checkpoints" / "config.json").write_text("outside")
    return tmp_path / "checkpoints"


@pytest.mark.usefixtures("cache")
def test_the_cache_has_revisions() -> None:
    at_hand = AtHand()
    assert at_hand.read_config("Qwen/Tiny") == b"cached"
    assert at_hand.read_config("Qwen/Tiny", COMMIT) == b"cached"
    assert at_hand.read_config("Qwen/Tiny", "v2") is None
    assert at_hand.read_config("Qwen/Other") is None


@pytest.mark.usefixtures("cache")
def test_the_folder_comes_first(checkpoints: Path) -> None:
    assert AtHand(checkpoints).read_config("Qwen/Tiny", "v2") == b"of the folder"


@pytest.mark.parametrize("repo", ["", "Qwen", "Qwen/..", "../Tiny", "/etc/passwd", "Qwen/Tiny/x", "a\nb/c"])
def test_a_name_that_is_no_repository_leads_nowhere(checkpoints: Path, repo: str) -> None:
    assert AtHand(checkpoints).read_config(repo) is None


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("revision", ["../../x", "-x", "a b"])
def test_a_revision_that_is_none_leads_nowhere(revision: str) -> None:
    assert AtHand().read_config("Qwen/Tiny", revision) is None


def test_what_cannot_be_read_is_not_at_hand(checkpoints: Path) -> None:
    config = checkpoints / "Qwen" / "Tiny" / "config.json"
    config.unlink()
    assert AtHand(checkpoints).read_config("Qwen/Tiny") is None
    os.mkfifo(config)
    assert AtHand(checkpoints).read_config("Qwen/Tiny") is None
